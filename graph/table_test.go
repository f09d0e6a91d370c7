package graph

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const tableFields = `id kind database schema name fullName rowCount snapshot { id } columns { name type doc required } snapshots { edges { node { id } } }
	history { edges { node { snapshotId } } } files { edges { node { path } } } partitions { edges { node { partition } } } sample { columns { name type } rows }
	sql dialect createdBy updatedBy droppedAt restorableUntil location formatVersion`

func TestTheCatalogIsBrowsed(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.viewer.token)
	a.table("things")
	a.view("seen", `SELECT "id" FROM things`)
	data := w.ok(me, `{ databases(first: 5) { edges { node { id name createdBy schemas { edges { node { name databaseId properties { name value } } } }
		tables { edges { node { name kind } } } views: tables(kind: VIEW) { edges { node { name } } } none: tables(schema: "europe") { edges { node { name } } } } } } }`, nil)
	lake := at(data, "databases", "edges", 0, "node")
	require.Equal(t, "lake", at(lake, "name"))
	require.Equal(t, "public", at(lake, "schemas", "edges", 0, "node", "name"))
	require.Len(t, at(lake, "tables", "edges"), 2)
	require.Equal(t, "seen", at(lake, "views", "edges", 0, "node", "name"))
	require.Empty(t, at(lake, "none", "edges"))
	require.Equal(t, at(lake, "id"), at(w.ok(me, `{ database(id: "LAKE") { id } }`, nil), "database", "id"), "by name in any case")

	table := at(w.ok(me, `{ tableByName(database: "lake", schema: "public", name: "Things") { `+tableFields+` } }`, nil), "tableByName")
	for field, want := range map[string]any{
		"kind": "TABLE", "database": "lake", "schema": "public", "name": "things", "fullName": "lake.public.things", "snapshot": nil, "sql": nil, "dialect": nil,
		"createdBy": "acme-editor@example.com", "droppedAt": nil, "restorableUntil": nil, "formatVersion": 2.0,
	} {
		require.Equal(t, want, at(table, field), field)
	}
	require.Equal(t, map[string]any{"name": "id", "type": "long", "doc": "of a thing", "required": true}, at(table, "columns", 0))
	require.Equal(t, map[string]any{"name": "tags", "type": "list<string>", "doc": nil, "required": false}, at(table, "columns", 1))
	require.Equal(t, map[string]any{"columns": []any{map[string]any{"name": "id", "type": "long"}, map[string]any{"name": "tags", "type": "list<string>"}}, "rows": []any{}}, at(table, "sample"))
	view := at(w.ok(me, `{ tableByName(database: "lake", schema: "public", name: "seen") { `+tableFields+` } }`, nil), "tableByName")
	require.Equal(t, []any{"VIEW", `SELECT "id" FROM things`, "duckdb"}, []any{at(view, "kind"), at(view, "sql"), at(view, "dialect")})
	require.Empty(t, at(view, "snapshots", "edges"))
	require.Equal(t, "id", at(view, "columns", 0, "name"))
	require.Nil(t, w.ok(me, `{ tableByName(database: "lake", schema: "public", name: "none") { id } }`, nil)["tableByName"])
	require.Equal(t, "INVALID", w.query(me, `query($id: ID!) { table(id: $id) { sample(limit: 101) { rows } } }`, map[string]any{"id": at(table, "id")}).code())
	require.Equal(t, "FORBIDDEN", w.query(me, `mutation($id: ID!) { dropTable(input: {id: $id}) { table { id } } }`, map[string]any{"id": at(table, "id")}).code())
}

func TestWhatIsInATable(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.viewer.token)
	made := a.table("things")
	a.adds("things", 9007199254740993, 2)
	a.adds("things", 3)
	data := w.ok(me, `query($id: ID!) { table(id: $id) { rowCount dataFiles dataBytes snapshot { id at operation }
		snapshots(first: 1) { edges { node { id parentId at operation current refs summary { name value } } } pageInfo { hasNextPage endCursor } }
		history { edges { node { at snapshotId parentId isCurrentAncestor } } }
		files { edges { node { path content format partition records bytes } } } partitions { edges { node { partition records dataFiles deleteFiles bytes } } }
		sample(limit: 2) { columns { name type } rows } } }`, map[string]any{"id": made.ID})
	table := at(data, "table")
	require.Equal(t, []any{"3", "2", "append"}, []any{at(table, "rowCount"), at(table, "dataFiles"), at(table, "snapshot", "operation")})
	newest := at(table, "snapshots", "edges", 0, "node")
	require.Equal(t, at(table, "snapshot", "id"), at(newest, "id"))
	require.Equal(t, []any{true, []any{"main"}, "append"}, []any{at(newest, "current"), at(newest, "refs"), at(newest, "operation")})
	require.Contains(t, at(newest, "summary"), map[string]any{"name": "added-records", "value": "1"})
	require.Equal(t, true, at(table, "snapshots", "pageInfo", "hasNextPage"))
	require.Equal(t, at(newest, "id"), at(table, "history", "edges", 0, "node", "snapshotId"))
	require.Equal(t, true, at(table, "history", "edges", 1, "node", "isCurrentAncestor"))
	require.Len(t, at(table, "files", "edges"), 2)
	require.Equal(t, []any{"data", "parquet", nil}, []any{at(table, "files", "edges", 0, "node", "content"), at(table, "files", "edges", 0, "node", "format"), at(table, "files", "edges", 0, "node", "partition")})
	require.Equal(t, []any{nil, "3", "2", "0"}, []any{
		at(table, "partitions", "edges", 0, "node", "partition"), at(table, "partitions", "edges", 0, "node", "records"),
		at(table, "partitions", "edges", 0, "node", "dataFiles"), at(table, "partitions", "edges", 0, "node", "deleteFiles"),
	})
	require.Len(t, at(table, "sample", "rows"), 2)

	first := at(newest, "parentId")
	then := w.ok(me, `query($id: ID!, $s: Int64, $after: String) { table(id: $id) { files(snapshot: $s) { edges { node { records } } } snapshots(after: $after) { edges { node { id } } } } }`,
		map[string]any{"id": made.ID, "s": first, "after": at(table, "snapshots", "pageInfo", "endCursor")})
	require.Len(t, at(then, "table", "files", "edges"), 1)
	require.Equal(t, "2", at(then, "table", "files", "edges", 0, "node", "records"))
	require.Equal(t, first, at(then, "table", "snapshots", "edges", 0, "node", "id"))
	whole := w.query(me, `query($id: ID!) { table(id: $id) { sample { rows } } }`, map[string]any{"id": made.ID})
	require.Contains(t, whole.Body, `[9007199254740993,["tag"]]`, "with all digits")
	require.Equal(t, "NOT_FOUND", w.query(me, `query($id: ID!) { table(id: $id) { files(snapshot: 7) { edges { node { path } } } } }`, map[string]any{"id": made.ID}).code())
	require.Equal(t, "TOO_LARGE", w.query(me, `{ database(id: "lake") { tables { edges { node { sample { rows } } } } } }`, nil).code(), "50 samples at once")
}

func TestATableIsRenamedDroppedAndRestored(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	w.ok(me, `mutation { createSchema(input: {database: "lake", name: "europe"}) { schema { name } } }`, nil)
	for _, made := range []string{string(a.table("things").ID), string(a.view("seen", "SELECT 1").ID)} {
		does := func(mutation string, more string) answer {
			return w.query(me, `mutation($id: ID!) { it: `+mutation+`(input: {id: $id`+more+`}) { table { id name schema droppedAt restorableUntil } } }`, map[string]any{"id": made})
		}
		did := func(mutation, more string) any {
			res := does(mutation, more)
			require.Empty(t, res.Errors, "%s", res.Body)
			return at(res.Data, "it", "table")
		}
		moved := did("renameTable", `, name: "other", schema: "europe"`)
		require.Equal(t, []any{"other", "europe", made}, []any{at(moved, "name"), at(moved, "schema"), at(moved, "id")})
		require.Equal(t, "NOT_FOUND", does("renameTable", `, schema: "asia"`).code())
		require.Equal(t, "other", at(did("renameTable", `, schema: "public"`), "name"), "what is left out stays")
		gone := did("dropTable", "")
		require.NotNil(t, at(gone, "droppedAt"))
		require.NotNil(t, at(gone, "restorableUntil"))
		require.Equal(t, "CONFLICT", does("dropTable", "").code())
		require.Equal(t, "CONFLICT", does("renameTable", `, name: "x"`).code())
		dropped := w.ok(me, `{ database(id: "lake") { tables(dropped: true) { edges { node { id columns { name } sql } } } } }`, nil)
		require.Contains(t, fmt.Sprint(dropped), made)
		back := did("undropTable", "")
		require.Nil(t, at(back, "droppedAt"))
		require.Equal(t, "CONFLICT", does("undropTable", "").code())
		did("dropTable", ", purge: true")
	}
}

func TestDatabasesAndSchemasComeAndGo(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	editor, admin := bearer(a.editor.token), bearer(a.admin.token)
	create := `mutation($name: String!, $key: String) { createDatabase(input: {name: $name, idempotencyKey: $key}) { database { id name schemas { edges { node { name } } } } } }`
	made := at(w.ok(editor, create, map[string]any{"name": "sales", "key": "k"}), "createDatabase", "database")
	require.Equal(t, made, at(w.ok(editor, create, map[string]any{"name": "sales", "key": "k"}), "createDatabase", "database"))
	require.Equal(t, "public", at(made, "schemas", "edges", 0, "node", "name"))
	require.Equal(t, "CONFLICT", w.query(editor, create, map[string]any{"name": "Sales"}).code())
	require.Equal(t, "INVALID", w.query(editor, create, map[string]any{"name": "a.b"}).code())

	schema := `mutation($name: String!, $p: [PropertyInput!]) { createSchema(input: {database: "sales", name: $name, properties: $p}) { schema { name properties { name value } } } }`
	europe := at(w.ok(editor, schema, map[string]any{"name": "europe", "p": []any{map[string]any{"name": "owner", "value": "ann"}}}), "createSchema", "schema")
	require.Contains(t, at(europe, "properties"), map[string]any{"name": "owner", "value": "ann"})
	require.Equal(t, "NOT_FOUND", w.query(editor, schema, map[string]any{"name": "asia.south"}).code())
	require.Equal(t, "CONFLICT", w.query(editor, schema, map[string]any{"name": "Europe"}).code())
	drop := `mutation($name: String!) { deleteSchema(input: {database: "sales", name: $name}) { name } }`
	require.Equal(t, "europe", at(w.ok(editor, drop, map[string]any{"name": "europe"}), "deleteSchema", "name"))
	require.Equal(t, "NOT_FOUND", w.query(editor, drop, map[string]any{"name": "europe"}).code())

	remove := `mutation { deleteDatabase(input: {id: "sales"}) { id } }`
	require.Equal(t, "FORBIDDEN", w.query(editor, remove, nil).code())
	require.Equal(t, at(made, "id"), at(w.ok(admin, remove, nil), "deleteDatabase", "id"))
	require.Nil(t, w.ok(admin, `{ database(id: "sales") { id } }`, nil)["database"])
	a.table("things")
	require.Equal(t, "CONFLICT", w.query(admin, `mutation { deleteDatabase(input: {id: "lake"}) { id } }`, nil).code())
}

func TestLineageLeadsFromTableToTable(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.editor.token)
	one, two, three := a.table("one"), a.table("two"), a.table("three")
	a.executed(me, "COPY one two", nil)
	a.executed(me, "COPY two three", nil)
	graph := `{ root truncated nodes { id kind name namespace dropped jobId taskKey runId text by distance } edges { from to at count direction snapshotId columns statementId runId } }`
	around := at(w.ok(me, `query($id: ID!) { table(id: $id) { lineage `+graph+` } }`, map[string]any{"id": two.ID}), "table", "lineage")
	require.Equal(t, string(two.ID), at(around, "root"))
	names := map[any]any{}
	for _, n := range at(around, "nodes").([]any) {
		if at(n, "kind") == "TABLE" {
			names[at(n, "id")] = at(n, "distance")
		}
	}
	require.Equal(t, map[any]any{string(two.ID): 0.0, string(one.ID): 1.0, string(three.ID): 1.0}, names)
	require.Len(t, at(around, "edges"), 4)
	up := at(w.ok(me, `{ lineage(table: "lake.public.three", way: UPSTREAM, depth: 2) `+graph+` }`, nil), "lineage")
	require.Len(t, at(up, "nodes"), 5, "three tables and two statements")
	for _, e := range at(up, "edges").([]any) {
		require.NotNil(t, at(e, "statementId"))
		require.Equal(t, "1", at(e, "count"))
	}
	require.Equal(t, "INVALID", w.query(me, `{ lineage(table: "lake.public.three", depth: 11) { root } }`, nil).code())
	require.Equal(t, "NOT_FOUND", w.query(me, `{ lineage(table: "lake.public.none") { root } }`, nil).code())
}
