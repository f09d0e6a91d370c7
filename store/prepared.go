package store

import (
	"context"
	"database/sql/driver"
	"fmt"
)

type preparedKey struct{}

// prepared has the statement made ready on each connection that it is run on, once, and its plan kept: to plan a small query takes PostgreSQL several times as
// long as to run it. It is for the few that every request makes, whose best plan does not depend on what they are given.
func prepared(ctx context.Context) context.Context {
	return context.WithValue(ctx, preparedKey{}, true)
}

// brief is prepared, for what is over sooner than anybody can leave: to watch for that takes two goroutines, which wake other threads, and a third of the time of a
// small request. Of what is run so there are never more than connections, or keys: those who wait for it leave when they want.
func brief(ctx context.Context) context.Context { return prepared(context.WithoutCancel(ctx)) }

// preparing is a connector whose connections prepare.
type preparing struct{ driver.Connector }

// Connect implements driver.Connector.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, fmt.Errorf("the driver's connection, a %T, lacks what the store needs of it", conn)
	}
	return &preparingConn{fullConn: full, made: map[string]preparedStatement{}}, nil
}

// fullConn is what lib/pq's connections can do.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type preparedStatement interface {
	driver.StmtExecContext
	driver.StmtQueryContext
}

// preparingConn is used by one goroutine at a time, as all drivers' connections are.
type preparingConn struct {
	fullConn
	made map[string]preparedStatement
}

// statement is the query's, made at its first use. The context is not of the statement: it outlives the request.
func (c *preparingConn) statement(ctx context.Context, query string) (preparedStatement, error) {
	if made := c.made[query]; made != nil {
		return made, nil
	}
	stmt, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	made, ok := stmt.(preparedStatement)
	if !ok {
		return nil, fmt.Errorf("the driver's statement, a %T, lacks what the store needs of it", stmt)
	}
	c.made[query] = made
	return made, nil
}

// QueryContext implements driver.QueryerContext.
func (c *preparingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if ctx.Value(preparedKey{}) == nil {
		return c.fullConn.QueryContext(ctx, query, args)
	}
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args)
}

// ExecContext implements driver.ExecerContext.
func (c *preparingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if ctx.Value(preparedKey{}) == nil {
		return c.fullConn.ExecContext(ctx, query, args)
	}
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args)
}
