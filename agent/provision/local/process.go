package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one by pid and start: a pid alone may be somebody else's by now.
type process struct {
	Pid         int
	Start       string // in the kernel's ticks
	Incarnation int    // of the machine that it is; 0 for other processes
}

func (p process) alive() bool { return p.Pid > 0 && p.Start != "" && ProcessStart(p.Pid) == p.Start }

// ProcessStart is when the process began, as the kernel tells it; empty when it is gone or dead.
func ProcessStart(pid int) string {
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

// statFields are those after the process's name, which is in parentheses and may hold anything.
func statFields(pid int) []string {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// pids lists what runs on the host but this process itself.
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

// agentsOf finds the agents that work in a data directory, by their command line.
func agentsOf(data string) ([]process, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	var found []process
	parents := map[int]int{} // read before the command line: a process that ends meanwhile no longer tells
	for _, pid := range all {
		parent := parentOf(pid)
		if p := (process{Pid: pid, Start: ProcessStart(pid)}); p.Start != "" && isAgent(pid, data) && !slices.Contains(arguments(pid), clearFlag) {
			found = append(found, p)
			parents[pid] = parent
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(p process) bool {
		// A child of the agent's that is about to become something else has the agent's command line for a moment.
		return slices.ContainsFunc(found, func(q process) bool { return q.Pid == parents[p.Pid] })
	}), nil
}

// isAgent says whether a process is an agent in the directory, or clears it. It compares whole arguments: one directory's name may begin with another's.
func isAgent(pid int, data string) bool {
	args := arguments(pid)
	i := slices.Index(args, dataFlag)
	return i > 1 && args[1] == agentCommand && i+1 < len(args) && args[i+1] == data
}

func arguments(pid int) []string {
	b, err := os.ReadFile(procPath(pid, "cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\x00")
}

// signal reaches this very process or none.
func (p process) signal(sig syscall.Signal) error {
	handle, err := os.FindProcess(p.Pid)
	if err != nil {
		return nil // gone
	}
	defer func() { _ = handle.Release() }()
	if !p.alive() { // asked while the handle holds on to the process that has the pid
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", p.Pid, err)
	}
	return nil
}

// killTime is in what a process that was killed must be gone; one that hangs in the kernel is not.
const killTime = 10 * time.Second

// end ends the process: it is asked, and killed after the grace or when ctx ends.
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

// reap takes the process off the kernel's books where it was this one's child, and says how it ended.
func (p process) reap() (unix.WaitStatus, bool) {
	var status unix.WaitStatus
	pid, err := unix.Wait4(p.Pid, &status, unix.WNOHANG, nil)
	return status, err == nil && pid == p.Pid
}

func (p process) awaitEnd(ctx context.Context) bool {
	for wait := (pauses{}); p.alive(); {
		if !wait.next(ctx) {
			return !p.alive()
		}
	}
	return true
}

// pauses grow from a millisecond to fifty.
type pauses struct{ last time.Duration }

// next waits, and reports false when ctx has ended.
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
