package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// shared reads the same thing once for all who asked before it is read: a hot key, or table, costs the database no more the more ask for it. Unlike a single flight it
// answers nobody from before his question: whoever asks while it is being read waits for the next reading.
type shared[K comparable, V any] struct {
	mu   sync.Mutex
	next map[K]*reading[V] // to come, after the one that goes on; nil where nobody waits for it
}

type reading[V any] struct {
	read  func() (V, error)
	done  chan struct{}
	value V
	err   error
}

// run reads for all who wait. A panic is theirs, and not the server's.
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

// get is what read answers to the caller, or to one who asked no later than it begins. Who is alone reads himself.
func (s *shared[K, V]) get(ctx context.Context, key K, read func(context.Context) (V, error)) (V, error) {
	r := s.join(ctx, key, read)
	if r == nil {
		defer s.rest(key)
		return read(ctx)
	}
	late := time.NewTimer(sharedPatience)
	defer late.Stop()
	select {
	case <-r.done:
		return r.value, r.err
	case <-late.C: // whoever reads has a connection that is silent
		return read(ctx)
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// sharedPatience is how long another's reading is waited for.
const sharedPatience = 2 * time.Second

// join is the next reading; nil where none goes on, and the caller is to read.
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

// rest has the next reading begin, once one is over.
func (s *shared[K, V]) rest(key K) {
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
