package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lib/pq"
)

// maintenance is the database whose connections create others.
const maintenance = "postgres"

// roleLock serializes migrations of several test binaries on one server: they create the same
// roles.
const roleLock = 0x6d696c6c706f6e64 % (1 << 31)

func makeTemplate(ctx context.Context, s server, name string, migrate func(context.Context, string) error) error {
	if err := create(ctx, s, name, "template0"); err != nil {
		return err
	}
	err := on(ctx, s, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", roleLock); err != nil {
			return err
		}
		if err := migrate(ctx, s.dsn(name)); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		// A connection left by migrate, or autovacuum, would prevent cloning the template.
		for _, statement := range []string{
			"ALTER DATABASE " + pq.QuoteIdentifier(name) + " WITH ALLOW_CONNECTIONS false",
			"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = " + pq.QuoteLiteral(name),
		} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, drop(ctx, s, name))
	}
	return nil
}

func create(ctx context.Context, s server, name, template string) error {
	// FILE_COPY takes half the time of WAL_LOG for a schema of some sixty tables.
	return execute(ctx, s, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY",
		pq.QuoteIdentifier(name), pq.QuoteIdentifier(template)))
}

func drop(ctx context.Context, s server, name string) error {
	return execute(ctx, s, "DROP DATABASE IF EXISTS "+pq.QuoteIdentifier(name)+" WITH (FORCE)")
}

func execute(ctx context.Context, s server, statement string) error {
	return on(ctx, s, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, statement)
		return err
	})
}

// on runs fn with a new connection and closes it, so that leak checks in tests find nothing.
func on(ctx context.Context, s server, fn func(*sql.Conn) error) (err error) {
	connector, err := pq.NewConnector(s.dsn(maintenance))
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return fn(conn)
}
