package lake_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

func (r *rig) createAt(name, location string, properties map[string]string) (lake.Loaded, error) {
	return r.catalog.Create(r.t.Context(), r.scope, "lake", "public",
		lake.NewTable{Name: name, Schema: json.RawMessage(twoColumns), Location: location, Properties: properties}, lake.Key{})
}

func (r *rig) move(name, location string) error {
	_, err := r.catalog.Commit(r.t.Context(), r.scope, lake.Change{
		Ref: ref("public", name), Updates: raw(r.t, []any{map[string]any{"action": "set-location", "location": location}}),
	}, lake.Key{})
	return err
}

func (r *rig) drop(name string) {
	r.t.Helper()
	require.NoError(r.t, r.catalog.Drop(r.t.Context(), r.scope, ref("public", name), lake.KindTable, true, lake.Key{}))
}

func (r *rig) prefix() string { return r.files.Prefix(r.scope.Workspace()) }

// TestPathsAreTheirTables: no other table's location or property may overlap the directory of a
// property, whichever came first.
func TestPathsAreTheirTables(t *testing.T) {
	r := newRig(t)
	const data = "write.data.path"
	r.create("public", "one")
	_, err := r.set("one", data, r.prefix()+"shared/d")
	require.NoError(t, err)
	for _, place := range []string{"shared/d", "shared/d/deep"} {
		_, err = r.createAt("two", r.prefix()+place, nil)
		code(t, domain.CodeInvalid, err)
		_, err = r.createAt("two", "", map[string]string{"write.metadata.path": r.prefix() + place})
		code(t, domain.CodeInvalid, err)
	}
	r.create("public", "two")
	_, err = r.set("one", "write.object-storage.path", r.prefix()+"a/b/c")
	require.NoError(t, err)
	code(t, domain.CodeInvalid, r.move("two", r.prefix()+"a/b"))
	code(t, domain.CodeInvalid, r.move("two", r.prefix()+"shared/d/x"))
	_, err = r.set("two", data, r.prefix()+"a/b")
	code(t, domain.CodeInvalid, err)
	_, err = r.createAt("three", r.prefix()+"x/y/z", nil)
	require.NoError(t, err)
	for place, want := range map[string]domain.Code{"x/y": domain.CodeConflict, "x/y/z": domain.CodeInvalid, "x/y/z/data": domain.CodeInvalid, "top": domain.CodeInvalid} {
		_, err = r.set("two", data, r.prefix()+place)
		code(t, want, err)
	}
	require.NoError(t, r.move("one", r.prefix()+"shared/d"), "what is the table's own it may use as it likes")
	_, err = r.set("one", data, r.prefix()+"shared/d/deep")
	require.NoError(t, err)
	_, err = r.createAt("view", r.prefix()+"other/place", nil)
	require.NoError(t, err)
}

// TestPurgeLeavesSharedFiles: two tables name a raw file outside their directories. After the purge
// of one, the other still reads. The same holds for a neighbour's file, and for the manifests that
// name them.
func TestPurgeLeavesSharedFiles(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "writer")
	r.client("writer").append(t, 1, 2)
	written := files(t, filepath.Join(r.path(r.load("public", "writer").Table.Location), "data"))
	require.Len(t, written, 1)
	raw := filepath.Join(r.path(r.prefix()), "raw/day/one.parquet")
	require.NoError(t, os.MkdirAll(filepath.Dir(raw), 0o700))
	content, err := os.ReadFile(written[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(raw, content, 0o600))
	for _, name := range []string{"dropped", "stays"} {
		r.create("public", name)
		tx := r.client(name).table(t).NewTransaction()
		require.NoError(t, tx.AddFiles(ctx, []string{raw}, iceberg.Properties{}, false))
		_, err := tx.Commit(ctx)
		require.NoError(t, err)
	}
	gone := r.load("public", "dropped").Table
	r.drop("dropped")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.NoDirExists(t, r.path(gone.Location))
	require.FileExists(t, raw)
	require.ElementsMatch(t, []int64{1, 2}, r.client("stays").ids(t))
}

// TestPurgeLeavesWhatPropertiesReserve: files in the directory of a table's property belong to that
// table, even if another one's manifests name them.
func TestPurgeLeavesWhatPropertiesReserve(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "one")
	_, err := r.set("one", "write.data.path", r.prefix()+"shared/d")
	require.NoError(t, err)
	r.client("one").append(t, 1, 2)
	theirs := files(t, filepath.Join(r.path(r.prefix()), "shared/d"))
	require.NotEmpty(t, theirs)
	r.create("public", "two")
	tx := r.client("two").table(t).NewTransaction()
	require.NoError(t, tx.AddFiles(ctx, theirs, iceberg.Properties{}, false))
	_, err = tx.Commit(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{1, 2}, r.client("two").ids(t))
	r.drop("two")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.ElementsMatch(t, []int64{1, 2}, r.client("one").ids(t))
}

// TestPurgeOfAMovedTable removes all files in the table's present and former locations and property
// directories.
func TestPurgeOfAMovedTable(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	made := r.create("public", "t")
	r.client("t").append(t, 1)
	require.NoError(t, r.move("t", r.prefix()+"new/place"))
	r.client("t").append(t, 2)
	_, err := r.set("t", "write.data.path", r.prefix()+"new/data")
	require.NoError(t, err)
	r.client("t").append(t, 3)
	_, err = r.set("t", "write.data.path", r.prefix()+"newer/data")
	require.NoError(t, err)
	stray := filepath.Join(r.path(made.Table.Location), "data", "of-a-lost-commit.parquet")
	lost := filepath.Join(r.path(r.prefix()), "new/data/of-a-lost-commit.parquet")
	for _, name := range []string{stray, lost} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	require.ElementsMatch(t, []int64{1, 2, 3}, r.client("t").ids(t))
	r.drop("t")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Empty(t, r.onDisk())
	require.NoDirExists(t, r.path(made.Table.Location))
	require.Empty(t, r.reported)
}

// TestFilesWithoutGC stay: the table declares that others use them.
func TestFilesWithoutGC(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	_, err := r.set("t", "gc.enabled", "false")
	require.NoError(t, err)
	r.client("t").append(t, 1)
	before := r.onDisk()
	r.drop("t")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(t.Context()))
	require.ElementsMatch(t, before, r.onDisk())
	_, err = r.catalog.TableByID(t.Context(), r.scope, made.Table.ID)
	code(t, domain.CodeNotFound, err)
}

// flaky is a storage that fails for the named files until it is repaired.
type flaky struct {
	lake.Files
	away func(uri string) bool
}

var errAbsent = errors.New("the storage is away")

// Open implements lake.Files.
func (f *flaky) Open(ctx context.Context, uri string) (lake.File, error) {
	if f.away(uri) {
		return nil, errAbsent
	}
	return f.Files.Open(ctx, uri)
}

// Read implements lake.Files.
func (f *flaky) Read(ctx context.Context, uri string) ([]byte, error) {
	if f.away(uri) {
		return nil, errAbsent
	}
	return f.Files.Read(ctx, uri)
}

// Delete implements lake.Files.
func (f *flaky) Delete(ctx context.Context, uri string) error {
	if f.away(uri) {
		return errAbsent
	}
	return f.Files.Delete(ctx, uri)
}

// TestPurgeWaitsForTheStorage: a purge that failed in the storage is retried.
func TestPurgeWaitsForTheStorage(t *testing.T) {
	for _, kind := range []string{".metadata.json", "-m1.avro", "snap-"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			made := r.create("public", "t")
			_, err := r.set("t", "write.data.path", r.prefix()+"else/where")
			require.NoError(t, err)
			r.client("t").append(t, 1)
			r.drop("t")
			before := r.onDisk()
			require.True(t, slices.ContainsFunc(before, func(name string) bool { return strings.Contains(name, kind) }), "%v", before)
			storage := &flaky{r.files, func(uri string) bool { return strings.Contains(uri, kind) }}
			catalog := r.another(storage)
			r.clock.move(lake.UndropTime + 2*time.Hour)
			require.ErrorIs(t, catalog.Purge(ctx), errAbsent)
			left := r.onDisk()
			require.Subset(t, before, left)
			require.NotEmpty(t, left)
			storage.away = func(string) bool { return false }
			require.NoError(t, catalog.Purge(ctx), "it is not due again yet")
			require.Equal(t, left, r.onDisk())
			_, err = r.catalog.Undrop(ctx, r.scope, made.Table.ID)
			code(t, domain.CodeConflict, err)
			r.clock.move(time.Hour)
			require.NoError(t, catalog.Purge(ctx))
			require.Empty(t, r.onDisk())
		})
	}
}

// TestPurgeGoesOn: failing tables do not block others, however many they are. A table whose
// manifests name a directory as a file is purged.
func TestPurgeGoesOn(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	odd := r.create("public", "odd")
	r.client("odd").append(t, 1)
	location := odd.Table.Location
	require.NoError(t, os.MkdirAll(filepath.Join(r.path(r.prefix()), "a/directory/with"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(r.path(r.prefix()), "a/directory/with/file"), nil, 0o600))
	meta := r.load("public", "odd").Metadata
	statistics := map[string]any{
		"snapshot-id": currentSnapshot(t, meta), "statistics-path": r.prefix() + "a/directory", "file-size-in-bytes": 1,
		"file-footer-size-in-bytes": 1, "blob-metadata": []any{},
	}
	_, err := r.catalog.Commit(ctx, r.scope, lake.Change{Ref: ref("public", "odd"), Updates: raw(t, []any{map[string]any{"action": "set-statistics", "statistics": statistics}})}, lake.Key{})
	require.NoError(t, err)
	const many = 120
	stuck := map[string]bool{}
	for i := range many {
		l := r.create("public", "stuck"+string(rune('a'+i/26))+string(rune('a'+i%26)))
		stuck[l.MetadataLocation] = true
		r.drop(l.Table.Name)
	}
	r.clock.move(time.Minute)
	r.drop("odd")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	catalog := r.another(&flaky{r.files, func(uri string) bool { return stuck[uri] }})
	require.ErrorIs(t, catalog.Purge(ctx), errAbsent)
	require.NoDirExists(t, r.path(location))
	require.FileExists(t, filepath.Join(r.path(r.prefix()), "a/directory/with/file"))
	_, err = r.catalog.TableByID(ctx, r.scope, odd.Table.ID)
	code(t, domain.CodeNotFound, err)
}

func currentSnapshot(t *testing.T, metadata json.RawMessage) int64 {
	t.Helper()
	var meta struct {
		Current int64 `json:"current-snapshot-id"`
	}
	require.NoError(t, json.Unmarshal(metadata, &meta))
	return meta.Current
}
