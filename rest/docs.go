package rest

import (
	"bytes"
	_ "embed" // for the page's files
	"encoding/json"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// The page is built once, from the OpenAPI document alone, and requests nothing from other hosts.
var (
	//go:embed docs.html
	docsHTML string
	//go:embed docs.css
	docsCSS []byte
	//go:embed docs.js
	docsJS []byte
)

// docs is the data of the page.
type docs struct {
	Title   string
	About   template.HTML
	Groups  []docsGroup
	Schemas []docsSchema
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Public                    bool
	Parameters                []docsField
	Body                      string // name of a schema
	BodyRequired              bool
	Responses                 []docsResponse
	Curl                      string
}

type docsField struct {
	Name, In, Type, Schema, Description string
	Required                            bool
}

type docsResponse struct {
	Status, Description, Type, Schema string
}

type docsSchema struct {
	Name   string
	Fields []docsField
}

func docsPage(o *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Parse(docsHTML)
	if err != nil {
		return nil, err
	}
	d := docs{Title: o.Info.Title, About: prose(o.Info.Description)}
	for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
		item := o.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				d.add(o, op)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Components.Schemas.Map())) {
		d.Schemas = append(d.Schemas, docsSchema{name, schemaFields(o.Components.Schemas.Map()[name])})
	}
	var b bytes.Buffer
	err = page.Execute(&b, d)
	return b.Bytes(), err
}

func (d *docs) add(o *huma.OpenAPI, op *huma.Operation) {
	i := slices.IndexFunc(d.Groups, func(g docsGroup) bool { return g.Name == op.Tags[0] })
	if i < 0 {
		i = len(d.Groups)
		d.Groups = append(d.Groups, docsGroup{Name: op.Tags[0]})
	}
	d.Groups[i].Operations = append(d.Groups[i].Operations, showOperation(o, op))
}

func showOperation(o *huma.OpenAPI, op *huma.Operation) docsOperation {
	shown := docsOperation{
		ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: prose(op.Description),
		Public: len(op.Security) == 0, Curl: curl(o, op),
	}
	for _, p := range op.Parameters {
		kind, schema := typeName(p.Schema)
		shown.Parameters = append(shown.Parameters, docsField{p.Name, p.In, kind, schema, p.Description, p.Required})
	}
	if op.RequestBody != nil {
		_, shown.Body = typeName(op.RequestBody.Content["application/json"].Schema)
		shown.BodyRequired = op.RequestBody.Required
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		shown.Responses = append(shown.Responses, showResponse(o, status, op.Responses[status]))
	}
	return shown
}

func showResponse(o *huma.OpenAPI, status string, r *huma.Response) docsResponse {
	if r.Ref != "" {
		r = o.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
	}
	shown := docsResponse{Status: status, Description: r.Description}
	for _, kind := range slices.Sorted(maps.Keys(r.Content)) {
		shown.Type, shown.Schema = typeName(r.Content[kind].Schema)
		if shown.Schema != "" {
			break
		}
	}
	return shown
}

func schemaFields(s *huma.Schema) []docsField {
	var fields []docsField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		kind, schema := typeName(p)
		fields = append(fields, docsField{Name: name, Type: kind, Schema: schema, Description: p.Description, Required: slices.Contains(s.Required, name)})
	}
	return fields
}

// typeName returns a schema's type in words, and the name of the schema that it refers to.
func typeName(s *huma.Schema) (kind, schema string) {
	switch {
	case s.Ref != "":
		schema = strings.TrimPrefix(s.Ref, "#/components/schemas/")
		return schema, schema
	case s.Items != nil:
		kind, schema = typeName(s.Items)
		kind = "array of " + kind
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i], _ = e.(string)
		}
		kind = strings.Join(words, " | ")
	default:
		kind = s.Type
		if s.Format == "date-time" {
			kind = "time"
		}
	}
	if s.Nullable {
		kind += " or null"
	}
	return kind, schema
}

func curl(o *huma.OpenAPI, op *huma.Operation) string {
	var b strings.Builder
	b.WriteString("curl -X " + op.Method + ` "$MILLPOND` + Prefix + op.Path + `"`)
	if len(op.Security) > 0 {
		b.WriteString(" \\\n  -H \"Authorization: Bearer $TOKEN\"")
	}
	if op.RequestBody != nil {
		body, err := json.MarshalIndent(sample(o, op.RequestBody.Content["application/json"].Schema), "  ", "  ")
		if err == nil {
			b.WriteString(" \\\n  -H \"Content-Type: application/json\" \\\n  -d '" + string(body) + "'")
		}
	}
	return b.String()
}

// sample returns an example of the schema. It is the schema's own if it has one, else its required
// fields, or all fields if no field is required.
func sample(o *huma.OpenAPI, s *huma.Schema) any {
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Ref != "":
		return sample(o, o.Components.Schemas.SchemaFromRef(s.Ref))
	case len(s.Enum) > 0:
		return s.Enum[len(s.Enum)-1]
	}
	switch s.Type {
	case huma.TypeObject:
		fields := map[string]any{}
		for name, p := range s.Properties {
			if len(s.Required) == 0 || slices.Contains(s.Required, name) {
				fields[name] = sample(o, p)
			}
		}
		return fields
	case huma.TypeArray:
		return []any{sample(o, s.Items)}
	case huma.TypeInteger, huma.TypeNumber:
		return 0
	case huma.TypeBoolean:
		return false
	}
	return "…"
}

var (
	code = regexp.MustCompile("`([^`]+)`")
	bold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose renders the Markdown of our descriptions: paragraphs, code and bold.
func prose(s string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(s, "\n\n") {
		if paragraph == "" {
			continue
		}
		text := template.HTMLEscapeString(paragraph)
		text = code.ReplaceAllString(text, "<code>$1</code>")
		text = bold.ReplaceAllString(text, "<strong>$1</strong>")
		b.WriteString("<p>" + text + "</p>\n")
	}
	return template.HTML(b.String()) //nolint:gosec // escaped above, and our own text
}
