// Package rest shows the domain as the specified REST API: one file per noun, each operation its typed input, one call of a service and its
// typed output. Rules and permissions live in domain.
package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// defaultMaxBody bounds a request's body where Options do not: twice the largest job.
const defaultMaxBody = 8 << 20

// Options are what the API is made of.
type Options struct {
	Services domain.Services
	Lake     *lake.Catalog
	Auth     *auth.Service
	Topics   domain.Topics
	Log      *slog.Logger // of internal errors, each with its request id
	MaxBody  int64        // of a request, in bytes; 0 stands for 8 MiB
}

// api is the API while its routes are registered.
type api struct {
	huma.API
	domain.Services
	lake    *lake.Catalog
	auth    *auth.Service
	topics  domain.Topics
	log     *slog.Logger
	maxBody int64
	recheck time.Duration // how often a log that is followed asks whether its credential still holds, beside the wake-up of its end
}

// recheckCredential bounds how long a followed log outlives a credential whose end wakes nobody: one that expires.
const recheckCredential = 30 * time.Second

// Handler serves the operations below Prefix, their description at Prefix/openapi.json and Prefix/openapi.yaml, and a page to read it at
// Prefix/docs. Everything else is 404.
func Handler(o Options) (http.Handler, error) {
	if o.Auth == nil || o.Topics == nil || o.Log == nil {
		return nil, errors.New("rest: Auth, Topics and Log are required")
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	a := &api{Services: o.Services, lake: o.Lake, auth: o.Auth, topics: o.Topics, log: o.Log, maxBody: o.MaxBody, recheck: recheckCredential}
	return a.routes()
}

func (a *api) routes() (http.Handler, error) {
	root := chi.NewRouter()
	root.Use(identified, a.recovered, plainHeaders, a.sane, middleware.GetHead)
	root.NotFound(a.unknownRoute)
	root.MethodNotAllowed(a.wrongMethod(root))
	var err error
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
		err = a.describe(r)
	})
	return ownRoutes(root), err
}

// ownRoutes routes afresh, whatever router this one is mounted in: chi would go on with the other's state. The other learns the pattern of the route.
func ownRoutes(root chi.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := chi.NewRouteContext()
		own.Routes = root
		if outer := chi.RouteContext(r.Context()); outer != nil {
			defer func() { outer.RoutePatterns = own.RoutePatterns }()
		}
		root.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, own)))
	})
}

// cookieCounts is for logs, which browsers download by a link.
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
	a.lineageRoutes()
	a.flavorRoutes()
	a.settingsRoutes()
}

func (a *api) unknownRoute(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, domain.Errorf(domain.CodeNotFound, "There is nothing at %s; %s/docs lists what there is.", shorten(r.URL.Path), Prefix))
}

// wrongMethod answers 405 with the methods that the path has.
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
		writeError(w, newError(http.StatusMethodNotAllowed, "This path does not take "+shorten(r.Method)+"; use "+allow+"."))
	}
}
