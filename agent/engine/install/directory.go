package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile   = ".lock"
	tempPrefix = ".tmp-"
)

// makeDir creates the directory of engines, readable by every user.
func (i *installer) makeDir() error {
	err := makePath(filepath.Dir(i.Dir), 0o711)
	if err == nil {
		err = makePath(i.Dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("the directory of engines cannot be created; choose another with --engines-dir: %w", err)
	}
	return nil
}

// makePath creates directories with the mode, whatever the umask. Existing directories keep their
// mode, which may be wider.
func makePath(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := makePath(filepath.Dir(dir), mode); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) { // another process has created it meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// lock waits until no other process installs in this directory.
func (i *installer) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(i.Dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot install in %s; run this as its owner, or choose another with --engines-dir: %w", i.Dir, err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waited := false; ; waited = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !waited {
			i.say("Waiting for another installation in %s.", i.Dir)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// sweep removes the rest of an interrupted installation. The caller holds the lock.
func (i *installer) sweep() error {
	left, err := fs.Glob(os.DirFS(i.Dir), tempPrefix+"*")
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := os.RemoveAll(filepath.Join(i.Dir, name)); err != nil {
			return fmt.Errorf("cannot remove the rest of an interrupted installation: %w", err)
		}
	}
	return nil
}

// room returns an error if the disk has too little free space.
func (i *installer) room(what string, needs int64) error {
	has, err := i.free(i.Dir)
	if err != nil {
		return fmt.Errorf("the free space in %s cannot be read: %w", i.Dir, err)
	}
	if has < needs {
		return fmt.Errorf("installing %s needs %s in %s, and %s are free; make room there, or choose another directory with --engines-dir", what, size(needs), i.Dir, size(has))
	}
	return nil
}

func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// activate writes the record into tree and renames tree to its home. It moves the previous
// installation into work.
func (i *installer) activate(tree, home, work string, r record) (u usage, err error) {
	if err := openToAll(tree); err != nil {
		return u, err
	}
	if u, err = measure(tree); err != nil {
		return u, err
	}
	r.Files, r.Bytes, r.InstalledAt = u.files, u.bytes, time.Now().UTC().Truncate(time.Second)
	if err := writeRecord(filepath.Join(tree, recordFile), r); err != nil {
		return u, err
	}
	if err := i.flush(); err != nil {
		return u, err
	}
	if err := os.Rename(home, filepath.Join(work, "before")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	if err := os.Rename(tree, home); err != nil {
		return u, err
	}
	return u, i.flush()
}

// flush syncs the file system, so that no crash leaves a name without content.
func (i *installer) flush() error {
	d, err := os.Open(i.Dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// openToAll makes directories accessible to all users, whatever the umask. Files got their modes
// when they were unpacked.
func openToAll(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// warn warns root if other users cannot reach the installation. Root runs engines as other users.
func (i *installer) warn(java string) {
	if os.Geteuid() != 0 {
		return
	}
	for _, path := range []string{i.home(), java} {
		if closed := barrier(path); closed != "" {
			i.say("Other users cannot pass through %s. Agents that run as root start engines as other users. Allow it with chmod o+x %s, or choose another --engines-dir.", closed, closed)
			return
		}
	}
}

// barrier returns the topmost directory above a path that other users cannot pass, or "".
func barrier(path string) string {
	closed := ""
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			closed = dir
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}
