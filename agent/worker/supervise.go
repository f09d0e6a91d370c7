package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// quiet is how long an end is waited for before a start is reported: a short task needs one message, not two.
const quiet = 5 * time.Millisecond

// errOver says that an attempt has ended here and was forgotten.
var errOver = errors.New("the attempt has already ended on this agent")

// start accepts an attempt and hands it to a shim. It is idempotent. An error means that the attempt does not exist
// here; errOver that it did.
func (w *worker) start(in agent.Attempt) error {
	if free, err := w.reserve(in.ID); !free {
		return err
	}
	a, err := w.create(in)
	if err == nil {
		if err = w.launch(a); err != nil {
			w.discard(a)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.starting, in.ID)
	if err != nil {
		return err
	}
	w.attempts[a.id] = a
	l := a.link
	w.supervised.Go(func() { w.supervise(a, l) })
	return nil
}

// reserve reports whether the caller may start the attempt: nobody does or did.
func (w *worker) reserve(id string) (free bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts[id] != nil || w.starting[id] {
		return false, nil
	}
	if slices.Contains(w.past, id) {
		return false, errOver
	}
	w.starting[id] = true
	return true, nil
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

// follow reads what a shim says until its attempt has ended; nil when the link broke before.
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

// lostLink finds out why a link broke: nearly always because the shim is dead.
func (w *worker) lostLink(a *attempt, l *link) *link {
	next, err := connectTo(a.dir)
	if err == nil {
		l.leave()
		a.setLink(next)
		return next
	}
	l.bury()
	a.setLink(nil)
	return w.shimDied(a)
}

func (w *worker) heard(a *attempt, l *link, r report) {
	a.mu.Lock()
	if r.Adopted {
		a.adoptFiles(l.takeFiles())
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
			w.log.Warn("a process is held back", "attempt", a.id, "because", *r.Held)
		}
		w.reports.add(a)
	}
	if r.Log || r.Adopted {
		w.ship.add(a)
	}
}

// ended notes the end of an attempt. Its log is sent next, then its status.
func (w *worker) ended(a *attempt, s agent.Status) {
	a.mu.Lock()
	a.final = &s
	a.share(nil)
	a.held = ""
	a.version++
	forgotten, sent := a.forgotten, a.acked >= s.LogEnd
	a.mu.Unlock()
	a.closePipes()
	switch {
	case forgotten:
		w.remove(a)
	case sent:
		w.reports.add(a)
	default:
		w.ship.add(a)
	}
}

// shimDied ends an attempt whose shim was killed, as its process may not go on unwatched. An attempt that had no
// process yet gets another shim, whose link is the result.
func (w *worker) shimDied(a *attempt) *link {
	a.mu.Lock()
	session, forgotten := a.proc.Pid, a.forgotten
	a.retries++
	retry := a.retries <= startingRetries
	a.mu.Unlock()
	if s, ok := readExit(a.dir); ok {
		w.ended(a, s)
		return nil
	}
	ran := fileExists(filepath.Join(a.dir, startedFile))
	if !ran && !forgotten && retry && w.launch(a) == nil {
		w.log.Warn("a shim died before it had a process; the attempt has another one", "attempt", a.id)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.link
	}
	w.log.Error("the shim of an attempt was killed", "attempt", a.id)
	if !w.killStrays(a, session) || !w.drainInto(a) {
		return nil
	}
	s := orphaned(a.dir, ran)
	s.LogEnd = a.logEnd()
	if err := w.writeExit(a, s); err != nil {
		return nil
	}
	w.ended(a, s)
	return nil
}

// orphaned is the end of an attempt whose shim is dead.
func orphaned(dir string, ran bool) agent.Status {
	s := agent.Status{State: agent.Exited, FinishedAt: new(time.Now().UTC())}
	if !ran {
		s.Reason, s.Message = agent.ReasonStart, "No shim stayed alive long enough to start the process; the agent's shim.log may say why."
		return s
	}
	s.Reason, s.Message = agent.ReasonSupervisor, "The shim of the attempt was killed, so its process was killed as well."
	var p started
	if readJSON(filepath.Join(dir, startedFile), &p) == nil {
		s.StartedAt = &p.At
	}
	return s
}

// killStrays kills what a dead shim has left, until nothing is left. It reports false when the agent stops before.
func (w *worker) killStrays(a *attempt, session int) bool {
	for pause := (backoff{}); ; {
		found := append(killCgroup(a.spec.Cgroup), strays(a.id, session)...)
		if a.user != nil {
			signalUser(a.user.id, unix.SIGKILL)
			found = append(found, ofUser(a.user.id)...)
		}
		if len(found) == 0 {
			return true
		}
		for _, pid := range found {
			_ = unix.Kill(pid, unix.SIGKILL) // never this process: strays leaves it out, and it is no task's user
		}
		if !pause.wait(w.ctx) {
			return false
		}
	}
}

// drainInto puts what a dead shim left in the pipes into the log. A full disk is waited for.
func (w *worker) drainInto(a *attempt) bool {
	for pause := (backoff{}); ; {
		err := drainPipes(a)
		if err == nil {
			return true
		}
		w.hold(a, diskTrouble(err))
		if !pause.wait(w.ctx) {
			return false
		}
	}
}

func (w *worker) hold(a *attempt, why string) {
	a.mu.Lock()
	changed := a.held != why
	if changed {
		a.held = why
		a.version++
	}
	a.mu.Unlock()
	if changed {
		w.reports.add(a)
	}
}

func drainPipes(a *attempt) error {
	s, err := openSpool(a.dir, a.spec.LogLimit)
	if err != nil {
		return err
	}
	defer s.close()
	for i, stream := range [2]agent.Stream{agent.Stdout, agent.Stderr} {
		for a.pipes[i] >= 0 {
			n, err := s.move(a.pipes[i], stream, spliceMost)
			if n == 0 && err == nil || errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *worker) writeExit(a *attempt, s agent.Status) error {
	for pause := (backoff{}); ; {
		err := writeJSON(filepath.Join(a.dir, exitFile), s)
		if err == nil {
			return nil
		}
		w.hold(a, diskTrouble(err))
		if !pause.wait(w.ctx) {
			return err
		}
	}
}

// forget drops an attempt of which nothing is wanted; its process is killed.
func (w *worker) forget(a *attempt) {
	a.mu.Lock()
	done := a.forgotten
	a.forgotten = true
	final := a.final != nil
	a.mu.Unlock()
	switch {
	case done:
	case final:
		w.remove(a)
	default:
		a.order(order{Kill: true}) // supervise removes it at its end
	}
}

// remove takes an attempt that has ended off the books. Its directory is moved aside, so that it is gone at once, and
// deleted when there is time.
func (w *worker) remove(a *attempt) {
	w.mu.Lock()
	delete(w.attempts, a.id)
	if w.past = append(w.past, a.id); len(w.past) > 2*pastKept {
		w.past = slices.Clone(w.past[pastKept:])
	}
	w.mu.Unlock()
	w.discard(a)
}

const pastKept = 1024

// discard drops what there is of an attempt on this machine.
func (w *worker) discard(a *attempt) {
	a.mu.Lock()
	a.share(nil)
	a.mu.Unlock()
	a.closePipes()
	a.closeFiles()
	// The id stays its own until what belongs to it is out of reach.
	err := os.Rename(a.dir, filepath.Join(w.trashDir(), fmt.Sprintf("%s-%d", a.id, time.Now().UnixNano())))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.log.Error("an attempt's directory could not be moved aside", "attempt", a.id, "error", err)
	}
	a.user.release()
	if a.spec.Cgroup != "" {
		_ = os.Remove(a.spec.Cgroup)
	}
	select {
	case w.sweep <- struct{}{}:
	default:
	}
}

// removeTrash deletes directories of attempts that are over.
func (w *worker) removeTrash(ctx context.Context) {
	for {
		entries, _ := os.ReadDir(w.trashDir())
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			if err := removeTree(filepath.Join(w.trashDir(), e.Name())); err != nil {
				w.log.Warn("an attempt's directory could not be deleted", "error", err)
			}
		}
		select {
		case <-w.sweep:
		case <-ctx.Done():
			return
		}
	}
}

func readExit(dir string) (s agent.Status, ok bool) {
	ok = readJSON(filepath.Join(dir, exitFile), &s) == nil && s.State == agent.Exited
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
