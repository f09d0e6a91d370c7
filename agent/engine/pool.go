package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/millpond/millpond/agent"
)

// pool holds the idle children. It keeps at least one while a slot is free.
type pool struct {
	o          Options
	extensions string

	mu       sync.Mutex
	idle     []*process // including starting ones
	inUse    int
	starting int // spares
	closed   bool
	work     sync.WaitGroup // ends and returns of children that are in progress
}

func newPool(o Options, extensions string) (*pool, error) {
	left, err := filepath.Glob(filepath.Join(o.Dir, "child-*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left { // left by a killed engine; its children ended with it
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	p := &pool{o: o, extensions: extensions}
	first, err := startProcess(o, extensions)
	if err != nil {
		return nil, err
	}
	p.idle = append(p.idle, first)
	return p, nil
}

// lockOf identifies the storage to which a child is locked.
func lockOf(s agent.Storage) string {
	b, _ := json.Marshal(s) // strings and booleans always marshal
	sum := sha256.Sum256(b)
	return string(sum[:])
}

// take returns a ready child that is locked to this storage or unlocked. The caller holds a slot,
// so the pool has room for the child.
func (p *pool) take(ctx context.Context, lock string) (*process, error) {
	failed := 0 // children that failed to start
	for {
		c, err := p.pick(lock)
		if err != nil {
			return nil, err
		}
		err = c.usable(ctx)
		switch {
		case err == nil && c.Alive():
			c.lock, c.begun, c.ended = lock, false, false
			p.spare()
			return c, nil
		case ctx.Err() != nil:
			p.keep(c)
			return nil, err
		}
		if c.lock == "" && err != nil {
			failed++
		}
		p.discard(c)
		if failed == 2 { // one may have been killed; if two fail, a third would fail too
			return nil, err
		}
	}
}

// pick prefers a child locked to the same storage, then an unlocked one. Otherwise it makes room
// for a new one.
func (p *pool) pick(lock string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosing
	}
	p.inUse++
	for _, wanted := range []string{lock, ""} {
		if i := slices.IndexFunc(p.idle, func(c *process) bool { return c.lock == wanted }); i >= 0 {
			c := p.idle[i]
			p.idle = slices.Delete(p.idle, i, i+1)
			return c, nil
		}
	}
	if len(p.idle) > 0 {
		other := p.idle[0]
		p.idle = p.idle[1:]
		p.work.Go(other.end)
	}
	c, err := startProcess(p.o, p.extensions)
	if err != nil {
		p.inUse--
	}
	return c, err
}

// spare keeps one child idle while there is a slot for it. It starts the child without the mutex,
// so that others do not wait.
func (p *pool) spare() {
	p.mu.Lock()
	wanted := !p.closed && len(p.idle)+p.starting == 0 && p.inUse < p.o.Slots
	if wanted {
		p.starting++
		p.work.Add(1)
	}
	p.mu.Unlock()
	if !wanted {
		return
	}
	defer p.work.Done()
	c, err := startProcess(p.o, p.extensions)
	if err != nil {
		p.o.Log.Error("cannot start a spare child of the engine", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	switch {
	case err != nil:
	case p.closed || p.inUse+len(p.idle) >= p.o.Slots+1:
		p.work.Go(c.end)
	default:
		p.idle = append(p.idle, c)
	}
}

// give returns a child after a statement. It replaces a child that has ended, or that did not
// finish the statement.
func (p *pool) give(c *process) {
	if c.ended && !c.usedUp() {
		if _, err := c.awaitReady(); err == nil {
			p.keep(c)
			return
		}
	}
	p.discard(c)
	p.spare()
}

// lend starts a process that maintains a table. The process uses the room of a child.
func (p *pool) lend(ctx context.Context) (*process, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosing
	}
	p.inUse++
	if len(p.idle) > 0 && p.inUse+len(p.idle) > p.o.Slots {
		other := p.idle[0]
		p.idle = p.idle[1:]
		p.work.Go(other.end)
	}
	p.mu.Unlock()
	c, err := startProcess(p.o.maintaining(), "")
	if err == nil {
		err = c.usable(ctx)
	}
	if err == nil {
		c.maintains, c.begun = true, true
		return c, nil
	}
	p.reclaim(c)
	return nil, err
}

// reclaim ends a lent process, if it was started.
func (p *pool) reclaim(c *process) {
	if c != nil {
		c.end()
	}
	p.mu.Lock()
	p.inUse--
	p.mu.Unlock()
	p.spare()
}

func (p *pool) keep(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	if p.closed {
		p.work.Go(c.end)
		return
	}
	// Insert the locked child first, so that the spare stays unlocked and free for any storage.
	p.idle = slices.Insert(p.idle, 0, c)
}

func (p *pool) discard(c *process) {
	c.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	for _, c := range idle {
		p.work.Go(c.end)
	}
	p.mu.Unlock()
	p.work.Wait()
}
