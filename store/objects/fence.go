package objects

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// groupOf is the group of the workspace's files; -1 if groups are not used.
func (f *files) groupOf(ws domain.WorkspaceID) int {
	if f.mode&fs.ModeSetgid == 0 {
		return -1
	}
	return int(ws.FileGroup())
}

// detectMode determines whether workspaces can have groups here. Only the kernel's refusal counts
// as no: no other error opens a closed directory.
func (f *files) detectMode(report func(error)) error {
	f.mode = 0o770 | fs.ModeSetgid
	var refusal error
	err := alone(f.root, func() (err error) {
		refusal, err = f.tryGroups()
		return err
	})
	if err == nil && refusal != nil {
		f.mode = 0o777
		report(fmt.Errorf("workspaces have no groups of their own in %s, so a task of another workspace on this machine can open a table's files if it learns their path: %w; "+
			"give the server CAP_CHOWN, a file system with groups and, in a container, all group ids up to %d", f.root.Name(), refusal, domain.LastFileGroup))
	}
	return err
}

func (f *files) tryGroups() (refusal, err error) {
	if err := f.makeNew(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.root.Remove(newDir)) }()
	for _, group := range []int{domain.FirstFileGroup, domain.LastFileGroup} {
		err := f.root.Lchown(newDir, -1, group)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
			return err, nil
		}
		if err := errors.Join(err, f.root.Chmod(newDir, f.mode)); err != nil {
			return nil, err
		}
		info, err := f.root.Lstat(newDir)
		if err != nil {
			return nil, err
		}
		if !f.isOpen(info, group) {
			return fmt.Errorf("the file system does not keep the group %d and the mode %v of a directory", group, f.mode), nil
		}
	}
	return nil, nil
}

// isOpen reports whether the directory has the wanted group and mode.
func (f *files) isOpen(info fs.FileInfo, group int) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && (group < 0 || is.Gid == uint32(group)) && info.Mode()&(fs.ModePerm|fs.ModeSetgid) == f.mode
}
