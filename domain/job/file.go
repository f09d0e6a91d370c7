package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/millpond/millpond/domain"
)

// File is one of a job's files, copied into the working directory of each of its tasks. Its bytes
// are stored once, by their hash, so a run's frozen copy holds only the hash.
type File struct {
	Path       string // relative, slash-separated
	SHA256     string
	Size       int
	Executable bool
	// Content is set on input and on the way to an agent. Nil on input refers to a stored file with
	// that SHA256. The hash of a request under an idempotency key has only SHA256.
	Content []byte `json:"-"`
}

// fileTx stores the bytes of files.
type fileTx interface {
	// InsertFiles stores the contents that are set. It refuses a file without content that is not
	// stored yet.
	InsertFiles(ctx context.Context, files []File) error
	// FileContents returns the bytes by SHA256.
	FileContents(ctx context.Context, hashes []string) (map[string][]byte, error)
}

// Bounds of a job's files: they are sent to the agent with every attempt.
const (
	maxFiles     = 100
	maxFileBytes = 4 << 20
	maxFilePath  = 255
)

// prepareFiles validates the files and sets their hashes.
func prepareFiles(files []File) error {
	if len(files) > maxFiles {
		return domain.Invalid("files", "The job has %d files; use at most %d.", len(files), maxFiles)
	}
	seen, total := map[string]bool{}, 0
	for i := range files {
		f := &files[i]
		field := fmt.Sprintf("files[%d]", i)
		if !filePath(f.Path) {
			return domain.Invalid(field+".path", "%q is not a path inside the working directory.", f.Path)
		}
		if seen[f.Path] {
			return domain.Invalid(field+".path", "The path %q is given twice.", f.Path)
		}
		seen[f.Path] = true
		if f.Content != nil {
			sum := sha256.Sum256(f.Content)
			f.SHA256, f.Size = hex.EncodeToString(sum[:]), len(f.Content)
		}
		f.SHA256 = strings.ToLower(f.SHA256)
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
			return domain.Invalid(field, "The file %q has neither content nor the SHA-256 of a stored file.", f.Path)
		}
		total += f.Size
	}
	for p := range seen {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return domain.Invalid("files", "The path %q is a file and also a directory of %q; change one of them.", dir, p)
			}
		}
	}
	if total > maxFileBytes {
		return domain.Errorf(domain.CodeTooLarge, "The job's files have %d bytes; use at most %d.", total, maxFileBytes)
	}
	return nil
}

func filePath(p string) bool {
	return p != "" && len(p) <= maxFilePath && !path.IsAbs(p) && path.Clean(p) == p && p != "." && p != ".." &&
		!strings.HasPrefix(p, "../") && domain.ValidText("path", p, maxFilePath) == nil && !strings.Contains(p, "\\")
}

// loadFiles sets the contents.
func loadFiles(ctx context.Context, tx Tx, files []File) ([]File, error) {
	if len(files) == 0 {
		return nil, nil
	}
	hashes := make([]string, len(files))
	for i, f := range files {
		hashes[i] = f.SHA256
	}
	contents, err := tx.FileContents(ctx, hashes)
	if err != nil {
		return nil, err
	}
	loaded := make([]File, len(files))
	for i, f := range files {
		f.Content = contents[f.SHA256]
		loaded[i] = f
	}
	return loaded, nil
}
