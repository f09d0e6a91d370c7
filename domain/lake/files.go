package lake

import (
	"context"
	"io"
	"time"

	"github.com/millpond/millpond/domain"
)

// Files is where tables lie. Every URI it is given is canonical and fenced (see fence) by this package; it fences files once more, against symbolic links.
type Files interface {
	// Prefix is the root of a workspace's tables as a canonical URI with a slash at its end, such as file:///data/lake/ws_1/ or s3://bucket/lake/ws_1/.
	Prefix(ws domain.WorkspaceID) string
	// Read returns a whole file; CodeNotFound where there is none, CodeTooLarge beyond 512 MiB.
	Read(ctx context.Context, uri string) ([]byte, error)
	// Write makes a file that outlives a power cut once Write has returned. CodeConflict where there is one already. A crash before that may leave a part of it: its
	// name is told to nobody before.
	Write(ctx context.Context, uri string, data []byte) error
	// Delete removes a file; it is no error that there is none.
	Delete(ctx context.Context, uri string) error
	// List calls fn for each file below the URI, which ends with a slash.
	List(ctx context.Context, uri string, fn func(FileInfo) error) error
	// Open opens a file for reading any part of it; CodeNotFound where there is none.
	Open(ctx context.Context, uri string) (File, error)
	// MakeDirs makes the directories, which end with a slash, where the storage has such a thing; it fails for none that is there.
	MakeDirs(ctx context.Context, uris ...string) error
	// RemoveDirs removes the directory, which ends with a slash, and those in it, as far as there is no file in them.
	RemoveDirs(ctx context.Context, uri string) error
	// Access is how an engine reaches the workspace's prefix.
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

// Access is how an engine opens a storage: by its prefix alone for files, with S3 for S3.
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
	Expires      time.Time // of the session; zero where it does not expire
}

// maxRegistered bounds a metadata file that a client registers, in bytes: it is parsed whole, and again whenever it is no longer in memory.
const maxRegistered = 64 << 20

// registrable is the metadata file that a client names to be registered; NoSuchFile, and CodeInvalid for one that is too large. It is looked at before it is read.
func (c *Catalog) registrable(ctx context.Context, location string) (*document, error) {
	if d := c.cache.get(location); d != nil {
		return d, registers(location, int64(len(d.json)))
	}
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
	d, err := c.document(ctx, location)
	if err != nil {
		return nil, err
	}
	return d, registers(location, int64(len(d.json)))
}

func registers(location string, size int64) error {
	if size <= maxRegistered {
		return nil
	}
	return domain.Invalid("metadata-location", "The metadata file %s has %d bytes, and no more than %d can be registered; expire snapshots with what has written it, and register the file that this writes.",
		location, size, maxRegistered)
}
