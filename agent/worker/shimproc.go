package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

const (
	cancelled = agent.ReasonCancelled
	shell     = "/bin/sh"
	sweepWait = 20 * time.Millisecond // between two looks for descendants that are still there
)

// launch starts the process, or ends the attempt with the reason why there is none.
func (s *shim) launch(outputs [2]int) {
	s.proc.At = time.Now().UTC()
	err := writeJSON(filepath.Join(s.dir, startedFile), s.proc)
	if err == nil {
		s.proc.Pid, err = s.fork(outputs)
	}
	if err != nil {
		s.status.Reason = agent.ReasonStart
		s.status.Message = fmt.Sprintf("The process could not be started: %v.", err)
		s.status.FinishedAt = new(time.Now().UTC())
		s.exited, s.alone = true, true
		return
	}
	s.status.StartedAt = &s.proc.At
	stepBack(s.proc.Pid)
	if s.spec.TimeoutSeconds > 0 {
		s.timeoutAt = bootNow() + int64(s.spec.TimeoutSeconds)*int64(time.Second)
	}
	s.tell(report{Started: &s.proc})
}

// taskNice is how far a task's processes and its shim stand back for the platform's own: a machine that its tasks fill must still send their logs and the heartbeats
// that keep their leases. Among themselves, and on a machine with nothing else to do, they lose nothing.
const taskNice = 10

// stepBack gives the session of a process its niceness: by the process group, and where the kernel schedules by session (CONFIG_SCHED_AUTOGROUP), by that.
func stepBack(pid int) {
	_ = unix.Setpriority(unix.PRIO_PGRP, pid, taskNice) // one that has ended needs none
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(taskNice)), 0)
}

func (s *shim) fork(outputs [2]int) (int, error) {
	// PR_SET_PDEATHSIG kills the child when the thread ends that forked, and no_new_privs is a thread's too. Go ends no
	// thread but those of signalUser, when the child is to be killed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if s.spec.User != 0 {
		sys.Credential = &syscall.Credential{Uid: s.spec.User, Gid: s.spec.User, Groups: s.spec.Groups} // of the shim's groups it has none
		// Inherited by the child and harmless to the shim: no setuid program gives the task another user.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("setting no_new_privs: %w", err)
		}
	}
	attr := &syscall.ProcAttr{
		Dir: filepath.Join(s.dir, workDir), Env: s.spec.Environ, Sys: sys,
		Files: []uintptr{null.Fd(), uintptr(outputs[0]), uintptr(outputs[1])},
	}
	argv := []string{"sh", "-c", s.spec.Command}
	if len(s.spec.PrivateDirs) > 0 {
		leave, err := hideDirs(s.spec.PrivateDirs, filepath.Join(s.dir, workDir, tempDir))
		defer leave()
		if err != nil { // the agent saw this work at its start; the task's user is still its own
			fmt.Fprintf(os.Stderr, "millpond shim: the attempt %s shares its temporary directories: %v\n", s.spec.ID, err)
		}
	}
	if group := openCgroup(s.spec.Cgroup); group >= 0 {
		defer unix.Close(group)
		sys.UseCgroupFD, sys.CgroupFD = true, group
		if pid, err := syscall.ForkExec(shell, argv, attr); err == nil {
			return pid, nil
		}
		sys.UseCgroupFD = false // a group is a help, and not a condition
	}
	pid, err := syscall.ForkExec(shell, argv, attr)
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", shell, err)
	}
	return pid, nil
}

func (s *shim) handleSignals() {
	drain(s.wakes.event)
	select {
	case <-s.wakes.term:
		s.status.Message = "The shim of the attempt was asked to end."
		s.terminate(agent.ReasonSupervisor, time.Duration(s.spec.GraceSeconds)*time.Second)
	default:
	}
	s.reap()
}

// reap collects every process that ended below the shim, which inherits orphans as their subreaper.
func (s *shim) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: no child, so no descendant either
			s.alone = s.exited
			return
		case pid == 0:
			if s.exited {
				s.killAll()
			}
			return
		case pid == s.proc.Pid:
			s.processExited(ws)
		}
	}
}

func (s *shim) processExited(ws unix.WaitStatus) {
	s.exited = true
	s.timeoutAt, s.graceAt, s.killAt = 0, 0, 0
	s.status.FinishedAt = new(time.Now().UTC())
	if ws.Signaled() {
		s.status.Signal = unix.SignalName(ws.Signal())
		return
	}
	s.status.ExitCode = new(ws.ExitStatus())
}

// terminate asks every process of the attempt to end, and kills what is left after grace.
func (s *shim) terminate(why agent.Reason, grace time.Duration) {
	if s.exited || s.killing || s.status.Reason != "" {
		return
	}
	s.status.Reason = why
	s.signalAll(unix.SIGTERM)
	s.signalAll(unix.SIGCONT) // a stopped process would not see it
	s.graceAt = bootNow() + int64(grace)
}

// killFor kills at once.
func (s *shim) killFor(why agent.Reason, message string) {
	if s.exited {
		return
	}
	if s.status.Reason == "" {
		s.status.Reason, s.status.Message = why, message
	}
	s.killAll()
}

// killAll kills every process of the attempt, and looks again until reap has found none left.
func (s *shim) killAll() {
	s.killing = true
	s.graceAt = 0
	s.signalAll(unix.SIGKILL)
	s.sweepAt = bootNow() + int64(sweepWait)
}

func (s *shim) signalAll(sig unix.Signal) {
	if s.spec.User != 0 && sig == unix.SIGKILL {
		signalUser(s.spec.User, sig)
		return
	}
	if sig == unix.SIGKILL {
		killCgroup(s.spec.Cgroup)
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = unix.Kill(pid, sig)
	}
}

// finish ends the attempt once its processes are gone: the rest of the pipes goes into the log, then the exit file is
// written. It reports false while something of that is still to come.
func (s *shim) finish() bool {
	if !s.exited || !s.alone {
		return false
	}
	if !s.forceDrain {
		s.forceDrain, s.blocked = true, false
	}
	s.sweepAt = 0
	if s.blocked || !s.drainPipes() {
		return false
	}
	s.status.State, s.status.LogEnd = agent.Exited, s.spool.end
	err := writeJSON(filepath.Join(s.dir, exitFile), s.status)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without its directory, nobody can ask for the attempt again
		s.hold(diskTrouble(err), retryDisk)
		return false
	}
	s.tell(report{Exited: &s.status})
	s.flushLast()
	return true
}

// drainPipes empties the pipes. A pipe that stays open is held by a process outside the attempt, for which nobody waits.
func (s *shim) drainPipes() bool {
	for i := range s.pipes {
		p := &s.pipes[i]
		for p.open {
			n, err := s.spool.move(p.fd, p.stream, spliceMost)
			if errors.Is(err, unix.EAGAIN) {
				n, err = 0, nil
			}
			if err != nil {
				s.hold(diskTrouble(err), retryDisk)
				return false
			}
			p.open = n > 0
		}
	}
	return true
}

// writeJSON replaces a file as a whole or not at all.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	next := path + ".next"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return errors.Join(err, removeIfThere(next))
	}
	return os.Rename(next, path)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
