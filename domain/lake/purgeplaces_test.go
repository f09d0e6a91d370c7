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
	require.NoError(r.t, r.catalog.Drop(r.t.Context(), r.scope, ref("public", name), domain.KindTable, true, lake.Key{}))
}

func (r *rig) prefix() string { return r.files.Prefix(r.scope.Workspace()) }

// TestPathsAreTheirTables: where a property leads a table's writers no other table can be, in it or around it, nor another one's property, whichever came first.
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
	for _, place := range []string{"x/y", "x/y/z", "x/y/z/data", "top"} {
		_, err = r.set("two", data, r.prefix()+place)
		code(t, domain.CodeInvalid, err)
	}
	require.NoError(t, r.move("one", r.prefix()+"shared/d"), "what is the table's own it may use as it likes")
	_, err = r.set("one", data, r.prefix()+"shared/d/deep")
	require.NoError(t, err)
	_, err = r.createAt("view", r.prefix()+"other/place", nil)
	require.NoError(t, err)
}

// TestPurgeLeavesWhatPropertiesReserve: files in the directory of a table's property are that table's, even if another one's manifests name them.
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
	r.clock.move(domain.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.ElementsMatch(t, []int64{1, 2}, r.client("one").ids(t))
}

// TestPurgeOfAMovedTable removes what is in the places that it had, and what is of it in its properties' directories, but nothing else there.
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
	stray := filepath.Join(r.path(made.Table.Location), "data", "of-a-lost-commit.parquet")
	foreign := filepath.Join(r.path(r.prefix()), "new/data/readme.txt")
	for _, name := range []string{stray, foreign} {
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	require.ElementsMatch(t, []int64{1, 2, 3}, r.client("t").ids(t))
	r.drop("t")
	r.clock.move(domain.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Len(t, r.onDisk(), 1)
	require.FileExists(t, foreign)
	require.NoDirExists(t, r.path(made.Table.Location))
	require.Empty(t, r.reported)
}

// TestFilesWithoutGC stay: the table says that they are not its alone.
func TestFilesWithoutGC(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	_, err := r.set("t", "gc.enabled", "false")
	require.NoError(t, err)
	r.client("t").append(t, 1)
	before := r.onDisk()
	r.drop("t")
	r.clock.move(domain.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(t.Context()))
	require.ElementsMatch(t, before, r.onDisk())
	_, err = r.catalog.TableByID(t.Context(), r.scope, made.Table.ID)
	code(t, domain.CodeNotFound, err)
}

// flaky is a storage that fails for the files named, as long as it does.
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

// TestPurgeWaitsForTheStorage: what cannot be read for the moment is purged later, whole; the table's files outside of its place are not forgotten.
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
			r.clock.move(domain.UndropTime + 2*time.Hour)
			require.ErrorIs(t, catalog.Purge(ctx), errAbsent)
			require.Equal(t, before, r.onDisk())
			storage.away = func(string) bool { return false }
			require.NoError(t, catalog.Purge(ctx), "it is not due again yet")
			require.Equal(t, before, r.onDisk())
			_, err = r.catalog.Undrop(ctx, r.scope, made.Table.ID)
			code(t, domain.CodeConflict, err)
			r.clock.move(time.Hour)
			require.NoError(t, catalog.Purge(ctx))
			require.Empty(t, r.onDisk())
		})
	}
}

// TestPurgeGoesOn: tables that cannot be purged hold up no others, however many they are, and one whose manifests name a directory as a file is purged.
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
	r.clock.move(domain.UndropTime + 2*time.Hour)
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
