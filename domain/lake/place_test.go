package lake_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// relocated writes the metadata with another location to the file.
func (r *rig) relocated(metadata []byte, location, file string) {
	r.t.Helper()
	var fields map[string]any
	require.NoError(r.t, json.Unmarshal(metadata, &fields))
	fields["location"] = location
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(r.t, os.WriteFile(file, raw(r.t, fields), 0o600))
}

// TestLocationsAreWrittenInManyWays: a table registered with any spelling of its location accepts
// commits.
func TestLocationsAreWrittenInManyWays(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	prefix := r.files.Prefix(r.scope.Workspace())
	for name, location := range map[string]string{
		"slash": prefix + "old/slash/", "short": "file:" + strings.TrimPrefix(prefix, "file://") + "old/short", "double": prefix + "old//double", "bare": r.path(prefix) + "old/bare",
	} {
		t.Run(name, func(t *testing.T) {
			canonical := prefix + "old/" + name
			file := canonical + "/metadata/00000-x.metadata.json"
			r.relocated(made.Metadata, location, r.path(file))
			_, err := r.catalog.Register(t.Context(), r.scope, "lake", "public", lake.Registration{Name: name, MetadataLocation: file}, lake.KindTable, lake.Key{})
			require.NoError(t, err)
			l, err := r.set(name, "a", "b")
			require.NoError(t, err)
			require.Equal(t, canonical, l.Table.Location)
			require.True(t, strings.HasPrefix(l.MetadataLocation, canonical+"/metadata/"), l.MetadataLocation)
			l, err = r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", name), Updates: raw(t, []any{map[string]any{"action": "set-location", "location": location}})}, lake.Key{})
			require.NoError(t, err, "where it is already")
			require.Equal(t, canonical, l.Table.Location)
		})
	}
}

// TestLocationOfTheFileIsNotTrusted: a writer to the storage cannot move a table by changing its
// file.
func TestLocationOfTheFileIsNotTrusted(t *testing.T) {
	r := newRig(t)
	made, other := r.create("public", "t"), r.create("public", "other")
	for _, location := range []string{other.Table.Location, "file:///etc", r.files.Prefix(r.scope.Workspace())} {
		before := r.load("public", "t")
		r.relocated(before.Metadata, location, r.path(before.MetadataLocation))
		r.catalog = r.another(r.files)
		_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{})}, lake.Key{})
		require.NoError(t, err)
		l, err := r.set("t", "a", location)
		require.NoError(t, err, location)
		require.Equal(t, made.Table.Location, l.Table.Location)
		require.Equal(t, made.Table.Location, r.load("public", "t").Table.Location)
		meta, err := table.ParseMetadataBytes(l.Metadata)
		require.NoError(t, err)
		require.Equal(t, made.Table.Location, meta.Location())
		require.True(t, strings.HasPrefix(l.MetadataLocation, made.Table.Location+"/metadata/"), l.MetadataLocation)
	}
}

// TestRegisterOverAnotherKind: a view does not become a table by being overwritten.
func TestRegisterOverAnotherKind(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	_, err := r.catalog.CreateView(t.Context(), r.scope, "lake", "public", lake.NewView{Name: "v", Schema: json.RawMessage(twoColumns), Version: json.RawMessage(oneVersion)}, lake.Key{})
	require.NoError(t, err)
	prefix := r.files.Prefix(r.scope.Workspace())
	file := prefix + "old/t/metadata/00000-x.metadata.json"
	r.relocated(made.Metadata, prefix+"old/t", r.path(file))
	_, err = r.catalog.Register(t.Context(), r.scope, "lake", "public", lake.Registration{Name: "v", MetadataLocation: file, Overwrite: true}, lake.KindTable, lake.Key{})
	reason(t, lake.AlreadyExists, err)
}
