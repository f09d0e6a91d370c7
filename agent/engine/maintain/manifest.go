package maintain

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/avrofile"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// manifest opens a manifest or a manifest list. iceberg-go expects file formats in capital letters.
// It reads DuckDB's "puffin" deletion vectors as position deletes, and fails on "parquet". So the
// formats are rewritten in capital letters. The content is cached, because manifests are read
// repeatedly.
func (f *files) manifest(name string) (iceio.File, error) {
	f.mu.Lock()
	content, ok := f.manifests[name]
	f.mu.Unlock()
	if ok {
		return newContent(name, content), nil
	}
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	content, err = io.ReadAll(io.LimitReader(file, f.most+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if int64(len(content)) > f.most {
		return nil, sqltext.Fail(agent.FaultResources, "A manifest of the table has more than %d bytes, which do not fit into the memory of a statement: %s. Use a larger warehouse.", f.most, sqltext.Cut(name, 300))
	}
	if content, err = capital(content); err != nil {
		return nil, sqltext.Fail(agent.FaultQuery, "A manifest of the table is damaged, so that it cannot be read: %s: %v. Restore the file, or roll the table back to a snapshot without it.", sqltext.Cut(name, 300), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held += int64(len(content)); f.held < f.most {
		f.manifests[name] = content
	}
	return newContent(name, content), nil
}

// capital rewrites file formats in capital letters.
func capital(content []byte) ([]byte, error) {
	f, err := avrofile.Read(content)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, r := range f.Records {
		of, _ := r["data_file"].(map[string]any)
		format, ok := of["file_format"].(string)
		if ok && format != strings.ToUpper(format) {
			of["file_format"], changed = strings.ToUpper(format), true
		}
	}
	if !changed {
		return content, nil
	}
	return f.Encode("", f.Records)
}

// content is a file in memory.
type content struct {
	*bytes.Reader
	name string
}

func newContent(name string, b []byte) content { return content{bytes.NewReader(b), name} }

// Close implements io.Closer.
func (content) Close() error { return nil }

// Stat implements fs.File.
func (c content) Stat() (fs.FileInfo, error) { return contentInfo{c}, nil }

type contentInfo struct{ of content }

func (i contentInfo) Name() string       { return path.Base(i.of.name) }
func (i contentInfo) Size() int64        { return i.of.Reader.Size() }
func (i contentInfo) Mode() fs.FileMode  { return 0o400 }
func (i contentInfo) ModTime() time.Time { return time.Time{} }
func (i contentInfo) IsDir() bool        { return false }
func (i contentInfo) Sys() any           { return nil }
