package shim

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
	"github.com/millpond/millpond/agent/worker/proc"
)

// Shell is the program that runs the command of an attempt.
const Shell = "/bin/sh"

const (
	cancelled = agent.ReasonCancelled
	sweepWait = 20 * time.Millisecond // between two searches for remaining descendants
)

// launch starts the process, or ends the attempt with the reason of the failure.
func (s *shim) launch(outputs [2]int) {
	s.proc.At = time.Now().UTC()
	err := WriteJSON(filepath.Join(s.dir, StartedFile), s.proc)
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
		s.timeoutAt = BootNow() + int64(s.spec.TimeoutSeconds)*int64(time.Second)
	}
	s.sendReport(Report{Started: &s.proc})
}

// taskNice is the niceness of a task's processes and its shim. On a machine that tasks keep busy,
// the agent must still send logs and heartbeats. Among themselves, and on an otherwise idle
// machine, tasks lose nothing.
const taskNice = 10

// stepBack sets the niceness of a process's session: of its process group and, if the kernel
// schedules by session (CONFIG_SCHED_AUTOGROUP), of its autogroup.
func stepBack(pid int) {
	_ = unix.Setpriority(unix.PRIO_PGRP, pid, taskNice) // fails for a process that has ended
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(taskNice)), 0)
}

func (s *shim) fork(outputs [2]int) (int, error) {
	// PR_SET_PDEATHSIG kills the child when the thread that forked it ends, and no_new_privs
	// belongs to a thread too. Go ends only the threads of signalUser, which kill the child anyway.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if s.spec.User != 0 {
		sys.Credential = &syscall.Credential{Uid: s.spec.User, Gid: s.spec.User, Groups: s.spec.Groups} // without the shim's groups
		// The child inherits it, so that no setuid program gives the task another user. It is
		// harmless to the shim.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("setting no_new_privs: %w", err)
		}
	}
	attr := &syscall.ProcAttr{
		Dir: filepath.Join(s.dir, WorkDir), Env: s.spec.Environ, Sys: sys,
		Files: []uintptr{null.Fd(), uintptr(outputs[0]), uintptr(outputs[1])},
	}
	argv := []string{"sh", "-c", s.spec.Command}
	if len(s.spec.PrivateDirs) > 0 {
		leave, err := hideDirs(s.spec.PrivateDirs, filepath.Join(s.dir, WorkDir, TempDir))
		defer leave()
		if err != nil { // it worked when the agent started; the task still has its own user
			fmt.Fprintf(os.Stderr, "millpond shim: the attempt %s shares its temporary directories: %v\n", s.spec.ID, err)
		}
	}
	if group := openCgroup(s.spec.Cgroup); group >= 0 {
		defer unix.Close(group)
		sys.UseCgroupFD, sys.CgroupFD = true, group
		if pid, err := syscall.ForkExec(Shell, argv, attr); err == nil {
			return pid, nil
		}
		sys.UseCgroupFD = false // a group is optional
	}
	pid, err := syscall.ForkExec(Shell, argv, attr)
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", Shell, err)
	}
	return pid, nil
}

// openCgroup opens a group to start a process in; -1 without a group.
func openCgroup(dir string) int {
	if dir == "" {
		return -1
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
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

// reap reaps every ended child of the shim, including orphans, which it inherits as a subreaper.
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

// terminate sends SIGTERM to every process of the attempt, and kills the remaining ones after
// grace.
func (s *shim) terminate(why agent.Reason, grace time.Duration) {
	if s.exited || s.killing || s.status.Reason != "" {
		return
	}
	s.status.Reason = why
	s.signalAll(unix.SIGTERM)
	s.signalAll(unix.SIGCONT) // a stopped process would not handle SIGTERM
	s.graceAt = BootNow() + int64(grace)
}

// killFor kills every process of the attempt at once.
func (s *shim) killFor(why agent.Reason, message string) {
	if s.exited {
		return
	}
	if s.status.Reason == "" {
		s.status.Reason, s.status.Message = why, message
	}
	s.killAll()
}

// killAll kills every process of the attempt, and repeats until reap finds no child.
func (s *shim) killAll() {
	s.killing = true
	s.graceAt = 0
	s.signalAll(unix.SIGKILL)
	s.sweepAt = BootNow() + int64(sweepWait)
}

func (s *shim) signalAll(sig unix.Signal) {
	if s.spec.User != 0 && sig == unix.SIGKILL {
		proc.SignalUser(s.spec.User, sig)
		return
	}
	if sig == unix.SIGKILL {
		proc.KillCgroup(s.spec.Cgroup)
	}
	for _, pid := range proc.Descendants(os.Getpid()) {
		_ = unix.Kill(pid, sig)
	}
}

// finish ends the attempt once its processes have ended: it moves the rest of the pipes into the
// log, then writes the exit file. It reports false until both are done.
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
	var err error
	if s.agentDirExists() { // else nobody asks for the attempt again, and the path may belong to another agent
		err = WriteJSON(filepath.Join(s.dir, ExitFile), s.status)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.hold(DiskTrouble(err), retryDisk)
		return false
	}
	s.sendReport(Report{Exited: &s.status})
	s.flushLast()
	return true
}

// drainPipes empties the pipes. It does not wait for a process outside the attempt that keeps a
// pipe open.
func (s *shim) drainPipes() bool {
	for i := range s.pipes {
		p := &s.pipes[i]
		for p.open {
			n, err := s.spool.move(p.fd, p.stream, spliceMost)
			if errors.Is(err, unix.EAGAIN) {
				n, err = 0, nil
			}
			if err != nil {
				s.hold(DiskTrouble(err), retryDisk)
				return false
			}
			p.open = n > 0
		}
	}
	return true
}

// WriteJSON replaces a file of an attempt's directory by the JSON of v, atomically.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	next := path + ".next"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		if left := os.Remove(next); !errors.Is(left, os.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return err
	}
	return os.Rename(next, path)
}
