package maintain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// backend is one kind of storage. Names are relative to the workspace's prefix.
type backend interface {
	open(name string) (iceio.File, error)
	create(name string) (iceio.FileWriter, error)
	remove(name string) error
	walk(dir string, each func(name string, of fs.FileInfo) error) error
	close()
}

// files gives iceberg-go access to the workspace's storage only, whatever a table's metadata names.
// Names are used literally, as the engines use them: nothing in them is decoded.
type files struct {
	backend
	prefix string
	ctx    context.Context // ends with the job; iceberg-go's interface passes no context

	most int64 // maximum bytes of a manifest, and of all cached manifests

	mu        sync.Mutex
	made      map[string]bool   // files written since the last commit; they belong to no table yet
	manifests map[string][]byte // cached content by name
	held      int64             // bytes of cached manifests
}

// manifestShare is the divisor of a statement's memory for cached manifests.
const manifestShare = 8

func openFiles(ctx context.Context, s agent.Storage, memory int64) (f *files, err error) {
	f = &files{prefix: s.Prefix, ctx: ctx, made: map[string]bool{}, manifests: map[string][]byte{}, most: memory / manifestShare}
	switch {
	case strings.HasPrefix(s.Prefix, "file:///"):
		f.backend, err = openDirectory(strings.TrimPrefix(s.Prefix, "file://"))
	case s.S3 != nil && strings.HasPrefix(s.Prefix, "s3://"):
		f.backend, err = openBucket(ctx, s)
	default:
		err = sqltext.Fail(agent.FaultQuery, "Tables are maintained in directories and in S3. The storage of this workspace is neither.")
	}
	return f, err
}

// maxName bounds a name, in bytes.
const maxName = 2048

// name converts a URI to a name relative to the prefix. It refuses URIs outside the prefix and
// names that are not straight.
func (f *files) name(uri string) (string, error) {
	name, ok := f.relative(uri)
	if ok && straight(name) {
		return name, nil
	}
	return "", sqltext.Fail(agent.FaultQuery, "The file %q is not in the workspace's storage, or its name is not a plain path. It is neither read nor removed. Nothing was changed; roll the table back to a snapshot without it.", sqltext.Cut(uri, 300))
}

func (f *files) relative(uri string) (string, bool) {
	if path, isFile := strings.CutPrefix(f.prefix, "file://"); isFile {
		uri = strings.TrimPrefix(uri, "file://localhost")
		uri = strings.TrimPrefix(strings.TrimPrefix(uri, "file:"), "//")
		for strings.Contains(uri, "//") {
			uri = strings.ReplaceAll(uri, "//", "/")
		}
		return strings.CutPrefix(uri, path)
	}
	for _, scheme := range []string{"s3a://", "s3n://"} {
		if rest, ok := strings.CutPrefix(uri, scheme); ok {
			uri = "s3://" + rest
		}
	}
	return strings.CutPrefix(uri, f.prefix)
}

// straight reports whether a name is a plain relative path without empty, "." and ".." parts.
func straight(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return false
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// io returns the storage for a table.
func (f *files) io(context.Context) (iceio.IO, error) { return f, nil }

// Open implements io.IO of iceberg-go.
func (f *files) Open(uri string) (iceio.File, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	name, err := f.name(uri)
	if err != nil {
		return nil, err
	}
	var file iceio.File
	if strings.HasSuffix(name, ".avro") {
		file, err = f.manifest(name)
	} else {
		file, err = f.open(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sqltext.Fail(agent.FaultEngine, "A file of the table is missing: %s. Restore the file, or roll the table back to a snapshot without it.", sqltext.Cut(uri, 300))
	}
	return file, err
}

// Create implements io.WriteFileIO of iceberg-go.
func (f *files) Create(uri string) (iceio.FileWriter, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	name, err := f.name(uri)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.made[uri] = true
	f.mu.Unlock()
	return f.create(name)
}

// WriteFile implements io.WriteFileIO of iceberg-go.
func (f *files) WriteFile(uri string, content []byte) error {
	w, err := f.Create(uri)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return errors.Join(err, w.Close())
}

// Remove implements io.IO of iceberg-go. It removes only files that this job made and that are in
// no table.
func (f *files) Remove(uri string) error {
	f.mu.Lock()
	made := f.made[uri]
	delete(f.made, uri)
	f.mu.Unlock()
	if !made {
		return nil // old metadata; the catalog removes it
	}
	return f.erase(uri)
}

// erase removes a file. A missing file is no error.
func (f *files) erase(uri string) error {
	name, err := f.name(uri)
	if err != nil {
		return err
	}
	if err := f.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", sqltext.Cut(uri, 300), err)
	}
	return nil
}

// keep marks the files made so far as part of a table.
func (f *files) keep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = map[string]bool{}
}

// drop removes the files made by this job that are in no table, except those for which stays is
// true. A file that cannot be removed becomes an orphan.
func (f *files) drop(stays func(uri string) bool) {
	f.mu.Lock()
	gone := slices.Collect(maps.Keys(f.made))
	f.mu.Unlock()
	for _, uri := range gone {
		if !stays(uri) {
			_ = f.Remove(uri)
		}
	}
}

func none(string) bool { return false }
