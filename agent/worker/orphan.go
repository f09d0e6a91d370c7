package worker

import (
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

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
