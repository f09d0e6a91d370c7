package graph

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/loader"
	"github.com/millpond/millpond/graph/model"
)

// Resolver is the root of the resolvers. They are scope, call, return.
type Resolver struct {
	*server
}

// loaders returns those of the current response, or new ones outside of a response.
func (r *Resolver) loaders(ctx context.Context) *loader.Loaders {
	if l, ok := loader.From(ctx); ok {
		return l
	}
	return loader.New(r.Services.loaded(), r.Lake, scopeOf(ctx))
}

// page reads a connection's arguments. first has a default.
func page(first *int, after *string) (domain.Page, error) {
	p := domain.Page{Limit: domain.DefaultLimit, Cursor: value(after)}
	if first != nil {
		p.Limit = *first
	}
	if p.Limit < 1 || p.Limit > domain.MaxLimit {
		return p, domain.Invalid("first", "first is %d; it must be from 1 to %d.", p.Limit, domain.MaxLimit)
	}
	return p, nil
}

// connection reads one page of a list.
func connection[T any](ctx context.Context, first *int, after *string, list func(domain.Scope, domain.Page) (domain.List[T], error)) (model.Connection[T], error) {
	p, err := page(first, after)
	if err != nil {
		return model.Connection[T]{}, err
	}
	l, err := list(scopeOf(ctx), p)
	if err != nil {
		return model.Connection[T]{}, ofArguments(err)
	}
	if load, ok := loader.From(ctx); ok {
		load.Expect(l.Items)
	}
	return model.NewConnection(l), nil
}

// ofArguments renames a page's fields to the connection's arguments.
func ofArguments(err error) error {
	if e := domain.AsError(err); e.Field == "cursor" {
		return domain.Invalid("after", "The cursor is malformed or belongs to another list or filter; use endCursor of the previous page, or start again without one.").Because(err)
	}
	return err
}

// found turns a failed look-up into null.
func found[T any](v T, err error) (*T, error) {
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// optional returns null for an empty text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// value returns the zero value for null.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// byPost refuses a WebSocket for an operation that sets a cookie.
func byPost(ctx context.Context) error {
	if socketOf(ctx) == nil {
		return nil
	}
	return domain.Errorf(domain.CodeInvalid, "Send this by POST: a WebSocket cannot change the console's cookie.")
}

// signedIn returns the new session's viewer, and sets the console's cookie.
func (r *Resolver) signedIn(ctx context.Context, in auth.SignedIn) (model.Viewer, error) {
	scope, err := r.Auth.Cookie(ctx, in.Secret)
	if err != nil {
		return model.Viewer{}, err
	}
	auth.SetCookie(ctx, in)
	return model.Viewer{Scope: scope, Session: &in.Session}, nil
}
