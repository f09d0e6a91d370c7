package lake_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// named commits a snapshot with one manifest, which names the file.
func (r *rig) named(name, path string) (manifest string, err error) {
	r.t.Helper()
	t, made := r.t, r.load("public", name)
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true})
	file, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, 1, 1)
	require.NoError(t, err)
	id, sequence := int64(1), int64(1)
	var content, list bytes.Buffer
	manifest = made.Table.Location + "/metadata/m" + lake.FoldName(string(lake.NewTableID())) + ".avro"
	entry := iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, file.Build())
	of, err := iceberg.WriteManifest(manifest, &content, 2, *iceberg.UnpartitionedSpec, schema, id, []iceberg.ManifestEntry{entry})
	require.NoError(t, err)
	require.NoError(t, iceberg.WriteManifestList(2, &list, id, nil, &sequence, 0, []iceberg.ManifestFile{of}))
	require.NoError(t, r.files.Write(t.Context(), manifest, content.Bytes()))
	snapshot := snapshotAt(made.Table.Location, 1, time.Now().UnixMilli())
	require.NoError(t, r.files.Write(t.Context(), snapshot["manifest-list"].(string), list.Bytes()))
	_, err = r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", name), Updates: raw(t, []any{
		map[string]any{"action": "add-snapshot", "snapshot": snapshot}, map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
	})}, lake.Key{})
	return manifest, err
}

// TestHostileManifests: no file that a manifest names leads out of the workspace's storage. A
// refusal names the manifest, and changes nothing.
func TestHostileManifests(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	data := filepath.Join(r.path(made.Table.Location), "data")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(data, "link.parquet")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(data, "linked")))
	paths := r.hostile()
	paths["a link"], paths["through a link"] = made.Table.Location+"/data/link.parquet", made.Table.Location+"/data/linked/passwd"
	paths["bare"] = "/etc/passwd"
	for what, path := range paths {
		manifest, err := r.named("t", path)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", what, err)
		require.ErrorContains(t, err, manifest, what)
	}
	require.Equal(t, made.MetadataLocation, r.load("public", "t").MetadataLocation)
	_, err := r.named("t", made.Table.Location+"/data/one.parquet")
	require.NoError(t, err)
	good := r.load("public", "t")
	r.create("public", "u")
	_, err = r.named("u", made.Table.Location+"/data/one.parquet")
	require.NoError(t, err, "another table's files may be named")
	r.detach("t")
	_, err = r.register("again", good.MetadataLocation)
	require.NoError(t, err)
}

// counting counts the manifests and lists that are opened.
type counting struct {
	lake.Files
	mu     sync.Mutex
	opened []string
}

// Open implements lake.Files.
func (c *counting) Open(ctx context.Context, uri string) (lake.File, error) {
	if strings.HasSuffix(uri, ".avro") {
		c.mu.Lock()
		c.opened = append(c.opened, uri)
		c.mu.Unlock()
	}
	return c.Files.Open(ctx, uri)
}

// TestManifestsAreReadOnce: an append of one manifest reads its list and that manifest, however
// many the table has. A replica that did not see the commit before reads that commit's list too.
func TestManifestsAreReadOnce(t *testing.T) {
	r := newRig(t)
	files := &counting{Files: r.files}
	r.catalog = r.another(files)
	r.create("public", "t")
	for i := range 5 {
		files.opened = nil
		r.client("t").append(t, int64(i))
		require.Len(t, files.opened, 2)
	}
	r.catalog = r.another(files)
	files.opened = nil
	r.client("t").append(t, 6)
	require.Len(t, files.opened, 3)
}

// TestACommitNamesSoManyFilesAndNoMore: a refusal says what to do, and changes nothing.
func TestACommitNamesSoManyFilesAndNoMore(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	before := r.load("public", "t").MetadataLocation
	name := func() error {
		_, err := r.named("t", r.load("public", "t").Table.Location+"/data/one.parquet")
		return err
	}
	for _, c := range []struct {
		manifests, files int
		refused          string
	}{{1, 0, "name more than 0 files; commit fewer at once, or compact them"}, {0, 1, "name more than 0 manifests; rewrite the manifests into fewer ones"}} {
		r.catalog.LimitManifests(c.manifests, c.files)
		err := name()
		require.True(t, domain.IsCode(err, domain.CodeInvalid), err)
		require.ErrorContains(t, err, c.refused)
		require.Equal(t, before, r.load("public", "t").MetadataLocation)
	}
	r.catalog.LimitManifests(1, 1)
	require.NoError(t, name())
}
