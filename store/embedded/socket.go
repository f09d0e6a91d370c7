package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// socketPort names the socket file; nothing listens on a network port.
const socketPort = "5432"

// socketPathMax is the length of sun_path on the most restrictive system (darwin: 104 bytes with
// the final NUL).
const socketPathMax = 103

// socketDir is the private directory of the cluster's socket.
type socketDir struct {
	name string // in the data directory: the directory itself, or a link to it
	path string
}

// openSocketDir finds or creates the socket's directory for the account. It is in the data
// directory, or a link there names a short one in the temporary directory. In a copy of the data
// directory the link names the original's directory, and is replaced.
func openSocketDir(dir string, a account) (socketDir, error) {
	s := socketDir{name: filepath.Join(dir, "postgres.socket")}
	id, err := fileID(dir)
	if err != nil {
		return s, fmt.Errorf("the socket's directory: %w", err)
	}
	prefix := "millpond-" + id + "-"
	if target, err := os.Readlink(s.name); err == nil {
		if strings.HasPrefix(filepath.Base(target), prefix) && private(target, a) {
			s.path = target
			return s, nil
		}
		if err := os.Remove(s.name); err != nil {
			return s, fmt.Errorf("the socket's directory: %w", err)
		}
	}
	if !fits(s.name) {
		return s, s.elsewhere(prefix, a)
	}
	s.path = s.name
	if err := os.Mkdir(s.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return s, fmt.Errorf("the socket's directory: %w", err)
	}
	if err := errors.Join(a.own(s.path), os.Chmod(s.path, 0o700)); err != nil {
		return s, fmt.Errorf("the socket's directory: %w", err)
	}
	return s, nil
}

func (s *socketDir) elsewhere(prefix string, a account) error {
	for _, base := range []string{os.TempDir(), "/tmp"} {
		if closed, _ := a.barred(base); closed != "" || !fits(filepath.Join(base, prefix+"1234567890")) {
			continue
		}
		path, err := os.MkdirTemp(base, prefix)
		if err != nil {
			continue
		}
		s.path = path
		if err := errors.Join(a.own(path), os.Symlink(path, s.name)); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	}
	return fmt.Errorf("the path %s is too long for a socket, and no short temporary directory can be made; "+
		"choose a shorter --data-dir or set TMPDIR", s.name)
}

// remove deletes a directory outside the data directory. It is empty after a clean stop of
// PostgreSQL.
func (s *socketDir) remove() error {
	if s.path == s.name {
		return nil
	}
	if err := os.RemoveAll(s.path); err != nil {
		return fmt.Errorf("the socket's directory: %w", err)
	}
	if err := os.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the socket's directory: %w", err)
	}
	return nil
}

// fits reports whether a socket can live in dir. A comma separates hosts in a DSN; quotes separate
// words in the configuration.
func fits(dir string) bool {
	return len(dir)+len("/.s.PGSQL."+socketPort) <= socketPathMax && !strings.ContainsAny(dir, ",'\"\\\n")
}

func private(path string, a account) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	uid, _ := owners(info)
	return uid == a.uid
}
