// Package objects stores blobs in an object store. Only files are supported so far; other kinds are
// refused by name.
package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// Objects is a bucket. It implements domain.Objects.
type Objects struct {
	bucket *blob.Bucket
	root   string // directory of a bucket of files
}

var _ domain.Objects = (*Objects)(nil)

// Open opens the bucket that the URL names: file:///path. A missing directory is created with mode
// 0700.
func Open(address string) (*Objects, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the storage's address: %w", err)
	}
	if u.Scheme != "file" || u.Host != "" || !filepath.IsAbs(u.Path) {
		return nil, fmt.Errorf("the storage %q is not of a kind this version has; use file:///an/absolute/path", address)
	}
	if err := os.MkdirAll(u.Path, 0o700); err != nil {
		return nil, fmt.Errorf("the storage: %w", err)
	}
	b, err := fileblob.OpenBucket(u.Path, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite, DirFileMode: 0o700})
	if err != nil {
		return nil, fmt.Errorf("the storage: %w", err)
	}
	root, err := filepath.Abs(u.Path)
	if err == nil {
		err = syncPath(filepath.Dir(root))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the storage: %w", err), b.Close())
	}
	return &Objects{bucket: b, root: root}, nil
}

// minRoom is the free space below which the storage's disk counts as full, in bytes.
const minRoom = 1 << 20

// Full reports whether the disk of the storage has no room left.
func (o *Objects) Full() (bool, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(o.root, &disk); err != nil {
		return false, err
	}
	return disk.Bavail*uint64(disk.Bsize) < minRoom, nil
}

// Close closes the bucket.
func (o *Objects) Close() error { return o.bucket.Close() }

// Put implements domain.Objects. An object exists whole or not at all, and survives a power cut
// once Put has returned without error.
func (o *Objects) Put(ctx context.Context, key string, data []byte) error {
	if err := o.write(ctx, key, data); err != nil {
		return err
	}
	path, err := o.path(ctx, key)
	if err != nil {
		return err
	}
	if err := syncPath(path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); strings.HasPrefix(dir, o.root); dir = filepath.Dir(dir) {
		if err := syncPath(dir); err != nil {
			return err
		}
	}
	return nil
}

// write is WriteAll without its two MD5 sums of the data, which a directory does not store.
func (o *Objects) write(ctx context.Context, key string, data []byte) error {
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	w, err := o.bucket.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return err
	}
	if _, err = w.Write(data); err != nil {
		abandon()
	}
	return errors.Join(err, w.Close())
}

// path is the path of the object's file, which the driver chooses.
func (o *Objects) path(ctx context.Context, key string) (path string, err error) {
	r, err := o.bucket.NewReader(ctx, key, &blob.ReaderOptions{BeforeRead: func(as func(any) bool) error {
		var f *os.File
		if !as(&f) {
			return fmt.Errorf("the object %q is not a file", key)
		}
		path = f.Name()
		return nil
	}})
	if err != nil {
		return "", err
	}
	return path, r.Close()
}

// syncPath waits until the file's bytes, or the directory's names, are on disk.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements domain.Objects.
func (o *Objects) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := o.bucket.ReadAll(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, domain.Errorf(domain.CodeNotFound, "The object %q is not in the storage.", key).Because(err)
	}
	return b, err
}

// Delete implements domain.Objects.
func (o *Objects) Delete(ctx context.Context, key string) error {
	if err := o.bucket.Delete(ctx, key); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}
