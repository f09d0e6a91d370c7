package lake_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// occupied is a directory that holds somebody's file.
func (r *rig) occupied(name string) (uri, file string) {
	r.t.Helper()
	uri = r.prefix() + "raw/" + name
	file = filepath.Join(r.path(uri), "deep", "one.parquet")
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(r.t, os.WriteFile(file, []byte("x"), 0o600))
	return uri, file
}

// TestChosenDirectoriesAreEmpty: a directory that a client chooses for a table or view must hold no
// file, however it is chosen. A refusal changes nothing.
func TestChosenDirectoriesAreEmpty(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	uri, file := r.occupied("a")
	r.create("public", "t")
	_, err := r.catalog.CreateView(ctx, r.scope, "lake", "public", lake.NewView{Name: "v", Schema: json.RawMessage(twoColumns), Version: json.RawMessage(oneVersion)}, lake.Key{})
	require.NoError(t, err)
	for _, dir := range []string{uri, r.prefix() + "raw/a/deep"} {
		for what, choose := range map[string]func() error{
			"create": func() error { _, err := r.createAt("u", dir, nil); return err },
			"create with a property": func() error {
				_, err := r.createAt("u", "", map[string]string{"write.data.path": dir})
				return err
			},
			"stage": func() error {
				_, err := r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns), Location: dir, Stage: true}, lake.Key{})
				return err
			},
			"set-location":   func() error { return r.move("t", dir) },
			"set-properties": func() error { _, err := r.set("t", "write.metadata.path", dir); return err },
			"create view": func() error {
				_, err := r.catalog.CreateView(ctx, r.scope, "lake", "public", lake.NewView{Name: "w", Location: dir, Schema: json.RawMessage(twoColumns), Version: json.RawMessage(oneVersion)}, lake.Key{})
				return err
			},
			"set-location of a view": func() error {
				_, err := r.catalog.CommitView(ctx, r.scope, lake.Change{Ref: ref("public", "v"), Updates: raw(t, []any{map[string]any{"action": "set-location", "location": dir}})}, lake.Key{})
				return err
			},
		} {
			err := choose()
			require.True(t, domain.IsCode(err, domain.CodeConflict), "%s: %v", what, err)
			require.ErrorContains(t, err, "choose an empty directory")
		}
	}
	require.FileExists(t, file)
	_, err = r.createAt("u", r.prefix()+"raw/b", nil)
	require.NoError(t, err)
	r.client("u").append(t, 1)
	require.NoError(t, r.move("u", r.prefix()+"raw/c"))
	require.NoError(t, r.move("u", r.prefix()+"raw/b"), "the table's own directories are exempt")
}

// creates commits a new table at the location, with a file that its writer put there.
func (r *rig) creates(name, location string) (lake.Loaded, error) {
	r.t.Helper()
	updates := []any{
		map[string]any{"action": "assign-uuid", "uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", len(r.onDisk()))},
		map[string]any{"action": "upgrade-format-version", "format-version": 2},
		map[string]any{"action": "add-schema", "schema": json.RawMessage(twoColumns)},
		map[string]any{"action": "set-current-schema", "schema-id": -1},
		map[string]any{"action": "add-spec", "spec": map[string]any{"spec-id": 0, "fields": []any{}}},
		map[string]any{"action": "set-default-spec", "spec-id": -1},
		map[string]any{"action": "add-sort-order", "sort-order": map[string]any{"order-id": 0, "fields": []any{}}},
		map[string]any{"action": "set-default-sort-order", "sort-order-id": -1},
		map[string]any{"action": "set-location", "location": location},
	}
	return r.catalog.Commit(r.t.Context(), r.scope, lake.Change{Ref: ref("public", name), Requirements: raw(r.t, []any{map[string]any{"type": "assert-create"}}), Updates: raw(r.t, updates)}, lake.Key{})
}

// TestStaged: a staged table is created with the files that its writer put there within a day. A
// table that was not staged is registered: its files stay.
func TestStaged(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	stage := func(name, location string) string {
		l, err := r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: name, Schema: json.RawMessage(twoColumns), Location: location, Stage: true}, lake.Key{})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(r.path(l.Table.Location), "data", name+".parquet"), []byte("x"), 0o600))
		return l.Table.Location
	}
	for name, location := range map[string]string{"default": "", "chosen": r.prefix() + "staged/here"} {
		made, err := r.creates(name, stage(name, location))
		require.NoError(t, err)
		require.False(t, r.row(made.Table.ID).Registered, name)
	}
	late := stage("late", "")
	r.clock.move(25 * time.Hour)
	made, err := r.creates("late", late)
	require.NoError(t, err)
	require.True(t, r.row(made.Table.ID).Registered, "a stage is remembered for a day")
	uri, file := r.occupied("b")
	made, err = r.creates("unstaged", uri)
	require.NoError(t, err)
	require.True(t, r.row(made.Table.ID).Registered)
	r.drop("unstaged")
	again := stage("again", r.prefix()+"staged/again")
	_, err = r.creates("again", again)
	require.NoError(t, err)
	r.drop("again")
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.FileExists(t, file)
	require.NoDirExists(t, r.path(again))
	made, err = r.creates("another", again)
	require.NoError(t, err)
	require.True(t, r.row(made.Table.ID).Registered, "a stage serves once")
}

// TestRegisterTakesTheDirectories of a dropped table's properties over.
func TestRegisterTakesTheDirectories(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	_, err := r.set("t", "write.data.path", r.prefix()+"else/where")
	require.NoError(t, err)
	r.client("t").append(t, 1, 2)
	file := r.load("public", "t").MetadataLocation
	r.drop("t")
	_, err = r.register("u", file)
	require.NoError(t, err)
	r.clock.move(2 * lake.UndropTime)
	require.NoError(t, r.catalog.Purge(t.Context()))
	require.ElementsMatch(t, []int64{1, 2}, r.client("u").ids(t))
}
