package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
	"github.com/millpond/millpond/agent/worker/shim"
)

// marker is the environment variable with the id of a process's attempt.
const marker = "MILLPOND_ATTEMPT_ID"

// directoryMarker is the environment variable with the id of the attempt's agent directory.
const directoryMarker = "MILLPOND_ATTEMPT_DIRECTORY"

// shimDied ends an attempt after its shim was killed, because its process must not run
// unsupervised. An attempt that had no process yet gets another shim; the result is its link.
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
	ran := fileExists(filepath.Join(a.dir, shim.StartedFile))
	if !ran && !forgotten && retry && w.launch(a) == nil {
		w.log.Warn("a shim died before it had a process; the attempt gets another shim", "attempt", a.id)
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

// orphaned is the final status of an attempt with a dead shim.
func orphaned(dir string, ran bool) agent.Status {
	s := agent.Status{State: agent.Exited, FinishedAt: new(time.Now().UTC())}
	if !ran {
		s.Reason, s.Message = agent.ReasonStart, "No shim stayed alive long enough to start the process; the agent's shim.log may say why."
		return s
	}
	s.Reason, s.Message = agent.ReasonSupervisor, "The shim of the attempt was killed, so its process was killed as well."
	var p shim.Started
	if readJSON(filepath.Join(dir, shim.StartedFile), &p) == nil {
		s.StartedAt = &p.At
	}
	return s
}

// killStrays kills the processes of a dead shim until none is left. It reports false if the agent
// stops first.
func (w *worker) killStrays(a *attempt, session int) bool {
	for pause := (backoff{}); ; {
		found := append(proc.KillCgroup(a.spec.Cgroup), strays(a.id, a.spec.Directory, session)...)
		if a.user != nil {
			proc.SignalUser(a.user.id, unix.SIGKILL)
			found = append(found, proc.OfUser(a.user.id)...)
		}
		if len(found) == 0 {
			return true
		}
		for _, pid := range found {
			_ = unix.Kill(pid, unix.SIGKILL) // never this process: strays excludes it, and it does not run as a task user
		}
		if !pause.wait(w.ctx) {
			return false
		}
	}
}

// strays lists the living processes of an attempt with a dead shim. They have its marker in their
// environment or, if session is not 0, are in its session.
func strays(attempt, directory string, session int) []int {
	entries := []string{marker + "=" + attempt}
	if directory != "" {
		entries = append(entries, directoryMarker+"="+directory)
	}
	var found []int
	for _, p := range proc.All() {
		if p.Zombie || p.Pid == os.Getpid() {
			continue
		}
		if session > 0 && p.Session == session || hasEntries(p.Pid, entries) {
			found = append(found, p.Pid)
		}
	}
	return found
}

func hasEntries(pid int, entries []string) bool {
	b, err := os.ReadFile(proc.Path(pid, "environ"))
	if err != nil {
		return false
	}
	environ := strings.Split(string(b), "\x00")
	return !slices.ContainsFunc(entries, func(v string) bool { return !slices.Contains(environ, v) })
}

// drainInto moves the bytes that a dead shim left in the pipes into the log. It retries while the
// disk is full.
func (w *worker) drainInto(a *attempt) bool {
	for pause := (backoff{}); ; {
		err := shim.DrainPipes(a.dir, a.spec.LogLimit, a.pipes)
		if err == nil {
			return true
		}
		w.hold(a, shim.DiskTrouble(err))
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

func (w *worker) writeExit(a *attempt, s agent.Status) error {
	for pause := (backoff{}); ; {
		err := shim.WriteJSON(filepath.Join(a.dir, shim.ExitFile), s)
		if err == nil {
			return nil
		}
		w.hold(a, shim.DiskTrouble(err))
		if !pause.wait(w.ctx) {
			return err
		}
	}
}
