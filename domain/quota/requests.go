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
	by      map[string]int64 // callers' ids
	limit   *int64           // nil for the default
	read    time.Time        // when a request last read the limit
}

// NewRequests returns a bound that no request counts to yet.
func NewRequests(store domain.Store[Tx], clock domain.Clock) *Requests {
	return &Requests{store: store, clock: clock, each: map[domain.WorkspaceID]*requests{}}
}

// Begin counts a request until end is called. It returns CodeRate if the workspace has as many
// requests as it may. A caller who is not an admin can have at most half of them, and a tenth is
// reserved for admins, so that they can end what fills the workspace. Engines' requests for the
// catalog are not counted, because statements that are counted wait for them.
func (r *Requests) Begin(ctx context.Context, s domain.Scope) (end func(), err error) {
	if r == nil || s.CatalogOnly() {
		return func() {}, nil
	}
	ws, caller := s.Workspace(), s.Actor().ID
	if r.due(ws) {
		r.readLimit(ctx, ws)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(ws)
	q := Of(MaxRequests, of.limit, of.current)
	full := q.Require()
	if s.Role() != domain.RoleAdmin && (of.by[caller] >= q.Limit/2 || of.current >= q.Limit-q.Limit/10) {
		full = q.full()
	}
	if full != nil {
		return nil, domain.Errorf(domain.CodeRate, "%s", domain.AsError(full).Message) // clients try again
	}
	of.current++
	of.by[caller]++
	return func() { r.end(of, caller) }, nil
}

func (r *Requests) end(of *requests, caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of.current--
	if of.by[caller]--; of.by[caller] == 0 {
		delete(of.by, caller)
	}
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
		r.each[ws] = &requests{by: map[string]int64{}}
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

// readLimit keeps the former limit while the database is away. It goes on if the client leaves.
func (r *Requests) readLimit(ctx context.Context, ws domain.WorkspaceID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limitLife)
	defer cancel()
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
