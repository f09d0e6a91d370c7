package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/millpond/millpond/domain"
)

//go:embed migrations/*.sql
var migrations embed.FS

// minVersion is the oldest supported PostgreSQL, as server_version_num.
const minVersion = 150000

// Migrate migrates the database's schema to this binary's. If several servers start at once, one
// migrates and the others wait. The login becomes a member of the server's two roles.
func Migrate(ctx context.Context, dsn string) error {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return fmt.Errorf("the database's address: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	var version int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return fmt.Errorf("the database does not answer: %w", err)
	}
	if version < minVersion {
		return fmt.Errorf("the database is PostgreSQL %d; use 15 or newer", version/10000)
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	if _, err := db.ExecContext(ctx, "GRANT "+appRole+", "+systemRole+" TO CURRENT_USER"); err != nil {
		return fmt.Errorf("the login cannot be made a member of the roles %s and %s: %w", appRole, systemRole, err)
	}
	return ensurePartitions(ctx, db, time.Now())
}

// partitionDays is how many days ahead log partitions are created.
const partitionDays = 7

// ensurePartitions creates the partitions of yesterday, today and the next partitionDays days.
func ensurePartitions(ctx context.Context, db execer, now time.Time) error {
	for d := -1; d <= partitionDays; d++ {
		day := now.UTC().AddDate(0, 0, d).Truncate(24 * time.Hour)
		if _, err := db.ExecContext(ctx, "SELECT create_log_partition($1::date, $2, $3)", day.Format(time.DateOnly), firstAttempt(day), firstAttempt(day.AddDate(0, 0, 1))); err != nil {
			return fmt.Errorf("making the log partition of %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return nil
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// firstAttempt is the smallest attempt id that can be created at or after t.
func firstAttempt(t time.Time) string { return string(domain.FirstAttemptID(t)) }
