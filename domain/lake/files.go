package lake

import (
	"context"
	"io"
	"time"

	"github.com/millpond/millpond/domain"
)

// Files is the storage of tables. This package makes every URI canonical and fences it (see fence).
// The storage fences it again, against symbolic links.
type Files interface {
	// Prefix returns the root of a workspace's tables. It is a canonical URI with a slash at its
	// end, such as file:///data/lake/ws_1/ or s3://bucket/lake/ws_1/.
	Prefix(ws domain.WorkspaceID) string
	// Read returns a whole file; CodeNotFound; CodeTooLarge beyond 512 MiB.
	Read(ctx context.Context, uri string) ([]byte, error)
	// Write creates a file that survives a power cut once Write has returned. CodeConflict if the
	// file exists. A crash during Write may leave a partial file, whose name no reader knows.
	Write(ctx context.Context, uri string, data []byte) error
	// Delete removes a file. A missing file is no error.
	Delete(ctx context.Context, uri string) error
	// List calls fn for each file below the URI, which ends with a slash.
	List(ctx context.Context, uri string, fn func(FileInfo) error) error
	// Open opens a file for random reads; CodeNotFound.
	Open(ctx context.Context, uri string) (File, error)
	// Straight refuses with CodeInvalid a path that is a symbolic link, or leads through one. A
	// missing file is no error.
	Straight(ctx context.Context, uri string) error
	// MakeDirs creates the directories, which end with a slash, if the storage has directories.
	// Existing ones are no error.
	MakeDirs(ctx context.Context, uris ...string) error
	// RemoveDirs removes the directory, which ends with a slash, and its subdirectories, except
	// those with files.
	RemoveDirs(ctx context.Context, uri string) error
	// Access returns how an engine reaches the workspace's prefix.
	Access(ctx context.Context, ws domain.WorkspaceID) (Access, error)
}

// FileInfo is one file.
type FileInfo struct {
	URI      string
	Size     int64
	Modified time.Time
}

// File is an open file.
type File interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
	Modified() time.Time
}

// Access tells an engine how to open a storage: Prefix alone for files, with S3 for S3.
type Access struct {
	Prefix string    // as Files.Prefix
	S3     *S3Access // nil for other storages
}

// S3Access opens an S3 bucket.
type S3Access struct {
	Endpoint     string // with its scheme; empty for AWS
	Region       string
	AccessKeyID  string
	SecretKey    string
	SessionToken string
	PathStyle    bool
	Expires      time.Time // of the session; zero if it does not expire
}

// maxRegistered bounds a metadata file that a client registers, in bytes. It is parsed whole, and
// again after leaving the cache.
const maxRegistered = 64 << 20

// registrable reads the metadata file that a client registers, bypassing the cache. NoSuchFile;
// CodeInvalid for a file that is too large. The size is checked before the read.
func (c *Catalog) registrable(ctx context.Context, of state) (*document, error) {
	location := of.location
	file, err := c.Files.Open(ctx, location)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil, failed(NoSuchFile, "The metadata file %s is not there.", location).because(err)
	}
	if err != nil {
		return nil, err
	}
	size := file.Size()
	if err := file.Close(); err != nil {
		return nil, err
	}
	if err := registers(location, size); err != nil {
		return nil, err
	}
	d, err := c.readDocument(ctx, of)
	if err != nil {
		return nil, err
	}
	return d, registers(location, int64(len(d.json)))
}

func registers(location string, size int64) error {
	if size <= maxRegistered {
		return nil
	}
	return domain.Invalid("metadata-location", "The metadata file %s has %d bytes, and at most %d can be registered; expire snapshots with the engine that wrote it, and register the new file.",
		location, size, maxRegistered)
}
