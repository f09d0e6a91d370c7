package rest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

const inPublic = "/databases/lake/schemas/public/tables/"

// The lists and the schema match the specification, and open no data file.
func TestTablesAreListed(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "Things", false)
	w.table(w.ours, "empty", true)
	w.view(w.ours, "lake", "seen")
	w.adds(w.ours, "things", 1, 2)
	list := func(query string) []any {
		return w.call(w.ours.viewer, "GET", "/databases/LAKE/"+query, nil).data(200)
	}
	all := list("tables")
	require.Equal(t, []any{"Things", "empty"}, fields(all, "name"), "oldest first, without views")
	things, _ := all[0].(map[string]any)
	for field, want := range map[string]any{
		"database": "lake", "schema": "public", "kind": "table", "row_count": 2.0, "data_files": 1.0, "format_version": 2.0, "dropped_at": nil, "restorable_until": nil,
	} {
		require.Equal(t, want, things[field], field)
	}
	require.Greater(t, things["data_bytes"], 0.0)
	snapshot, _ := things["current_snapshot"].(map[string]any)
	require.Equal(t, "append", snapshot["operation"])
	require.Len(t, snapshot, 3)
	empty, _ := all[1].(map[string]any)
	require.Equal(t, 0.0, empty["row_count"])
	require.NotContains(t, empty, "current_snapshot")
	views := list("views")
	require.Equal(t, []any{"seen"}, fields(views, "name"))
	require.Equal(t, []any{"view"}, fields(views, "kind"))
	require.Len(t, list("tables?schema=public"), 2)
	require.Empty(t, list("tables?schema=none"))
	require.Empty(t, list("tables?dropped=true"))
	page := w.call(w.ours.viewer, "GET", "/databases/lake/tables?limit=1", nil).object(200)
	require.Equal(t, []any{"empty"}, fields(list(fmt.Sprint("tables?limit=1&cursor=", page["next_cursor"])), "name"))
	for _, query := range []string{"?limit=0", "?limit=201", "?cursor=x", "?dropped=perhaps", fmt.Sprint("?schema=public&cursor=", page["next_cursor"])} {
		w.call(w.ours.viewer, "GET", "/databases/lake/tables"+query, nil).refused(400)
	}

	require.Equal(t, things, w.call(w.ours.viewer, "GET", inPublic+"THINGS", nil).object(200), "found in any case")
	require.Equal(t, `{"columns":[{"name":"id","type":"long","required":true,"doc":"of a thing"},{"name":"price","type":"decimal(38, 2)","required":false,"doc":""},`+
		`{"name":"tags","type":"list<string>","required":false,"doc":""},{"name":"day","type":"string","required":false,"doc":""}]}`, w.call(w.ours.viewer, "GET", inPublic+"things/schema", nil).body)
	for _, path := range []string{"/databases/none/tables", "/databases/none/views", inPublic + "none", inPublic + "seen", inPublic + "none/schema", "/databases/lake/schemas/none/tables/things"} {
		w.call(w.ours.viewer, "GET", path, nil).refused(404)
	}
}

func TestWhatIsInATable(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "things", true)
	w.adds(w.ours, "things", 9007199254740993, 2)
	w.adds(w.ours, "things", 3)
	list := func(path string) []any {
		return w.call(w.ours.viewer, "GET", inPublic+"things/"+path, nil).data(200)
	}
	table := w.call(w.ours.viewer, "GET", inPublic+"things", nil)
	snapshots := w.call(w.ours.viewer, "GET", inPublic+"things/snapshots", nil)
	require.Equal(t, []any{"append", "append"}, fields(snapshots.data(200), "operation"))
	require.Equal(t, []any{true, false}, fields(snapshots.data(200), "current"), "newest first")
	require.Equal(t, []any{[]any{"main"}, []any{}}, fields(snapshots.data(200), "refs"))
	newest, _ := snapshots.data(200)[0].(map[string]any)
	first, _ := snapshots.data(200)[1].(map[string]any)
	require.Equal(t, []any{first["id"], nil}, []any{newest["parent_id"], first["parent_id"]})
	summary, _ := newest["summary"].(map[string]any)
	require.Equal(t, "1", summary["added-records"])
	id := between(snapshots.body, `"id":`, ",") // a float cannot hold it
	require.Contains(t, table.body, `"current_snapshot":{"id":`+id+",", "with all digits")
	page := w.call(w.ours.viewer, "GET", inPublic+"things/snapshots?limit=1", nil).object(200)
	require.Equal(t, []any{first}, list(fmt.Sprint("snapshots?limit=1&cursor=", page["next_cursor"])))

	history := list("history")
	require.Equal(t, fields(snapshots.data(200), "id"), fields(history, "snapshot_id"))
	require.Equal(t, []any{true, true}, fields(history, "is_current_ancestor"))

	files := list("files")
	require.Len(t, files, 3)
	require.ElementsMatch(t, []any{"day=monday", "day=tuesday", "day=tuesday"}, fields(files, "partition"))
	one, _ := files[0].(map[string]any)
	require.Equal(t, []any{"data", "parquet", 1.0, 0.0}, []any{one["content"], one["format"], one["records"], one["spec_id"]})
	require.Len(t, list("files?snapshot="+between(snapshots.body, `"parent_id":`, ",")), 2, "of the first snapshot")
	w.call(w.ours.viewer, "GET", inPublic+"things/files?snapshot=7", nil).refused(404)
	next := w.call(w.ours.viewer, "GET", inPublic+"things/files?limit=2", nil).object(200)
	require.Len(t, list(fmt.Sprint("files?limit=2&cursor=", next["next_cursor"])), 1)

	partitions := list("partitions")
	require.ElementsMatch(t, []any{"day=monday", "day=tuesday"}, fields(partitions, "partition"))
	for _, p := range partitions {
		p, _ := p.(map[string]any)
		n := map[any]float64{"day=monday": 1, "day=tuesday": 2}[p["partition"]]
		require.Equal(t, []any{n, n, 0.0, 0.0}, []any{p["records"], p["data_files"], p["delete_files"], p["spec_id"]})
		require.Greater(t, p["bytes"], 0.0)
	}

	sample := w.call(w.ours.viewer, "GET", inPublic+"things/sample", nil)
	require.Equal(t, []any{"id", "price", "tags", "day"}, sample.object(200)["columns"])
	require.Contains(t, sample.body, `[9007199254740993,`+wide+`,["tag"],"tuesday"]`, "with all digits")
	require.Len(t, sample.object(200)["rows"], 3)
	require.Len(t, w.call(w.ours.viewer, "GET", inPublic+"things/sample?limit=2", nil).object(200)["rows"], 2)
	for _, query := range []string{"sample?limit=0", "sample?limit=101", "snapshots?cursor=x", "files?snapshot=x", "history?limit=201"} {
		w.call(w.ours.viewer, "GET", inPublic+"things/"+query, nil).refused(400)
	}

	w.table(w.ours, "empty", false)
	require.Equal(t, `{"columns":["id","price","tags","day"],"rows":[],"truncated":false}`, w.call(w.ours.viewer, "GET", inPublic+"empty/sample", nil).body)
	for _, path := range []string{"snapshots", "history", "files", "partitions"} {
		require.Equal(t, `{"data":[]}`, w.call(w.ours.viewer, "GET", inPublic+"empty/"+path, nil).body)
		w.call(w.ours.viewer, "GET", inPublic+"none/"+path, nil).refused(404)
	}
	require.NotContains(t, w.logged.String(), "request failed")
}

func TestATableIsRenamedDroppedAndRestored(t *testing.T) {
	w := newWorld(t)
	id := string(w.table(w.ours, "things", false).ID)
	w.table(w.ours, "taken", false)
	w.view(w.ours, "lake", "seen")
	w.adds(w.ours, "things", 1)
	w.call(w.ours.editor, "POST", "/databases/lake/schemas", `{"name":"europe.north"}`).refused(404)
	w.call(w.ours.editor, "POST", "/databases/lake/schemas", `{"name":"europe"}`).object(201)
	rename := func(path, body string) reply {
		return w.call(w.ours.editor, "PATCH", path, body)
	}
	const moved = "/databases/lake/schemas/europe/tables/"
	got := rename(inPublic+"things", `{"schema":"europe","name":"Birds"}`).object(200)
	require.Equal(t, []any{id, "europe", "Birds", 1.0}, []any{got["id"], got["schema"], got["name"], got["row_count"]})
	w.call(w.ours.viewer, "GET", inPublic+"things", nil).refused(404)
	require.Equal(t, "birds", rename(moved+"Birds", `{"name":"birds"}`).object(200)["name"], "its case alone")
	for _, body := range []string{`{"schema":"public","name":"taken"}`, `{"schema":"public","name":"TAKEN"}`, `{"schema":"public","name":"seen"}`} {
		require.Contains(t, rename(moved+"birds", body).refused(409), "exists already")
	}
	rename(moved+"birds", `{"schema":"asia","name":"birds"}`).refused(404)
	rename(moved+"none", `{"name":"birds"}`).refused(404)
	for _, body := range []string{`{"name":""}`, `{"name":" x"}`, `{"name":"a/b"}`, `{"schema":"public"}`, `{}`} {
		rename(moved+"birds", body).refused(400)
	}
	require.Equal(t, 1.0, w.call(w.ours.viewer, "GET", moved+"birds", nil).object(200)["row_count"], "nothing was changed")

	undrop := func(id string) reply { return w.call(w.ours.editor, "POST", "/tables/"+id+"/undrop", nil) }
	undrop(id).refused(409)
	undrop("tbl_none").refused(404)
	w.call(w.ours.editor, "DELETE", moved+"BIRDS?purge=true", nil).gone()
	w.call(w.ours.editor, "DELETE", moved+"birds", nil).refused(404)
	for _, path := range []string{"", "/schema", "/snapshots", "/history", "/files", "/partitions", "/sample"} {
		w.call(w.ours.viewer, "GET", moved+"birds"+path, nil).refused(404)
	}
	dropped := w.call(w.ours.viewer, "GET", "/databases/lake/tables?dropped=true", nil).data(200)
	require.Equal(t, []any{id}, fields(dropped, "id"))
	one, _ := dropped[0].(map[string]any)
	at, err := time.Parse(time.RFC3339, fmt.Sprint(one["dropped_at"]))
	require.NoError(t, err)
	until, err := time.Parse(time.RFC3339, fmt.Sprint(one["restorable_until"]))
	require.NoError(t, err)
	require.Equal(t, lake.UndropTime, until.Sub(at))

	rename(inPublic+"taken", `{"schema":"europe","name":"birds"}`).object(200)
	require.Contains(t, undrop(id).refused(409), "exists already")
	rename(moved+"birds", `{"schema":"public","name":"taken"}`).object(200)
	w.call(w.ours.editor, "DELETE", "/databases/lake/schemas/europe", nil).gone()
	require.Contains(t, undrop(id).refused(404), "is gone; make it again first")
	w.call(w.ours.editor, "POST", "/databases/lake/schemas", `{"name":"europe"}`).object(201)
	back := undrop(id).object(200)
	require.Equal(t, []any{id, "birds", 1.0, nil, nil}, []any{back["id"], back["name"], back["row_count"], back["dropped_at"], back["restorable_until"]})
	undrop(id).refused(409)

	w.call(w.ours.editor, "DELETE", moved+"birds", nil).gone()
	w.clock.advance(lake.UndropTime)
	w.ours = w.renewed(w.ours)
	require.Contains(t, undrop(id).refused(409), "too long ago")
	require.NotContains(t, w.logged.String(), "request failed")
}

func TestAViewIsDroppedAndRestored(t *testing.T) {
	w := newWorld(t)
	id := string(w.view(w.ours, "lake", "seen").ID)
	const views = "/databases/lake/schemas/public/views/"
	w.call(w.ours.editor, "DELETE", inPublic+"seen", nil).refused(404)
	w.table(w.ours, "things", false)
	w.call(w.ours.editor, "DELETE", views+"things", nil).refused(404)
	w.call(w.ours.editor, "DELETE", views+"SEEN", nil).gone()
	w.call(w.ours.editor, "DELETE", views+"seen", nil).refused(404)
	require.Empty(t, w.call(w.ours.viewer, "GET", "/databases/lake/views", nil).data(200))
	require.Equal(t, []any{id}, fields(w.call(w.ours.viewer, "GET", "/databases/lake/views?dropped=true", nil).data(200), "id"))
	require.Equal(t, "view", w.call(w.ours.editor, "POST", "/tables/"+id+"/undrop", nil).object(200)["kind"])
	require.Len(t, w.call(w.ours.viewer, "GET", "/databases/lake/views", nil).data(200), 1)
}

// Tables of another workspace are not found, by name or by id, although both workspaces have a
// database lake.
func TestTablesOfOthersAreNotFound(t *testing.T) {
	w := newWorld(t)
	id := string(w.table(w.ours, "things", false).ID)
	database := fmt.Sprint(w.call(w.ours.viewer, "GET", "/databases/lake", nil).object(200)["id"])
	before := w.snapshot()
	for _, in := range []string{"lake", database} {
		one := "/databases/" + in + "/schemas/public/tables/things"
		for _, path := range []string{"", "/schema", "/snapshots", "/history", "/files", "/partitions", "/sample"} {
			w.call(w.theirs.admin, "GET", one+path, nil).refused(404)
		}
		w.call(w.theirs.admin, "PATCH", one, `{"name":"stolen"}`).refused(404)
		w.call(w.theirs.admin, "DELETE", one, nil).refused(404)
	}
	for _, path := range []string{"", "/schemas", "/tables", "/views"} {
		w.call(w.theirs.admin, "GET", "/databases/"+database+path, nil).refused(404)
	}
	w.call(w.theirs.admin, "DELETE", "/databases/"+database, nil).refused(404)
	w.call(w.theirs.admin, "POST", "/databases/"+database+"/schemas", `{"name":"x"}`).refused(404)
	w.call(w.theirs.admin, "POST", "/tables/"+id+"/undrop", nil).refused(404)
	require.Equal(t, before, w.snapshot())
	require.Empty(t, w.call(w.theirs.admin, "GET", "/databases/lake/tables", nil).data(200))
}

// between returns the text after the first start, up to end.
func between(s, start, end string) string {
	_, rest, _ := strings.Cut(s, start)
	found, _, _ := strings.Cut(rest, end)
	return found
}
