package rest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (r reply) gone() {
	r.t.Helper()
	require.Equal(r.t, 204, r.status, r.body)
	require.Empty(r.t, r.body)
}

func fields(items []any, name string) []any {
	all := []any{}
	for _, item := range items {
		all = append(all, item.(map[string]any)[name])
	}
	return all
}

func TestDatabasesComeAndGo(t *testing.T) {
	w := newWorld(t)
	create := func(token, name string, headers ...string) reply {
		return w.call(token, "POST", "/databases", map[string]any{"name": name}, headers...)
	}
	r := create(w.ours.editor, " Sales ", "Idempotency-Key", "k")
	made := r.object(201)
	id := fmt.Sprint(made["id"])
	require.Regexp(t, "^db_", id)
	require.Equal(t, "Sales", made["name"])
	require.Len(t, made, 4)
	require.Equal(t, Prefix+"/databases/"+id, r.header.Get("Location"))
	for _, name := range []string{id, "Sales", "sales", "SALES"} {
		require.Equal(t, made, w.call(w.ours.viewer, "GET", "/databases/"+name, nil).object(200), "found in any case")
	}
	require.Equal(t, made, create(w.ours.editor, " Sales ", "Idempotency-Key", "k").object(201))
	create(w.ours.editor, "other", "Idempotency-Key", "k").refused(409)
	for _, name := range []string{"Sales", "sales", "sALES ", "LAKE"} {
		create(w.ours.editor, name).refused(409)
	}
	create(w.theirs.editor, "sales").object(201)
	for _, name := range []string{"", " ", "a.b", "a/b", `a\b`, "50%", "main", "System", "information_schema", "PG_catalog", "db_1", "x\x00y", strings.Repeat("x", 300)} {
		create(w.ours.editor, name).refused(400)
	}
	require.Equal(t, []any{"lake", "Sales"}, fields(w.call(w.ours.viewer, "GET", "/databases", nil).data(200), "name"), "oldest first")
	page := w.call(w.ours.viewer, "GET", "/databases?limit=1", nil).object(200)
	require.Equal(t, []any{"Sales"}, fields(w.call(w.ours.viewer, "GET", fmt.Sprint("/databases?limit=1&cursor=", page["next_cursor"]), nil).data(200), "name"))
	require.Equal(t, []any{"public"}, fields(w.call(w.ours.viewer, "GET", "/databases/sales/schemas", nil).data(200), "name"), "it begins with a schema")

	w.tableIn(w.ours, "sales", "orders", false)
	require.Contains(t, w.call(w.ours.admin, "DELETE", "/databases/sales", nil).refused(409), "Sales")
	w.call(w.ours.admin, "DELETE", "/databases/sales/schemas/public/tables/orders?purge=true", nil).gone()
	w.call(w.ours.editor, "DELETE", "/databases/sales", nil).refused(403)
	w.call(w.ours.admin, "DELETE", "/databases/sales", nil).gone()
	for _, path := range []string{"", "/schemas", "/tables", "/views", "/schemas/public/tables/orders"} {
		w.call(w.ours.viewer, "GET", "/databases/"+id+path, nil).refused(404)
	}
	w.call(w.ours.admin, "DELETE", "/databases/sales", nil).refused(404)
	create(w.ours.editor, "sales").object(201)
	require.NotContains(t, w.logged.String(), "request failed")
}

func TestSchemasComeAndGo(t *testing.T) {
	w := newWorld(t)
	const schemas = "/databases/lake/schemas"
	create := func(name string, more map[string]any, headers ...string) reply {
		body := map[string]any{"name": name}
		for k, v := range more {
			body[k] = v
		}
		return w.call(w.ours.editor, "POST", schemas, body, headers...)
	}
	r := create("Europe", map[string]any{"properties": map[string]any{"owner": "ann"}}, "Idempotency-Key", "k")
	europe := r.object(201)
	require.Equal(t, "Europe", europe["name"])
	require.Regexp(t, "^"+Prefix+"/databases/db_[^/]+/schemas/Europe$", r.header.Get("Location"))
	properties, _ := europe["properties"].(map[string]any)
	require.Equal(t, "ann", properties["owner"])
	require.Contains(t, properties["location"], "file://", "where its tables are made")
	require.Equal(t, europe, create("Europe", map[string]any{"properties": map[string]any{"owner": "ann"}}, "Idempotency-Key", "k").object(201))
	create("Europe", nil, "Idempotency-Key", "k").refused(409)
	require.Contains(t, create("europe", nil).refused(409), "exists already")
	require.Contains(t, create("PUBLIC", nil).refused(409), "exists already")
	require.Equal(t, "Europe.north", create("europe.north", nil).object(201)["name"], "with the existing case of the schema")
	create("europe.north.oslo", nil).object(201)
	require.Contains(t, create("asia.south", nil).refused(404), "asia")
	for _, name := range []string{"", " ", ".", "a..b", "a.", ".a", "a/b", `a\b`, " a", "a\tb", strings.Repeat("x", 256), strings.Repeat("a.", 10) + "a"} {
		create(name, nil).refused(400)
	}
	require.Contains(t, create("afar", map[string]any{"properties": map[string]any{"location": "file:///etc"}}).refused(400), "location")
	create("large", map[string]any{"properties": map[string]any{"x": strings.Repeat("x", 65<<10)}}).refused(400)
	require.Equal(t, []any{"Europe", "Europe.north", "Europe.north.oslo", "public"}, fields(w.call(w.ours.viewer, "GET", schemas, nil).data(200), "name"), "by name")
	page := w.call(w.ours.viewer, "GET", schemas+"?limit=2", nil).object(200)
	require.Equal(t, []any{"Europe.north.oslo", "public"}, fields(w.call(w.ours.viewer, "GET", fmt.Sprint(schemas, "?limit=2&cursor=", page["next_cursor"]), nil).data(200), "name"))

	w.table(w.ours, "things", false)
	for _, name := range []string{"europe", "Europe.North", "public"} {
		require.Contains(t, w.call(w.ours.editor, "DELETE", schemas+"/"+name, nil).refused(409), "not empty")
	}
	for _, name := range []string{"europe.NORTH.oslo", "europe.north", "europe"} {
		w.call(w.ours.editor, "DELETE", schemas+"/"+name, nil).gone()
		w.call(w.ours.editor, "DELETE", schemas+"/"+name, nil).refused(404)
	}
	require.Equal(t, []any{"public"}, fields(w.call(w.ours.viewer, "GET", schemas, nil).data(200), "name"))
	require.NotContains(t, w.logged.String(), "request failed")
}
