package install

import (
	"archive/tar"
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// interruptible reads until ctx ends.
type interruptible struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// open opens an archive and verifies that it is the pinned one, byte for byte.
func (i *installer) open(ctx context.Context, path, what string, pin release) (_ *os.File, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the archive of %s cannot be read: %w", what, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != pin.size {
		return nil, fmt.Errorf("%s has %d bytes, and the archive of %s has %d: it is another file, or incomplete; fetch it again", path, info.Size(), what, pin.size)
	}
	i.say("Checking the checksum of %s (%s).", path, size(pin.size))
	sum := sha256.New()
	if _, err := io.Copy(sum, interruptible{ctx, f}); err != nil {
		return nil, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != pin.sha256 {
		return nil, fmt.Errorf("%s is not the archive of %s: its SHA-256 is %s, and not %s; nothing was unpacked; fetch it again from a source that you trust", path, what, got, pin.sha256)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// unpackTar unpacks the single directory in a tar.gz to dir. Links between its files become hard
// links.
func unpackTar(from io.Reader, dir string) error {
	z, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	root, err := newRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(z)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, h, archive); err != nil {
			return err
		}
	}
}

// newRoot creates a directory and confines writes to it, whatever names and links occur.
func newRoot(dir string) (*os.Root, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

func unpackEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	name, err := inner(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		return unpackFile(root, name, content, h.FileInfo().Mode()&0o111 != 0)
	case tar.TypeLink:
		target, err := inner(h.Linkname)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return root.Link(target, name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("the entry %q is of the kind %q, and not a directory, a file or a link to one", h.Name, h.Typeflag)
}

// inner returns the name of an entry below the archive's single directory.
func inner(name string) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("the entry %q leads out of the archive", name)
	}
	_, below, _ := strings.Cut(path.Clean(name), "/")
	return path.Clean(below), nil
}

func unpackFile(root *os.Root, name string, content io.Reader, executable bool) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// trim removes the directories of a tree that are not kept. It runs after unpacking, because kept
// files may be links to others.
func trim(tree string, keep []string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		leadsTo := func(kept string) bool { return strings.HasPrefix(kept, name+"/") }
		switch {
		case err != nil || name == "." || slices.ContainsFunc(keep, leadsTo):
			return err
		case slices.Contains(keep, name):
			return fs.SkipDir
		case !d.IsDir() && path.Dir(name) == ".": // a notice or a licence
			return nil
		}
		if err := root.RemoveAll(name); err != nil || !d.IsDir() {
			return err
		}
		return fs.SkipDir
	})
}

// unpackZip unpacks a directory of a zip to dir. Zips of wheels have no file modes, so executable
// says which files are programs.
func unpackZip(from io.ReaderAt, length int64, below, dir string, executable func(name string) bool) error {
	z, err := zip.NewReader(from, length)
	if err != nil {
		return err
	}
	root, err := newRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, below+"/")
		if !ok || strings.HasSuffix(name, "/") {
			continue
		}
		if !filepath.IsLocal(name) || !f.Mode().IsRegular() {
			return fmt.Errorf("the entry %q leads out of the archive, or is not a file", f.Name)
		}
		if err := unpackZipped(root, f, name, executable(name)); err != nil {
			return err
		}
	}
	return nil
}

func unpackZipped(root *os.Root, f *zip.File, name string, executable bool) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	return unpackFile(root, name, content, executable)
}
