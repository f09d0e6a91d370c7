package iceberg_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConfig checks the announced configuration.
func TestConfig(t *testing.T) {
	w := newWorld(t)
	for _, warehouse := range []string{"?warehouse=lake", "?warehouse=LAKE", "?warehouse=" + w.ours.prefix, ""} {
		c := w.call(w.ours.viewer, "GET", "/v1/config"+warehouse, nil).object(200)
		require.Equal(t, object{}, c["defaults"])
		require.Equal(t, object{"prefix": w.ours.prefix, "namespace-separator": "%1F"}, c["overrides"])
		require.Equal(t, "PT30M", c["idempotency-key-lifetime"])
		require.Len(t, c["endpoints"], 25)
		require.Contains(t, c["endpoints"], "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}")
		require.Contains(t, c["endpoints"], "POST /v1/{prefix}/transactions/commit")
		require.NotContains(t, fmt.Sprint(c["endpoints"]), "/plan")
		require.NotContains(t, fmt.Sprint(c["endpoints"]), "/sign")
	}
	message := w.call(w.ours.viewer, "GET", "/v1/config?warehouse=nowhere", nil).refused(404, "NoSuchWarehouseException")
	require.Contains(t, message, "nowhere")
	w.call(w.ours.viewer, "GET", "/v1/config?warehouse="+w.theirs.prefix, nil).refused(404, "NoSuchWarehouseException")
}

// TestEveryEndpointThatIsAnnouncedWorks: each is a known route.
func TestEveryEndpointThatIsAnnouncedWorks(t *testing.T) {
	w := newWorld(t)
	endpoints, _ := w.call(w.ours.viewer, "GET", "/v1/config", nil).object(200)["endpoints"].([]any)
	names := strings.NewReplacer("{prefix}", w.ours.prefix, "{namespace}", "none", "{table}", "t", "{view}", "v")
	for _, e := range endpoints {
		method, path, _ := strings.Cut(e.(string), " ")
		r := w.call(w.ours.admin, method, names.Replace(path), nil)
		require.NotEqual(t, http.StatusMethodNotAllowed, r.status, e)
		require.NotContains(t, r.body, "There is nothing at", e)
	}
}

func TestUnknownRoutes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1", "/", "/v2/config", "/v1/" + w.ours.prefix + "/other", "/v1/config/x", w.ns(w.ours, "/public/tables/a/b")} {
		w.call(w.ours.admin, "GET", path, nil).refused(404, "NotFoundException")
	}
	r := w.call(w.ours.admin, "PATCH", w.ns(w.ours, "/public/tables/t"), "{}")
	r.refused(405, "MethodNotAllowedException")
	require.Equal(t, "GET, HEAD, POST, DELETE", r.header.Get("Allow"))
	require.Equal(t, "POST", func() string {
		r := w.call(w.ours.admin, "GET", "/v1/oauth/tokens", nil)
		r.refused(405, "MethodNotAllowedException")
		return r.header.Get("Allow")
	}())
	w.call(w.ours.admin, "BREW", w.ns(w.ours, "/public"), nil).refused(405, "MethodNotAllowedException")
	w.call(w.ours.admin, "POST", w.ns(w.ours, "/public/tables/t/plan"), "{}").refused(406, "UnsupportedOperationException")
	w.call(w.ours.admin, "POST", w.ns(w.ours, "/public/tables/t/sign"), "{}").refused(406, "UnsupportedOperationException")
	w.call(w.ours.admin, "GET", w.ns(w.ours, "/public?x=%00"), nil).refused(400, "BadRequestException")
	w.call(w.ours.admin, "GET", w.ns(w.ours, "/public?x=%ff"), nil).refused(400, "BadRequestException")
	w.call(w.ours.admin, "GET", w.ns(w.ours, "/pub%00lic"), nil).refused(400, "BadRequestException")
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	made := w.call(w.ours.editor, "POST", w.ns(w.ours, ""), object{"namespace": []string{"a"}, "properties": object{"owner": "ada"}}).object(200)
	require.Equal(t, []any{"a"}, made["namespace"])
	require.Equal(t, "ada", made["properties"].(object)["owner"])
	require.NotEmpty(t, made["properties"].(object)["location"])
	w.schema(w.ours, "a", "b")
	w.schema(w.ours, "a", "b", "c d%é")

	list := func(query string) any {
		return w.call(w.ours.viewer, "GET", w.ns(w.ours, query), nil).object(200)["namespaces"]
	}
	require.Equal(t, []any{[]any{"a"}, []any{"public"}}, list(""))
	require.Equal(t, []any{[]any{"a", "b"}}, list("?parent=a"))
	require.Equal(t, []any{[]any{"a", "b", "c d%é"}}, list("?parent=a%1Fb"))
	require.Equal(t, []any{}, list("?parent=public"))
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "?parent=none"), nil).refused(404, "NoSuchNamespaceException")

	for _, path := range []string{"/a%1Fb%1Fc%20d%25%C3%A9", "/a%1fb%1fc%20d%25%c3%a9", "/a.b.c%20d%25%C3%A9"} {
		found := w.call(w.ours.viewer, "GET", w.ns(w.ours, path), nil).object(200)
		require.Equal(t, []any{"a", "b", "c d%é"}, found["namespace"])
		require.NotEmpty(t, found["properties"].(object)["location"])
		w.call(w.ours.viewer, "HEAD", w.ns(w.ours, path), nil).done()
	}
	r := w.call(w.ours.viewer, "HEAD", w.ns(w.ours, "/none"), nil)
	require.Equal(t, 404, r.status)
	require.Empty(t, r.body)

	w.call(w.ours.editor, "POST", w.ns(w.ours, ""), object{"namespace": []string{"a"}}).refused(409, "AlreadyExistsException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, ""), object{"namespace": []string{"x", "y"}}).refused(404, "NoSuchNamespaceException")
	for _, bad := range []any{[]string{}, []string{""}, []string{"a.b"}, []string{"a\x1fb"}, nil, "a", []int{1}, []string{" x"}, []string{strings.Repeat("x", 300)}} {
		w.call(w.ours.editor, "POST", w.ns(w.ours, ""), object{"namespace": bad}).refused(400, "BadRequestException")
	}

	changed := w.call(w.ours.editor, "POST", w.ns(w.ours, "/a/properties"), object{"removals": []string{"owner", "none"}, "updates": object{"x": "1"}}).object(200)
	require.Equal(t, object{"updated": []any{"x"}, "removed": []any{"owner"}, "missing": []any{"none"}}, changed)
	require.Equal(t, object{"updated": []any{}, "removed": []any{}, "missing": []any{}}, w.call(w.ours.editor, "POST", w.ns(w.ours, "/a/properties"), object{}).object(200))
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/a/properties"), object{"removals": []string{"x"}, "updates": object{"x": "1"}}).refused(422, "UnprocessableEntityException")
	w.call(w.ours.editor, "POST", w.ns(w.ours, "/none/properties"), object{}).refused(404, "NoSuchNamespaceException")

	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/a"), nil).refused(409, "NamespaceNotEmptyException")
	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/a%1Fb%1Fc%20d%25%C3%A9"), nil).done()
	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/a%1Fb"), nil).done()
	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/a"), nil).done()
	w.call(w.ours.editor, "DELETE", w.ns(w.ours, "/a"), nil).refused(404, "NoSuchNamespaceException")
}

// TestPages: a client that sends a token, empty at first, gets pages; others get everything.
func TestPages(t *testing.T) {
	w := newWorld(t)
	want := []string{}
	for n := range 7 {
		want = append(want, fmt.Sprintf("n%d", n))
		w.schema(w.ours, want[n])
		w.table(w.ours, want[n])
	}
	type lists struct {
		path, field string
		name        func(any) string
	}
	first := func(v any) string { return v.([]any)[0].(string) }
	for _, l := range []lists{
		{"", "namespaces", first},
		{"/public/tables", "identifiers", func(v any) string { return v.(object)["name"].(string) }},
	} {
		all := w.call(w.ours.viewer, "GET", w.ns(w.ours, l.path)+"?pageSize=2", nil).object(200)
		require.NotContains(t, all, "next-page-token")
		var names []string
		token := ""
		for pages := 1; ; pages++ {
			page := w.call(w.ours.viewer, "GET", w.ns(w.ours, l.path)+"?pageSize=3&pageToken="+token, nil).object(200)
			list, _ := page[l.field].([]any)
			require.LessOrEqual(t, len(list), 3)
			for _, v := range list {
				names = append(names, l.name(v))
			}
			next, more := page["next-page-token"].(string)
			if !more {
				require.Equal(t, 3, pages)
				break
			}
			token = next
		}
		require.Subset(t, names, want)
		require.Len(t, all[l.field], len(names))
		for _, bad := range []string{"pageSize=0", "pageSize=-1", "pageSize=x", "pageToken=x", "pageToken=%00"} {
			w.call(w.ours.viewer, "GET", w.ns(w.ours, l.path)+"?"+bad, nil).refused(400, "BadRequestException")
		}
	}
	token, _ := w.call(w.ours.viewer, "GET", w.ns(w.ours, "/public/tables?pageSize=3&pageToken="), nil).object(200)["next-page-token"].(string)
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "?pageToken="+token), nil).refused(400, "BadRequestException")
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "/none/tables"), nil).refused(404, "NoSuchNamespaceException")
	w.call(w.ours.viewer, "GET", w.ns(w.ours, "/none/views"), nil).refused(404, "NoSuchNamespaceException")
}
