package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/worker/proc"
	"github.com/millpond/millpond/agent/worker/shim"
)

// Clear ends everything that runs in the data directory of a dead agent, and deletes its attempts
// without reporting them. It returns nil when nothing is left, and if the directory does not exist.
// It returns an error and ends nothing if an agent is alive there. It also returns an error if
// something is left when ctx ends; it can then be called again. It uses only Dir and Log of o.
func Clear(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// From here on no shim starts: a child before its exec also holds the lock.
	lock, err := lockDir(ctx, o.Dir, "stop it before what it runs is cleared")
	if err != nil {
		return err
	}
	defer lock.Close()
	w := newWorker(o)
	w.ctx = ctx
	if w.directory, _, err = findDirectory(o.Dir); err != nil {
		return fmt.Errorf("identifying the agent's directory: %w", err)
	}
	shims, err := w.endShims(ctx)
	if err != nil {
		return err
	}
	attempts, err := w.clearAttempts(ctx)
	if err != nil {
		return err
	}
	o.Log.Info("nothing runs in the agent's directory any more", "dir", o.Dir, "shims", shims, "attempts", attempts)
	return nil
}

// endShims ends the shims of this directory and everything they run. It stops the shims first and
// kills them last. A process that left its session, its group and its environment is known only as
// a descendant of its shim. This also works for a shim that does not respond, as when the disk is
// full.
func (w *worker) endShims(ctx context.Context) (int, error) {
	shims := w.shims()
	stop(shims, unix.SIGSTOP)
	defer stop(shims, unix.SIGCONT) // for the shims that are left if ctx has ended
	left, err := until(ctx, func() []int { return killBelow(shims) })
	if err != nil {
		return 0, fmt.Errorf("the processes %v of %s have not ended: %w", left, w.options.Dir, err)
	}
	stop(shims, unix.SIGKILL)
	left, err = until(ctx, func() []int { return living(shims) })
	if err != nil {
		return 0, fmt.Errorf("the shims %v of %s have not ended: %w", left, w.options.Dir, err)
	}
	for _, p := range shims {
		_ = p.Release()
	}
	return len(shims), nil
}

// sweepWait is the time between two searches for what is left.
const sweepWait = 20 * time.Millisecond

// until calls find repeatedly until it finds nothing. When ctx ends, it returns the last result and
// an error.
func until(ctx context.Context, find func() []int) ([]int, error) {
	tick := time.NewTicker(sweepWait)
	defer tick.Stop()
	for {
		found := find()
		if len(found) == 0 {
			return nil, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return found, context.Cause(ctx)
		}
	}
}

// shims finds the shims of this directory, including idle ones, by their standard error file.
func (w *worker) shims() []*os.Process {
	log, err := os.Stat(filepath.Join(w.options.Dir, shimLog))
	if err != nil {
		return nil // before the first shim
	}
	var found []*os.Process
	for _, p := range proc.All() {
		if p.Zombie || p.Pid == os.Getpid() {
			continue
		}
		handle, err := os.FindProcess(p.Pid) // before the check, so that later signals reach the checked process
		if err != nil {
			continue
		}
		if stderr, err := os.Stat(proc.Path(p.Pid, "fd/2")); err == nil && os.SameFile(stderr, log) {
			found = append(found, handle)
			continue
		}
		_ = handle.Release()
	}
	return found
}

func stop(shims []*os.Process, sig unix.Signal) {
	for _, p := range shims {
		_ = p.Signal(sig) // a shim that has ended needs no signal
	}
}

// killBelow kills the descendants of stopped shims, and all processes of their task users. It
// returns the processes that may be alive, and the shims that are not stopped yet.
func killBelow(shims []*os.Process) []int {
	pids := living(shims)
	var users []uint32
	for _, pid := range pids {
		users = append(users, usersOf(pid)...)
	}
	for _, uid := range users {
		proc.SignalUser(uid, unix.SIGKILL)
	}
	all := proc.All()
	found := append(proc.OfUsers(all, users), proc.Below(all, pids...)...)
	found = slices.DeleteFunc(found, func(pid int) bool { return slices.Contains(pids, pid) })
	for _, pid := range found {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return append(found, slices.DeleteFunc(pids, stopped)...)
}

func living(shims []*os.Process) []int {
	var pids []int
	for _, p := range shims {
		if state, ok := proc.Read(p.Pid); ok && !state.Zombie && p.Signal(unix.Signal(0)) == nil {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// usersOf are the task users whose locks a process holds open.
func usersOf(pid int) []uint32 {
	entries, _ := os.ReadDir(proc.Path(pid, "fd"))
	var users []uint32
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(proc.Path(pid, "fd"), e.Name()))
		name, ok := strings.CutPrefix(target, userLocks+"/")
		if err != nil || !ok {
			continue
		}
		if uid, err := strconv.ParseUint(name, 10, 32); err == nil && uid > 0 {
			users = append(users, uint32(uid))
		}
	}
	return users
}

// stopped reports whether no thread of a process runs. Until then the process may fork.
func stopped(pid int) bool {
	threads, _ := os.ReadDir(proc.Path(pid, "task"))
	for _, t := range threads {
		b, err := os.ReadFile(filepath.Join(proc.Path(pid, "task"), t.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if state := proc.StatFields(b); len(state) > 0 && !strings.Contains("TtZX", string(state[0])) {
			return false
		}
	}
	return true
}

// clearAttempts kills the remaining processes of attempts with dead shims, and deletes all
// attempts.
func (w *worker) clearAttempts(ctx context.Context) (int, error) {
	entries, err := os.ReadDir(w.attemptsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := os.MkdirAll(w.trashDir(), 0o700); err != nil {
		return 0, err
	}
	for _, e := range entries {
		dir := filepath.Join(w.attemptsDir(), e.Name())
		if !w.clearAttempt(dir) {
			return 0, fmt.Errorf("the attempt %s in %s has not ended: %w", e.Name(), w.options.Dir, context.Cause(ctx))
		}
		if fileExists(dir) {
			return 0, fmt.Errorf("the directory %s of an ended attempt cannot be moved to the trash; the log says why", dir)
		}
	}
	return len(entries), w.emptyTrash(ctx)
}

// clearAttempt ends and deletes one attempt. It reports false if ctx ended first.
func (w *worker) clearAttempt(dir string) bool {
	s, err := readSpec(dir)
	if err != nil {
		s = shim.Spec{} // no shim ever got it
	}
	a := newAttempt(dir, s)
	a.id = filepath.Base(dir)
	if _, exited := readExit(dir); !exited && w.made(s) {
		if s.User != 0 {
			a.user = w.reclaimUser(s.User)
		}
		if !w.killStrays(a, 0) {
			a.user.release()
			return false
		}
	}
	w.discard(a)
	return true
}

func (w *worker) emptyTrash(ctx context.Context) error {
	entries, err := os.ReadDir(w.trashDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return fmt.Errorf("attempts in %s have ended and are still to be deleted: %w", w.trashDir(), context.Cause(ctx))
		}
		if err := removeTree(filepath.Join(w.trashDir(), e.Name())); err != nil {
			return fmt.Errorf("deleting an attempt: %w", err)
		}
	}
	return nil
}
