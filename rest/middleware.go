package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// requestIDHeader carries the id of a request both ways.
const requestIDHeader = "X-Request-Id"

type contextKey int

const requestIDKey contextKey = iota

// requestID is the id of the request in progress, as the log has it.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey).(string)
	return id
}

// identified gives every request an id: the caller's own where it is sane, else a new one. It is on every answer.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := domain.RequestID(r.Header.Get(requestIDHeader))
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey, id)))
	})
}

// recovered answers 500 where a handler panics, and ends the connection where the answer had begun.
func (a *api) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(cause)
			}
			a.log.ErrorContext(r.Context(), "request panicked", slog.String("request_id", requestID(r.Context())),
				slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			if ww.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			writeError(ww, newError(http.StatusInternalServerError, domain.AsError(fmt.Errorf("%v", cause)).Message))
		}()
		next.ServeHTTP(ww, r)
	})
}

// plainHeaders keeps answers, which may hold secrets, out of caches and other sites' pages.
func plainHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// sane refuses what no database takes as text, before anything reads it.
func (a *api) sane(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := saneURL(r.URL); err != nil {
			a.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func saneURL(u *url.URL) error {
	if !saneText(u.Path) {
		return domain.Invalid("path", "The path holds a NUL byte or is not valid UTF-8.")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return domain.Invalid("query", "The query is malformed; encode %%, & and ; in its values.")
	}
	for name, values := range query {
		if !saneText(name) || !saneText(strings.Join(values, "")) {
			return domain.Invalid("query", "The query holds a NUL byte or is not valid UTF-8.")
		}
	}
	return nil
}

func saneText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// authenticated refuses callers that nobody knows, before their body is read.
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

// knownQuery refuses parameters that the operation does not have, or has once: a mistyped filter would show everything.
func (a *api) knownQuery(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	if err := checkQuery(ctx.Operation(), r.URL.Query()); err != nil {
		a.fail(w, r, err)
		return
	}
	next(ctx)
}

func checkQuery(op *huma.Operation, query url.Values) error {
	repeats := map[string]bool{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			repeats[p.Name] = p.Explode != nil && *p.Explode
		}
	}
	for name, values := range query {
		repeat, known := repeats[name]
		if !known {
			return domain.Invalid("query", "There is no query parameter %q here; leave it out.", shorten(name))
		}
		if len(values) > 1 && !repeat {
			return domain.Invalid(name, "The query parameter %q is given %d times; give it once.", name, len(values))
		}
	}
	return nil
}
