package rest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// nulls returns bodies with one null each, keyed by the null field, for all non-nullable fields of
// the schema.
func nulls(s *openapi3.Schema, at string, wrap func(string) string, depth int) map[string]string {
	found := map[string]string{}
	if depth == 0 {
		return found
	}
	add := func(more map[string]string) {
		for field, body := range more {
			found[field] = body
		}
	}
	for _, one := range s.OneOf {
		add(nulls(one.Value, at, wrap, depth))
	}
	for name, field := range s.Properties {
		where := strings.TrimPrefix(at+"."+name, ".")
		inner := func(v string) string { return wrap(fmt.Sprintf(`{%q:%s}`, name, v)) }
		if typed(field.Value) && !field.Value.Type.Includes("null") {
			found[where] = inner("null")
		}
		add(nulls(field.Value, where, inner, depth-1))
	}
	if s.Items != nil {
		add(nulls(s.Items.Value, at+"[0]", func(v string) string { return wrap("[" + v + "]") }, depth-1))
	}
	return found
}

func typed(s *openapi3.Schema) bool { return s.Type != nil && len(*s.Type) > 0 }

// TestNullIsRefusedWhereItIsNotCalledNullable in each field of each body. An empty query parameter
// is refused unless it is text.
func TestNullIsRefusedWhereItIsNotCalledNullable(t *testing.T) {
	w := newWorld(t)
	tried := map[string]bool{}
	for path, item := range document(t).Paths.Map() {
		path = strings.NewReplacer("{id}", "x", "{key}", "x", "{n}", "1", "{schema}", "x", "{table}", "x").Replace(path)
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				s := p.Value.Schema.Value
				if p.Value.In != "query" || s.Type.Is("string") && s.Format == "" || s.Type.Is("array") {
					continue
				}
				w.call(w.ours.admin, method, path+"?"+p.Value.Name+"=null", nil).refused(http.StatusBadRequest)
				if !p.Value.AllowEmptyValue {
					require.Contains(t, w.call(w.ours.admin, method, path+"?"+p.Value.Name+"=", nil).refused(http.StatusBadRequest), p.Value.Name)
				}
				tried[p.Value.Name] = true
			}
			if op.RequestBody == nil {
				continue
			}
			for field, body := range nulls(op.RequestBody.Value.Content["application/json"].Schema.Value, "", func(v string) string { return v }, 4) {
				says := w.call(w.ours.admin, method, path, body).refused(http.StatusBadRequest)
				require.Contains(t, says, field, op.OperationID)
				require.Contains(t, says, "cannot be null", op.OperationID)
				tried[field] = true
			}
		}
	}
	for _, name := range []string{"mine", "since", "timeout_seconds", "role", "name", "eventType", "tasks[0].key", "follow"} {
		require.True(t, tried[name], name)
	}
}

// TestAnOperationWithoutABodyTakesAnEmptyOne: many clients always send {}.
func TestAnOperationWithoutABodyTakesAnEmptyOne(t *testing.T) {
	w := newWorld(t)
	for path, item := range document(t).Paths.Map() {
		path = strings.NewReplacer("{id}", "x", "{key}", "x", "{n}", "1", "{schema}", "x", "{table}", "x").Replace(path)
		for method, op := range item.Operations() {
			if op.RequestBody != nil || op.OperationID == "logout" {
				continue
			}
			for _, body := range []any{"", "{}", " { }\n", io.MultiReader(strings.NewReader("{}"))} {
				for _, kind := range []string{"application/json", ""} {
					if _, once := body.(io.Reader); once && kind == "" {
						continue
					}
					r := w.call(w.ours.admin, method, path, body, "Content-Type", kind)
					require.NotContains(t, r.body, "takes no body", op.OperationID)
					require.NotEqual(t, http.StatusUnsupportedMediaType, r.status, op.OperationID)
				}
			}
		}
	}
	job := w.job(w.ours.editor, map[string]any{"name": "x", "command": "true"})
	run := w.start(w.ours.editor, job)
	w.call(w.ours.editor, "POST", "/runs/"+run+"/cancel", "{}").object(200)
	w.call(w.ours.editor, "POST", "/auth/refresh", "{}", "Content-Type", "").object(200)
}

// TestAPieceThatIsStillToComeIsAnswered202 after the wait.
func TestAPieceThatIsStillToComeIsAnswered202(t *testing.T) {
	w := sqlWorld(t)
	w.services.Statements.ChunkWait = 200 * time.Millisecond
	pending := w.execute(w.ours.viewer, "QUIET", map[string]any{"wait_timeout": "1ms"}).object(202)
	id := fmt.Sprint(pending["statement_id"])
	r := w.call(w.ours.viewer, "GET", "/sql/statements/"+id+"/chunks/0", nil)
	require.Equal(t, id, r.object(202)["statement_id"])
	require.Equal(t, "1", r.header.Get("Retry-After"))
	w.engines.finish()
	w.becomes(id, "succeeded")
	require.NotEqual(t, 202, w.call(w.ours.viewer, "GET", "/sql/statements/"+id+"/chunks/0", nil).status)
}

// TestANewKeyHasTheLeastRole by default, whoever creates it.
func TestANewKeyHasTheLeastRole(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "viewer", w.call(w.ours.admin, "POST", "/settings/api-keys", `{"name":"plain"}`).object(201)["role"])
	require.Equal(t, "editor", w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"named","role":"editor"}`).object(201)["role"])
}
