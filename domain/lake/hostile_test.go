package lake_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// hostile maps attacks to paths, all of which must be refused. %s is the workspace's prefix.
func (r *rig) hostile() map[string]string {
	prefix := r.files.Prefix(r.scope.Workspace())
	return map[string]string{
		"a system file": "file:///etc/passwd", "another workspace": strings.TrimSuffix(prefix, "/") + "x/t/u", "up": prefix + "a/../../x/y", "encoded up": prefix + "a/%2e%2e/%2e%2e/x",
		"the prefix itself": prefix, "http": "http://127.0.0.1/" + prefix, "s3": "s3://bucket/x/y", "a query": prefix + "a/b?x", "relative": "a/b", "a backslash": prefix + `a\..\b`,
		"a NUL byte": prefix + "a/b\x00", "a host": strings.Replace(prefix, "file://", "file://evil", 1) + "a/b",
	}
}

// TestHostileLocations: no path that a client supplies anywhere leads out of the workspace's
// storage.
func TestHostileLocations(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	made := r.create("public", "t")
	for what, location := range r.hostile() {
		for _, field := range []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"} {
			_, err := r.set("t", field, location)
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s as %s: %v", what, field, err)
		}
		for field, update := range map[string]map[string]any{
			"location": {"action": "set-location", "location": location},
			"manifest list": {"action": "add-snapshot", "snapshot": map[string]any{
				"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": time.Now().UnixMilli(), "manifest-list": location, "summary": map[string]string{"operation": "append"}, "schema-id": 0,
			}},
			"manifests": {"action": "add-snapshot", "snapshot": map[string]any{
				"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": time.Now().UnixMilli(), "manifests": []string{location}, "summary": map[string]string{"operation": "append"}, "schema-id": 0,
			}},
			"statistics": {"action": "set-statistics", "snapshot-id": 1, "statistics": map[string]any{
				"snapshot-id": 1, "statistics-path": location, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []any{},
			}},
			"partition statistics": {"action": "set-partition-statistics", "partition-statistics": map[string]any{"snapshot-id": 1, "statistics-path": location, "file-size-in-bytes": 1}},
		} {
			_, err := r.catalog.Commit(ctx, r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{update})}, lake.Key{})
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s as %s: %v", what, field, err)
		}
		for field, n := range map[string]lake.NewTable{
			"location": {Name: "u", Schema: json.RawMessage(twoColumns), Location: location},
			"staged":   {Name: "u", Schema: json.RawMessage(twoColumns), Location: location, Stage: true},
			"property": {Name: "u", Schema: json.RawMessage(twoColumns), Properties: map[string]string{"write.data.path": location}},
		} {
			_, err := r.catalog.Create(ctx, r.scope, "lake", "public", n, lake.Key{})
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s as %s: %v", what, field, err)
		}
		_, err := r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: "u", MetadataLocation: location}, lake.KindTable, lake.Key{})
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", what, err)
		_, err = r.catalog.CreateView(ctx, r.scope, "lake", "public", lake.NewView{Name: "v", Location: location, Schema: json.RawMessage(twoColumns), Version: json.RawMessage(oneVersion)}, lake.Key{})
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", what, err)
		_, err = r.catalog.CreateSchema(ctx, r.scope, "lake", "s", map[string]string{"location": location}, lake.Key{})
		if location != r.files.Prefix(r.scope.Workspace()) {
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", what, err)
		}
	}
	require.Equal(t, made.MetadataLocation, r.load("public", "t").MetadataLocation)
	require.Len(t, r.onDisk(), 1)
}

// TestPropertiesThatSteerClients: whoever changes a table cannot set which servers its readers use,
// or which code they run.
func TestPropertiesThatSteerClients(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	for _, name := range []string{"py-io-impl", "s3.endpoint", "token", "rest.signing-name", "client.region"} {
		_, err := r.set("t", name, "x")
		code(t, domain.CodeInvalid, err)
		_, err = r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns), Properties: map[string]string{name: "x"}}, lake.Key{})
		code(t, domain.CodeInvalid, err)
	}
	_, err := r.set("t", "tokens", "x")
	require.NoError(t, err)
}

// TestHostileMetadata: a registered file may name any path. It is refused before anything else is
// read.
func TestHostileMetadata(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	r.client("t").append(t, 1)
	original := r.load("public", "t")
	prefix := r.files.Prefix(r.scope.Workspace())
	register := func(name string, change func(map[string]any)) error {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(original.Metadata, &fields))
		fields["location"] = prefix + "foreign/" + name
		change(fields)
		file := prefix + "foreign/" + name + "/metadata/1.metadata.json"
		if err := r.files.Write(context.WithoutCancel(ctx), file, raw(t, fields)); err != nil {
			require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
		}
		_, err := r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: name, MetadataLocation: file}, lake.KindTable, lake.Key{})
		return err
	}
	n := 0
	next := func() string { n++; return "t" + strings.Repeat("x", n) }
	snapshot := func(f map[string]any) map[string]any { return f["snapshots"].([]any)[0].(map[string]any) }
	for what, location := range r.hostile() {
		for field, change := range map[string]func(map[string]any){
			"location":      func(f map[string]any) { f["location"] = location },
			"manifest list": func(f map[string]any) { snapshot(f)["manifest-list"] = location },
			"property":      func(f map[string]any) { f["properties"] = map[string]string{"write.metadata.path": location} },
		} {
			err := register(next(), change)
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s as %s: %v", what, field, err)
		}
	}
	code(t, domain.CodeInvalid, register(next(), func(f map[string]any) { f["location"] = original.Table.Location }))
	code(t, domain.CodeInvalid, register(next(), func(f map[string]any) { f["location"] = original.Table.Location + "/data" }))
	code(t, domain.CodeInvalid, register(next(), func(f map[string]any) { f["location"] = prefix + "top" }))
	code(t, domain.CodeInvalid, register(next(), func(f map[string]any) { f["format-version"] = 9 }))
	code(t, domain.CodeInvalid, register(next(), func(f map[string]any) { delete(f, "schemas") }))
	require.NoError(t, register("fine", func(map[string]any) {}))
	require.ElementsMatch(t, []int64{1}, r.client("fine").ids(t))
	_, err := r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: "none", MetadataLocation: prefix + "a/b/c.metadata.json"}, lake.KindTable, lake.Key{})
	reason(t, lake.NoSuchFile, err)
	require.NoError(t, r.files.Write(ctx, prefix+"a/b/c.metadata.json", []byte("no json")))
	_, err = r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: "none", MetadataLocation: prefix + "a/b/c.metadata.json"}, lake.KindTable, lake.Key{})
	code(t, domain.CodeInvalid, err)
}

// TestSymbolicLinks cannot lead out of the workspace's directory.
func TestSymbolicLinks(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l := r.create("public", "t")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.MkdirAll(filepath.Join(secret, "metadata"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(secret, "metadata", "1.metadata.json"), l.Metadata, 0o600))
	other := r.workspace("other")
	theirs, err := r.catalog.Create(ctx, other, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(twoColumns)}, lake.Key{})
	require.NoError(t, err)
	mine := filepath.Join(r.dir, string(r.scope.Workspace()), "links")
	require.NoError(t, os.Mkdir(mine, 0o700))
	for name, target := range map[string]string{
		"secret": secret, "theirs": r.path(theirs.Table.Location), "relative": "../../" + string(other.Workspace()),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(mine, name)))
		uri := r.files.Prefix(r.scope.Workspace()) + "links/" + name
		file := uri + "/metadata/" + filepath.Base(theirs.MetadataLocation)
		if name == "secret" {
			file = uri + "/metadata/1.metadata.json"
		}
		_, err := r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: "u", MetadataLocation: file}, lake.KindTable, lake.Key{})
		require.Error(t, err, name)
		_, err = r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns), Location: uri + "/new"}, lake.Key{})
		require.Error(t, err, name)
	}
	entries, err := os.ReadDir(secret)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was made there")
}

// TestChosenLocations overlap no other table's, live or dropped. Of two concurrent creations one
// succeeds.
func TestChosenLocations(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	prefix := r.files.Prefix(r.scope.Workspace())
	create := func(name, location string) error {
		_, err := r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{Name: name, Schema: json.RawMessage(twoColumns), Location: location}, lake.Key{})
		return err
	}
	auto := r.create("public", "auto")
	require.NoError(t, create("a", prefix+"x/a"))
	for _, location := range []string{prefix + "x/a", prefix + "x/a/", prefix + "x//a", prefix + "x/a/b", auto.Table.Location, auto.Table.Location + "/data/x", prefix + "x", prefix + string(r.db.ID)} {
		code(t, domain.CodeInvalid, create("b", location))
	}
	require.NoError(t, create("b", prefix+"x/ab"))
	require.NoError(t, create("c", prefix+"x/c/d/e"))
	code(t, domain.CodeConflict, create("d", prefix+"x/c/d")) // the files of c are in it
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "a"), lake.KindTable, true, lake.Key{}))
	code(t, domain.CodeInvalid, create("a", prefix+"x/a"))
	made := make(chan error, 6)
	together(6, func(i int) { made <- create("p"+string(rune('a'+i)), prefix+"y/p"+strings.Repeat("/q", i)) })
	close(made)
	wins := 0
	for err := range made {
		if err == nil {
			wins++
		}
	}
	require.Equal(t, 1, wins)
	_, err := r.catalog.Commit(ctx, r.scope, lake.Change{Ref: ref("public", "b"), Updates: raw(t, []any{map[string]any{"action": "set-location", "location": prefix + "x/a/b"}})}, lake.Key{})
	code(t, domain.CodeInvalid, err)
	l, err := r.catalog.Commit(ctx, r.scope, lake.Change{Ref: ref("public", "b"), Updates: raw(t, []any{map[string]any{"action": "set-location", "location": "file:" + strings.TrimPrefix(prefix, "file://") + "z/b"}})}, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, prefix+"z/b", l.Table.Location)
	require.Contains(t, string(l.Metadata), `"location":"`+prefix+`z/b"`)
	code(t, domain.CodeInvalid, create("e", prefix+"x/ab/f"))
	_, err = r.set("c", "write.data.path", auto.Table.Location+"/data")
	code(t, domain.CodeInvalid, err)
	_, err = r.set("c", "write.data.path", prefix+"x/c/d/e/elsewhere")
	require.NoError(t, err)
}
