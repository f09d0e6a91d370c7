package quota

import (
	"context"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// limitLife is how long a limit of requests is used before it is read again.
const limitLife = 10 * time.Second

// Requests bounds how many requests of a workspace a server serves at once. It reads a workspace's
// limit every ten seconds while there are requests. Nil bounds nothing.
type Requests struct {
	store domain.Store[Tx]
	clock domain.Clock

	mu   sync.Mutex
	each map[domain.WorkspaceID]*requests
}

// requests are those of a workspace.
type requests struct {
	current int64
	limit   *int64    // nil for the default
	read    time.Time // when a request last read the limit
}

// NewRequests returns a bound that no request counts to yet.
func NewRequests(store domain.Store[Tx], clock domain.Clock) *Requests {
	return &Requests{store: store, clock: clock, each: map[domain.WorkspaceID]*requests{}}
}

// Begin counts a request until end is called. It returns CodeRate if the workspace has as many
// requests as it may.
func (r *Requests) Begin(ctx context.Context, ws domain.WorkspaceID) (end func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	if r.due(ws) {
		r.readLimit(ctx, ws)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(ws)
	if full := Of(MaxRequests, of.limit, of.current).Require(); full != nil {
		return nil, domain.Errorf(domain.CodeRate, "%s", domain.AsError(full).Message) // clients try again
	}
	of.current++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		of.current--
	}, nil
}

// Current returns how many requests of the workspace are being served.
func (r *Requests) Current(ws domain.WorkspaceID) int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(ws).current
}

func (r *Requests) of(ws domain.WorkspaceID) *requests {
	if r.each[ws] == nil {
		r.each[ws] = &requests{}
	}
	return r.each[ws]
}

// due reports whether this request reads the limit. Others use the former one meanwhile.
func (r *Requests) due(ws domain.WorkspaceID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, of := r.clock.Now(), r.of(ws)
	if now.Sub(of.read) < limitLife {
		return false
	}
	of.read = now
	return true
}

// readLimit keeps the former limit while the database is away.
func (r *Requests) readLimit(ctx context.Context, ws domain.WorkspaceID) {
	var limit *int64
	err := r.store.In(ctx, domain.SystemScope(ws, "requests"), func(tx Tx) (err error) {
		limit, err = tx.QuotaLimit(ctx, MaxRequests)
		return err
	})
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(ws).limit = limit
}
