package rest

import (
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/rest/httpx"
)

// authenticated refuses unknown callers before their body is read.
func (a *api) authenticated(ctx huma.Context, next func(huma.Context)) {
	if len(ctx.Operation().Security) > 0 {
		if _, err := auth.From(ctx.Context()); err != nil {
			r, w := humachi.Unwrap(ctx)
			a.fail(w, r, err)
			return
		}
	}
	next(ctx)
}

// knownQuery refuses parameters that the operation does not have, and repeated single-valued
// parameters: a mistyped filter would show everything.
func (a *api) knownQuery(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	if err := checkQuery(ctx.Operation(), r.URL.Query()); err != nil {
		a.fail(w, r, err)
		return
	}
	next(ctx)
}

func checkQuery(op *huma.Operation, query url.Values) error {
	if len(query) == 0 {
		return nil
	}
	known := map[string]*huma.Param{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			known[p.Name] = p
		}
	}
	for name, values := range query {
		p := known[name]
		if p == nil {
			return domain.Invalid("query", "There is no query parameter %q here; leave it out.", httpx.Shorten(name))
		}
		if len(values) > 1 && (p.Explode == nil || !*p.Explode) {
			return domain.Invalid(name, "The query parameter %q is given %d times; give it once.", name, len(values))
		}
		if values[0] == "" && !p.AllowEmptyValue && (p.Schema.Type != huma.TypeString || p.Schema.Format != "") {
			return domain.Invalid(name, "The query parameter %q has no value; give one, or leave it out.", name)
		}
	}
	return nil
}
