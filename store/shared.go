package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// shared reads a value once for all callers who asked before the read began. So a hot key or table
// costs the database no more with more callers. Unlike a single flight, no caller gets a value read
// before its call: callers during a read wait for the next one.
type shared[K comparable, V any] struct {
	mu   sync.Mutex
	next map[K]*reading[V] // the read after the running one; nil if no caller waits for it
}

type reading[V any] struct {
	read  func() (V, error)
	done  chan struct{}
	value V
	err   error
}

// run reads for all callers that wait. A panic becomes their error, and does not end the server.
func (r *reading[V]) run() {
	defer close(r.done)
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	r.value, r.err = r.read()
}

func newShared[K comparable, V any]() *shared[K, V] { return &shared[K, V]{next: map[K]*reading[V]{}} }

// get returns what read returns to the caller, or to another caller whose read began after this
// call. A lone caller reads itself.
func (s *shared[K, V]) get(ctx context.Context, key K, read func(context.Context) (V, error)) (V, error) {
	r := s.join(ctx, key, read)
	if r == nil {
		defer s.finish(key)
		return read(ctx)
	}
	late := time.NewTimer(sharedWait)
	defer late.Stop()
	select {
	case <-r.done:
		return r.value, r.err
	case <-late.C: // the reader's connection is silent
		return read(ctx)
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// sharedWait is how long get waits for another caller's read.
const sharedWait = 2 * time.Second

// join returns the next read to wait for; nil if none is running and the caller must read.
func (s *shared[K, V]) join(ctx context.Context, key K, read func(context.Context) (V, error)) *reading[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, busy := s.next[key]
	switch {
	case !busy:
		s.next[key] = nil
	case r == nil:
		r = &reading[V]{done: make(chan struct{}), read: func() (V, error) { return read(context.WithoutCancel(ctx)) }}
		s.next[key] = r
	}
	return r
}

// finish starts the next read after one has ended.
func (s *shared[K, V]) finish(key K) {
	r := s.begin(key)
	if r == nil {
		return
	}
	go func() {
		for ; r != nil; r = s.begin(key) {
			r.run()
		}
	}()
}

func (s *shared[K, V]) begin(key K) *reading[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next[key]
	if r == nil {
		delete(s.next, key)
	} else {
		s.next[key] = nil
	}
	return r
}
