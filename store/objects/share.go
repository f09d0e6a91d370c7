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

// keyFile, beside the workspaces' directories, keys their names: they are in the addresses of all tables, and a new key would lose these. Whoever has the
// directory, as another replica or a restored backup, has the names.
const keyFile = ".names"

const keyBytes = 32

// dirNames names the directories of workspaces. With a key nobody guesses them: whoever knows the name is let in, as the users of a workspace's tasks and
// engines are ever others.
type dirNames struct{ key []byte }

// openDirNames reads the key. Where the directory is to be shared and there is no workspace yet, it makes one; a directory that was not shared at first has none.
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

// alone does what no other server is to do at the same time.
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
		return nil, fmt.Errorf("%s has directories of workspaces, but no file %s on which their names depend: restore that, or, "+
			"where a server that was not root has made them, go on as its user", root.Name(), keyFile)
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

// of is the name of the workspace's directory.
func (n dirNames) of(ws domain.WorkspaceID) string {
	if n.key == nil {
		return string(ws)
	}
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(ws))
	return string(ws) + "-" + hex.EncodeToString(mac.Sum(nil)[:16])
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

// openToAll is the list by which everybody may do everything.
func openToAll() []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, tag := range []uint16{aclUser, aclGroup, aclOther} {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, aclAll)
		b = binary.LittleEndian.AppendUint32(b, aclNobody)
	}
	return b
}

// inheritOpen makes what will be made in the directory, and below it, as open as its maker asks for, whatever the maker's umask. ENOTSUP where the
// file system has no access control lists.
func inheritOpen(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fsetxattr(int(d.Fd()), aclDefault, openToAll(), 0), d.Close())
}

// listOf is the list that what is made in the directory gets; nil where it has none. ENOTSUP where the file system has no access control lists.
func listOf(root *os.Root, name string) ([]byte, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list := make([]byte, 2*len(openToAll()))
	n, err := unix.Fgetxattr(int(d.Fd()), aclDefault, list)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ERANGE) { // none, or another one
		return nil, nil
	}
	return list[:max(n, 0)], err
}

// openDir lets everybody who gets to the directory work in it.
func (f *files) openDir(root *os.Root, name string) error {
	if f.lists {
		if err := inheritOpen(root, name); err != nil {
			return err
		}
	}
	return root.Chmod(name, f.mode)
}

// makeOwn makes a workspace's directory: it is there as it is to be, or not at all.
func (f *files) makeOwn(name string) error {
	return alone(f.root, func() error {
		if _, err := f.root.Lstat(name); err == nil { // another one was first
			return nil
		}
		const part = ".part"
		if err := ignoreMissing(f.root.Remove(part)); err != nil {
			return err
		}
		if err := f.root.Mkdir(part, 0o700); err != nil {
			return err
		}
		if err := f.openDir(f.root, part); err != nil {
			return err
		}
		return errors.Join(f.root.Rename(part, name), syncIn(f.root, "."))
	})
}

// share settles how others are let in, here and in the workspaces that are there. A copy of the directory may have lost modes and access control
// lists.
func (f *files) share(o LakeOptions) error {
	f.mode = 0o777
	_, err := listOf(f.root, ".")
	if f.lists = err == nil; !f.lists && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	if !f.lists && o.Report != nil {
		o.Report(fmt.Errorf("the file system of %s has no POSIX access control lists: in a directory that a task has made there, other tasks of the workspace cannot write unless its umask lets them", f.root.Name()))
	}
	workspaces, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, ws := range workspaces {
		if ws.IsDir() && !strings.HasPrefix(ws.Name(), ".") {
			if err := f.reopen(ws.Name()); err != nil {
				return err
			}
		}
	}
	return f.root.Chmod(".", 0o711) // they pass through it to their own directory
}

// reopen opens a workspace's directory, with all that is in it, where it is not open.
func (f *files) reopen(name string) error {
	info, err := f.root.Stat(name)
	if err != nil {
		return err
	}
	var list []byte
	if f.lists {
		if list, err = listOf(f.root, name); err != nil {
			return err
		}
	}
	if info.Mode().Perm() == f.mode && (!f.lists || bytes.Equal(list, openToAll())) {
		return nil
	}
	ws, err := f.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer ws.Close()
	var dirs []string // the workspace's own comes last: while it is not open, not all was done
	err = fs.WalkDir(ws.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			dirs = append(dirs, name)
			return nil
		case e.Type().IsRegular():
			return ws.Chmod(name, f.mode&0o666)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = f.openDir(ws, dirs[i])
	}
	return err
}
