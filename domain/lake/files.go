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
	// Write makes a file that is there whole or not at all, and outlives a power cut once Write has returned. CodeConflict where there is one already.
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
