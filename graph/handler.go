// Package graph serves the domain as a GraphQL schema with subscriptions. A resolver is scope,
// call, return: rules and permissions live in domain, which the REST transport shares.
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
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/loader"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph/generated"
	"github.com/millpond/millpond/rest/httpx"
)

// Services are what the resolvers call.
type Services struct {
	Instance     *setup.Instance
	Workspaces   *identity.Workspaces
	Members      *identity.Members
	APIKeys      *identity.APIKeys
	Agents       *job.Agents
	Jobs         *job.Jobs
	Runs         *job.Runs
	Samples      *setup.Samples
	Logs         *job.Logs
	Quotas       *quota.Quotas
	Compute      *machine.Machines
	Warehouses   *machine.Machines
	Settings     *machine.Settings
	Statements   *statement.Statements
	Databases    *lake.Databases
	Lineages     *lineage.Lineages
	Maintenance  *maintenance.Maintenances
	Experiments  *tracking.Experiments
	TrackingRuns *tracking.Runs
	Clock        domain.Clock
}

// Options are the services and the limits of the handler.
type Options struct {
	Services Services
	Lake     *lake.Catalog
	Auth     *auth.Service
	Topics   domain.Topics
	Log      *slog.Logger
	Version  string        // of the running binary
	HTTP     *httpx.Server // shared by the server's HTTP faces; nil for a new one
}

// maxBody bounds a request's body, in bytes: a job has 4 MiB at most, which JSON may double.
const maxBody = 8 << 20

// parsedQueries is how many parsed queries are cached: the console has some thirty.
const parsedQueries = 500

// timing has the time-outs of a WebSocket and the intervals of live queries.
type timing struct {
	init      time.Duration // for the first message
	ping      time.Duration // between pings; a peer is disconnected after two unanswered pings
	write     time.Duration // for one message to be received: a reader that stopped is cut after it
	closeWait time.Duration // for the peer's answer to a close
	pace      time.Duration // minimum between two reads of a live query: a burst of changes is read once
	points    time.Duration // minimum between two reads of a run's new points, which come without end
	retry     time.Duration // after a failed read
}

var defaultTiming = timing{
	init: 10 * time.Second, ping: 20 * time.Second, write: 10 * time.Second, closeWait: 2 * time.Second,
	pace: 100 * time.Millisecond, points: 250 * time.Millisecond, retry: time.Second,
}

// Handler serves POST /graphql and its WebSocket (graphql-transport-ws) at its mount path.
// WebSockets close with 1001 when the context of the server's connections ends.
func Handler(o Options) http.Handler { return newHandler(o, defaultTiming) }

type server struct {
	Options
	timing    timing
	presenter presenter
	gqlgen    *handler.Server
}

func newHandler(o Options, t timing) http.Handler {
	if o.HTTP == nil {
		o.HTTP = httpx.NewServer(httpx.Bounds{})
	}
	s := &server{Options: o, timing: t, presenter: presenter{log: o.Log}}
	schema := generated.NewExecutableSchema(generated.Config{Resolvers: &Resolver{server: s}, Complexity: costs()})
	s.gqlgen = handler.New(schema)
	s.gqlgen.AddTransport(post{presenter: s.presenter}) // first: gqlgen's WebSocket takes any upgrade
	s.gqlgen.AddTransport(s.webSocket())
	s.gqlgen.SetQueryCache(lru.New[*ast.QueryDocument](parsedQueries))
	s.gqlgen.SetParserTokenLimit(maxTokens)
	s.gqlgen.SetErrorPresenter(s.presenter.present)
	s.gqlgen.SetRecoverFunc(s.presenter.recovered)
	s.gqlgen.Use(limits{schema: schema})
	s.gqlgen.AroundOperations(s.aroundOperation)
	s.gqlgen.AroundResponses(s.aroundResponse)
	requests, sockets := o.Auth.Middleware(cookies)(s), o.Auth.Recognize(cookies)(s)
	either := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isUpgrade(r) {
			sockets.ServeHTTP(w, r)
			return
		}
		requests.ServeHTTP(w, r)
	})
	return httpx.Face{Server: o.HTTP, Log: o.Log, Fail: s.fail}.Wrap(asked(either))
}

// scopeOf returns the caller's scope. Below the public fields it may be zero, which every service
// refuses.
func scopeOf(ctx context.Context) domain.Scope {
	scope, _ := auth.From(ctx) // limits has refused callers without one
	return scope
}

// aroundResponse gives each response its own loaders: a subscription's event must not see cached
// reads of an earlier one. It counts the response's bytes while they are in memory, except for a
// mutation, which is always answered.
func (s *server) aroundResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if socketOf(ctx) != nil { // the operation's last response was sent
		httpx.Release(ctx)
	}
	if scope, err := auth.From(ctx); err == nil {
		ctx = withBudget(loader.With(ctx, loader.New(s.Services.loaded(), s.Lake, scope)))
	}
	response := next(ctx)
	op := graphql.GetOperationContext(ctx).Operation // nil if it is not GraphQL
	if response == nil || op == nil || op.Operation == ast.Mutation {
		return response
	}
	if err := httpx.HoldAtLeast(ctx, int64(len(response.Data))); err != nil {
		return &graphql.Response{Errors: gqlerror.List{s.presenter.present(ctx, err)}}
	}
	return response
}

// ServeHTTP refuses requests that are not GraphQL: with an HTTP status, and an error in GraphQL's
// form. GraphQL's own answers are 200.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isUpgrade(r):
		s.serveSocket(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		s.refuse(w, r, http.StatusMethodNotAllowed, domain.Errorf(domain.CodeInvalid, "Send queries by POST, and subscriptions by WebSocket."))
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
		s.gqlgen.ServeHTTP(w, r)
	}
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	s.presenter.refuse(w, r, status, err)
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.presenter.refuse(w, r, statusOf(err), err)
}

// isUpgrade reports whether the request opens a WebSocket. Other upgrades, such as those of Java
// and curl to HTTP/2, are ignored.
func isUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}

// isCoded reports whether the body has a content coding, which is never decoded.
func isCoded(r *http.Request) bool {
	coding := r.Header.Get("Content-Encoding")
	return coding != "" && !strings.EqualFold(coding, "identity")
}

func isBearer(r *http.Request) bool { return r.Header.Get("Authorization") != "" }

// cookies reports whether the console's cookie is accepted: only on requests that other sites
// cannot send. A WebSocket's origin is checked when it opens.
func cookies(r *http.Request) bool {
	return isUpgrade(r) || r.Header.Get(auth.ConsoleHeader) != ""
}

// isForgeable reports whether another site's page could have made a browser send the request with
// the console's cookie.
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

// unauthenticated returns why a bearer token is invalid. It returns nil if the token is valid, or
// could not be checked: then the resolvers report the error.
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

// request is what resolvers need from the HTTP request.
type request struct {
	origin        string // scheme and host of the request
	authorization string
}

// asked stores in the context what resolvers need from the request.
func asked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := request{origin: originOf(r), authorization: r.Header.Get("Authorization")}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey, req)))
	})
}

func requestOf(ctx context.Context) request {
	req, _ := ctx.Value(requestKey).(request)
	return req
}

// originOf returns the address in the client's address bar. A trusted proxy that terminates TLS has
// set the URL's scheme.
func originOf(r *http.Request) string {
	if r.TLS != nil || strings.EqualFold(r.URL.Scheme, "https") {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// loaded returns what the loaders of a response read from.
func (s Services) loaded() loader.Services {
	return loader.Services{
		Members:      s.Members,
		Agents:       s.Agents,
		Jobs:         s.Jobs,
		Runs:         s.Runs,
		Logs:         s.Logs,
		Compute:      s.Compute,
		Warehouses:   s.Warehouses,
		Statements:   s.Statements,
		Maintenance:  s.Maintenance,
		Experiments:  s.Experiments,
		TrackingRuns: s.TrackingRuns,
	}
}
