// Package store stores everything in PostgreSQL. Tenant SQL exists only on Tx, from Store.In, bound
// by row-level security to one workspace. SQL without a tenant is on System, whose role has narrow
// grants.
package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// Database roles, created by the first migration.
const (
	appRole    = "millpond_app"
	systemRole = "millpond_system"
)

// Options configure a Store. The zero value has the defaults.
type Options struct {
	MaxConns int // bound of concurrent tenant transactions; 0 means 24
}

// Store is the database.
type Store struct {
	app    *sqlx.DB
	system *System
	topics *Topics
	tables *shared[tableName, lakeTableRow] // see FindLakeTable
}

// Open connects to a migrated database. The login in the DSN must be a member of both roles, as
// Migrate makes its own login.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	if o.MaxConns == 0 {
		o.MaxConns = 24
	}
	app, err := connect(dsn, appRole, o.MaxConns)
	if err != nil {
		return nil, err
	}
	system, err := connect(dsn, systemRole, max(4, o.MaxConns/3))
	if err != nil {
		return nil, err
	}
	s := &Store{app: app, system: &System{db: system, keys: newShared[string, auth.Key]()}, tables: newShared[tableName, lakeTableRow]()}
	if err := app.PingContext(ctx); err != nil {
		s.closePools()
		return nil, fmt.Errorf("the database does not answer: %w", err)
	}
	if s.topics, err = listen(dsn, app, pingEvery); err != nil {
		s.closePools()
		return nil, err
	}
	s.system.topics = s.topics
	return s, nil
}

// connect opens a pool with all connections bound to the role. Parameters are sent with their
// statement, in one round trip.
func connect(dsn, role string, conns int) (*sqlx.DB, error) {
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("the database's address: %w", err)
	}
	cfg.BinaryParameters = true
	if cfg.Runtime == nil {
		cfg.Runtime = map[string]string{}
	}
	cfg.Runtime["role"] = role
	cfg.Runtime["timezone"] = "UTC"
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("the database's address: %w", err)
	}
	db := sqlx.NewDb(openDB(connector), "postgres")
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

// Close ends all connections.
func (s *Store) Close() error {
	err := s.topics.close()
	s.closePools()
	return err
}

func (s *Store) closePools() {
	_ = s.app.Close()
	_ = s.system.db.Close()
}

// Topics returns the notifications of this database.
func (s *Store) Topics() *Topics { return s.topics }

// System returns the operations outside of a workspace.
func (s *Store) System() *System { return s.system }

// Ping checks whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.app.PingContext(ctx) }

// Writable commits a record to the database's log. Its error says why the database refuses to
// write.
func (s *Store) Writable(ctx context.Context) error {
	var readOnly bool
	err := s.app.QueryRowContext(ctx, `SELECT current_setting('transaction_read_only')::bool FROM pg_logical_emit_message(true, 'millpond', 'ready')`).Scan(&readOnly)
	if err == nil && readOnly {
		return domain.Errorf(domain.CodeUnavailable, "The database refuses to write: it is read-only.")
	}
	return mapError(err)
}

// maxTries bounds the tries of a transaction that loses a deadlock or a serialization conflict.
const maxTries = 4

// In runs fn as domain.Store does. It adds two round trips to those of fn.
func (s *Store) In(ctx context.Context, scope domain.Scope, fn func(*Tx) error) error {
	if err := scope.Valid(); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := s.once(ctx, scope, fn)
		if lost := pq.As(err, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure); lost == nil || try == maxTries {
			return mapError(orCancelled(ctx, err))
		}
	}
}

// orCancelled adds the context's error to err if the context has ended: the driver reports a broken
// connection then.
func orCancelled(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

func (s *Store) once(ctx context.Context, scope domain.Scope, fn func(*Tx) error) (err error) {
	conn, err := s.begin(ctx, scope)
	if err != nil {
		return err
	}
	tx := &Tx{conn: conn, workspace: scope.Workspace()}
	committed := false
	defer func() {
		if !committed {
			rollback(conn)
		}
		_ = conn.Close() // returns it to the pool
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // the driver may have succeeded before it noticed
		return err
	}
	_, err = conn.ExecContext(ctx, tx.end(s.topics))
	committed = err == nil
	if pq.As(err, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure) != nil {
		return err
	}
	if !committed {
		s.topics.doubt() // it may be committed all the same, or soon
	}
	s.topics.wake(tx.topics)
	return err
}

// begin opens the transaction. It discards connections that broke while idle, as all do when the
// database restarts, and tries the next.
func (s *Store) begin(ctx context.Context, scope domain.Scope) (*sqlx.Conn, error) {
	begin := "BEGIN; SELECT set_config('app.workspace', " + pq.QuoteLiteral(string(scope.Workspace())) + ", true)"
	for try := 0; ; try++ {
		conn, err := s.app.Connx(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = conn.ExecContext(ctx, begin); err == nil {
			return conn, nil
		}
		rollback(conn)
		_ = conn.Close()
		if !lostConnection(err) || ctx.Err() != nil || try == s.app.Stats().MaxOpenConnections {
			return nil, err
		}
	}
}

// rollbackTime bounds a rollback, which must not depend on a request that has ended.
const rollbackTime = 5 * time.Second

// rollback ends the transaction. A connection on which that fails is discarded.
func rollback(conn *sqlx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// Connections returns the number of open connections for tenant transactions.
func (s *Store) Connections() int { return s.app.Stats().OpenConnections }
