// Package iceberg shows the catalog (domain/lake) as an Iceberg REST catalog, for clients as they come: PyIceberg, Spark, Trino, DuckDB, iceberg-go.
// It translates and does nothing else. A database is the warehouse of such a client and the prefix of its paths; the levels of a schema are joined by
// the unit separator in paths, and by a dot in the service.
package iceberg

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
)

// Prefix begins the path of every endpoint; it is the uri that clients are given.
const Prefix = "/api/v1/iceberg"

// defaultMaxBody bounds a request's body where Options do not: schemas of thousands of columns and long transactions fit.
const defaultMaxBody = 32 << 20

// Options are what the face is made of.
type Options struct {
	Catalog *lake.Catalog
	Auth    *auth.Service
	Log     *slog.Logger // of internal errors, each with its request id
	MaxBody int64        // of a request, in bytes; 0 stands for 32 MiB
}

// face is the catalog's face while it serves.
type face struct {
	Options
	config configured
}

// Handler serves the endpoints below Prefix. Everything else there is answered in the protocol's error form as well.
func Handler(o Options) (http.Handler, error) {
	if o.Catalog == nil || o.Auth == nil || o.Log == nil {
		return nil, errors.New("iceberg: Catalog, Auth and Log are required")
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	f := &face{Options: o}
	endpoints := f.endpoints()
	f.config = configure(endpoints)
	return f.routes(endpoints), nil
}

// endpoint is one of those that clients are told of; its path is a pattern of the router, and the protocol's own notation.
type endpoint struct {
	method string
	path   string
	serve  func(*call) error
}

// endpoints are all that work: what is not here is neither served nor announced.
func (f *face) endpoints() []endpoint {
	const (
		namespaces = "/v1/{prefix}/namespaces"
		namespace  = namespaces + "/{namespace}"
		tables     = namespace + "/tables"
		table      = tables + "/{table}"
		views      = namespace + "/views"
		view       = views + "/{view}"
	)
	return []endpoint{
		{http.MethodGet, namespaces, f.listNamespaces},
		{http.MethodPost, namespaces, f.createNamespace},
		{http.MethodGet, namespace, f.loadNamespace},
		{http.MethodHead, namespace, f.namespaceExists},
		{http.MethodDelete, namespace, f.dropNamespace},
		{http.MethodPost, namespace + "/properties", f.updateNamespace},
		{http.MethodGet, tables, f.listTables},
		{http.MethodPost, tables, f.createTable},
		{http.MethodGet, table, f.loadTable},
		{http.MethodHead, table, f.tableExists},
		{http.MethodPost, table, f.commitTable},
		{http.MethodDelete, table, f.dropTable},
		{http.MethodGet, table + "/credentials", f.loadCredentials},
		{http.MethodPost, table + "/metrics", f.reportMetrics},
		{http.MethodPost, namespace + "/register", f.registerTable},
		{http.MethodPost, "/v1/{prefix}/tables/rename", f.renameTable},
		{http.MethodPost, "/v1/{prefix}/transactions/commit", f.commitTransaction},
		{http.MethodGet, views, f.listViews},
		{http.MethodPost, views, f.createView},
		{http.MethodGet, view, f.loadView},
		{http.MethodHead, view, f.viewExists},
		{http.MethodPost, view, f.replaceView},
		{http.MethodDelete, view, f.dropView},
		{http.MethodPost, "/v1/{prefix}/views/rename", f.renameView},
		{http.MethodPost, namespace + "/register-view", f.registerView},
	}
}

// unsupported are endpoints of the protocol that this catalog does not have: clients that ask all the same get to know it as the protocol has it.
var unsupported = []string{
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
	"/v1/{prefix}/namespaces/{namespace}/functions", "/v1/{prefix}/namespaces/{namespace}/functions/{function}",
}

func (f *face) routes(endpoints []endpoint) http.Handler {
	root := chi.NewRouter()
	root.Use(identified, f.recovered, plainHeaders, f.sane)
	root.NotFound(f.unknownRoute)
	root.MethodNotAllowed(f.wrongMethod(root))
	root.Route(Prefix, func(r chi.Router) {
		r.Post("/v1/oauth/tokens", f.oauthToken)
		r.Group(func(r chi.Router) {
			r.Use(f.Auth.Middleware(auth.NoCookies))
			r.Get("/v1/config", f.serving(f.getConfig))
			for _, e := range endpoints {
				r.Method(e.method, e.path, f.serving(e.serve))
			}
			for _, path := range unsupported {
				r.Handle(path, f.serving(func(*call) error { return errUnsupported() }))
			}
		})
	})
	return ownRoutes(root)
}

// ownRoutes routes afresh, whatever router this one is mounted in, by the path as it was sent: an encoded slash in a name is none of the path's.
func ownRoutes(root chi.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := chi.NewRouteContext()
		own.Routes = root
		own.RoutePath = r.URL.EscapedPath()
		if outer := chi.RouteContext(r.Context()); outer != nil {
			defer func() { outer.RoutePatterns = own.RoutePatterns }()
		}
		root.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, own)))
	})
}

func (f *face) unknownRoute(w http.ResponseWriter, r *http.Request) {
	f.fail(w, r, refuse(http.StatusNotFound, "NotFoundException", "There is nothing at %s; the list \"endpoints\" of %s/v1/config has what there is.", r.URL.Path, Prefix))
}

// wrongMethod answers 405 with the methods that the path has.
func (f *face) wrongMethod(routes chi.Routes) http.HandlerFunc {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range methods {
			if routes.Match(chi.NewRouteContext(), m, r.URL.EscapedPath()) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // a method that the router does not know, on a path that is none either
			f.unknownRoute(w, r)
			return
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		f.fail(w, r, refuse(http.StatusMethodNotAllowed, "MethodNotAllowedException", "This path does not take %s; use %s.", r.Method, allow))
	}
}
