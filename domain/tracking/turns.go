package tracking

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// Bounds of searches and samples, which may read everything that a workspace has logged.
const (
	searchTime       = 30 * time.Second
	searchWait       = 10 * time.Second
	searchesOfOne    = 6  // of a workspace, at once
	searchesOfServer = 12 // half of the database's connections
)

// turns bounds how many searches run at once, and how long. The zero value is ready.
type turns struct {
	mu     sync.Mutex
	server chan struct{}
	each   map[domain.WorkspaceID]chan struct{}
}

func (t *turns) of(ws domain.WorkspaceID) (server, own chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server == nil {
		t.server, t.each = make(chan struct{}, searchesOfServer), map[domain.WorkspaceID]chan struct{}{}
	}
	if t.each[ws] == nil {
		t.each[ws] = make(chan struct{}, searchesOfOne)
	}
	return t.server, t.each[ws]
}

// do runs the search when it is its turn. It returns CodeRate if others take too long, and
// CodeInvalid if the search does: the same search would take as long again.
func (t *turns) do(ctx context.Context, s domain.Scope, search func(context.Context) error) error {
	server, own := t.of(s.Workspace())
	wait, stop := context.WithTimeout(ctx, searchWait)
	defer stop()
	for _, turn := range []chan struct{}{own, server} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-wait.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return domain.Errorf(domain.CodeRate, "Other searches take all turns; try again in a moment.")
		}
	}
	bounded, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	err := search(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return domain.Invalid("filter", "The search took longer than %s; search fewer experiments, or for something narrower.", searchTime).Because(err)
	}
	return err
}
