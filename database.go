package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/embedded"
)

// databaseFile in the data directory holds the database's address for the operator's commands.
const databaseFile = "database.url"

// database is the instance's database, of the latest schema.
type database struct {
	*store.Store
	postgres *embedded.Server // nil with --database
	log      *slog.Logger
}

// openDatabase opens the database, and starts it if it is embedded. A data directory with an
// embedded database has one server.
func openDatabase(ctx context.Context, c *serveCommand, log *slog.Logger, closing *closers) (*database, error) {
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("the data directory: %w", err)
	}
	d, dsn := &database{log: log}, c.Database
	if dsn == "" {
		release, err := embedded.Lock(c.DataDir)
		if err != nil {
			return nil, err
		}
		closing.add(func() { _ = release() })
		if d.postgres, err = embedded.Start(ctx, embedded.Options{Dir: c.DataDir, Log: log, Stdout: os.Stdout}); err != nil {
			return nil, err
		}
		closing.add(func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			if err := d.postgres.Close(ctx); err != nil {
				log.Error("stopping PostgreSQL", "error", err)
			}
		})
		if err := d.postgres.EnsureDatabase(ctx, "millpond"); err != nil {
			return nil, err
		}
		dsn = d.postgres.DSN("millpond")
	}
	if err := store.Migrate(ctx, dsn); err != nil {
		return nil, err
	}
	var err error
	if d.Store, err = store.Open(ctx, dsn, store.Options{}); err != nil {
		return nil, err
	}
	closing.add(func() { _ = d.Close() })
	return d, os.WriteFile(c.path(databaseFile), []byte(dsn), 0o600)
}

// keep restarts the embedded PostgreSQL when it dies, until ctx ends or the data directory is gone.
// A failure's cause may pass, so no failure ends the server.
func (d *database) keep(ctx context.Context, directory agent.Directory) {
	for d.postgres != nil && !directory.Gone() {
		select {
		case <-ctx.Done():
			return
		case <-d.postgres.Done():
		}
		d.log.Error("PostgreSQL has died; starting it again")
		_ = retry(ctx, d.log, "PostgreSQL cannot be started", func() error {
			if directory.Gone() { // another server's PostgreSQL may be in its place
				return nil
			}
			return d.postgres.Restart(ctx)
		})
	}
}
