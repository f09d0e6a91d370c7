package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// forget drops an attempt of which nothing is wanted; its process is killed.
func (w *worker) forget(a *attempt) {
	a.mu.Lock()
	done := a.forgotten
	a.forgotten = true
	final := a.final != nil
	a.mu.Unlock()
	switch {
	case !final:
		a.order(order{Kill: true}) // each time, as it may be lost with its link; supervise removes the attempt at its end
	case !done:
		w.remove(a)
	}
}

// remove takes an attempt that has ended off the books. Its directory is moved aside, so that it is gone at once, and
// deleted when there is time.
func (w *worker) remove(a *attempt) {
	w.mu.Lock()
	delete(w.attempts, a.id)
	if w.past = append(w.past, a.id); len(w.past) > 2*pastKept {
		w.past = slices.Clone(w.past[pastKept:])
	}
	w.mu.Unlock()
	w.discard(a)
}

const pastKept = 1024

// discard drops what there is of an attempt on this machine.
func (w *worker) discard(a *attempt) {
	a.mu.Lock()
	a.share(nil)
	a.closePipes()
	a.mu.Unlock()
	a.closeFiles()
	// The id stays its own until what belongs to it is out of reach.
	err := os.Rename(a.dir, filepath.Join(w.trashDir(), fmt.Sprintf("%s-%d", a.id, time.Now().UnixNano())))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.log.Error("an attempt's directory could not be moved aside", "attempt", a.id, "error", err)
	}
	a.user.release()
	if a.spec.Cgroup != "" {
		_ = os.Remove(a.spec.Cgroup)
	}
	select {
	case w.sweep <- struct{}{}:
	default:
	}
}

// removeTrash deletes directories of attempts that are over.
func (w *worker) removeTrash(ctx context.Context) {
	for {
		entries, _ := os.ReadDir(w.trashDir())
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			if err := removeTree(filepath.Join(w.trashDir(), e.Name())); err != nil {
				w.log.Warn("an attempt's directory could not be deleted", "error", err)
			}
		}
		select {
		case <-w.sweep:
		case <-ctx.Done():
			return
		}
	}
}

// removeTree deletes a directory, also where a task took away its own rights to it.
func removeTree(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = unix.Chmod(p, 0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil
	})
	return os.RemoveAll(path)
}
