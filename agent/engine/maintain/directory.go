package maintain

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
)

// directory is a backend of local files. It follows no symbolic link out of its root.
type directory struct{ root *os.Root }

func openDirectory(at string) (*directory, error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace's storage: %w", err)
	}
	return &directory{root}, nil
}

func (d *directory) close() { _ = d.root.Close() }

func (d *directory) open(name string) (iceio.File, error) { return d.root.Open(name) }

// create makes a file with the same mode as DuckDB. The directory decides who may open it.
func (d *directory) create(name string) (iceio.FileWriter, error) {
	if err := d.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	return lasting{f}, nil
}

// lasting is a file that is synced on Close, so that it survives a power failure.
type lasting struct{ *os.File }

// Close implements io.Closer.
func (l lasting) Close() error {
	if err := l.Sync(); err != nil {
		_ = l.File.Close()
		return err
	}
	return l.File.Close()
}

// remove removes a file. It refuses a path with a symbolic link.
func (d *directory) remove(name string) error {
	if err := d.noLink(name); err != nil {
		return err
	}
	return d.root.Remove(name)
}

func (d *directory) noLink(name string) error {
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		of, err := d.root.Lstat(at)
		if err != nil {
			return err
		}
		if of.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link", at)
		}
	}
	return nil
}

// walk calls each for the files below a directory. It skips and does not follow links.
func (d *directory) walk(dir string, each func(name string, of fs.FileInfo) error) error {
	dir = strings.TrimSuffix(dir, "/")
	if err := d.noLink(dir); err != nil {
		return err
	}
	return fs.WalkDir(d.root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		of, err := entry.Info()
		if err != nil {
			return err
		}
		return each(name, of)
	})
}
