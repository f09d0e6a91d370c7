package httpx

import (
	"context"
	"sync"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// pool bounds the bytes held at once. Unknown callers share the bound of the workspace "".
type pool struct {
	of                string
	server, workspace int64 // bounds

	mu   sync.Mutex
	held int64
	by   map[domain.WorkspaceID]int64
}

func newPool(of string, server, workspace int64) pool {
	return pool{of: of, server: server, workspace: workspace, by: map[domain.WorkspaceID]int64{}}
}

// take reserves bytes without waiting. It returns CodeRate beyond the workspace's bound, and
// CodeUnavailable beyond the server's.
func (p *pool) take(ws domain.WorkspaceID, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.by[ws]+n > p.workspace:
		return domain.Errorf(domain.CodeRate, "The workspace's %s hold %d bytes of memory, and at most %d; send fewer large ones at once.", p.of, p.by[ws], p.workspace)
	case p.held+n > p.server:
		return domain.Errorf(domain.CodeUnavailable, "The server's %s hold the maximum of memory; try again in a moment.", p.of)
	}
	p.add(ws, n)
	return nil
}

func (p *pool) add(ws domain.WorkspaceID, n int64) {
	p.held += n
	p.by[ws] += n
	if p.by[ws] == 0 {
		delete(p.by, ws)
	}
}

func (p *pool) give(ws domain.WorkspaceID, n int64) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(ws, -n)
}

// Lease is the memory that one request, or one operation of a WebSocket, holds.
type Lease struct {
	server *Server

	mu                sync.Mutex
	workspace         domain.WorkspaceID // set by the first bytes
	requests, answers int64
}

const leaseKey contextKey = exchangeKey + 1

// WithLease gives the context its own lease, for an operation of a WebSocket. The caller releases
// it.
func WithLease(ctx context.Context) (context.Context, *Lease) {
	l := &Lease{}
	if x := exchangeOf(ctx); x != nil {
		l.server = x.lease.server
	}
	return context.WithValue(ctx, leaseKey, l), l
}

func leaseOf(ctx context.Context) *Lease {
	if l, ok := ctx.Value(leaseKey).(*Lease); ok {
		return l
	}
	if x := exchangeOf(ctx); x != nil {
		return &x.lease
	}
	return &Lease{} // outside of a face nothing is bounded
}

// Release returns the lease's memory to the pool. The lease can be used again.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests > 0 {
		l.server.requests.give(l.workspace, l.requests)
	}
	if l.answers > 0 {
		l.server.answers.give(l.workspace, l.answers)
	}
	l.requests, l.answers = 0, 0
}

// HoldRequest counts bytes of the request, and of values decoded from it, until the lease is
// released.
func (l *Lease) HoldRequest(ctx context.Context, n int64) error {
	if l.server == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(ctx, &l.server.requests, &l.requests, n)
}

func (l *Lease) holdAnswer(ctx context.Context, n int64) error {
	if l.server == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(ctx, &l.server.answers, &l.answers, n)
}

// holdAtLeast counts the bytes of the answer that are not counted already.
func (l *Lease) holdAtLeast(ctx context.Context, n int64) error {
	if l.server == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(ctx, &l.server.answers, &l.answers, n-l.answers)
}

// take requires the lock.
func (l *Lease) take(ctx context.Context, from *pool, held *int64, n int64) error {
	if n <= 0 {
		return nil
	}
	if l.requests == 0 && l.answers == 0 {
		l.workspace = workspaceOf(ctx)
	}
	if err := from.take(l.workspace, n); err != nil {
		return err
	}
	*held += n
	return nil
}

// Hold counts bytes of the answer that are in memory at once, until the request has been answered.
// It returns CodeRate or CodeUnavailable beyond the bounds. Call it before the bytes are allocated.
func Hold(ctx context.Context, n int64) error { return leaseOf(ctx).holdAnswer(ctx, n) }

// HoldAtLeast is Hold for an answer that may be partly counted already.
func HoldAtLeast(ctx context.Context, n int64) error { return leaseOf(ctx).holdAtLeast(ctx, n) }

// Release releases the lease of the context.
func Release(ctx context.Context) { leaseOf(ctx).Release() }

// workspaceOf returns an empty id for an unknown caller.
func workspaceOf(ctx context.Context) domain.WorkspaceID {
	scope, err := auth.ForCatalog(ctx)
	if err != nil {
		return ""
	}
	return scope.Workspace()
}
