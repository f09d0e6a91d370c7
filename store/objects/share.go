package objects

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// keyFile holds the key of the workspaces' directory names, and lies beside them. The names are in
// the addresses of all tables, and a new key would change them. Another replica, or a restored
// backup, uses the same file.
const keyFile = ".names"

const keyBytes = 32

// dirNames names the directories of workspaces. With a key nobody can guess the names. Where
// workspaces have no groups, only that keeps other users out.
type dirNames struct{ key []byte }

// openDirNames reads the key. For a shared directory without workspaces it creates one. A directory
// that was not shared at first has no key.
func openDirNames(root *os.Root, shared bool) (n dirNames, err error) {
	err = alone(root, func() error {
		n.key, err = root.ReadFile(keyFile)
		if errors.Is(err, fs.ErrNotExist) {
			n.key, err = nil, nil
			if shared {
				n.key, err = makeKey(root)
			}
		}
		return err
	})
	if err == nil && n.key != nil && len(n.key) != keyBytes {
		err = fmt.Errorf("%s/%s has %d bytes and not %d: restore it, since the names of all directories there depend on it", root.Name(), keyFile, len(n.key), keyBytes)
	}
	return n, err
}

// alone runs do while no other server does so.
func alone(root *os.Root, do func() error) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close() // unlocks
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for the lock of %s: %w", root.Name(), err)
	}
	return do()
}

func makeKey(root *os.Root) ([]byte, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(entries, fs.DirEntry.IsDir) {
		return nil, fmt.Errorf("%s has directories of workspaces, but no file %s on which their names depend: restore the file or, "+
			"if a server that was not root created them, run the server as that user", root.Name(), keyFile)
	}
	const part = keyFile + ".part"
	if err := ignoreMissing(root.Remove(part)); err != nil {
		return nil, err
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	if err := writeNew(root, part, key); err != nil {
		return nil, err
	}
	return key, errors.Join(root.Rename(part, keyFile), syncIn(root, "."))
}

func writeNew(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// of returns the name of the workspace's directory.
func (n dirNames) of(ws domain.WorkspaceID) string {
	if n.key == nil {
		return string(ws)
	}
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(ws))
	return string(ws) + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
}

// workspace returns the workspace of a directory; false if it belongs to no workspace.
func (n dirNames) workspace(name string) (domain.WorkspaceID, bool) {
	id := name
	if i := strings.LastIndexByte(name, '-'); n.key != nil && i >= 0 {
		id = name[:i]
	}
	ws := domain.WorkspaceID(id)
	return ws, n.of(ws) == name
}

// The kernel's form of an access control list: see linux/posix_acl_xattr.h.
const (
	aclDefault = "system.posix_acl_default"
	aclVersion = 2
	aclUser    = 0x01
	aclGroup   = 0x04
	aclOther   = 0x20
	aclAll     = 7 // read, write, execute
	aclNobody  = 0xffffffff
)

// list is the access control list that gives owner and group all rights, and others those of the
// mode. It replaces the creator's umask: files and directories below get the mode that their
// creator asks for.
func list(mode fs.FileMode) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct {
		tag     uint16
		allowed fs.FileMode
	}{{aclUser, mode >> 6}, {aclGroup, mode >> 3}, {aclOther, mode}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, uint16(e.allowed&aclAll))
		b = binary.LittleEndian.AppendUint32(b, aclNobody)
	}
	return b
}

// listOf is the default access control list of the directory; nil if it has no such list. ENOTSUP
// if the file system does not support lists.
func listOf(root *os.Root, name string) ([]byte, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b := make([]byte, 2*len(list(0)))
	n, err := unix.Fgetxattr(int(d.Fd()), aclDefault, b)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ERANGE) { // none, or another one
		return nil, nil
	}
	return b[:max(n, 0)], err
}

// openDir opens the directory to the workspace's users: the processes of the group, or everybody
// where there are no groups.
func (f *files) openDir(root *os.Root, name string, group int) error {
	d, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Chown(-1, group); err != nil {
		return err
	}
	if f.lists {
		if err := unix.Fsetxattr(int(d.Fd()), aclDefault, list(f.mode), 0); err != nil {
			return fmt.Errorf("setting the access control list of %s: %w", d.Name(), err)
		}
	}
	return d.Chmod(f.mode)
}

// openOld does the same for a file. A file with several names stays unchanged, since one of them
// may be elsewhere.
func (f *files) openOld(root *os.Root, name string, group int) error {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	var is unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink > 1 {
		return err
	}
	return errors.Join(file.Chown(-1, group), file.Chmod(f.mode.Perm()&0o666))
}

const newDir = ".part"

// makeOwn creates a workspace's directory atomically, with its final mode and group.
func (f *files) makeOwn(name string) error {
	ws, ok := f.names.workspace(name)
	if !ok {
		return fmt.Errorf("%q is no workspace's directory", name)
	}
	return alone(f.root, func() error {
		if _, err := f.root.Lstat(name); err == nil { // another one was first
			return nil
		}
		if err := f.makeNew(); err != nil {
			return err
		}
		if err := f.openDir(f.root, newDir, f.groupOf(ws)); err != nil {
			return err
		}
		return errors.Join(f.root.Rename(newDir, name), syncIn(f.root, "."))
	})
}

func (f *files) makeNew() error {
	if err := ignoreMissing(f.root.Remove(newDir)); err != nil {
		return err
	}
	return f.root.Mkdir(newDir, 0o700)
}

// share sets up the access of other users, here and in existing workspaces. A copy of the directory
// may have lost modes, groups and access control lists.
func (f *files) share(o LakeOptions) error {
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if err := f.detectMode(o.Report); err != nil {
		return err
	}
	_, err := listOf(f.root, ".")
	if f.lists = err == nil; !f.lists && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	if !f.lists {
		o.Report(fmt.Errorf("the file system of %s has no POSIX access control lists: in a directory that a task created there, other tasks of the workspace cannot write unless its umask lets them", f.root.Name()))
	}
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ws, ours := f.names.workspace(e.Name()); ours && e.IsDir() {
			if err := f.reopen(e.Name(), f.groupOf(ws)); err != nil {
				return err
			}
		}
	}
	return f.root.Chmod(".", 0o711) // they pass through it to their own directory
}

// reopen opens a workspace's directory, with all that is in it, if its access is not as wanted.
func (f *files) reopen(name string, group int) error {
	info, err := f.root.Stat(name)
	if err != nil {
		return err
	}
	var found []byte
	if f.lists {
		if found, err = listOf(f.root, name); err != nil {
			return err
		}
	}
	if f.isOpen(info, group) && (!f.lists || bytes.Equal(found, list(f.mode))) {
		return nil
	}
	ws, err := f.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer ws.Close()
	// The directory is closed meanwhile, and stays closed if this is interrupted.
	if err := f.root.Chmod(name, 0o700); err != nil {
		return err
	}
	var dirs []string
	err = fs.WalkDir(ws.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return ignoreMissing(err)
		case e.IsDir():
			dirs = append(dirs, name)
			return nil
		case e.Type().IsRegular():
			return ignoreMissing(f.openOld(ws, name, group))
		}
		return nil
	})
	for i := len(dirs) - 1; i > 0 && err == nil; i-- {
		err = ignoreMissing(f.openDir(ws, dirs[i], group))
	}
	if err != nil {
		return err
	}
	return f.openDir(ws, ".", group)
}
