// Package iceberg serves the catalog (domain/lake) as an Iceberg REST catalog, for standard
// clients: PyIceberg, Spark, Trino, DuckDB, iceberg-go. It only translates. A database is the
// client's warehouse and the prefix of its paths. The levels of a schema are joined by the unit
// separator in paths, and by a dot in the service.
package iceberg

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/rest/httpx"
)

// Prefix begins the path of every endpoint. It is the uri in a client's configuration.
const Prefix = "/api/v1/iceberg"

// defaultMaxBody bounds a request's body, in bytes, unless Options do. It fits schemas of thousands
// of columns and long transactions.
const defaultMaxBody = 32 << 20

// Options are the services and the limits of the face.
type Options struct {
	Catalog *lake.Catalog
	Auth    *auth.Service
	Log     *slog.Logger  // logs internal errors, each with its request id
	MaxBody int64         // of a request, in bytes; 0 means 32 MiB
	HTTP    *httpx.Server // shared by the server's HTTP faces; nil for a new one
}

// face holds what the endpoints need.
type face struct {
	Options
	config configured
}

// Handler serves the endpoints below Prefix. Other paths below Prefix get errors in the protocol's
// form too.
func Handler(o Options) (http.Handler, error) {
	if o.Catalog == nil || o.Auth == nil || o.Log == nil {
		return nil, errors.New("iceberg: Catalog, Auth and Log are required")
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.HTTP == nil {
		o.HTTP = httpx.NewServer(httpx.Bounds{})
	}
	f := &face{Options: o}
	endpoints := f.endpoints()
	f.config = configure(endpoints)
	return f.routes(endpoints), nil
}

// endpoint is an announced endpoint. Its path is both a pattern of the router and the protocol's
// own notation.
type endpoint struct {
	method string
	path   string
	serve  func(*call) error
}

// endpoints are all supported endpoints: others are neither served nor announced.
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

// unsupported are endpoints of the protocol that this catalog does not have. Clients that call them
// get the protocol's error.
var unsupported = []string{
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
	"/v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
	"/v1/{prefix}/namespaces/{namespace}/functions", "/v1/{prefix}/namespaces/{namespace}/functions/{function}",
}

func (f *face) routes(endpoints []endpoint) http.Handler {
	root := chi.NewRouter()
	root.Use(httpx.Face{Server: f.HTTP, Log: f.Log, Fail: f.fail}.Wrap, httpx.Plain)
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
	// Routed by the encoded path: an encoded slash in a name does not separate path elements.
	return httpx.OwnRoutes(root, func(r *http.Request) string { return r.URL.EscapedPath() })
}

func (f *face) unknownRoute(w http.ResponseWriter, r *http.Request) {
	f.fail(w, r, refuse(http.StatusNotFound, "NotFoundException", "There is nothing at %s; the list \"endpoints\" of %s/v1/config has all operations.", r.URL.Path, Prefix))
}

// wrongMethod answers 405 with the path's methods.
func (f *face) wrongMethod(routes chi.Routes) http.HandlerFunc {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range methods {
			if routes.Match(chi.NewRouteContext(), m, r.URL.EscapedPath()) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // the router knows neither the method nor the path
			f.unknownRoute(w, r)
			return
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		f.fail(w, r, refuse(http.StatusMethodNotAllowed, "MethodNotAllowedException", "This path does not take %s; use %s.", r.Method, allow))
	}
}
