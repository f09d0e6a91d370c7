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
)

// shelf is one kind of storage. Names are relative to the workspace's prefix.
type shelf interface {
	open(name string) (iceio.File, error)
	create(name string) (iceio.FileWriter, error)
	remove(name string) error
	walk(dir string, each func(name string, of fs.FileInfo) error) error
	close()
}

// files is the storage of the workspace, for iceberg-go: nothing outside of it is opened, written or removed, whatever a table's metadata says. Names are taken as
// they are written, as the engines take them: nothing in them is decoded.
type files struct {
	shelf
	prefix string
	ctx    context.Context // ends with the job; iceberg-go's interface has none

	most int64 // bytes of a manifest, and of those that are remembered

	mu        sync.Mutex
	made      map[string]bool   // since the last commit, whose own they are until then
	manifests map[string][]byte // by their names
	held      int64             // bytes of manifests
}

// manifestShare is what of a statement's memory is for manifests.
const manifestShare = 8

func openFiles(ctx context.Context, s agent.Storage, memory int64) (f *files, err error) {
	f = &files{prefix: s.Prefix, ctx: ctx, made: map[string]bool{}, manifests: map[string][]byte{}, most: memory / manifestShare}
	switch {
	case strings.HasPrefix(s.Prefix, "file:///"):
		f.shelf, err = openDirectory(strings.TrimPrefix(s.Prefix, "file://"))
	case s.S3 != nil && strings.HasPrefix(s.Prefix, "s3://"):
		f.shelf, err = openBucket(ctx, s)
	default:
		err = refuse(agent.FaultQuery, "Tables in storage of this kind are not maintained by this engine: use a warehouse whose write engine is Trino.")
	}
	return f, err
}

// maxName bounds a name, in bytes.
const maxName = 2048

// name is a URI's relative to the prefix; it refuses what is not straight, or not below it.
func (f *files) name(uri string) (string, error) {
	name, ok := f.relative(uri)
	if ok && straight(name) {
		return name, nil
	}
	return "", refuse(agent.FaultQuery, "The file %q is not in the workspace's storage, or is not named straight, so that it is neither read nor removed. Nothing was changed; roll the table back to a snapshot without it.", cut(uri, 300))
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

// straight reports whether a name goes neither up nor anywhere but down.
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

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// io gives the storage to a table.
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
		return nil, refuse(agent.FaultEngine, "A file of the table is missing: %s. Restore the file, or roll the table back to a snapshot without it.", cut(uri, 300))
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

// Remove implements io.IO of iceberg-go, for what was made by this job and is in no table.
func (f *files) Remove(uri string) error {
	f.mu.Lock()
	made := f.made[uri]
	delete(f.made, uri)
	f.mu.Unlock()
	if !made {
		return nil // old metadata, which the catalog removes
	}
	return f.erase(uri)
}

// erase removes a file; it is no error that there is none.
func (f *files) erase(uri string) error {
	name, err := f.name(uri)
	if err != nil {
		return err
	}
	if err := f.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", cut(uri, 300), err)
	}
	return nil
}

// keep says that what was made is in a table.
func (f *files) keep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = map[string]bool{}
}

// drop removes what was made and is in no table, but for what stays. What cannot be removed is an orphan.
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
