// Package graph shows the domain as a GraphQL schema with subscriptions. A resolver is scope, call, return: rules and permissions live in
// domain, where the REST transport has them too.
package graph

import (
	"context"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/loader"
	"github.com/millpond/millpond/graph/generated"
)

// Options are what the handler stands on.
type Options struct {
	Services domain.Services
	Lake     *lake.Catalog
	Auth     *auth.Service
	Topics   domain.Topics
	Log      *slog.Logger
	Version  string // of the running binary
}

// maxBody bounds a request's body, in bytes: a job has 4 MiB at most, and JSON may double that.
const maxBody = 8 << 20

// parsedQueries is how many parsed queries are kept: the console has some thirty.
const parsedQueries = 500

// timing is what a WebSocket waits for, and how often the live queries look.
type timing struct {
	init     time.Duration // for the first message
	ping     time.Duration // between pings; a peer that answers none for two of them is gone
	write    time.Duration // for one message to be taken: a reader that stopped is cut after it
	farewell time.Duration // for the peer's answer to a close
	recheck  time.Duration // between looks at the credential, beside the wake-up of its end
	pace     time.Duration // at least between two reads of a live query: a burst of changes is read once
	retry    time.Duration // after a read that failed
}

var defaultTiming = timing{
	init: 10 * time.Second, ping: 20 * time.Second, write: 10 * time.Second, farewell: 2 * time.Second,
	recheck: 20 * time.Second, pace: 100 * time.Millisecond, retry: time.Second,
}

// Handler serves POST /graphql and its WebSocket (graphql-transport-ws) at the path it is mounted on. A request whose answer has an X-Request-Id
// already keeps it, else it gets the caller's or a new one. When the context of the server's connections ends, WebSockets close with 1001.
func Handler(o Options) http.Handler { return newHandler(o, defaultTiming) }

type server struct {
	Options
	timing    timing
	presenter presenter
	gqlgen    *handler.Server
}

func newHandler(o Options, t timing) http.Handler {
	s := &server{Options: o, timing: t, presenter: presenter{log: o.Log}}
	schema := generated.NewExecutableSchema(generated.Config{Resolvers: &Resolver{server: s}, Complexity: costs()})
	s.gqlgen = handler.New(schema)
	s.gqlgen.AddTransport(post{presenter: s.presenter}) // asked first: gqlgen's WebSocket takes whatever offers an upgrade
	s.gqlgen.AddTransport(s.webSocket())
	s.gqlgen.SetQueryCache(lru.New[*ast.QueryDocument](parsedQueries))
	s.gqlgen.SetParserTokenLimit(maxTokens)
	s.gqlgen.SetErrorPresenter(s.presenter.present)
	s.gqlgen.SetRecoverFunc(s.presenter.recovered)
	s.gqlgen.Use(limits{schema: schema})
	s.gqlgen.AroundOperations(s.aroundOperation)
	s.gqlgen.AroundResponses(s.aroundResponse)
	return identified(o.Auth.Middleware(cookies)(s))
}

// aroundResponse gives each response loaders of its own: a subscription's next event must not see what the last one read.
func (s *server) aroundResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if scope, err := auth.From(ctx); err == nil {
		ctx = withBudget(loader.With(ctx, loader.New(s.Services, s.Lake, scope)))
	}
	return next(ctx)
}

// ServeHTTP refuses what GraphQL is not asked for: the status tells, and the body is an error as GraphQL writes it. Past this, answers are 200.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isUpgrade(r):
		s.serveSocket(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		s.refuse(w, r, http.StatusMethodNotAllowed, domain.Errorf(domain.CodeInvalid, "GraphQL is asked by POST, and followed by WebSocket."))
	case !isJSON(r):
		s.refuse(w, r, http.StatusUnsupportedMediaType, domain.Errorf(domain.CodeInvalid, "Send the query as JSON, with Content-Type: application/json."))
	case isCoded(r):
		w.Header().Set("Accept-Encoding", "identity")
		s.refuse(w, r, http.StatusUnsupportedMediaType, domain.Errorf(domain.CodeInvalid, "Send the query as it is, without Content-Encoding."))
	case isForgeable(r):
		s.refuse(w, r, http.StatusForbidden, domain.Errorf(domain.CodeForbidden, "With the console's cookie, send the header %s too.", auth.ConsoleHeader))
	case isBearer(r) && unauthenticated(r.Context()) != nil:
		s.refuse(w, r, http.StatusUnauthorized, unauthenticated(r.Context()))
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.gqlgen.ServeHTTP(w, r)
	}
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	writeErrors(w, status, s.presenter.present(r.Context(), err))
}

// isUpgrade recognises a WebSocket. Another upgrade that a client offers, such as Java's and curl's to HTTP/2, may be passed over.
func isUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}

// isCoded recognises a body that is not what its sender means: no coding is undone.
func isCoded(r *http.Request) bool {
	coding := r.Header.Get("Content-Encoding")
	return coding != "" && !strings.EqualFold(coding, "identity")
}

func isBearer(r *http.Request) bool { return r.Header.Get("Authorization") != "" }

// cookies says where the console's cookie counts: on requests that only a page of ours can make. A WebSocket's origin is checked when it opens.
func cookies(r *http.Request) bool {
	return isUpgrade(r) || r.Header.Get(auth.ConsoleHeader) != ""
}

// isForgeable recognises a request that another site's page could have made a browser send with the console's cookie.
func isForgeable(r *http.Request) bool {
	if cookies(r) || isBearer(r) {
		return false
	}
	for _, c := range r.Cookies() {
		if c.Name == auth.CookieName || "__Host-"+c.Name == auth.CookieName {
			return true
		}
	}
	return false
}

// unauthenticated is why a bearer token does not hold; nil when it does, or when that could not be asked, which the resolvers tell.
func unauthenticated(ctx context.Context) error {
	if _, err := auth.From(ctx); domain.IsCode(err, domain.CodeUnauthenticated) {
		return err
	}
	return nil
}

type contextKey int

const (
	requestKey contextKey = iota
	socketKey
)

// request is what resolvers need to know of the HTTP request.
type request struct {
	id            string
	origin        string // scheme and host under which the client reached us
	authorization string
}

const requestIDHeader = "X-Request-Id"

// identified gives each request an id, unless somebody before us has: the caller's own where it is sane.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{id: w.Header().Get(requestIDHeader), origin: originOf(r), authorization: r.Header.Get("Authorization")}
		if req.id == "" {
			req.id = domain.RequestID(r.Header.Get(requestIDHeader))
			w.Header().Set(requestIDHeader, req.id)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey, req)))
	})
}

func requestOf(ctx context.Context) request {
	req, _ := ctx.Value(requestKey).(request)
	return req
}

func requestID(ctx context.Context) string { return requestOf(ctx).id }

// originOf is the address in the client's own bar; a trusted proxy that ended TLS has set the URL's scheme.
func originOf(r *http.Request) string {
	if r.TLS != nil || strings.EqualFold(r.URL.Scheme, "https") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
