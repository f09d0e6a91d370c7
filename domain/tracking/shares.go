package tracking

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millpond/millpond/domain"
)

// Bounds of writes. A write of few points takes one share, and one of 1,000 points takes seven, so
// that two of these keep two processors busy. While other workspaces write, too, each takes twice as
// many.
const (
	pointsOfShare  = 150
	sharesOfOne    = 16 // of a workspace, at once
	writesOfServer = 10 // with the searches, fewer than the database's connections
	shareWait      = 10 * time.Second
	alone          = time.Second // without other workspaces' writes
)

// shares bounds what is written at once, in the order of arrival, so that a workspace's flood leaves
// room for others. The zero value is ready.
type shares struct {
	mu     sync.Mutex
	server *semaphore.Weighted
	each   map[domain.WorkspaceID]*semaphore.Weighted
	latest domain.WorkspaceID // that wrote
	turned time.Time          // when another workspace than before wrote
}

// take waits for room to write a number of points. It returns CodeRate if others take too long.
func (w *shares) take(ctx context.Context, ws domain.WorkspaceID, points int) (end func(), err error) {
	server, own, others := w.of(ws)
	n := int64(1 + points/pointsOfShare)
	if others {
		n *= 2
	}
	wait, stop := context.WithTimeout(ctx, shareWait)
	defer stop()
	if err := own.Acquire(wait, n); err != nil {
		return nil, errNoShare(ctx)
	}
	if err := server.Acquire(wait, 1); err != nil {
		own.Release(n)
		return nil, errNoShare(ctx)
	}
	return func() { server.Release(1); own.Release(n) }, nil
}

func errNoShare(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return domain.Errorf(domain.CodeRate, "Other writes of points take too long; try again in a moment.")
}

// of returns the semaphores, and whether other workspaces write, too.
func (w *shares) of(ws domain.WorkspaceID) (server, own *semaphore.Weighted, others bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest != ws {
		if w.latest != "" {
			w.turned = time.Now()
		}
		w.latest = ws
	}
	if w.server == nil {
		w.server, w.each = semaphore.NewWeighted(writesOfServer), map[domain.WorkspaceID]*semaphore.Weighted{}
	}
	if w.each[ws] == nil {
		w.each[ws] = semaphore.NewWeighted(sharesOfOne)
	}
	return w.server, w.each[ws], time.Since(w.turned) < alone
}
