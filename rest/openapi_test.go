package rest

import (
	"encoding/json"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

var update = flag.Bool("update", false, "write openapi.yaml instead of comparing with it")

// described is the API without services, for tests of its description.
var described = sync.OnceValues(func() (http.Handler, error) {
	return Handler(Options{
		Services: Services{Clock: domain.SystemClock{}}, Auth: &auth.Service{}, Log: slog.New(slog.DiscardHandler),
	})
})

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := described()
	require.NoError(t, err)
	return serveOnce(h, path)
}

func serveOnce(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// The committed document matches the code. After a change: go test ./rest -run OpenAPI -update
func TestOpenAPIGolden(t *testing.T) {
	got := get(t, Prefix+"/openapi.yaml").Body.Bytes()
	if *update {
		require.NoError(t, os.WriteFile("openapi.yaml", got, 0o644))
	}
	want, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run: go test ./rest -run OpenAPI -update")
}

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(get(t, Prefix+"/openapi.json").Body.Bytes())
	require.NoError(t, err)
	return doc
}

func TestOpenAPIIsValid(t *testing.T) {
	doc := document(t)
	require.True(t, strings.HasPrefix(doc.OpenAPI, "3.1"), doc.OpenAPI)
	require.NoError(t, doc.Validate(t.Context()))
}

// Every operation describes its purpose, its callers and its failures; no operation answers 422.
func TestOpenAPIDescribesEveryOperation(t *testing.T) {
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			name := method + " " + path
			require.NotEmpty(t, op.OperationID, name)
			require.NotEmpty(t, op.Summary, name)
			require.NotNil(t, op.Security, name)
			answers := op.Responses.Map()
			require.NotContains(t, answers, "422", name)
			require.Contains(t, answers, "400", name)
			require.Contains(t, answers, "500", name)
			if len(*op.Security) > 0 {
				require.Contains(t, answers, "401", name)
				require.Contains(t, answers, "403", name)
			}
			if strings.Contains(path, "{") {
				require.Contains(t, answers, "404", name)
			}
			if op.RequestBody != nil {
				require.Contains(t, answers, "413", name)
				require.Contains(t, answers, "415", name)
			}
		}
	}
}

// Every list takes limit and cursor and answers {data, next_cursor?}.
func TestOpenAPILists(t *testing.T) {
	lists := 0
	for path, item := range document(t).Paths.Map() {
		if item.Get == nil || item.Get.Responses.Value("200").Value.Content.Get("application/json") == nil {
			continue
		}
		schema := item.Get.Responses.Value("200").Value.Content.Get("application/json").Schema
		if !strings.HasPrefix(schema.Ref, "#/components/schemas/List") {
			continue
		}
		lists++
		require.NotNil(t, item.Get.Parameters.GetByInAndName("query", "limit"), path)
		require.NotNil(t, item.Get.Parameters.GetByInAndName("query", "cursor"), path)
		require.Equal(t, []string{"data"}, schema.Value.Required, path)
		require.Contains(t, schema.Value.Properties, "next_cursor", path)
	}
	require.Positive(t, lists)
}

func TestErrorSchemaHasOneField(t *testing.T) {
	schema := document(t).Components.Schemas["Error"].Value
	require.Len(t, schema.Properties, 1)
	require.Equal(t, []string{"error"}, schema.Required)
}

// The page shows every operation and schema, and requests nothing from other hosts.
func TestDocsPage(t *testing.T) {
	page := get(t, Prefix+"/docs")
	require.Equal(t, 200, page.Code)
	require.Equal(t, "text/html; charset=utf-8", page.Header().Get("Content-Type"))
	require.Contains(t, page.Header().Get("Content-Security-Policy"), "default-src 'none'")
	doc := document(t)
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			require.Contains(t, page.Body.String(), `<article id="`+op.OperationID+`">`)
		}
	}
	for name := range doc.Components.Schemas {
		require.Contains(t, page.Body.String(), `<article id="schema-`+name+`">`)
	}
	files := []string{page.Body.String()}
	for _, name := range []string{"docs.css", "docs.js"} {
		file := get(t, Prefix+"/"+name)
		require.Equal(t, 200, file.Code, name)
		files = append(files, file.Body.String())
	}
	require.NotRegexp(t, regexp.MustCompile(`(?i)(src|href|url|import|fetch)\s*[=(]?\s*["'(]?(https?:)?//`), strings.Join(files, "\n"))
	require.NotContains(t, page.Body.String(), "<style")
	require.NotRegexp(t, regexp.MustCompile(`<[^>]+ (style|on[a-z]+)=`), page.Body.String(), "the content security policy forbids it")
}

// The page's examples of bodies match their schemas.
func TestDocsExamplesAreValid(t *testing.T) {
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			schema := op.RequestBody.Value.Content.Get("application/json").Schema
			for _, example := range schema.Value.Examples {
				encoded, err := json.Marshal(example)
				require.NoError(t, err)
				var v any
				require.NoError(t, json.Unmarshal(encoded, &v))
				require.NoError(t, schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()), method+" "+path)
			}
		}
	}
}
