package lake

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// fencedIO reads files for iceberg-go, and only under the workspace's prefix, whatever manifests
// name.
type fencedIO struct {
	ctx   context.Context //nolint:containedctx // iceberg-go's interface has none
	files Files
	fence fence
}

var errReadOnly = errors.New("the catalog does not write through this")

// Open implements io.IO of iceberg-go.
func (f fencedIO) Open(name string) (iceio.File, error) {
	uri, err := f.fence.canonical("path", name)
	if err != nil {
		return nil, err
	}
	file, err := f.files.Open(f.ctx, uri)
	if err != nil {
		return nil, err
	}
	return fencedFile{file, path.Base(uri)}, nil
}

// Remove implements io.IO of iceberg-go.
func (f fencedIO) Remove(string) error { return errReadOnly }

// fencedFile is an open file in the form that iceberg-go needs.
type fencedFile struct {
	File
	name string
}

// Stat implements fs.File.
func (f fencedFile) Stat() (fs.FileInfo, error) { return fileInfo{f}, nil }

// fileInfo describes an open file.
type fileInfo struct{ of fencedFile }

func (i fileInfo) Name() string       { return i.of.name }
func (i fileInfo) Size() int64        { return i.of.Size() }
func (i fileInfo) Mode() fs.FileMode  { return 0o400 }
func (i fileInfo) ModTime() time.Time { return i.of.Modified() }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return nil }

// opened is a table with its metadata and file access.
type opened struct {
	row  Table
	meta table.Metadata
	io   fencedIO
}

// open reads a table's row and metadata; CodeNotFound, and CodeInvalid for a view.
func (c *Catalog) open(ctx context.Context, s domain.Scope, id domain.TableID) (opened, error) {
	row, err := c.TableByID(ctx, s, id)
	if err != nil {
		return opened{}, err
	}
	return c.openRow(ctx, s, row)
}

func (c *Catalog) openRow(ctx context.Context, s domain.Scope, row Table) (opened, error) {
	if row.Kind != KindTable {
		return opened{}, domain.Invalid("id", "%s is a view; only tables have this.", row.Name)
	}
	d, err := c.document(ctx, stateOf(row))
	if err != nil {
		return opened{}, err
	}
	meta, err := d.metadata()
	if err != nil {
		return opened{}, damaged(row, err)
	}
	return opened{row: row, meta: meta, io: fencedIO{ctx: ctx, files: c.Files, fence: c.fence(s)}}, nil
}

// damaged is the error for table files that cannot be read.
func damaged(row Table, err error) error {
	if e, ours := errors.AsType[*domain.Error](err); ours {
		return e
	}
	return domain.Errorf(domain.CodeInvalid, "The files of the table %s cannot be read: %s.", row.Name, err).Because(err)
}
