package rest

import (
	"bytes"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// readBody reads the body of an operation that has one. It refuses a body that is not exactly one
// valid JSON value of the operation's schema, because huma reads leniently.
func (a *api) readBody(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	r, w := humachi.Unwrap(ctx)
	if op.RequestBody == nil {
		if err := noBody(w, r); err != nil {
			a.fail(w, r, err)
			return
		}
		next(ctx)
		return
	}
	limit := a.maxBody
	if len(op.Security) == 0 {
		limit = min(limit, httpx.AnonymousBytes)
	}
	body, err := httpx.Receive(w, r, limit)
	if err == nil && len(body) > 0 {
		err = a.sound(r, body, op)
	}
	if err == nil && len(body) == 0 && op.RequestBody.Required {
		err = domain.Invalid("body", "The body is missing; send a JSON object.")
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

func (a *api) sound(r *http.Request, body []byte, op *huma.Operation) error {
	if err := httpx.IsJSON(r.Header); err != nil {
		return err
	}
	if err := httpx.Count(r.Context(), body, httpx.MaxDepth, httpx.MaxValues); err != nil {
		return err
	}
	return httpx.Sound(body, a.shapeOf(op))
}

// noBody refuses a body other than {}. Many clients always send {}.
func noBody(w http.ResponseWriter, r *http.Request) error {
	const most = 64 // bytes, spaces included
	body, err := httpx.Receive(w, r, most)
	body = bytes.TrimSpace(body)
	empty := len(body) == 0 || body[0] == '{' && body[len(body)-1] == '}' && len(bytes.TrimSpace(body[1:len(body)-1])) == 0
	if err == nil && !empty || domain.IsCode(err, domain.CodeTooLarge) {
		return domain.Invalid("body", "This operation takes no body; leave it out.")
	}
	return err
}

// bodyShape adapts a schema of the OpenAPI description to httpx.Sound.
type bodyShape struct {
	schema   *huma.Schema
	registry huma.Registry
}

func (a *api) shapeOf(op *huma.Operation) httpx.Shape {
	content := op.RequestBody.Content[typeJSON]
	if content == nil {
		return nil
	}
	return newShape(content.Schema, a.OpenAPI().Components.Schemas)
}

// newShape returns nil if the schema allows any value.
func newShape(s *huma.Schema, registry huma.Registry) httpx.Shape {
	if s != nil && s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	if s == nil || s.Type == "" && s.OneOf == nil {
		return nil
	}
	return bodyShape{s, registry}
}

// Field implements httpx.Shape.
func (s bodyShape) Field(name string) httpx.Shape {
	for _, one := range s.schema.OneOf {
		if alternative := newShape(one, s.registry); alternative != nil && alternative.Field(name) != nil {
			return alternative.Field(name)
		}
	}
	if field := s.schema.Properties[name]; field != nil {
		return newShape(field, s.registry)
	}
	further, _ := s.schema.AdditionalProperties.(*huma.Schema)
	return newShape(further, s.registry)
}

// Item implements httpx.Shape.
func (s bodyShape) Item() httpx.Shape {
	for _, one := range s.schema.OneOf {
		if one.Items != nil {
			return newShape(one.Items, s.registry)
		}
	}
	return newShape(s.schema.Items, s.registry)
}

// Nullable implements httpx.Shape.
func (s bodyShape) Nullable() bool { return s.schema.Nullable }
