package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/millpond/millpond/domain"
)

const (
	checkTime = 2 * time.Minute // for the manifests of one request
	listBytes = 64 << 20        // of manifest lists in memory
)

// listCache maps the path of a checked manifest list to the manifests that it names.
type listCache = boundedCache[string, []string]

// addedSnapshot is a snapshot that a request adds.
type addedSnapshot struct {
	list      string
	manifests []string // instead of a list, in format 1
	parent    *int64
}

// manifestCheck reads the manifests that a request adds, and refuses paths outside the workspace's
// storage. It reads a list per snapshot, and each manifest that the parent's list does not name. An
// append of one manifest costs two reads, and a third if the parent's list is not cached.
type manifestCheck struct {
	*Catalog
	io        fencedIO
	base      table.Metadata // may be nil
	manifests int
	files     int
	known     map[string]bool // manifests that were checked
	parents   map[int64]bool  // snapshots whose manifests are known
}

// checkManifests refuses, with CodeInvalid and the manifest's name, snapshots with bad manifests.
// Each named path must be straight and strictly under the workspace's prefix, and their number is
// bounded.
func (c *Catalog) checkManifests(ctx context.Context, s domain.Scope, base table.Metadata, added []addedSnapshot) error {
	added = slices.DeleteFunc(slices.Clone(added), func(a addedSnapshot) bool {
		_, checked := c.lists.get(a.list)
		return checked && a.list != ""
	})
	if len(added) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	m := manifestCheck{
		Catalog: c, io: fencedIO{ctx: ctx, files: c.Files, fence: c.fence(s)}, base: base, known: map[string]bool{}, parents: map[int64]bool{},
	}
	for _, a := range added {
		err := invalid("manifest-list", func() error { return m.snapshot(a) })
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return domain.Errorf(domain.CodeUnavailable, "The manifests could not be checked within %s; commit fewer files at once, and try again.", checkTime).Because(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *manifestCheck) snapshot(a addedSnapshot) error {
	manifests := a.manifests
	if a.list != "" {
		var err error
		if manifests, err = m.list(a.list); err != nil {
			return err
		}
	}
	for _, path := range manifests {
		if m.known[path] {
			continue
		}
		if err := m.parent(a.parent); err != nil {
			return err
		}
		if m.known[path] {
			continue
		}
		if err := m.manifest(path); err != nil {
			return err
		}
		m.known[path] = true
	}
	if len(manifests) > 0 && a.list != "" {
		m.lists.put(a.list, manifests, pathBytes(manifests))
	}
	return nil
}

// pathBytes is the approximate memory use of the paths.
func pathBytes(paths []string) int {
	n := 256
	for _, path := range paths {
		n += len(path) + 32
	}
	return n
}

// parent marks the manifests of the base's snapshot as known, once. They do not count: the request
// does not add them.
func (m *manifestCheck) parent(id *int64) error {
	if id == nil || m.base == nil || m.parents[*id] {
		return nil
	}
	m.parents[*id] = true
	snapshot := m.base.SnapshotByID(*id)
	if snapshot == nil || snapshot.ManifestList == "" {
		return nil
	}
	manifests, found := m.lists.get(snapshot.ManifestList)
	if !found {
		parent := *m
		parent.manifests = 0
		var err error
		if manifests, err = parent.list(snapshot.ManifestList); err != nil {
			return err
		}
	}
	for _, path := range manifests {
		m.known[path] = true
	}
	return nil
}

// list returns the manifests that a list names.
func (m *manifestCheck) list(path string) (manifests []string, err error) {
	err = m.records(path, keepManifests, func(rd *ocf.Reader) error {
		var entry struct {
			Path string `avro:"manifest_path"`
		}
		if err := rd.Decode(&entry); err != nil {
			return err
		}
		if m.manifests++; m.manifests > m.bounds.manifests {
			return domain.Invalid("manifest-list", "The manifest list %s and those before it name more than %d manifests; rewrite the manifests into fewer ones.", path, m.bounds.manifests)
		}
		manifests = append(manifests, entry.Path)
		return nil
	})
	return manifests, err
}

// manifest checks all files that a manifest names.
func (m *manifestCheck) manifest(path string) error {
	return m.records(path, keepFiles, func(rd *ocf.Reader) error {
		var entry struct {
			File struct {
				Path string `avro:"file_path"`
			} `avro:"data_file"`
		}
		if err := rd.Decode(&entry); err != nil {
			return err
		}
		if m.files++; m.files > m.bounds.named {
			return domain.Invalid("manifest", "The manifest %s and those before it name more than %d files; commit fewer at once, or compact them.", path, m.bounds.named)
		}
		if m.files%checkEvery == 0 && m.io.ctx.Err() != nil {
			return m.io.ctx.Err()
		}
		uri, err := m.io.fence.canonical("file_path", entry.File.Path)
		if err == nil {
			err = m.Files.Straight(m.io.ctx, uri)
		}
		return within(path, err)
	})
}

// within adds the manifest's name to a refusal of a file that it names.
func within(manifest string, err error) error {
	if e, ours := errors.AsType[*domain.Error](err); ours && e.Code == domain.CodeInvalid {
		return domain.Invalid("manifest", "The manifest %s names a file that is refused. %s", manifest, e.Message).Because(err)
	}
	return err
}

// records calls next for the records of an Avro file until it returns io.EOF. Only the fields in
// keep are decoded.
func (m *manifestCheck) records(path string, keep fieldTree, next func(*ocf.Reader) error) error {
	file, err := m.io.Open(path)
	if domain.IsCode(err, domain.CodeNotFound) { // a table that has lost a file can still be registered
		return nil
	}
	if err != nil {
		return within(path, err)
	}
	defer file.Close()
	rd, err := ocf.NewReader(file, ocf.WithReaderSchemaFunc(func(rd *ocf.Reader) (*avro.Schema, error) {
		var schema map[string]any
		if err := json.Unmarshal(rd.Metadata()["avro.schema"], &schema); err != nil {
			return nil, err
		}
		pruned, err := json.Marshal(keep.of(schema))
		if err != nil {
			return nil, err
		}
		return avro.Parse(string(pruned), avro.WithLaxNames(nil))
	}), ocf.WithSchemaOpts(avro.WithLaxNames(nil)))
	if err != nil {
		return unreadable(path, err)
	}
	defer rd.Close()
	for {
		switch err := next(rd); {
		case err == nil:
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		default:
			return unreadable(path, err)
		}
	}
}

func unreadable(path string, err error) error {
	if _, ours := errors.AsType[*domain.Error](err); ours {
		return err
	}
	return fmt.Errorf("the manifest or manifest list %s cannot be read: %w", path, err)
}

// fieldTree names the fields of an Avro record to decode, with their nested fields.
type fieldTree map[string]fieldTree

var (
	keepManifests = fieldTree{"manifest_path": nil}
	keepFiles     = fieldTree{"data_file": {"file_path": nil}}
)

// of returns the schema of a record with these fields only.
func (k fieldTree) of(schema map[string]any) map[string]any {
	fields, _ := schema["fields"].([]any)
	var kept []any
	for _, f := range fields {
		field, _ := f.(map[string]any)
		name, _ := field["name"].(string)
		within, keep := k[name]
		if !keep {
			continue
		}
		if inner, record := field["type"].(map[string]any); record && within != nil {
			field["type"] = within.of(inner)
		}
		kept = append(kept, field)
	}
	schema["fields"] = kept
	return schema
}
