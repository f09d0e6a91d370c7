package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile    = ".lock"
	tempPrefix  = ".tmp-"
	downloadDir = ".download"
)

// makeDir makes the directory of engines, which every user may read, on a way that they may pass.
func (i *installer) makeDir() error {
	err := makePath(filepath.Dir(i.Dir), 0o711)
	if err == nil {
		err = makePath(i.Dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("the directory of engines cannot be made; choose another with --engines-dir: %w", err)
	}
	return nil
}

// makePath makes directories of that mode, whatever the umask. What is there keeps its own: it may be more than ours.
func makePath(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := makePath(filepath.Dir(dir), mode); err != nil {
		return err
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) { // another has made it meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// lock waits until nobody else installs here.
func (i *installer) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(i.Dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("nothing can be installed in %s; run this as its owner, or choose another with --engines-dir: %w", i.Dir, err)
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

// sweep removes what an interrupted installation has left, but for a part of the pinned download. The caller holds the lock.
func (i *installer) sweep() error {
	for _, pattern := range []string{tempPrefix + "*", filepath.Join(downloadDir, "*")} {
		left, err := filepath.Glob(filepath.Join(escape(i.Dir), pattern))
		if err != nil {
			return err
		}
		for _, path := range left {
			if path == i.part() {
				continue
			}
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("what an interrupted installation has left cannot be removed: %w", err)
			}
		}
	}
	return nil
}

// escape makes a path a pattern that is met by nothing else.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// room refuses what the disk does not hold.
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

// place records what was unpacked into tree, and moves it to its home at once. What was there before goes into work.
func (i *installer) place(tree, home, work string, r record) (u usage, err error) {
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

// flush brings what was written to disk, so that no crash of the machine leaves a name without its content.
func (i *installer) flush() error {
	d, err := os.Open(i.Dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// openToAll lets every user pass the directories, whatever the umask was. Files have their modes from unpacking.
func openToAll(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// warn tells root where other users, as which it runs engines, cannot pass to what was installed.
func (i *installer) warn(java string) {
	if os.Geteuid() != 0 {
		return
	}
	for _, path := range []string{i.home(), java} {
		if closed := barrier(path); closed != "" {
			i.say("Other users cannot pass through %s, and engines run as users of their own where agents are root: allow it with chmod o+x %s, or choose another --engines-dir.", closed, closed)
			return
		}
	}
}

// barrier is the first directory on the way to a path that other users cannot pass.
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
