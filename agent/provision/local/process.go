package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process identifies a process by pid and start time, because a pid may be reused.
type process struct {
	Pid         int
	Start       string // in the kernel's ticks
	Incarnation int    // of the machine that it runs; 0 for other processes
}

func (p process) alive() bool { return p.Pid > 0 && p.Start != "" && processStart(p.Pid) == p.Start }

// processStart returns the start time of a process in the kernel's ticks; "" if it has ended.
func processStart(pid int) string {
	fields := statFields(pid)
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return ""
	}
	return fields[start]
}

func parentOf(pid int) int {
	fields := statFields(pid)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// statFields are the fields after the process's name, which is in parentheses and may contain
// anything.
func statFields(pid int) []string {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// pids lists the processes on the host, without this process.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found, nil
}

// agentsOf finds the agents that work in a data directory, by their command lines.
func agentsOf(data string) ([]process, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	var found []process
	parents := map[int]int{} // read before the command line: a process that ends meanwhile no longer has it
	for _, pid := range all {
		parent := parentOf(pid)
		if p := (process{Pid: pid, Start: processStart(pid)}); p.Start != "" && isAgent(pid, data) && !slices.Contains(arguments(pid), clearFlag) {
			found = append(found, p)
			parents[pid] = parent
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(p process) bool {
		// A child of the agent has the agent's command line until its exec.
		return slices.ContainsFunc(found, func(q process) bool { return q.Pid == parents[p.Pid] })
	}), nil
}

// isAgent reports whether a process is an agent in the directory, or clears it. It compares whole
// arguments, because one directory's name may be a prefix of another's.
func isAgent(pid int, data string) bool {
	args := arguments(pid)
	i := slices.Index(args, dataFlag)
	return i > 1 && args[1] == agentCommand && i+1 < len(args) && args[i+1] == data && startedIn(pid, filepath.Dir(data))
}

// startedIn reports whether a machine's process was started in this directory. A directory that had
// the path earlier and was moved is another directory.
func startedIn(pid int, dir string) bool {
	cwd := procPath(pid, "cwd")
	is, err := os.Stat(cwd)
	if there, failed := os.Stat(dir); err == nil && failed == nil && os.SameFile(is, there) {
		return true
	}
	target, err := os.Readlink(cwd)
	return err == nil && target == dir+" (deleted)"
}

func arguments(pid int) []string {
	b, err := os.ReadFile(procPath(pid, "cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\x00")
}

// signal signals this process, and never another one with the same pid.
func (p process) signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(p.Pid)
	if err != nil {
		return nil // gone
	}
	defer func() { _ = handle.Release() }()
	if !p.alive() { // checked while the handle refers to the process with the pid
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", p.Pid, err)
	}
	return nil
}

// killTime bounds the wait for a killed process, which may hang in the kernel.
const killTime = 10 * time.Second

// end sends SIGTERM, and SIGKILL after the grace period or when ctx ends.
func (p process) end(ctx context.Context, grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if !p.awaitEnd(asked) {
		if err := p.signal(syscall.SIGKILL); err != nil {
			return err
		}
		killed, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer cancel()
		if !p.awaitEnd(killed) {
			return fmt.Errorf("process %d was killed and is still there", p.Pid)
		}
	}
	p.reap()
	return nil
}

// reap collects the exit status of the process. It reports false if the process is not an ended
// child of this one. The kernel keeps the status back until all threads of the process have ended.
func (p process) reap() (status unix.WaitStatus, ours bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for wait := (pauses{}); ; {
		pid, err := unix.Wait4(p.Pid, &status, unix.WNOHANG, nil)
		if err == nil && pid == p.Pid {
			return status, true
		}
		if err != nil && !errors.Is(err, unix.EINTR) || !wait.next(ctx) {
			return status, false
		}
	}
}

func (p process) awaitEnd(ctx context.Context) bool {
	for wait := (pauses{}); p.alive(); {
		if !wait.next(ctx) {
			return !p.alive()
		}
	}
	return true
}

// pauses are waits that grow from 1 ms to 50 ms.
type pauses struct{ last time.Duration }

// next waits. It reports false if ctx has ended.
func (w *pauses) next(ctx context.Context) bool {
	w.last = min(max(2*w.last, time.Millisecond), 50*time.Millisecond)
	timer := time.NewTimer(w.last)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
