package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Tasks of one workspace share a directory, in sharedDir of the agent's directory. A task's files
// are open to the other tasks, and stay after its end. The directory is bounded: while it holds
// more, only tasks with cleanVariable start.
const (
	sharedDir      = "shared"
	sharedVariable = "MILLPOND_SHARED"
	cleanVariable  = "CLEAN_MILLPOND_SHARED"
	sharedFiles    = 100_000
)

// openShared creates or reopens the workspace's directory. If tasks have their own users, the
// directory belongs to the group, and a task's files are open to the others whatever its umask.
func openShared(dir string, group uint32, users bool) (string, error) {
	path := filepath.Join(dir, sharedDir, strconv.FormatUint(uint64(group), 10))
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	if !users {
		return path, nil
	}
	if err := os.Chmod(filepath.Dir(path), 0o711); err != nil {
		return "", err
	}
	err := unix.Setxattr(path, "system.posix_acl_default", groupACL(), 0)
	if err != nil && !errors.Is(err, unix.ENOTSUP) { // without access control lists, a task's umask decides
		return "", fmt.Errorf("setting the access control list of %s: %w", path, err)
	}
	return path, errors.Join(os.Chown(path, 0, int(group)), os.Chmod(path, 0o770|fs.ModeSetgid))
}

// groupACL is the binary form of an access control list, see linux/posix_acl_xattr.h. The owner and
// the group have all rights, others have no rights.
func groupACL() []byte {
	const version, user, group, other, nobody = 2, 0x01, 0x04, 0x20, 0xffffffff
	b := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range [3][2]uint16{{user, 7}, {group, 7}, {other, 0}} {
		b = binary.LittleEndian.AppendUint16(b, e[0])
		b = binary.LittleEndian.AppendUint16(b, e[1])
		b = binary.LittleEndian.AppendUint32(b, nobody)
	}
	return b
}

// shareWith sets the directory that tasks share to the workspace's directory. It is called with mu
// held.
func (w *worker) shareWith(group uint32) {
	w.shared = ""
	if group == 0 || w.users != nil && len(w.groups) == 0 {
		return
	}
	path, err := openShared(w.options.Dir, group, w.users != nil)
	if err != nil {
		w.log.Warn("tasks have no shared directory", "error", err)
		return
	}
	w.shared = path
	w.measureShared()
}

func (w *worker) sharedPath() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shared
}

// checkShared refuses an attempt while the shared directory is over its limits, unless
// cleanVariable is set.
func (w *worker) checkShared(env map[string]string) error {
	path := w.sharedPath()
	if path == "" || env[cleanVariable] == "true" || !w.sharedFull.Load() {
		return nil
	}
	full := w.overfull(path) // files may have been removed since
	w.sharedFull.Store(full)
	if !full {
		return nil
	}
	return invalid("$%s is full (its limit is %d bytes or %d files). Remove files from it: a task with %s=true in its environment starts although it is full. "+
		"The directory is %s on the agent's machine.", sharedVariable, w.options.SharedLimit, sharedFiles, cleanVariable, path)
}

// measureShared requests a measurement of the shared directory.
func (w *worker) measureShared() {
	select {
	case w.measure <- struct{}{}:
	default:
	}
}

// watchShared measures the shared directory on request, for at most a tenth of the time.
func (w *worker) watchShared() {
	for {
		select {
		case <-w.measure:
		case <-w.ctx.Done():
			return
		}
		begun := time.Now()
		if path := w.sharedPath(); path != "" {
			w.sharedFull.Store(w.overfull(path))
		}
		select {
		case <-time.After(10 * time.Since(begun)):
		case <-w.ctx.Done():
			return
		}
	}
}

var errOverfull = errors.New("more than it may hold")

// overfull reports whether a directory exceeds its limits. It stops counting there.
func (w *worker) overfull(path string) bool {
	var bytes, files int64
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		var is fs.FileInfo
		if is, err = e.Info(); err != nil {
			return nil
		}
		bytes, files = bytes+is.Size(), files+1
		if bytes > w.options.SharedLimit || files > sharedFiles {
			return errOverfull
		}
		return nil
	})
	return errors.Is(err, errOverfull)
}
