package worker

import (
	"os"
	"path/filepath"

	"github.com/millpond/millpond/agent/worker/shim"
)

// adoptAll adopts the attempts of the previous agent.
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

// adopt takes over one attempt: it runs under its shim, it has ended, or its shim was killed. An
// attempt that never had a process is discarded, because the control plane sends it again.
func (w *worker) adopt(dir string) {
	s, err := readSpec(dir)
	a := newAttempt(dir, s)
	if err != nil {
		a.id = filepath.Base(dir)
		w.discard(a)
		return
	}
	// The shim comes before the exit file: a shim that ends in between has written the file.
	l, dialErr := connectTo(dir)
	status, exited := readExit(dir)
	if !w.made(s) && !exited {
		w.log.Warn("this directory is a copy; an attempt belongs to the original and is not adopted", "attempt", a.id)
		w.discard(a)
		return
	}
	if a.running = readJSON(filepath.Join(dir, shim.StartedFile), &a.proc) == nil; !a.running && dialErr != nil && !exited {
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
	switch {
	case a.spec.User == 0 || !w.made(s):
	case exited:
		a.user, _ = lockUser(a.spec.User) // nil: another agent's attempt uses the id by now
	default:
		a.user = w.reclaimUser(a.spec.User)
	}
	if exited {
		w.ended(a, status)
		return
	}
	w.supervised.Go(func() { w.supervise(a, w.shimDied(a)) })
}

// made reports whether an attempt was created in this directory, and not in the original of a copy.
func (w *worker) made(s shim.Spec) bool { return s.Directory == "" || s.Directory == w.directory.ID }
