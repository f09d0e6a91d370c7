package embedded

import (
	"context"
	"io"
	"log/slog"
)

// Installation is the PostgreSQL that a new cluster would use.
type Installation struct {
	Dir     string // holds initdb and postgres
	Version string // such as "18.4"
	User    string // the user that they would run as
}

// Find returns the installation that Start would use for a new cluster, and fetches one if there is
// none.
func Find(ctx context.Context) (Installation, error) {
	a, err := newAccount()
	if err != nil {
		return Installation{}, err
	}
	b, err := finder{}.find(ctx, 0, a, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		return Installation{}, err
	}
	return Installation{Dir: b.dir, Version: b.version, User: a.name}, nil
}
