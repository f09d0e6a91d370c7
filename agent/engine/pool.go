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

// pool holds the children that wait for a statement, one more than none at any time.
type pool struct {
	o          Options
	extensions string

	mu       sync.Mutex
	idle     []*process // those that are still starting included
	taken    int
	starting int // spares
	closed   bool
	work     sync.WaitGroup // of ending and giving back
}

func newPool(o Options, extensions string) (*pool, error) {
	left, err := filepath.Glob(filepath.Join(o.Dir, "child-*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left { // of an engine that was killed: its children ended with it
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

// lockOf stands for the storage to which a child is locked.
func lockOf(s agent.Storage) string {
	b, _ := json.Marshal(s) // of strings and booleans alone
	sum := sha256.Sum256(b)
	return string(sum[:])
}

// take answers a child that takes statements and is locked to nothing else. The caller has a place, so that there is room for the child.
func (p *pool) take(ctx context.Context, lock string) (*process, error) {
	failed := 0 // children that did not start
	for {
		c, err := p.pick(lock)
		if err != nil {
			return nil, err
		}
		err = c.usable(ctx)
		switch {
		case err == nil && c.alive():
			c.lock, c.write, c.ended = lock, false, false
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
		if failed == 2 { // one may have been killed; where two do not start, a third would not either
			return nil, err
		}
	}
}

// pick prefers a child that is locked to the same, then one that is locked to nothing, and then makes room for a new one.
func (p *pool) pick(lock string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosing
	}
	p.taken++
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
		p.taken--
	}
	return c, err
}

// spare keeps one child waiting while there is a place for it. It is started without the lock, for which others would wait.
func (p *pool) spare() {
	p.mu.Lock()
	wanted := !p.closed && len(p.idle)+p.starting == 0 && p.taken < p.o.Slots
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
		p.o.Log.Error("no spare child of the engine could be started", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	switch {
	case err != nil:
	case p.closed || p.taken+len(p.idle) >= p.o.Slots+1:
		p.work.Go(c.end)
	default:
		p.idle = append(p.idle, c)
	}
}

// give takes a child back after a statement. One that did not answer it to the end, or that ends by itself, is replaced.
func (p *pool) give(c *process) {
	if c.ended && !c.usedUp() && c.awaitReady() == nil {
		p.keep(c)
		return
	}
	p.discard(c)
	p.spare()
}

// lend starts a process that maintains a table, in the place of a child.
func (p *pool) lend(ctx context.Context) (*process, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosing
	}
	p.taken++
	if len(p.idle) > 0 && p.taken+len(p.idle) > p.o.Slots {
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
		c.write = true
		return c, nil
	}
	p.reclaim(c)
	return nil, err
}

// reclaim ends a process that was lent, if it was started.
func (p *pool) reclaim(c *process) {
	if c != nil {
		c.end()
	}
	p.mu.Lock()
	p.taken--
	p.mu.Unlock()
	p.spare()
}

func (p *pool) keep(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.closed {
		p.work.Go(c.end)
		return
	}
	// The one that is locked already comes first, so that the spare stays what it is: free for any storage.
	p.idle = slices.Insert(p.idle, 0, c)
}

func (p *pool) discard(c *process) {
	c.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
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
