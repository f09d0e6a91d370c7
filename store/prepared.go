package store

import (
	"context"
	"database/sql/driver"
	"fmt"
)

type preparedKey struct{}

// prepared makes each connection prepare the statement once and cache its plan. To plan a small
// query takes PostgreSQL several times as long as to run it. Only frequent statements whose best
// plan does not depend on their arguments use it.
func prepared(ctx context.Context) context.Context {
	return context.WithValue(ctx, preparedKey{}, true)
}

// brief is prepared without cancellation, for queries that end before a caller could leave.
// Watching for cancellation takes two goroutines, and a third of the time of a small request. The
// number of such queries is bounded by connections or keys, and those who wait for one can still
// leave.
func brief(ctx context.Context) context.Context { return prepared(context.WithoutCancel(ctx)) }

// preparing is a connector whose connections can prepare statements.
type preparing struct{ driver.Connector }

// Connect implements driver.Connector.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(fullConn)
	if !ok {
		return nil, fmt.Errorf("the driver's connection, a %T, lacks methods that the store needs", conn)
	}
	return &preparingConn{fullConn: full, made: map[string]preparedStatement{}}, nil
}

// fullConn lists the interfaces of lib/pq's connections.
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

// preparingConn is used by one goroutine at a time, like all connections of drivers.
type preparingConn struct {
	fullConn
	made map[string]preparedStatement
}

// statement returns the query's prepared statement, and creates it at its first use. The statement
// outlives the context of the request.
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
		return nil, fmt.Errorf("the driver's statement, a %T, lacks methods that the store needs", stmt)
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
