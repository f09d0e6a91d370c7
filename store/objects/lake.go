package objects

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// LakeOptions are the options of OpenLake. The zero value has the defaults.
type LakeOptions struct {
	// Shared opens the directories of files to other users of this machine: the changing users of a
	// workspace's tasks and engines. A user with the group domain.WorkspaceID.FileGroup can do
	// everything in the workspace's directory, including to files of others. Its name cannot be
	// listed or guessed. If the kernel refuses such groups, every user who knows the name gets in.
	// Without Shared, everything belongs to the server's user alone.
	Shared bool
	// Report receives errors that weaken this protection, such as a file system without groups or
	// access control lists. It may be nil.
	Report func(error)
}

// OpenLake opens the storage of tables that the URL names: file:///path, s3://bucket/prefix,
// gs://bucket/prefix or azblob://container/prefix. Buckets are opened with the credentials in the
// server's environment. s3 accepts the parameters endpoint, region and s3ForcePathStyle. The caller
// closes the Lake.
func OpenLake(ctx context.Context, address string, o LakeOptions) (*Lake, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the storage of tables: %w", err)
	}
	l := &Lake{}
	switch {
	case u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path):
		l.prefix = "file://" + strings.TrimRight(filepath.Clean(u.Path), "/") + "/"
		var f *files
		if f, err = openFiles(filepath.Clean(u.Path), o); err == nil {
			l.storage, l.directory = f, f.names.of
		}
	case u.Scheme == "s3" || u.Scheme == "gs" || u.Scheme == "azblob":
		l.directory = func(ws domain.WorkspaceID) string { return string(ws) }
		l.prefix, l.storage, err = openBucket(ctx, u)
	default:
		return nil, fmt.Errorf("the storage of tables %q is not of a kind this version has; use file:///an/absolute/path, s3://, gs:// or azblob://", address)
	}
	if err != nil {
		return nil, fmt.Errorf("the storage of tables: %w", err)
	}
	return l, nil
}

// Lake stores the files of tables. It implements lake.Files.
type Lake struct {
	prefix    string                          // of all workspaces, with a slash at its end
	directory func(domain.WorkspaceID) string // the directory of one workspace
	storage   storage
}

var _ lake.Files = (*Lake)(nil)

// storage is one kind of storage. Names are relative to the prefix of all workspaces, and begin
// with the workspace's directory.
type storage interface {
	read(ctx context.Context, name string) ([]byte, error)
	write(ctx context.Context, name string, data []byte) error
	remove(ctx context.Context, name string) error
	list(ctx context.Context, dir string, fn func(lake.FileInfo) error) error
	open(ctx context.Context, name string) (lake.File, error)
	straight(name string) error
	makeDirs(name string) error
	removeDirs(name string) error
	access(ctx context.Context) (*lake.S3Access, error)
	close() error
}

// maxWhole bounds a file that is read whole, in bytes.
const maxWhole = 512 << 20

func missingFile(name string, cause error) error {
	return domain.Errorf(domain.CodeNotFound, "The file %q is not in the storage.", name).Because(cause)
}

func tooLarge(name string) error {
	return domain.Errorf(domain.CodeTooLarge, "The file %q has more than %d bytes.", name, maxWhole)
}

// name is the URI relative to the prefix. The catalog has fenced it: only straight paths arrive
// here.
func (l *Lake) name(uri string) (string, error) {
	name, ours := strings.CutPrefix(uri, l.prefix)
	if !ours || !fs.ValidPath(strings.TrimSuffix(name, "/")) || !strings.Contains(name, "/") {
		return "", domain.Errorf(domain.CodeInvalid, "The location %q is not in the storage of tables.", uri)
	}
	return name, nil
}

// Close closes the storage.
func (l *Lake) Close() error { return l.storage.close() }

// Prefix implements lake.Files.
func (l *Lake) Prefix(ws domain.WorkspaceID) string { return l.prefix + l.directory(ws) + "/" }

// Read implements lake.Files.
func (l *Lake) Read(ctx context.Context, uri string) ([]byte, error) {
	name, err := l.name(uri)
	if err != nil {
		return nil, err
	}
	return l.storage.read(ctx, name)
}

// Write implements lake.Files.
func (l *Lake) Write(ctx context.Context, uri string, data []byte) error {
	name, err := l.name(uri)
	if err != nil {
		return err
	}
	return l.storage.write(ctx, name, data)
}

// Delete implements lake.Files.
func (l *Lake) Delete(ctx context.Context, uri string) error {
	name, err := l.name(uri)
	if err != nil {
		return err
	}
	return l.storage.remove(ctx, name)
}

// List implements lake.Files.
func (l *Lake) List(ctx context.Context, uri string, fn func(lake.FileInfo) error) error {
	name, err := l.name(uri)
	if err != nil {
		return err
	}
	return l.storage.list(ctx, name, func(f lake.FileInfo) error {
		f.URI = l.prefix + f.URI
		return fn(f)
	})
}

// Open implements lake.Files.
func (l *Lake) Open(ctx context.Context, uri string) (lake.File, error) {
	name, err := l.name(uri)
	if err != nil {
		return nil, err
	}
	return l.storage.open(ctx, name)
}

// Straight implements lake.Files.
func (l *Lake) Straight(_ context.Context, uri string) error {
	name, err := l.name(uri)
	if err != nil {
		return err
	}
	return l.storage.straight(name)
}

// MakeDirs implements lake.Files.
func (l *Lake) MakeDirs(_ context.Context, uris ...string) error {
	for _, uri := range uris {
		name, err := l.name(uri)
		if err != nil {
			return err
		}
		if err := l.storage.makeDirs(strings.TrimSuffix(name, "/")); err != nil {
			return err
		}
	}
	return nil
}

// RemoveDirs implements lake.Files.
func (l *Lake) RemoveDirs(_ context.Context, uri string) error {
	name, err := l.name(uri)
	if err != nil {
		return err
	}
	return l.storage.removeDirs(strings.TrimSuffix(name, "/"))
}

// Access implements lake.Files.
func (l *Lake) Access(ctx context.Context, ws domain.WorkspaceID) (lake.Access, error) {
	if err := l.storage.makeDirs(l.directory(ws)); err != nil { // an engine is confined to it before it creates the first table
		return lake.Access{}, err
	}
	s3, err := l.storage.access(ctx)
	return lake.Access{Prefix: l.Prefix(ws), S3: s3}, err
}
