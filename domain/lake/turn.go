package lake

import (
	"context"
	"sync"
)

// turns lets those who commit to one table go one after another within this process, so that they do not spoil each other's tries.
type turns struct {
	mu     sync.Mutex
	tables map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token
	waiting int
}

func newTurns() *turns { return &turns{tables: map[string]*turn{}} }

// take waits for the table's turn. The caller calls done when it is over.
func (t *turns) take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	mine := t.tables[name]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.tables[name] = mine
	}
	mine.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.waiting--; mine.waiting == 0 {
			delete(t.tables, name)
		}
	}
	select {
	case <-mine.free:
		return func() { mine.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
