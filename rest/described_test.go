package rest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// pathTemplate is a path of the document, with a pattern for its requests.
type pathTemplate struct {
	pattern *regexp.Regexp
	item    *openapi3.PathItem
}

// templates are the document's paths, those without parameters first.
var templates = sync.OnceValues(func() ([]pathTemplate, error) {
	h, err := described()
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(serveOnce(h, Prefix+"/openapi.json").Body.Bytes())
	if err != nil {
		return nil, err
	}
	for _, schema := range doc.Components.Schemas {
		allowNull(schema)
	}
	var all []pathTemplate
	for path, item := range doc.Paths.Map() {
		pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		all = append(all, pathTemplate{regexp.MustCompile("^" + pattern + "$"), item})
	}
	return all, nil
})

// allowNull makes schemas without a type accept null, which the validator refuses by default.
func allowNull(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Value == nil {
		return
	}
	s := ref.Value
	if s.IsEmpty() {
		s.Type = &openapi3.Types{"null", "boolean", "number", "string", "array", "object"}
	}
	allowNull(s.Items)
	if ref.Ref == "" {
		allowNull(s.AdditionalProperties.Schema)
	}
	for _, property := range s.Properties {
		if property.Ref == "" {
			allowNull(property)
		}
	}
}

// requireDescribed checks an answer against the document: its status is documented, and its body
// fits the schema.
func requireDescribed(t testing.TB, method, path string, r reply) {
	t.Helper()
	op := operationOf(t, method, path)
	if op == nil || r.status == 405 {
		return
	}
	response := op.Responses.Value(strconv.Itoa(r.status))
	require.NotNil(t, response, "%s %s answers %d, which is not described: %s", method, path, r.status, r.body)
	media := response.Value.Content.Get("application/json")
	if media == nil || method == "HEAD" || !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		return
	}
	var v any
	require.NoError(t, json.Unmarshal([]byte(r.body), &v), r.body)
	if _, seen := shapes.LoadOrStore(fmt.Sprint(op.OperationID, r.status, shape(v)), true); seen {
		return // compiling a schema is slow
	}
	require.NoError(t, media.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()), "%s %s: %s", method, path, r.body)
}

// shapes are the shapes of answers that were already checked.
var shapes sync.Map

// shape returns a value's types without its values.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		fields := []string{}
		for name, field := range v {
			fields = append(fields, name+shape(field))
		}
		slices.Sort(fields)
		return fmt.Sprint(fields)
	case []any:
		items := map[string]bool{}
		for _, item := range v {
			items[shape(item)] = true
		}
		return fmt.Sprint(items)
	}
	return fmt.Sprintf("%T", v)
}

func operationOf(t testing.TB, method, path string) *openapi3.Operation {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	all, err := templates()
	require.NoError(t, err)
	for _, c := range all {
		if method == "HEAD" {
			method = "GET"
		}
		if c.pattern.MatchString(path) && c.item.GetOperation(method) != nil {
			return c.item.GetOperation(method)
		}
	}
	return nil
}
