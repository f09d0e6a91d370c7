package tracking

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millpond/millpond/domain"
)

// Bounds of writes. A write of few points takes one share, and one of 1,000 points takes seven.
const (
	pointsOfShare  = 150
	sharesOfServer = 20 // fewer than the database's connections
	shareWait      = 10 * time.Second
)

// sharesOfOne are a workspace's, at once. A large write keeps a processor of the server and one of
// the database busy.
var sharesOfOne = int64(min(max(8, 4*runtime.GOMAXPROCS(0)), 16))

// shares bounds what is written at once, in the order of arrival, so that a workspace's flood leaves
// room for others. The zero value is ready.
type shares struct {
	mu     sync.Mutex
	server *semaphore.Weighted
	each   map[domain.WorkspaceID]*semaphore.Weighted
}

// take waits for room to write a number of points. It returns CodeRate if others take too long.
func (w *shares) take(ctx context.Context, ws domain.WorkspaceID, points int) (end func(), err error) {
	n := int64(1 + points/pointsOfShare)
	server, own := w.of(ws)
	wait, stop := context.WithTimeout(ctx, shareWait)
	defer stop()
	if err := own.Acquire(wait, n); err != nil {
		return nil, errNoShare(ctx)
	}
	if err := server.Acquire(wait, n); err != nil {
		own.Release(n)
		return nil, errNoShare(ctx)
	}
	return func() { server.Release(n); own.Release(n) }, nil
}

func errNoShare(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return domain.Errorf(domain.CodeRate, "Other writes of points take too long; try again in a moment.")
}

func (w *shares) of(ws domain.WorkspaceID) (server, own *semaphore.Weighted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil {
		w.server, w.each = semaphore.NewWeighted(sharesOfServer), map[domain.WorkspaceID]*semaphore.Weighted{}
	}
	if w.each[ws] == nil {
		w.each[ws] = semaphore.NewWeighted(sharesOfOne)
	}
	return w.server, w.each[ws]
}
