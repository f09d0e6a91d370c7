// Package httpx is shared by the server's HTTP faces. It has request ids, the recovery of panics,
// bodies with their limits, the memory that requests hold, and answers in pieces. A face adds how
// it writes errors. The agents' channel is not a face.
package httpx

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// RequestIDHeader carries the id of a request both ways.
const RequestIDHeader = "X-Request-Id"

// Bounds limits what requests hold at once and how long they take. Zero fields mean the defaults.
type Bounds struct {
	ServerBytes    int64         // of all requests together, and again of all answers: 512 MiB
	WorkspaceBytes int64         // the same for one workspace: 128 MiB
	BodyTime       time.Duration // in which a request's body arrives: a minute
	SendTime       time.Duration // in which the client receives one piece of an answer: a minute
}

// Server is the state that the faces of one server share.
type Server struct {
	bodyTime, sendTime time.Duration
	requests, answers  pool
}

// NewServer makes a Server.
func NewServer(b Bounds) *Server {
	whole, part := orElse(b.ServerBytes, 512<<20), orElse(b.WorkspaceBytes, 128<<20)
	return &Server{
		bodyTime: orElse(b.BodyTime, time.Minute), sendTime: orElse(b.SendTime, time.Minute),
		requests: newPool("requests", whole, part), answers: newPool("answers", whole, part),
	}
}

func orElse[T int64 | time.Duration](v, other T) T {
	if v == 0 {
		return other
	}
	return v
}

// Face is one HTTP API of the server.
type Face struct {
	Server *Server
	Log    *slog.Logger // logs panics
	Fail   func(http.ResponseWriter, *http.Request, error)
	Static bool // whether its answers are memory that all requests share
}

// Refusal is an error with an HTTP status and no code of the domain.
type Refusal struct {
	Status  int
	Message string
	Header  http.Header // of the answer; may be nil
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Wrap gives each request an id, a memory lease and deadlines. It answers 500 if a handler panics,
// and refuses URLs that a database cannot store as text.
func (f Face) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := f.begin(w, r)
		defer x.end()
		defer f.recovered(x)
		if err := saneURL(x.request.URL); err != nil {
			f.Fail(x, x.request, err)
			return
		}
		next.ServeHTTP(x, x.request)
	})
}

type contextKey int

const exchangeKey contextKey = iota

// exchange is a request in progress, and the writer of its answer.
type exchange struct {
	answer
	id    string
	lease Lease
	body  timelyBody
}

func (f Face) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{id: domain.RequestID(r.Header.Get(RequestIDHeader))}
	x.lease.server = f.Server
	x.answer = answer{ResponseWriter: w, control: http.NewResponseController(w), time: f.Server.sendTime, fail: f.Fail}
	if !f.Static {
		x.answer.lease = &x.lease
	}
	w.Header().Set(RequestIDHeader, x.id)
	x.request = r.WithContext(context.WithValue(r.Context(), exchangeKey, x)) // net/http looks at the body of its own request at the end
	x.begin()
	x.body.bound(x.request, x.control, f.Server.bodyTime)
	return x
}

func (x *exchange) end() {
	x.lease.Release()
	x.answer.end()
}

// recovered answers 500 after a panic. If the answer has begun, it ends the connection.
func (f Face) recovered(x *exchange) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
		panic(cause)
	}
	f.Log.ErrorContext(x.request.Context(), "request panicked", slog.String("request_id", x.id), slog.String("path", x.request.URL.Path),
		slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
	if x.sent {
		panic(http.ErrAbortHandler)
	}
	x.refuse(&Refusal{Status: http.StatusInternalServerError, Message: domain.AsError(fmt.Errorf("%v", cause)).Message})
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey).(*exchange)
	return x
}

// RequestID returns the id of the request in progress, as it appears in the log.
func RequestID(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// Plain keeps answers out of caches and other sites' pages, because they may hold secrets.
func Plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func saneURL(u *url.URL) error {
	if !SaneText(u.Path) {
		return domain.Invalid("path", "The path holds a NUL byte or is not valid UTF-8.")
	}
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return domain.Invalid("query", "The query is malformed; encode %%, & and ; in its values.")
	}
	for name, values := range query {
		if !SaneText(name) || !SaneText(strings.Join(values, "")) {
			return domain.Invalid("query", "The query holds a NUL byte or is not valid UTF-8.")
		}
	}
	return nil
}

// SaneText reports whether a database can store s as text.
func SaneText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// maxShown bounds how much of a caller's input is shown back, in bytes.
const maxShown = 200

// Shorten cuts a caller's input to a length that fits a message.
func Shorten(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
