// Package rest serves the domain as the specified REST API. It has one file per noun. Each
// operation is its typed input, one service call and its typed output. Rules and permissions live
// in domain.
package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/rest/httpx"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// defaultMaxBody bounds a request's body, in bytes, unless Options do: twice the largest job.
const defaultMaxBody = 8 << 20

// Services are what the operations call.
type Services struct {
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

// Options are the services and the limits of the API.
type Options struct {
	Services Services
	Lake     *lake.Catalog
	Auth     *auth.Service
	Log      *slog.Logger  // logs internal errors, each with its request id
	MaxBody  int64         // of a request, in bytes; 0 means 8 MiB
	HTTP     *httpx.Server // shared by the server's HTTP faces; nil for a new one
}

// api holds what the operations need, and registers their routes.
type api struct {
	huma.API
	Services
	lake    *lake.Catalog
	auth    *auth.Service
	log     *slog.Logger
	maxBody int64
	http    *httpx.Server
}

// Handler serves the operations below Prefix, their description at Prefix/openapi.json and
// Prefix/openapi.yaml, and a page to read it at Prefix/docs. Everything else is 404.
func Handler(o Options) (http.Handler, error) {
	if o.Auth == nil || o.Log == nil {
		return nil, errors.New("rest: Auth and Log are required")
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.HTTP == nil {
		o.HTTP = httpx.NewServer(httpx.Bounds{})
	}
	a := &api{Services: o.Services, lake: o.Lake, auth: o.Auth, log: o.Log, maxBody: o.MaxBody, http: o.HTTP}
	return a.routes()
}

func (a *api) routes() (http.Handler, error) {
	root := chi.NewRouter()
	root.Use(httpx.Face{Server: a.http, Log: a.log, Fail: a.fail}.Wrap, httpx.Plain, middleware.GetHead, wholeKeys)
	root.NotFound(a.unknownRoute)
	root.MethodNotAllowed(a.wrongMethod(root))
	root.Route(Prefix, func(r chi.Router) {
		r.Group(func(r chi.Router) {
			r.Use(a.auth.Middleware(auth.NoCookies))
			a.API = humachi.New(r, a.config())
			a.UseMiddleware(a.authenticated, a.knownQuery, a.readBody)
			a.operations()
		})
		r.Group(func(r chi.Router) {
			r.Use(a.auth.Middleware(cookieCounts))
			a.logRoutes(r)
		})
		a.describe(r)
	})
	return httpx.OwnRoutes(root, nil), nil
}

// wholeKeys routes the keys of metrics and tags as one element of the path, also when their slashes
// are not encoded: keys such as train/loss are common.
func wholeKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isExperiments := strings.CutPrefix(r.URL.EscapedPath(), Prefix+"/experiments/")
		for _, noun := range []string{"/metrics/", "/tags/"} {
			before, key, found := strings.Cut(path, noun)
			if isExperiments && found && strings.Contains(key, "/") {
				r.URL.RawPath = Prefix + "/experiments/" + before + noun + strings.ReplaceAll(key, "/", "%2F")
				break
			}
		}
		next.ServeHTTP(w, r)
	})
}

// cookieCounts accepts the console's cookie for logs, which browsers download by a link.
func cookieCounts(*http.Request) bool { return true }

func (a *api) operations() {
	a.authRoutes()
	a.workspaceRoutes()
	a.jobRoutes()
	a.runRoutes()
	a.taskRoutes()
	a.memberRoutes()
	a.apiKeyRoutes()
	a.agentRoutes()
	a.quotaRoutes()
	a.computeRoutes()
	a.warehouseRoutes()
	a.statementRoutes()
	a.databaseRoutes()
	a.tableRoutes()
	a.maintenanceRoutes()
	a.experimentRoutes()
	a.trackingRunRoutes()
	a.trackingMetricRoutes()
	a.lineageRoutes()
	a.flavorRoutes()
	a.settingsRoutes()
}

func (a *api) unknownRoute(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, domain.Errorf(domain.CodeNotFound, "There is nothing at %s; %s/docs lists all operations.", httpx.Shorten(r.URL.Path), Prefix))
}

// wrongMethod answers 405 with the path's methods.
func (a *api) wrongMethod(routes chi.Routes) http.HandlerFunc {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range methods {
			served := m
			if m == http.MethodHead {
				served = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), served, r.URL.Path) {
				allowed = append(allowed, m)
			}
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		writeError(w, newError(http.StatusMethodNotAllowed, "This path does not take "+httpx.Shorten(r.Method)+"; use "+allow+"."))
	}
}
