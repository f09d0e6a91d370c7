package lake_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// TestPurge removes all files of tables dropped with purge after their restore time, wherever they
// are, and no others.
func TestPurge(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	prefix := r.files.Prefix(r.scope.Workspace())
	gone, kept, live := r.create("public", "gone"), r.create("public", "kept"), r.create("public", "live")
	_, err := r.set("gone", "write.data.path", prefix+"elsewhere/gone")
	require.NoError(t, err)
	for _, name := range []string{"gone", "kept", "live"} {
		r.client(name).append(t, 1, 2)
	}
	outside := filepath.Join(r.dir, string(r.scope.Workspace()), "elsewhere/gone")
	require.NotEmpty(t, files(t, outside))
	drop := func(name string, purge bool) {
		require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", name), lake.KindTable, purge, lake.Key{}))
	}
	drop("gone", true)
	drop("kept", false)
	before := r.onDisk()
	r.clock.move(lake.UndropTime)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Equal(t, before, r.onDisk(), "not before the grace is over, and an hour more")
	r.clock.move(2 * time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Empty(t, files(t, outside))
	require.True(t, r.row(kept.Table.ID).Detached())
	require.NoDirExists(t, r.path(gone.Table.Location))
	require.NotEmpty(t, files(t, r.path(kept.Table.Location)))
	require.NotEmpty(t, files(t, r.path(live.Table.Location)))
	require.ElementsMatch(t, []int64{1, 2}, r.client("live").ids(t))
	_, err = r.catalog.TableByID(ctx, r.scope, gone.Table.ID)
	code(t, domain.CodeNotFound, err)
	require.Empty(t, r.reported)
	require.NoError(t, r.catalog.Purge(ctx), "there is nothing more to do")
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// TestPurgeOfWhatIsNotItsOwn: manifests that name other tables' files, or paths outside the
// storage, harm nothing. A table without readable metadata loses the files in its own location.
func TestPurgeOfWhatIsNotItsOwn(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	victim := r.create("public", "victim")
	r.client("victim").append(t, 7)
	thief := r.create("public", "thief")
	r.client("thief").append(t, 1)
	theirs := r.load("public", "victim")
	var meta struct {
		Snapshots []map[string]any `json:"snapshots"`
	}
	require.NoError(t, json.Unmarshal(theirs.Metadata, &meta))
	snapshot := meta.Snapshots[0]
	snapshot["snapshot-id"], snapshot["sequence-number"] = 4711, 2
	_, err := r.catalog.Commit(ctx, r.scope, lake.Change{Ref: ref("public", "thief"), Updates: raw(t, []any{
		map[string]any{"action": "add-snapshot", "snapshot": snapshot},
		map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 4711},
	})}, lake.Key{})
	require.NoError(t, err)
	blind := r.create("public", "blind")
	require.NoError(t, os.WriteFile(r.path(blind.MetadataLocation), []byte("{"), 0o600))
	for _, name := range []string{"thief", "blind"} {
		require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", name), lake.KindTable, true, lake.Key{}))
	}
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.another(r.files).Purge(ctx))
	require.NoDirExists(t, r.path(thief.Table.Location))
	require.NoDirExists(t, r.path(blind.Table.Location))
	require.NotEmpty(t, r.reported)
	require.ElementsMatch(t, []int64{7}, r.client("victim").ids(t))
	require.FileExists(t, r.path(victim.MetadataLocation))
}

// TestRegister: a table dropped without purge can be registered again, with its rows and uuid. Its
// files are never purged.
func TestRegister(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	r.client("t").append(t, 1, 2)
	before := r.load("public", "t")
	register := func(n lake.Registration) (lake.Loaded, error) {
		return r.catalog.Register(ctx, r.scope, "lake", "public", n, lake.KindTable, lake.Key{})
	}
	_, err := register(lake.Registration{Name: "T", MetadataLocation: before.MetadataLocation})
	reason(t, lake.AlreadyExists, err)
	_, err = register(lake.Registration{Name: "u", MetadataLocation: before.MetadataLocation})
	code(t, domain.CodeInvalid, err)
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "t"), lake.KindTable, false, lake.Key{}))
	l, err := register(lake.Registration{Name: "u", MetadataLocation: before.MetadataLocation})
	require.NoError(t, err)
	require.Equal(t, before.Table.UUID, l.Table.UUID)
	require.Equal(t, before.MetadataLocation, l.MetadataLocation)
	require.Equal(t, int64(2), *l.Table.RowCount)
	r.client("u").append(t, 3)
	require.ElementsMatch(t, []int64{1, 2, 3}, r.client("u").ids(t))
	_, err = r.catalog.Undrop(ctx, r.scope, before.Table.ID)
	code(t, domain.CodeNotFound, err)
	l, err = register(lake.Registration{Name: "u", MetadataLocation: before.MetadataLocation, Overwrite: true})
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{1, 2}, r.client("u").ids(t))
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "u"), lake.KindTable, true, lake.Key{}))
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.FileExists(t, r.path(l.MetadataLocation))
	l, err = register(lake.Registration{Name: "u", MetadataLocation: before.MetadataLocation})
	require.NoError(t, err)
	require.NotEmpty(t, l.Table.ID)
	require.ElementsMatch(t, []int64{1, 2}, r.client("u").ids(t))
}

const oneVersion = `{"version-id":1,"timestamp-ms":1750000000000,"schema-id":0,"summary":{"engine-name":"test"},"representations":[{"type":"sql","sql":"SELECT 1","dialect":"duckdb"}],"default-namespace":["public"]}`

// TestViews are created, replaced, renamed, dropped and restored; they share their names with
// tables.
func TestViews(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	create := func(name string) (lake.Loaded, error) {
		return r.catalog.CreateView(ctx, r.scope, "lake", "public", lake.NewView{Name: name, Schema: json.RawMessage(twoColumns), Version: json.RawMessage(oneVersion)}, lake.Key{})
	}
	_, err := create("T")
	reason(t, lake.AlreadyExists, err)
	v, err := create("v")
	require.NoError(t, err)
	require.Equal(t, lake.KindView, v.Table.Kind)
	require.Contains(t, string(v.Metadata), `"sql":"SELECT 1"`)
	_, err = r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: "V", Schema: json.RawMessage(twoColumns)}, lake.Key{})
	reason(t, lake.AlreadyExists, err)
	_, err = r.catalog.Load(ctx, r.scope, ref("public", "v"), lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchTable, err)
	replace := func(uuid string) (lake.Loaded, error) {
		var version map[string]any
		require.NoError(t, json.Unmarshal([]byte(oneVersion), &version))
		version["version-id"], version["representations"] = 2, []any{map[string]any{"type": "sql", "sql": "SELECT 2", "dialect": "duckdb"}}
		return r.catalog.CommitView(ctx, r.scope, lake.Change{
			Ref: ref("public", "v"), Requirements: raw(t, []any{map[string]any{"type": "assert-view-uuid", "uuid": uuid}}),
			Updates: raw(t, []any{map[string]any{"action": "add-view-version", "view-version": version}, map[string]any{"action": "set-current-view-version", "view-version-id": -1}}),
		}, lake.Key{})
	}
	_, err = replace("00000000-0000-4000-8000-000000000000")
	reason(t, lake.CommitFailed, err)
	next, err := replace(v.Table.UUID)
	require.NoError(t, err)
	require.NotEqual(t, v.MetadataLocation, next.MetadataLocation)
	require.Contains(t, string(next.Metadata), `"sql":"SELECT 2"`)
	_, err = r.catalog.CommitView(ctx, r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{})}, lake.Key{})
	reason(t, lake.NoSuchView, err)
	require.NoError(t, r.catalog.Rename(ctx, r.scope, lake.KindView, ref("public", "v"), ref("public", "w"), lake.Key{}))
	reason(t, lake.NoSuchView, r.catalog.Drop(ctx, r.scope, ref("public", "t"), lake.KindView, false, lake.Key{}))
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "w"), lake.KindView, false, lake.Key{}))
	_, err = r.catalog.Undrop(ctx, r.scope, v.Table.ID)
	require.NoError(t, err)
	columns, err := r.catalog.Columns(ctx, r.scope, v.Table.ID)
	require.NoError(t, err)
	require.Len(t, columns, 2)
	_, err = r.catalog.Snapshots(ctx, r.scope, v.Table.ID, domain.Page{})
	code(t, domain.CodeInvalid, err)
}

// TestRefsOnly leaves out the snapshots that no branch and no tag names, and nothing else.
func TestRefsOnly(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	for i := range 3 {
		r.client("t").append(t, int64(i))
	}
	all := r.load("public", "t")
	l, err := r.catalog.Load(t.Context(), r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{RefsOnly: true})
	require.NoError(t, err)
	var full, refs map[string]any
	require.NoError(t, json.Unmarshal(all.Metadata, &full))
	require.NoError(t, json.Unmarshal(l.Metadata, &refs))
	require.Len(t, full["snapshots"], 3)
	require.Len(t, refs["snapshots"], 1)
	full["snapshots"] = refs["snapshots"]
	require.Equal(t, full, refs)
	meta, err := table.ParseMetadataBytes(l.Metadata)
	require.NoError(t, err)
	require.NotNil(t, meta.CurrentSnapshot())
	l, err = r.catalog.Load(t.Context(), r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{Unchanged: func(tag string) bool { return tag == all.Tag }})
	require.NoError(t, err)
	require.True(t, l.Unchanged)
	require.Nil(t, l.Metadata)
}
