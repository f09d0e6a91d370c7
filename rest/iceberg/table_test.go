package iceberg_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/rest/iceberg"
)

func TestTables(t *testing.T) {
	w := newWorld(t)
	tables := w.ns(w.ours, "/public/tables")
	made := w.call(w.ours.editor, "POST", tables, object{"name": "t", "schema": columns, "properties": object{"k": "v"}})
	made.object(200)
	etag := made.header.Get("ETag")
	require.NotEmpty(t, etag)
	loaded := w.call(w.ours.viewer, "GET", tables+"/t", nil)
	v := loaded.object(200)
	require.Equal(t, made.object(200), v)
	require.Equal(t, object{}, v["config"])
	require.NotContains(t, v, "storage-credentials")
	require.Equal(t, "v", v["metadata"].(object)["properties"].(object)["k"])
	require.True(t, strings.HasPrefix(v["metadata-location"].(string), "file://"+w.files), v["metadata-location"])
	require.Equal(t, etag, loaded.header.Get("ETag"))
	w.call(w.ours.viewer, "HEAD", tables+"/t", nil).done()
	w.call(w.ours.viewer, "HEAD", tables+"/T", nil).done()
	require.Equal(t, 404, w.call(w.ours.viewer, "HEAD", tables+"/none", nil).status)
	require.Equal(t, 404, w.call(w.ours.viewer, "HEAD", w.ns(w.ours, "/none/tables/t"), nil).status)
	w.call(w.ours.viewer, "GET", tables+"/none", nil).refused(404, "NoSuchTableException")
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "/none/tables/t"), nil).refused(404, "NoSuchTableException")
	w.call(w.ours.viewer, "GET", "/v1/nowhere/namespaces/public/tables/t", nil).refused(404, "NoSuchWarehouseException")
	w.call(w.ours.viewer, "GET", tables+"/t?snapshots=some", nil).refused(400, "BadRequestException")
	w.call(w.ours.viewer, "GET", tables+"/t?snapshots=refs", nil).object(200)

	w.call(w.ours.editor, "POST", tables, object{"name": "T", "schema": columns}).refused(409, "AlreadyExistsException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/none/tables"), object{"name": "t", "schema": columns}).refused(404, "NoSuchNamespaceException")
	for _, bad := range []object{
		{},
		{"name": "u"},
		{"schema": columns},
		{"name": 1, "schema": columns},
		{"name": "u", "schema": "x"},
		{"name": "u", "schema": object{"type": "struct"}},
		{"name": "a/b", "schema": columns},
		{"name": "u\x00", "schema": columns},
		{"name": "u", "schema": columns, "properties": object{"k": 1}},
		{"name": "u", "schema": columns, "location": "file:///etc"},
		{"name": "u", "schema": columns, "location": "s3://elsewhere/x"},
		{"name": "u", "schema": columns, "partition-spec": object{"spec-id": 0, "fields": []any{object{"source-id": 99, "field-id": 1000, "name": "x", "transform": "identity"}}}},
	} {
		w.call(w.ours.editor, "POST", tables, bad).refused(400, "BadRequestException")
	}
	require.Equal(t, []any{object{"namespace": []any{"public"}, "name": "t"}}, w.call(w.ours.viewer, "GET", tables, nil).object(200)["identifiers"])

	w.call(w.ours.editor, "DELETE", tables+"/t?purgeRequested=perhaps", nil).refused(400, "BadRequestException")
	w.call(w.ours.editor, "DELETE", tables+"/t?purgeRequested=True", nil).done()
	w.call(w.ours.editor, "DELETE", tables+"/t", nil).refused(404, "NoSuchTableException")
	require.Equal(t, []any{}, w.call(w.ours.viewer, "GET", tables, nil).object(200)["identifiers"])
}

// TestUnchanged: 304 requires the ETag of exactly this answer.
func TestUnchanged(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "t")
	path := w.ns(w.ours, "/public/tables/t")
	etag := w.call(w.ours.viewer, "GET", path, nil).header.Get("ETag")
	refs := w.call(w.ours.viewer, "GET", path+"?snapshots=refs", nil).header.Get("ETag")
	require.NotEqual(t, etag, refs)
	for _, sent := range []string{etag, "W/" + etag, `"other", ` + etag} {
		r := w.call(w.ours.viewer, "GET", path, nil, "If-None-Match", sent)
		require.Equal(t, http.StatusNotModified, r.status, sent)
		require.Empty(t, r.body)
		require.Equal(t, etag, r.header.Get("ETag"))
	}
	require.Equal(t, 304, w.call(w.ours.viewer, "GET", path+"?snapshots=refs", nil, "If-None-Match", refs).status)
	for _, sent := range []string{"", refs, `"x"`, "*", strings.Trim(etag, `"`)} {
		w.call(w.ours.viewer, "GET", path, nil, "If-None-Match", sent).object(200)
	}
	w.call(w.ours.editor, "POST", path, setting("a", "1")).object(200)
	fresh := w.call(w.ours.viewer, "GET", path, nil, "If-None-Match", etag)
	fresh.object(200)
	require.NotEqual(t, etag, fresh.header.Get("ETag"))
}

// setting is a commit that sets a property.
func setting(name, value string) object {
	return object{"requirements": []any{}, "updates": []any{object{"action": "set-properties", "updates": object{name: value}}}}
}

func TestCommits(t *testing.T) {
	w := newWorld(t)
	made := w.table(w.ours, "t")
	path := w.ns(w.ours, "/public/tables/t")
	uuid := made["metadata"].(object)["table-uuid"]
	done := w.call(w.ours.editor, "POST", path, object{
		"identifier":   object{"namespace": []string{"public"}, "name": "t"},
		"requirements": []any{object{"type": "assert-table-uuid", "uuid": uuid}}, "updates": setting("a", "1")["updates"],
	}).object(200)
	require.Len(t, done, 2)
	require.NotEqual(t, made["metadata-location"], done["metadata-location"])
	require.Equal(t, "1", done["metadata"].(object)["properties"].(object)["a"])
	for _, nothing := range []object{{"requirements": []any{}, "updates": []any{}}, {"requirements": nil, "updates": nil}} {
		require.Equal(t, done["metadata-location"], w.call(w.ours.editor, "POST", path, nothing).object(200)["metadata-location"])
	}

	for _, refused := range []any{
		object{"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000001"},
		object{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5},
		object{"type": "assert-current-schema-id", "current-schema-id": 7},
		object{"type": "assert-last-assigned-field-id", "last-assigned-field-id": 99},
		object{"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
		object{"type": "assert-default-spec-id", "default-spec-id": 3},
		object{"type": "assert-default-sort-order-id", "default-sort-order-id": 3},
	} {
		w.call(w.ours.editor, "POST", path, object{"requirements": []any{refused}, "updates": []any{}}).refused(409, "CommitFailedException")
	}
	w.call(w.ours.editor, "POST", path, object{"requirements": []any{object{"type": "assert-create"}}, "updates": []any{}}).refused(409, "AlreadyExistsException")
	for _, bad := range []any{
		object{},
		object{"requirements": []any{}},
		object{"updates": []any{}},
		object{"requirements": object{}, "updates": []any{}},
		object{"requirements": []any{object{"type": "assert-luck"}}, "updates": []any{}},
		object{"requirements": []any{}, "updates": []any{object{"action": "hope"}}},
		object{"requirements": []any{}, "updates": []any{object{"action": "set-location", "location": "file:///tmp/elsewhere"}}},
		object{"identifier": object{"namespace": []string{"public"}, "name": "other"}, "requirements": []any{}, "updates": []any{}},
	} {
		w.call(w.ours.editor, "POST", path, bad).refused(400, "BadRequestException")
	}
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/tables/none"), setting("a", "1")).refused(404, "NoSuchTableException")
	require.Equal(t, done["metadata-location"], w.call(w.ours.viewer, "GET", path, nil).object(200)["metadata-location"], "what was refused changed nothing")
}

// TestFieldsCountedFromZero: Spark does this, also in nested types and partitions.
func TestFieldsCountedFromZero(t *testing.T) {
	w := newWorld(t)
	r := w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/tables"), object{
		"name": "t",
		"schema": object{"type": "struct", "schema-id": 0, "identifier-field-ids": []int{0}, "fields": []any{
			object{"id": 0, "name": "id", "type": "long", "required": true},
			object{"id": 1, "name": "tags", "required": false, "type": object{"type": "list", "element-id": 2, "element": "string", "element-required": false}},
			object{"id": 3, "name": "by", "required": false, "type": object{
				"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value-required": false,
				"value": object{"type": "struct", "fields": []any{object{"id": 6, "name": "x", "type": "int", "required": false}}},
			}},
		}},
		"partition-spec": object{"spec-id": 0, "fields": []any{object{"source-id": 0, "field-id": 1000, "name": "id_bucket", "transform": "bucket[4]"}}},
		"write-order":    object{"order-id": 1, "fields": []any{object{"source-id": 0, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}}},
	})
	metadata := r.object(200)["metadata"].(object)
	schema := metadata["schemas"].([]any)[0].(object)
	id := schema["fields"].([]any)[0].(object)["id"]
	require.Equal(t, "id", schema["fields"].([]any)[0].(object)["name"])
	require.Equal(t, []any{id}, schema["identifier-field-ids"])
	require.Equal(t, id, metadata["partition-specs"].([]any)[0].(object)["fields"].([]any)[0].(object)["source-id"])
	require.EqualValues(t, 7, metadata["last-column-id"])
	bad := object{"type": "struct", "fields": []any{object{"id": 0, "name": "a", "type": "int"}, object{"id": -1, "name": "b", "type": "int"}}}
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/tables"), object{"name": "u", "schema": bad}).refused(400, "BadRequestException")
}

// creation is the commit that creates a staged table.
func creation(location any) object {
	return object{"requirements": []any{object{"type": "assert-create"}}, "updates": []any{
		object{"action": "assign-uuid", "uuid": "0197a2b4-0000-7000-8000-000000000001"},
		object{"action": "upgrade-format-version", "format-version": 2},
		object{"action": "add-schema", "schema": columns, "last-column-id": 2},
		object{"action": "set-current-schema", "schema-id": -1},
		object{"action": "add-spec", "spec": object{"spec-id": 0, "fields": []any{}}},
		object{"action": "set-default-spec", "spec-id": -1},
		object{"action": "add-sort-order", "sort-order": object{"order-id": 0, "fields": []any{}}},
		object{"action": "set-default-sort-order", "sort-order-id": -1},
		object{"action": "set-location", "location": location},
		object{"action": "set-properties", "updates": object{"made": "so"}},
	}}
}

func TestStagedTables(t *testing.T) {
	w := newWorld(t)
	tables := w.ns(w.ours, "/public/tables")
	r := w.call(w.ours.editor, "POST", tables, object{"name": "t", "schema": columns, "stage-create": true})
	staged := r.object(200)
	require.NotContains(t, staged, "metadata-location")
	require.Empty(t, r.header.Get("ETag"))
	w.call(w.ours.viewer, "GET", tables+"/t", nil).refused(404, "NoSuchTableException")
	location := staged["metadata"].(object)["location"]
	made := w.call(w.ours.editor, "POST", tables+"/t", creation(location)).object(200)
	require.Equal(t, location, made["metadata"].(object)["location"])
	require.Equal(t, "so", made["metadata"].(object)["properties"].(object)["made"])
	w.call(w.ours.editor, "POST", tables+"/t", creation(location)).refused(409, "AlreadyExistsException")
}

func TestRenameAndRegister(t *testing.T) {
	w := newWorld(t)
	w.schema(w.ours, "other")
	made := w.table(w.ours, "t")
	w.table(w.ours, "u")
	at := func(ns, name string) object { return object{"namespace": []string{ns}, "name": name} }
	rename := func(from, to any) reply {
		return w.call(w.ours.editor, "POST", "/v1/"+w.ours.prefix+"/tables/rename", object{"source": from, "destination": to})
	}
	rename(at("public", "none"), at("public", "x")).refused(404, "NoSuchTableException")
	rename(at("public", "t"), at("none", "x")).refused(404, "NoSuchNamespaceException")
	rename(at("public", "t"), at("public", "u")).refused(409, "AlreadyExistsException")
	rename(nil, at("public", "u")).refused(400, "BadRequestException")
	rename(at("public", "t"), object{"name": "x"}).refused(400, "BadRequestException")
	rename(at("public", "t"), at("public", "")).refused(400, "BadRequestException")
	rename(at("public", "t"), at("other", "moved")).done()
	moved := w.call(w.ours.viewer, "GET", w.ns(w.ours, "/other/tables/moved"), nil).object(200)
	require.Equal(t, made["metadata-location"], moved["metadata-location"])

	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/other/tables/moved"), nil).done()
	register := func(ns string, body any) reply {
		return w.call(w.ours.editor, "POST", w.ns(w.ours, "/"+ns+"/register"), body)
	}
	file := made["metadata-location"].(string)
	register("none", object{"name": "r", "metadata-location": file}).refused(404, "NoSuchNamespaceException")
	register("public", object{"name": "u", "metadata-location": file}).refused(409, "AlreadyExistsException")
	register("public", object{"name": "r"}).refused(400, "BadRequestException")
	register("public", object{"metadata-location": file}).refused(400, "BadRequestException")
	register("public", object{"name": "r", "metadata-location": "file:///etc/passwd"}).refused(400, "BadRequestException")
	register("public", object{"name": "r", "metadata-location": strings.Replace(file, ".metadata.json", "x.metadata.json", 1)}).refused(404, "NotFoundException")
}

func TestTransactions(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "a")
	w.table(w.ours, "b")
	part := func(name string, body object) object {
		body["identifier"] = object{"namespace": []string{"public"}, "name": name}
		return body
	}
	commit := func(changes ...any) reply {
		return w.call(w.ours.editor, "POST", "/v1/"+w.ours.prefix+"/transactions/commit", object{"table-changes": changes})
	}
	property := func(name string) any {
		v := w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables/"+name), nil).object(200)
		return v["metadata"].(object)["properties"].(object)["k"]
	}
	commit(part("a", setting("k", "1")), part("b", setting("k", "1"))).done()
	require.Equal(t, []any{"1", "1"}, []any{property("a"), property("b")})
	failing := part("b", setting("k", "2"))
	failing["requirements"] = []any{object{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}}
	commit(part("a", setting("k", "2")), failing).refused(409, "CommitFailedException")
	commit(part("a", setting("k", "2")), part("none", setting("k", "2"))).refused(404, "NoSuchTableException")
	commit(part("a", setting("k", "2")), part("a", setting("k", "3"))).refused(400, "BadRequestException")
	commit().refused(400, "BadRequestException")
	commit(setting("k", "2")).refused(400, "BadRequestException")
	require.Equal(t, []any{"1", "1"}, []any{property("a"), property("b")}, "all or nothing")
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.table(w.ours, "t")
	path := w.ns(w.ours, "/public/tables/t/metrics")
	w.call(w.ours.viewer, "POST", path, object{"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "metrics": object{}}).done()
	w.call(w.ours.viewer, "POST", path, object{"report-type": "commit-report"}).done()
	w.call(w.ours.viewer, "POST", path, object{"report-type": "gossip"}).refused(400, "BadRequestException")
	w.call(w.ours.viewer, "POST", path, "").refused(400, "BadRequestException")
	w.call(w.ours.viewer, "POST", w.ns(w.ours, "/public/tables/staged/metrics"), object{"report-type": "commit-report"}).done()
	w.call(w.ours.viewer, "POST", w.ns(w.ours, "/none/tables/t/metrics"), object{"report-type": "scan-report"}).refused(404, "NoSuchNamespaceException")
	require.Equal(t, object{"storage-credentials": []any{}}, w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables/t/credentials"), nil).object(200))
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables/none/credentials"), nil).refused(404, "NoSuchTableException")
}

// TestBodies: a body must be one JSON object of bounded size, else it is refused before anything
// changes.
func TestBodies(t *testing.T) {
	w := newWorld(t)
	tables := w.ns(w.ours, "/public/tables")
	for _, bad := range []string{"", " ", "null", "[]", "1", `{"name": "t"`, `{"name": "t"} {}`, "{\"name\": \"\xff\"}", `{"name": "a\u0000b"}`, `{"name": {}}`, strings.Repeat("[", 20_000)} {
		w.call(w.ours.editor, "POST", tables, bad).refused(400, "BadRequestException")
	}
	w.call(w.ours.editor, "POST", tables, `{"name": "t"}`, "Content-Type", "text/plain").refused(415, "UnsupportedMediaTypeException")
	w.call(w.ours.editor, "POST", tables, `{"name": "t"}`, "Content-Type", "application/json; charset=latin1").refused(415, "UnsupportedMediaTypeException")
	w.call(w.ours.editor, "POST", tables, `{"name": "t"}`, "Content-Encoding", "gzip").refused(415, "UnsupportedMediaTypeException")
	w.call(w.ours.editor, "POST", tables, `{"name": "`+strings.Repeat("x", 1<<20)+`"}`).refused(413, "RequestTooLargeException")
	require.Equal(t, "identity", w.call(w.ours.editor, "POST", tables, "{}", "Content-Encoding", "gzip").header.Get("Accept-Encoding"))
	w.call(w.ours.editor, "POST", tables, object{"name": `back\\u0000slash`, "schema": columns}).refused(400, "BadRequestException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, ""), `{"namespace": ["x"], "properties": {"p": "a\\u0000b"}, "unknown": [1]}`, "Content-Type", "application/json; charset=UTF-8").object(200)
	require.Equal(t, `a\u0000b`, w.call(w.ours.viewer, "GET", w.ns(w.ours, "/x"), nil).object(200)["properties"].(object)["p"])
}

// TestRepeats: the same key gets the first answer again.
func TestRepeats(t *testing.T) {
	w := newWorld(t)
	tables := w.ns(w.ours, "/public/tables")
	const key = "0197a2b4-7f3e-7abc-8000-000000000001"
	body := object{"name": "t", "schema": columns}
	first := w.call(w.ours.editor, "POST", tables, body, "Idempotency-Key", key).object(200)
	require.Equal(t, first, w.call(w.ours.editor, "POST", tables, body, "Idempotency-Key", key).object(200))
	w.call(w.ours.editor, "POST", tables, object{"name": "u", "schema": columns}, "Idempotency-Key", key).refused(409, "ConflictException")
	w.call(w.ours.editor, "POST", tables, body).refused(409, "AlreadyExistsException")
	commit := setting("a", "1")
	one := w.call(w.ours.editor, "POST", tables+"/t", commit, "Idempotency-Key", key+"2").object(200)
	require.Equal(t, one, w.call(w.ours.editor, "POST", tables+"/t", commit, "Idempotency-Key", key+"2").object(200))
	w.call(w.ours.editor, "DELETE", tables+"/t", nil, "Idempotency-Key", key+"3").done()
	w.call(w.ours.editor, "DELETE", tables+"/t", nil, "Idempotency-Key", key+"3").done()
	w.call(w.ours.editor, "DELETE", tables+"/t", nil).refused(404, "NoSuchTableException")
	w.call(w.ours.editor, "DELETE", tables+"/t", nil, "Idempotency-Key", strings.Repeat("x", 256)).refused(400, "BadRequestException")
}

func TestViews(t *testing.T) {
	w := newWorld(t)
	views := w.ns(w.ours, "/public/views")
	made := w.call(w.ours.editor, "POST", views, viewOf("v", "SELECT 1")).object(200)
	require.Equal(t, object{}, made["config"])
	require.Equal(t, made, w.call(w.ours.viewer, "GET", views+"/v", nil).object(200))
	w.call(w.ours.viewer, "HEAD", views+"/v", nil).done()
	require.Equal(t, 404, w.call(w.ours.viewer, "HEAD", views+"/none", nil).status)
	w.call(w.ours.viewer, "GET", views+"/none", nil).refused(404, "NoSuchViewException")
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables/v"), nil).refused(404, "NoSuchTableException")
	require.Equal(t, []any{object{"namespace": []any{"public"}, "name": "v"}}, w.call(w.ours.viewer, "GET", views, nil).object(200)["identifiers"])
	require.Equal(t, []any{}, w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables"), nil).object(200)["identifiers"])

	w.call(w.ours.editor, "POST", views, viewOf("V", "SELECT 1")).refused(409, "AlreadyExistsException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/tables"), object{"name": "v", "schema": columns}).refused(409, "AlreadyExistsException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/none/views"), viewOf("v", "SELECT 1")).refused(404, "NoSuchNamespaceException")
	for _, bad := range []object{{}, {"name": "x"}, {"name": "x", "schema": columns}, {"schema": columns, "view-version": object{}}, {"name": "x", "schema": columns, "view-version": "1"}} {
		w.call(w.ours.editor, "POST", views, bad).refused(400, "BadRequestException")
	}

	uuid := made["metadata"].(object)["view-uuid"]
	version := viewOf("v", "SELECT 2")["view-version"].(object)
	version["version-id"] = 2
	replace := func(uuid any) object {
		return object{"requirements": []any{object{"type": "assert-view-uuid", "uuid": uuid}}, "updates": []any{
			object{"action": "add-view-version", "view-version": version}, object{"action": "set-current-view-version", "view-version-id": -1},
		}}
	}
	w.call(w.ours.editor, "POST", views+"/v", replace("00000000-0000-0000-0000-000000000001")).refused(409, "CommitFailedException")
	w.call(w.ours.editor, "POST", views+"/none", replace(uuid)).refused(404, "NoSuchViewException")
	w.call(w.ours.editor, "POST", views+"/v", object{}).refused(400, "BadRequestException")
	replaced := w.call(w.ours.editor, "POST", views+"/v", replace(uuid)).object(200)
	require.Len(t, replaced["metadata"].(object)["versions"], 2)

	rename := func(from, to string) reply {
		at := func(name string) object { return object{"namespace": []string{"public"}, "name": name} }
		return w.call(w.ours.editor, "POST", "/v1/"+w.ours.prefix+"/views/rename", object{"source": at(from), "destination": at(to)})
	}
	w.table(w.ours, "t")
	rename("none", "x").refused(404, "NoSuchViewException")
	rename("v", "t").refused(409, "AlreadyExistsException")
	rename("v", "w").done()
	w.call(w.ours.editor, "DELETE", views+"/v", nil).refused(404, "NoSuchViewException")
	w.call(w.ours.editor, "DELETE", views+"/w", nil).done()
	again := w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/register-view"), object{"name": "r", "metadata-location": replaced["metadata-location"]})
	require.Equal(t, uuid, again.object(200)["metadata"].(object)["view-uuid"])
}

// TestNamesAreDecodedOnce: a percent sign or a slash is part of a name.
func TestNamesAreDecodedOnce(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"100%25", "a b", "é+ü", "x%2Fy", "q?z#"} {
		r := w.call(w.ours.editor, "POST", w.ns(w.ours, "/public/tables"), object{"name": name, "schema": columns})
		require.Equal(t, 200, r.status, "%s: %s", name, r.body)
		found := w.call(w.ours.viewer, "HEAD", w.ns(w.ours, "/public/tables/"+url.PathEscape(name)), nil)
		require.Equal(t, 204, found.status, name)
	}
	require.Equal(t, "/api/v1/iceberg", iceberg.Prefix)
}
