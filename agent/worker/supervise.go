package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// quiet delays the report of a start, so that a short task needs one message, not two.
const quiet = 5 * time.Millisecond

// start accepts an attempt and passes it to a shim. It is idempotent, even if the attempt has ended
// and was forgotten. An error means that the attempt does not exist here.
func (w *worker) start(in agent.Attempt) error {
	if !w.reserve(in.ID) {
		return nil
	}
	a, err := w.create(in)
	if err == nil {
		if err = w.launch(a); err != nil {
			w.discard(a)
		}
	}
	w.busy()
	w.mu.Lock()
	delete(w.starting, in.ID)
	if err == nil {
		w.attempts[a.id] = a
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	// A renewal from here on finds the attempt. Earlier renewals since its launch did not.
	for leased := a.leased; leased != w.killAt(); {
		leased = w.killAt()
		a.order(shim.Order{KillAt: leased})
	}
	l := a.link
	w.supervised.Go(func() { w.supervise(a, l) })
	return nil
}

// reserve reports whether the caller may start the attempt, which it may only do once.
func (w *worker) reserve(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts[id] != nil || w.starting[id] || slices.Contains(w.past, id) {
		return false
	}
	w.starting[id] = true
	return true
}

// refuse prevents a later start of the attempt. It reports false if the attempt is already here or
// is being prepared.
func (w *worker) refuse(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts[id] != nil || w.starting[id] {
		return false
	}
	if !slices.Contains(w.past, id) {
		w.forgotten(id)
	}
	return true
}

// supervise follows one attempt until it has ended or the agent stops.
func (w *worker) supervise(a *attempt, l *link) {
	for l != nil {
		stop := context.AfterFunc(w.ctx, l.interrupt)
		status := w.follow(a, l)
		stop()
		switch {
		case status != nil:
			a.setLink(nil)
			w.pool.give(l)
			w.ended(a, *status)
			return
		case w.ctx.Err() != nil:
			return
		}
		l = w.lostLink(a, l)
	}
}

// follow reads a shim's reports until its attempt has ended. It returns nil if the link broke
// first.
func (w *worker) follow(a *attempt, l *link) *agent.Status {
	for {
		r, err := l.receive()
		if err != nil {
			return nil
		}
		if r.Exited != nil {
			return r.Exited
		}
		w.heard(a, l, r)
	}
}

// lostLink reconnects after a broken link or, if the shim is dead, ends the attempt. It returns the
// next link, if any.
func (w *worker) lostLink(a *attempt, l *link) *link {
	next, err := connectTo(a.dir)
	if err == nil {
		l.detach()
		a.setLink(next)
		return next
	}
	l.destroy()
	a.setLink(nil)
	return w.shimDied(a)
}

func (w *worker) heard(a *attempt, l *link, r shim.Report) {
	a.mu.Lock()
	if r.Adopted {
		a.adoptFiles(l.in.TakeFiles())
	}
	if r.Started != nil && r.Started.Pid != 0 {
		a.proc, a.running = *r.Started, true
		a.version++
	}
	if r.Held != nil {
		a.held = *r.Held
		a.version++
	}
	a.mu.Unlock()
	if r.Started != nil {
		time.AfterFunc(quiet, func() { w.reports.add(a) })
	}
	if r.Held != nil {
		if *r.Held != "" {
			w.log.Warn("a process is blocked", "attempt", a.id, "because", *r.Held)
		}
		w.reports.add(a)
	}
	if r.Log || r.Adopted {
		w.ship.add(a)
	}
}

// ended records the end of an attempt. Its log is sent next, then its status.
func (w *worker) ended(a *attempt, s agent.Status) {
	w.busy()
	w.measureShared()
	a.mu.Lock()
	a.final = &s
	a.share(nil)
	a.closePipes()
	a.held = ""
	a.version++
	forgotten, sent := a.forgotten, a.acked >= s.LogEnd
	a.mu.Unlock()
	switch {
	case forgotten:
		w.remove(a)
	case sent:
		w.reports.add(a)
	default:
		w.ship.add(a)
	}
}

func readExit(dir string) (s agent.Status, ok bool) {
	ok = readJSON(filepath.Join(dir, shim.ExitFile), &s) == nil && s.State == agent.Exited
	return s, ok
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
