// Package objects keeps blobs in an object store: files, so far; other kinds are refused by name.
package objects

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"

	"github.com/millpond/millpond/domain"
)

// Objects is a bucket. It implements domain.Objects.
type Objects struct {
	bucket *blob.Bucket
}

var _ domain.Objects = (*Objects)(nil)

// Open opens the bucket that the URL names: file:///path, whose directory is made 0700 where it is not there.
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
	return &Objects{bucket: b}, nil
}

// Close lets the bucket go.
func (o *Objects) Close() error { return o.bucket.Close() }

// Put implements domain.Objects. An object is there whole or not at all.
func (o *Objects) Put(ctx context.Context, key string, data []byte) error {
	return o.bucket.WriteAll(ctx, key, data, nil)
}

// Get implements domain.Objects.
func (o *Objects) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := o.bucket.ReadAll(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, domain.Errorf(domain.CodeNotFound, "The object %q is not in the storage.", key).Because(err)
	}
	return b, err
}
