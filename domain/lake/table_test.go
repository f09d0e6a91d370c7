package lake_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// TestTable is created, loaded, appended to, counted, renamed and dropped.
func TestTable(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "Events")
	require.Equal(t, "Events", made.Table.Name)
	require.True(t, strings.HasPrefix(made.Table.Location, "file://"+r.dir+"/"+string(r.scope.Workspace())+"/"+string(r.db.ID)+"/tbl_"), made.Table.Location)
	require.Contains(t, made.MetadataLocation, made.Table.Location+"/metadata/00000-")
	for _, dir := range []string{"data", "metadata"} {
		info, err := os.Stat(filepath.Join(r.path(made.Table.Location), dir))
		require.NoError(t, err)
		require.True(t, info.IsDir())
	}
	loaded := r.load("PUBLIC", "events")
	require.JSONEq(t, string(made.Metadata), string(loaded.Metadata), "names are found in any case")
	require.Zero(t, *loaded.Table.RowCount)
	require.Nil(t, loaded.Table.Snapshot)

	c := r.client("events")
	c.append(t, 1, 2, 3)
	c.append(t, 4)
	require.ElementsMatch(t, []int64{1, 2, 3, 4}, c.ids(t))
	row, err := r.catalog.Table(t.Context(), r.scope, ref("public", "events"), lake.KindTable)
	require.NoError(t, err)
	require.Equal(t, int64(4), *row.RowCount)
	require.Equal(t, int64(2), *row.DataFiles)
	require.Positive(t, *row.DataBytes)
	require.Equal(t, "append", row.Snapshot.Operation)
	require.Equal(t, 2, row.Version)
	require.Contains(t, row.MetadataLocation, "/00002-")

	require.NoError(t, r.catalog.Rename(t.Context(), r.scope, lake.KindTable, ref("public", "events"), ref("public", "facts"), lake.Key{}))
	_, err = r.catalog.Table(t.Context(), r.scope, ref("public", "events"), lake.KindTable)
	reason(t, lake.NoSuchTable, err)
	require.ElementsMatch(t, []int64{1, 2, 3, 4}, r.client("facts").ids(t))
	require.NoError(t, r.catalog.Drop(t.Context(), r.scope, ref("public", "facts"), lake.KindTable, false, lake.Key{}))
	_, err = r.catalog.Load(t.Context(), r.scope, ref("public", "facts"), lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchTable, err)
	require.Empty(t, r.reported)
}

// TestWhatIsNotThere has the reason of the protocol.
func TestWhatIsNotThere(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	ctx := t.Context()
	load := func(database, schema, name string, kind lake.TableKind) error {
		_, err := r.catalog.Load(ctx, r.scope, lake.Ref{Database: database, Schema: schema, Name: name}, kind, lake.LoadOptions{})
		return err
	}
	create := func(schema, name string) error {
		_, err := r.catalog.Create(ctx, r.scope, "lake", schema, lake.NewTable{Name: name, Schema: json.RawMessage(twoColumns)}, lake.Key{})
		return err
	}
	names := func(database, schema string) error {
		_, _, err := r.catalog.Names(ctx, r.scope, database, schema, lake.KindTable, "", 0)
		return err
	}
	reason(t, lake.NoSuchWarehouse, load("sea", "public", "t", lake.KindTable))
	reason(t, lake.NoSuchTable, load("lake", "private", "t", lake.KindTable))
	reason(t, lake.NoSuchTable, load("lake", "public", "u", lake.KindTable))
	reason(t, lake.NoSuchView, load("lake", "public", "t", lake.KindView))
	require.NoError(t, load(string(r.db.ID), "public", "t", lake.KindTable), "by the database's id")
	reason(t, lake.AlreadyExists, create("public", "T"))
	reason(t, lake.NoSuchNamespace, create("private", "t"))
	code(t, domain.CodeInvalid, create("public", ""))
	code(t, domain.CodeInvalid, create("public", "a/b"))
	code(t, domain.CodeInvalid, create("public", "a\x00b"))
	reason(t, lake.NoSuchNamespace, names("lake", "private"))
	reason(t, lake.NoSuchWarehouse, names("sea", "public"))
	reason(t, lake.NoSuchTable, r.catalog.Drop(ctx, r.scope, ref("public", "u"), lake.KindTable, false, lake.Key{}))
	reason(t, lake.NoSuchTable, r.catalog.Rename(ctx, r.scope, lake.KindTable, ref("public", "u"), ref("public", "v"), lake.Key{}))
	reason(t, lake.NoSuchNamespace, r.catalog.Rename(ctx, r.scope, lake.KindTable, ref("public", "t"), ref("private", "t"), lake.Key{}))
	r.create("public", "v")
	reason(t, lake.AlreadyExists, r.catalog.Rename(ctx, r.scope, lake.KindTable, ref("public", "t"), ref("public", "V"), lake.Key{}))
	require.NoError(t, r.catalog.Rename(ctx, r.scope, lake.KindTable, ref("public", "t"), ref("public", "T"), lake.Key{}), "another case of its own name")
	_, err := r.set("u", "a", "b")
	reason(t, lake.NoSuchTable, err)
}

// TestSchemas are nested, listed a level at a time, and dropped when they are empty.
func TestSchemas(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	create := func(name string) error {
		_, err := r.catalog.CreateSchema(ctx, r.scope, "lake", name, nil, lake.Key{})
		return err
	}
	reason(t, lake.NoSuchNamespace, create("a.b"))
	require.NoError(t, create("A"))
	require.NoError(t, create("a.b"))
	require.NoError(t, create("a.c"))
	require.NoError(t, create("a.b.d"))
	reason(t, lake.AlreadyExists, create("A.B"))
	for _, bad := range []string{"", ".", "a.", "a..b", " x", "a/b", "a\\b", "a\nb", strings.Repeat("x", 300), strings.Repeat("a.", 20) + "a"} {
		code(t, domain.CodeInvalid, create(bad))
	}
	list := func(parent, after string, limit int) ([]string, string) {
		names, next, err := r.catalog.SchemaNames(ctx, r.scope, "lake", parent, after, limit)
		require.NoError(t, err)
		return names, next
	}
	names, next := list("", "", 0)
	require.Equal(t, []string{"A", "public"}, names)
	require.Empty(t, next)
	names, next = list("a", "", 1)
	require.Equal(t, []string{"A.b"}, names, "a level is as its own schema has it")
	names, next = list("a", next, 1)
	require.Equal(t, []string{"A.c"}, names)
	require.Empty(t, next)
	_, _, err := r.catalog.SchemaNames(ctx, r.scope, "lake", "nowhere", "", 0)
	reason(t, lake.NoSuchNamespace, err)
	all, err := r.catalog.Schemas(ctx, r.scope, "lake", domain.Page{Limit: 3})
	require.NoError(t, err)
	require.Len(t, all.Items, 3)
	all, err = r.catalog.Schemas(ctx, r.scope, "lake", domain.Page{Limit: 3, Cursor: all.Next})
	require.NoError(t, err)
	require.Len(t, all.Items, 2)

	reason(t, lake.NamespaceNotEmpty, r.catalog.DropSchema(ctx, r.scope, "lake", "a", lake.Key{}))
	r.create("a.b.d", "t")
	reason(t, lake.NamespaceNotEmpty, r.catalog.DropSchema(ctx, r.scope, "lake", "a.b.d", lake.Key{}))
	require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("a.b.d", "t"), lake.KindTable, false, lake.Key{}))
	for _, name := range []string{"a.b.d", "a.b", "a.c", "a"} {
		require.NoError(t, r.catalog.DropSchema(ctx, r.scope, "lake", name, lake.Key{}))
	}
	reason(t, lake.NoSuchNamespace, r.catalog.DropSchema(ctx, r.scope, "lake", "a", lake.Key{}))
}

// TestSchemaProperties are set and removed, and the location among them is fenced.
func TestSchemaProperties(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l, err := r.catalog.CreateSchema(ctx, r.scope, "lake", "s", map[string]string{"a": "1"}, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, "1", l.Properties["a"])
	require.Equal(t, r.files.Prefix(r.scope.Workspace())+string(r.db.ID)+"/schema-s", l.Properties["location"])
	done, err := r.catalog.UpdateSchema(ctx, r.scope, "lake", "s", map[string]string{"b": "2"}, []string{"a", "z"}, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, lake.SchemaChange{Updated: []string{"b"}, Removed: []string{"a"}, Missing: []string{"z"}}, done)
	_, err = r.catalog.UpdateSchema(ctx, r.scope, "lake", "s", map[string]string{"b": "2"}, []string{"b"}, lake.Key{})
	reason(t, lake.UnprocessableEntity, err)
	_, err = r.catalog.UpdateSchema(ctx, r.scope, "lake", "s", map[string]string{"location": "file:///etc"}, nil, lake.Key{})
	code(t, domain.CodeInvalid, err)
	_, err = r.catalog.UpdateSchema(ctx, r.scope, "lake", "s", map[string]string{"big": strings.Repeat("x", 100_000)}, nil, lake.Key{})
	code(t, domain.CodeInvalid, err)
	l, err = r.catalog.Schema(ctx, r.scope, "lake", "s")
	require.NoError(t, err)
	require.Equal(t, "2", l.Properties["b"])
	require.NotContains(t, l.Properties, "a")
}

// TestDatabases have names that engines do not reserve, unique ignoring case. They can be deleted
// when they are empty.
func TestDatabases(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	for _, bad := range []string{"", "main", "Default", "SYSTEM", "temp", "memory", "information_schema", "pg_catalog", "a.b", "a/b", "db_x", "a%b"} {
		_, err := r.databases.Create(ctx, r.scope, lake.NewDatabase{Name: bad}, domain.Idempotency{})
		code(t, domain.CodeInvalid, err)
	}
	_, err := r.databases.Create(ctx, r.scope, lake.NewDatabase{Name: "Lake"}, domain.Idempotency{})
	code(t, domain.CodeConflict, err)
	d, err := r.databases.Create(ctx, r.scope, lake.NewDatabase{Name: "Sea"}, domain.Idempotency{Key: "k"})
	require.NoError(t, err)
	again, err := r.databases.Create(ctx, r.scope, lake.NewDatabase{Name: "Sea"}, domain.Idempotency{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, d, again)
	found, err := r.databases.Find(ctx, r.scope, "SEA")
	require.NoError(t, err)
	require.Equal(t, d, found)
	_, err = r.catalog.Create(ctx, r.scope, "sea", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(twoColumns)}, lake.Key{})
	require.NoError(t, err)
	code(t, domain.CodeConflict, r.databases.Delete(ctx, r.scope, d.ID))
	require.NoError(t, r.catalog.Drop(ctx, r.scope, lake.Ref{Database: "sea", Schema: "public", Name: "t"}, lake.KindTable, true, lake.Key{}))
	require.NoError(t, r.databases.Delete(ctx, r.scope, d.ID))
	_, err = r.databases.Get(ctx, r.scope, d.ID)
	code(t, domain.CodeNotFound, err)
	dropped, err := r.catalog.Tables(ctx, r.scope, lake.TableFilter{Dropped: true}, domain.Page{})
	require.NoError(t, err)
	require.Len(t, dropped.Items, 1, "a dropped table outlives its database")
	_, err = r.catalog.Undrop(ctx, r.scope, dropped.Items[0].ID)
	reason(t, lake.NoSuchNamespace, err)
}

// TestRoles: a viewer reads and changes nothing; another workspace finds nothing.
func TestRoles(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	viewer := r.as(domain.ActorUser, "usr_2", domain.RoleViewer)
	_, err := r.catalog.Load(ctx, viewer, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	require.NoError(t, err)
	refused := map[string]error{}
	_, refused["create"] = r.catalog.Create(ctx, viewer, "lake", "public", lake.NewTable{Name: "u"}, lake.Key{})
	_, refused["commit"] = r.catalog.Commit(ctx, viewer, lake.Change{Ref: ref("public", "t")}, lake.Key{})
	refused["commit all"] = r.catalog.CommitAll(ctx, viewer, "lake", nil, lake.Key{})
	refused["drop"] = r.catalog.Drop(ctx, viewer, ref("public", "t"), lake.KindTable, false, lake.Key{})
	refused["rename"] = r.catalog.Rename(ctx, viewer, lake.KindTable, ref("public", "t"), ref("public", "u"), lake.Key{})
	_, refused["register"] = r.catalog.Register(ctx, viewer, "lake", "public", lake.Registration{}, lake.KindTable, lake.Key{})
	_, refused["undrop"] = r.catalog.Undrop(ctx, viewer, "tbl_x")
	_, refused["create schema"] = r.catalog.CreateSchema(ctx, viewer, "lake", "s", nil, lake.Key{})
	_, refused["update schema"] = r.catalog.UpdateSchema(ctx, viewer, "lake", "s", nil, nil, lake.Key{})
	refused["drop schema"] = r.catalog.DropSchema(ctx, viewer, "lake", "public", lake.Key{})
	_, refused["create view"] = r.catalog.CreateView(ctx, viewer, "lake", "public", lake.NewView{}, lake.Key{})
	_, refused["commit view"] = r.catalog.CommitView(ctx, viewer, lake.Change{}, lake.Key{})
	for what, err := range refused {
		require.True(t, domain.IsCode(err, domain.CodeForbidden), "%s: %v", what, err)
	}
	stranger := r.workspace("other")
	_, err = r.catalog.Load(ctx, stranger, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchTable, err)
	_, err = r.catalog.TableByID(ctx, stranger, r.load("public", "t").Table.ID)
	code(t, domain.CodeNotFound, err)
	_, err = r.catalog.Load(ctx, stranger, lake.Ref{Database: string(r.db.ID), Schema: "public", Name: "t"}, lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchWarehouse, err)
	_, err = r.catalog.Load(ctx, domain.Scope{}, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	require.ErrorIs(t, err, domain.ErrNoScope)
}

// TestLists page through tables and names.
func TestLists(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	for i := range 5 {
		r.create("public", fmt.Sprintf("t%d", i))
	}
	names, next, err := r.catalog.Names(ctx, r.scope, "lake", "public", lake.KindTable, "", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"t0", "t1", "t2"}, names)
	names, next, err = r.catalog.Names(ctx, r.scope, "lake", "public", lake.KindTable, next, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"t3", "t4"}, names)
	require.Empty(t, next)
	first, err := r.catalog.Tables(ctx, r.scope, lake.TableFilter{Database: r.db.ID}, domain.Page{Limit: 4})
	require.NoError(t, err)
	require.Len(t, first.Items, 4)
	rest, err := r.catalog.Tables(ctx, r.scope, lake.TableFilter{Database: r.db.ID}, domain.Page{Limit: 4, Cursor: first.Next})
	require.NoError(t, err)
	require.Len(t, rest.Items, 1)
	_, err = r.catalog.Tables(ctx, r.scope, lake.TableFilter{Database: r.db.ID, Kind: lake.KindView}, domain.Page{Cursor: first.Next})
	code(t, domain.CodeInvalid, err)
	_, err = r.catalog.Tables(ctx, r.scope, lake.TableFilter{Database: "db_none"}, domain.Page{})
	code(t, domain.CodeNotFound, err)
}

// TestUndrop restores a table with its rows for seven days, unless its name is taken.
func TestUndrop(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	id := r.create("public", "t").Table.ID
	r.client("t").append(t, 1, 2)
	drop := func() {
		require.NoError(t, r.catalog.Drop(ctx, r.scope, ref("public", "t"), lake.KindTable, true, lake.Key{}))
	}
	drop()
	dropped, err := r.catalog.Tables(ctx, r.scope, lake.TableFilter{Dropped: true}, domain.Page{})
	require.NoError(t, err)
	require.Len(t, dropped.Items, 1)
	require.True(t, dropped.Items[0].Purge)
	other := r.create("public", "t")
	require.NotEqual(t, other.Table.Location, dropped.Items[0].Location)
	_, err = r.catalog.Undrop(ctx, r.scope, id)
	reason(t, lake.AlreadyExists, err)
	require.NoError(t, r.catalog.Rename(ctx, r.scope, lake.KindTable, ref("public", "t"), ref("public", "u"), lake.Key{}))
	r.clock.move(lake.UndropTime - time.Minute)
	row, err := r.catalog.Undrop(ctx, r.scope, id)
	require.NoError(t, err)
	require.Nil(t, row.DroppedAt)
	require.ElementsMatch(t, []int64{1, 2}, r.client("t").ids(t))
	_, err = r.catalog.Undrop(ctx, r.scope, id)
	code(t, domain.CodeConflict, err)
	drop()
	r.clock.move(lake.UndropTime)
	_, err = r.catalog.Undrop(ctx, r.scope, id)
	code(t, domain.CodeConflict, err)
	_, err = r.catalog.Undrop(ctx, r.scope, "tbl_none")
	code(t, domain.CodeNotFound, err)
}
