package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// files is a directory with one directory for each workspace. No path leads out of a workspace's
// directory, not even a symbolic link: every path is opened from there. Names are used unchanged,
// since engines open the same paths.
type files struct {
	root  *os.Root
	names dirNames
	mode  fs.FileMode // of directories
	lists bool        // files below a workspace's directory get the mode that their creator asks for
}

func openFiles(dir string, o LakeOptions) (_ *files, err error) {
	f := &files{mode: 0o700}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.root.Close()
		}
	}()
	if f.names, err = openDirNames(f.root, o.Shared); err != nil {
		return nil, err
	}
	if o.Shared {
		return f, f.share(o)
	}
	return f, f.root.Chmod(".", 0o700)
}

func (f *files) close() error { return f.root.Close() }

func (f *files) access(context.Context) (*lake.S3Access, error) { return nil, nil }

// in opens the workspace's directory; rest is the name in it. With make, a missing directory is
// created.
func (f *files) in(name string, make bool) (ws *os.Root, rest string, err error) {
	own, rest, _ := strings.Cut(strings.TrimSuffix(name, "/"), "/")
	if rest == "" {
		rest = "."
	}
	ws, err = f.root.OpenRoot(own)
	if errors.Is(err, fs.ErrNotExist) && make {
		if err := f.makeOwn(own); err != nil {
			return nil, "", err
		}
		ws, err = f.root.OpenRoot(own)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", missingFile(name, err)
	}
	if err != nil {
		return nil, "", err
	}
	if err := straight(ws, rest); err != nil {
		return nil, "", errors.Join(err, ws.Close())
	}
	return ws, rest, nil
}

// straight refuses a path through a symbolic link, even one within the workspace: it could lead to
// another table's files.
func straight(ws *os.Root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if err := noLink(ws, dir); err != nil {
			return err
		}
	}
	return nil
}

func noLink(ws *os.Root, name string) error {
	if info, err := ws.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return domain.Errorf(domain.CodeInvalid, "%q is a symbolic link, which is not followed.", name)
	}
	return nil
}

// makeDir durably creates one directory with exactly this mode. An existing one is no error.
func makeDir(root *os.Root, name string, mode fs.FileMode) error {
	err := root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := root.Chmod(name, mode); err != nil {
		return err
	}
	return syncIn(root, path.Dir(name))
}

func makeAll(root *os.Root, name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	if info, err := root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := makeAll(root, path.Dir(name), mode); err != nil {
		return err
	}
	return makeDir(root, name, mode)
}

func syncIn(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *files) makeDirs(name string) error {
	ws, rest, err := f.in(name, true)
	if err != nil {
		return err
	}
	defer ws.Close()
	return makeAll(ws, rest, f.mode)
}

func (f *files) straight(name string) error {
	ws, rest, err := f.in(name, false)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ws.Close()
	return noLink(ws, rest)
}

// openFile opens a regular file. A pipe would block.
func (f *files) openFile(name string) (*os.File, fs.FileInfo, error) {
	ws, rest, err := f.in(name, false)
	if err != nil {
		return nil, nil, err
	}
	defer ws.Close()
	if err := noLink(ws, rest); err != nil {
		return nil, nil, err
	}
	file, err := ws.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, missingFile(name, err)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = domain.Errorf(domain.CodeInvalid, "%q is not a regular file.", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

func (f *files) read(_ context.Context, name string) ([]byte, error) {
	file, info, err := f.openFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > maxWhole {
		return nil, tooLarge(name)
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(file, data)
	return data, err
}

func (f *files) write(_ context.Context, name string, data []byte) error {
	ws, rest, err := f.in(name, true)
	if err != nil {
		return err
	}
	defer ws.Close()
	if err := makeAll(ws, path.Dir(rest), f.mode); err != nil {
		return err
	}
	file, err := ws.OpenFile(rest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return domain.Errorf(domain.CodeConflict, "The file %q is there already.", name).Because(err)
	}
	if err != nil {
		return err
	}
	if err := f.fill(file, data); err != nil {
		return errors.Join(err, ignoreMissing(ws.Remove(rest)))
	}
	return syncIn(ws, path.Dir(rest))
}

// fill writes the data to the new file, syncs it and closes it. The file already has its final
// name, which saves the second disk wait of a rename. A power cut may leave a partial file. Nothing
// names it, since names are unique and unknown until the file is whole, and a partial JSON object
// cannot be parsed.
func (f *files) fill(file *os.File, data []byte) error {
	_, err := file.Write(data)
	return errors.Join(err, file.Chmod(f.mode.Perm()&0o666), file.Sync(), file.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

func (f *files) remove(_ context.Context, name string) error {
	ws, rest, err := f.in(name, false)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ws.Close()
	if info, err := ws.Lstat(rest); err == nil && info.IsDir() {
		return fmt.Errorf("%q is a directory", name)
	}
	return ignoreMissing(ws.Remove(rest))
}

func (f *files) list(ctx context.Context, dir string, fn func(lake.FileInfo) error) error {
	ws, rest, err := f.in(dir, false)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ws.Close()
	own, _, _ := strings.Cut(dir, "/")
	if info, err := ws.Lstat(rest); err != nil || !info.IsDir() {
		return ignoreMissing(err)
	}
	return fs.WalkDir(ws.FS(), rest, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		return fn(lake.FileInfo{URI: own + "/" + name, Size: info.Size(), Modified: info.ModTime().UTC()})
	})
}

func (f *files) open(_ context.Context, name string) (lake.File, error) {
	file, info, err := f.openFile(name)
	if err != nil {
		return nil, err
	}
	return openedFile{file, info}, nil
}

// openedFile is a file on the disk.
type openedFile struct {
	*os.File
	info fs.FileInfo
}

// Size implements lake.File.
func (o openedFile) Size() int64 { return o.info.Size() }

// Modified implements lake.File.
func (o openedFile) Modified() time.Time { return o.info.ModTime().UTC() }

func (f *files) removeDirs(name string) error {
	ws, rest, err := f.in(name, false)
	if domain.IsCode(err, domain.CodeNotFound) || rest == "." {
		return nil
	}
	if err != nil {
		return err
	}
	defer ws.Close()
	if info, err := ws.Lstat(rest); err != nil || !info.IsDir() {
		return ignoreMissing(err)
	}
	var dirs []string
	err = fs.WalkDir(ws.FS(), rest, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, name)
		}
		return ignoreMissing(err)
	})
	for i := len(dirs) - 1; i >= 0; i-- { // the deepest first; directories with files stay
		if gone := ws.Remove(filepath.FromSlash(dirs[i])); gone != nil && !errors.Is(gone, syscall.ENOTEMPTY) && !errors.Is(gone, syscall.EEXIST) {
			err = errors.Join(err, ignoreMissing(gone))
		}
	}
	return err
}
