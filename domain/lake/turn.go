package lake

import (
	"context"
	"sync"

	"github.com/millpond/millpond/domain"
)

// turns lets those who commit to one table go one after another within this process, so that they do not spoil each other's tries.
type turns struct {
	mu     sync.Mutex
	tables map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token
	waiting int
	last    domain.LakeTable // as whoever had the turn before has committed it; the zero row where that is not known
}

// newest is the row, or the one that was committed here since.
func (t *turn) newest(row domain.LakeTable) domain.LakeTable {
	if t.last.ID == row.ID && t.last.Version > row.Version {
		return t.last
	}
	return row
}

func newTurns() *turns { return &turns{tables: map[string]*turn{}} }

// take waits for the table's turn, which is the caller's alone until it calls done.
func (t *turns) take(ctx context.Context, name string) (mine *turn, done func(), err error) {
	t.mu.Lock()
	mine = t.tables[name]
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
		return mine, func() { mine.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
}
