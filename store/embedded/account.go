package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that PostgreSQL runs as. PostgreSQL refuses to run as root, so under root it
// is another user; else it is the server's own.
type account struct {
	name     string
	uid, gid int
	switched bool
}

// accountFor returns the account for the cluster at data: its owner when it exists, else the system
// user postgres, else nobody.
func accountFor(data string) (account, error) {
	owner, found, err := ownerOf(data)
	if err != nil {
		return account{}, err
	}
	self := os.Geteuid()
	switch {
	case !found:
		return newAccount()
	case self != 0 && owner.uid != self:
		return account{}, fmt.Errorf("the database in %s belongs to the user %s; "+
			"start the server as that user or as root", data, owner.name)
	case self != 0:
		return newAccount()
	case owner.uid == 0:
		return account{}, fmt.Errorf("the database in %s belongs to root, and PostgreSQL refuses to run as root; "+
			"give it to another user, for example with: chown -R postgres %s", data, data)
	}
	return owner, nil
}

func newAccount() (account, error) {
	if self := os.Geteuid(); self != 0 {
		return account{name: nameOf(self), uid: self, gid: os.Getegid()}, nil
	}
	return systemAccount()
}

func ownerOf(path string) (account, bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return account{}, false, nil
	}
	if err != nil {
		return account{}, false, fmt.Errorf("the database directory: %w", err)
	}
	uid, gid := owners(info)
	return account{name: nameOf(uid), uid: uid, gid: gid, switched: true}, true, nil
}

func systemAccount() (account, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uid, gid: gid, switched: true}, nil
	}
	return account{}, errors.New("PostgreSQL refuses to run as root, and this machine has neither a user postgres " +
		"nor a user nobody; create one, for example with: useradd --system postgres")
}

func nameOf(uid int) string {
	id := strconv.Itoa(uid)
	u, err := user.LookupId(id)
	if err != nil {
		return id
	}
	return u.Username
}

func owners(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// fileID distinguishes a directory from its copies, by device and inode.
func fileID(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s: the file system gives no inode", path)
	}
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), nil
}

// attr runs a process as the account, in its own session: neither Ctrl+C nor the server's death
// reaches it.
func (a account) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// own gives a file or directory to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to the user %s, which PostgreSQL runs as: %w", path, a.name, err)
	}
	return nil
}

// enter makes dir accessible to the account. dir is opened to the account's group only. A closed
// directory above it is an error.
func (a account) enter(dir string) error {
	if !a.switched {
		return nil
	}
	if closed, mode := a.barred(filepath.Dir(dir)); closed != "" {
		return fmt.Errorf("the server runs as root, so PostgreSQL runs as the user %s, which may not enter %s (mode %04o) "+
			"on the way to the data directory %s; choose a --data-dir under a directory open to all, such as /var/lib/millpond, "+
			"or allow it with: chmod o+x %s", a.name, closed, mode, dir, closed)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	if a.mayEnter(info) {
		return nil
	}
	if err := os.Chown(dir, -1, a.gid); err != nil {
		return fmt.Errorf("open the data directory to the user %s, which PostgreSQL runs as: %w", a.name, err)
	}
	if err := os.Chmod(dir, info.Mode().Perm()|0o010); err != nil {
		return fmt.Errorf("open the data directory to the user %s, which PostgreSQL runs as: %w", a.name, err)
	}
	return nil
}

// barred returns the outermost directory on the way to path, path included, that the account may
// not enter.
func (a account) barred(path string) (string, fs.FileMode) {
	if parent := filepath.Dir(path); parent != path {
		if closed, mode := a.barred(parent); closed != "" {
			return closed, mode
		}
	}
	info, err := os.Stat(path)
	if err != nil || a.mayEnter(info) {
		return "", 0
	}
	return path, info.Mode().Perm()
}

func (a account) mayEnter(info fs.FileInfo) bool {
	uid, gid := owners(info)
	mode := info.Mode().Perm()
	switch {
	case uid == a.uid:
		return mode&0o100 != 0
	case gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
