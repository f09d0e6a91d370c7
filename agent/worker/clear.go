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
)

// Clear ends everything that runs in the data directory of an agent that is dead, and deletes its attempts: nothing of them is reported any more. It
// returns nil when nothing is left, and when there is no such directory. It is an error when an agent lives there, and nothing is ended then; or when something
// is still there at the end of ctx, and Clear can be called again. Of o it needs Dir, and takes Log.
func Clear(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// From here on nobody starts shims: a child that is still to become one holds the lock as well.
	lock, err := lockDir(ctx, o.Dir, "stop it before what it runs is cleared")
	if err != nil {
		return err
	}
	defer lock.Close()
	w := newWorker(o)
	w.ctx = ctx
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

// endShims ends the shims of this directory with all that they run. They are stopped first and go last: an attempt may have left its session, its group
// and its environment, and is known only as what their shim has inherited. A shim that would not listen, as when the disk is full, is no exception.
func (w *worker) endShims(ctx context.Context) (int, error) {
	shims := w.shims()
	stop(shims, unix.SIGSTOP)
	defer stop(shims, unix.SIGCONT) // reaches those that are left when ctx has ended
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

// until calls a function again and again until it finds nothing. At the end of ctx it answers what was found last.
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

// shims finds the shims of this directory, idle ones included, by the file that takes what they have to say.
func (w *worker) shims() []*os.Process {
	log, err := os.Stat(filepath.Join(w.options.Dir, shimLog))
	if err != nil {
		return nil // before the first shim
	}
	var found []*os.Process
	for _, p := range processes() {
		if p.zombie || p.pid == os.Getpid() {
			continue
		}
		handle, err := os.FindProcess(p.pid) // before the look at it: what is signalled later is what was looked at
		if err != nil {
			continue
		}
		if stderr, err := os.Stat(procPath(p.pid, "fd/2")); err == nil && os.SameFile(stderr, log) {
			found = append(found, handle)
			continue
		}
		_ = handle.Release()
	}
	return found
}

func stop(shims []*os.Process, sig unix.Signal) {
	for _, p := range shims {
		_ = p.Signal(sig) // one that has ended needs none
	}
}

// killBelow kills what runs below shims that were told to stop, and the users that they have. It answers what may still be alive, or come to life.
func killBelow(shims []*os.Process) []int {
	pids := living(shims)
	var users []uint32
	for _, pid := range pids {
		users = append(users, usersOf(pid)...)
	}
	for _, uid := range users {
		signalUser(uid, unix.SIGKILL)
	}
	all := processes()
	found := append(ofUsers(all, users), below(all, pids...)...)
	found = slices.DeleteFunc(found, func(pid int) bool { return slices.Contains(pids, pid) })
	for _, pid := range found {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return append(found, slices.DeleteFunc(pids, stopped)...)
}

func living(shims []*os.Process) []int {
	var pids []int
	for _, p := range shims {
		if state, ok := readProcess(p.Pid); ok && !state.zombie && p.Signal(unix.Signal(0)) == nil {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// usersOf are the task users whose locks a process holds open.
func usersOf(pid int) []uint32 {
	entries, _ := os.ReadDir(procPath(pid, "fd"))
	var users []uint32
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(procPath(pid, "fd"), e.Name()))
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

// stopped reports whether no thread of a process runs any more: until then it may be about to fork.
func stopped(pid int) bool {
	threads, _ := os.ReadDir(procPath(pid, "task"))
	for _, t := range threads {
		b, err := os.ReadFile(filepath.Join(procPath(pid, "task"), t.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if state := statFields(b); len(state) > 0 && !strings.Contains("TtZX", string(state[0])) {
			return false
		}
	}
	return true
}

// clearAttempts ends what attempts have left whose shims died before, and deletes the attempts.
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
			return 0, fmt.Errorf("the directory %s of an attempt that has ended cannot be moved aside; the log says why", dir)
		}
	}
	return len(entries), w.emptyTrash(ctx)
}

// clearAttempt reports false when ctx has ended before the attempt did.
func (w *worker) clearAttempt(dir string) bool {
	s, err := readSpec(dir)
	if err != nil {
		s = spec{} // no shim was told of it
	}
	a := newAttempt(dir, s)
	a.id = filepath.Base(dir)
	if _, exited := readExit(dir); !exited {
		if s.User != 0 {
			a.user, _ = lockUser(s.User) // as adopt does
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
