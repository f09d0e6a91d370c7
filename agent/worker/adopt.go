package worker

import (
	"os"
	"path/filepath"
)

// adoptAll takes over what the agent before this one held.
func (w *worker) adoptAll() error {
	entries, err := os.ReadDir(w.attemptsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		w.adopt(filepath.Join(w.attemptsDir(), e.Name()))
	}
	return nil
}

// adopt takes over one attempt: it runs under its shim, or it has ended, or its shim was killed. What never had a
// process is dropped, since the control plane asks for it again.
func (w *worker) adopt(dir string) {
	s, err := readSpec(dir)
	a := newAttempt(dir, s)
	if err != nil {
		a.id = filepath.Base(dir)
		w.discard(a)
		return
	}
	// First the shim, then the exit file: a shim that ends in between has written it.
	l, dialErr := connectTo(dir)
	status, exited := readExit(dir)
	if a.running = readJSON(filepath.Join(dir, startedFile), &a.proc) == nil; !a.running && dialErr != nil && !exited {
		w.discard(a)
		return
	}
	if err := a.openLog(); err != nil {
		w.log.Error("the log of an attempt cannot be read", "attempt", a.id, "error", err)
	}
	a.findPunched()
	a.acked = a.punched
	w.attempts[a.id] = a
	w.log.Info("adopted an attempt", "attempt", a.id, "running", dialErr == nil && !exited)
	if dialErr == nil && !exited {
		a.link = l
		w.supervised.Go(func() { w.supervise(a, l) })
		return
	}
	if dialErr == nil {
		l.conn.Close()
	}
	if a.spec.User != 0 {
		a.user, _ = lockUser(a.spec.User) // nil: by now another agent's attempt has the id, and must not be touched
	}
	if exited {
		w.ended(a, status)
		return
	}
	w.supervised.Go(func() { w.supervise(a, w.shimDied(a)) })
}
