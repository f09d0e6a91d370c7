// Package installtest provides tests with the real Trino, which `make trino` installs in the user's
// cache.
package installtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/engine/install"
)

// Dir is the directory of the tests' engines: MILLPOND_ENGINES_DIR, or millpond/engines in the
// user's cache.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("MILLPOND_ENGINES_DIR"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "millpond", "engines")
}

// Trino returns the tests' installation. It fails the test if there is none; tests are never
// skipped.
func Trino(t testing.TB) install.Trino {
	t.Helper()
	return find(t, Dir(t))
}

// Shared returns a copy of Trino that every user can reach, because root's cache is closed to
// others. Tests run it as another user. It is removed with the test.
func Shared(t testing.TB) install.Trino {
	t.Helper()
	found := Trino(t)
	if os.Geteuid() != 0 {
		return found
	}
	engines := filepath.Dir(found.Dir)
	shared, err := os.MkdirTemp("", "millpond-engines-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	err = errors.Join(os.Chmod(shared, 0o755), link(found.Dir, filepath.Join(shared, filepath.Base(found.Dir))))
	if below, ok := strings.CutPrefix(found.Java, engines+string(filepath.Separator)); ok {
		java, _, _ := strings.Cut(below, string(filepath.Separator))
		err = errors.Join(err, link(filepath.Join(engines, java), filepath.Join(shared, java)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return find(t, shared)
}

func find(t testing.TB, dir string) install.Trino {
	t.Helper()
	found, err := install.FindTrino(dir)
	if err != nil {
		t.Fatalf("run make trino: %v", err)
	}
	return found
}

// link copies a tree by hard links if the file system supports them.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return errors.Join(os.Mkdir(target, 0o755), os.Chmod(target, 0o755))
		}
		err = os.Link(path, target)
		if errors.Is(err, unix.EXDEV) {
			return copyFile(path, target)
		}
		return err
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Chmod(info.Mode().Perm()), target.Close())
}
