package iceberg

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/millpond/millpond/domain"
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
func (f *face) recovered(next http.Handler) http.Handler {
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
			f.Log.ErrorContext(r.Context(), "request panicked", slog.String("request_id", requestID(r.Context())),
				slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
			if ww.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			writeError(ww, translated(domain.AsError(fmt.Errorf("%v", cause))))
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
func (f *face) sane(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := saneURL(r.URL); err != nil {
			f.fail(w, r, err)
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
