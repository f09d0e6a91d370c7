package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"github.com/lib/pq"
)

// external is a server that this test binary did not start.
type external struct{ url *url.URL }

func useExternal(ctx context.Context, dsn string) (server, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, fmt.Errorf("%s must be a URL such as postgres://postgres:secret@localhost:5432/postgres?sslmode=disable", serverEnv)
	}
	s := external{url: u}
	err = on(ctx, s, func(conn *sql.Conn) error {
		var super bool
		if err := conn.QueryRowContext(ctx, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
			return err
		}
		if !super {
			return errors.New("its user is not a superuser")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the server of %s: %w", serverEnv, err)
	}
	return s, nil
}

func (s external) dsn(database string) string {
	u := *s.url
	u.Path = "/" + database
	return u.String()
}

func (s external) restart(context.Context, bool) error {
	return fmt.Errorf("the server of %s cannot be restarted from here; unset it to run this test on a private cluster", serverEnv)
}

// stop drops the templates; the tests dropped their own databases.
func (s external) stop(ctx context.Context) error {
	var names []string
	err := on(ctx, s, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, "SELECT coalesce(array_agg(datname), '{}') FROM pg_database WHERE datname LIKE $1",
			prefix()+`\_%`).Scan((*pq.StringArray)(&names))
	})
	for _, name := range names {
		err = errors.Join(err, drop(ctx, s, name))
	}
	return err
}
