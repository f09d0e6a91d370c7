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

	"github.com/millpond/millpond/agent/worker/shim"
)

// forget drops an attempt that is no longer wanted, and kills its process.
func (w *worker) forget(a *attempt) {
	a.mu.Lock()
	done := a.forgotten
	a.forgotten = true
	final := a.final != nil
	a.mu.Unlock()
	switch {
	case !final:
		a.order(shim.Order{Kill: true}) // each time, because an order is lost if its link breaks; supervise removes the attempt at its end
	case !done:
		w.remove(a)
	}
}

// remove forgets an ended attempt. Its directory is moved to the trash at once, and deleted later.
func (w *worker) remove(a *attempt) {
	w.mu.Lock()
	delete(w.attempts, a.id)
	w.forgotten(a.id)
	w.mu.Unlock()
	w.discard(a)
}

// forgotten records an id that must not be started again. It is called with mu held.
func (w *worker) forgotten(id string) {
	if w.past = append(w.past, id); len(w.past) > 2*pastKept {
		w.past = slices.Clone(w.past[pastKept:])
	}
}

const pastKept = 1024

// discard removes everything of an attempt on this machine.
func (w *worker) discard(a *attempt) {
	a.mu.Lock()
	a.share(nil)
	a.closePipes()
	a.mu.Unlock()
	a.closeFiles()
	// The directory is moved before the user is released: no other task may reach the files.
	err := os.Rename(a.dir, filepath.Join(w.trashDir(), fmt.Sprintf("%s-%d", a.id, time.Now().UnixNano())))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.log.Error("an attempt's directory could not be moved to the trash", "attempt", a.id, "error", err)
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

// removeTrash deletes the directories of ended attempts.
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

// removeTree deletes a directory, even if a task removed its own rights to it.
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
