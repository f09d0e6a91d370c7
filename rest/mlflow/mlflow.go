// Package mlflow serves experiments and tracking runs (domain/tracking) in the protocol of MLflow's
// tracking server, for MLflow's clients as they come. It only translates.
package mlflow

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/rest/httpx"
)

// Prefix begins the path of every endpoint. It is the tracking URI in a client's configuration.
const Prefix = "/api/v1/mlflow"

// version is the version of MLflow that the face speaks. Clients read it.
const version = "3.17.2"

// Options are the services of the face.
type Options struct {
	Experiments *tracking.Experiments
	Runs        *tracking.Runs
	Workspaces  *identity.Workspaces
	Auth        *auth.Service
	Log         *slog.Logger  // logs internal errors, each with its request id
	HTTP        *httpx.Server // shared by the server's HTTP faces; nil for a new one
}

// face holds what the endpoints need.
type face struct{ Options }

// Handler serves the endpoints below Prefix. Other paths below Prefix get errors in the protocol's
// form too.
func Handler(o Options) (http.Handler, error) {
	if o.Experiments == nil || o.Runs == nil || o.Workspaces == nil || o.Auth == nil || o.Log == nil {
		return nil, errors.New("mlflow: Experiments, Runs, Workspaces, Auth and Log are required")
	}
	if o.HTTP == nil {
		o.HTTP = httpx.NewServer(httpx.Bounds{})
	}
	f := &face{o}
	return f.routes(), nil
}

// endpoint is an endpoint of the protocol. Its path is below each of the roots.
type endpoint struct {
	method string
	path   string
	serve  func(*call) error
}

func (f *face) endpoints() []endpoint {
	return []endpoint{
		{http.MethodPost, "/experiments/create", f.createExperiment},
		{http.MethodGet, "/experiments/get", f.getExperiment},
		{http.MethodGet, "/experiments/get-by-name", f.getExperimentByName},
		{http.MethodGet, "/experiments/search", f.searchExperiments},
		{http.MethodPost, "/experiments/search", f.searchExperiments},
		{http.MethodPost, "/experiments/update", f.updateExperiment},
		{http.MethodPost, "/experiments/delete", f.deleteExperiment},
		{http.MethodPost, "/experiments/restore", f.restoreExperiment},
		{http.MethodPost, "/experiments/set-experiment-tag", f.setExperimentTag},
		{http.MethodPost, "/experiments/delete-experiment-tag", f.deleteExperimentTag},
		{http.MethodPost, "/experiments/search-datasets", f.searchDatasets},
		{http.MethodPost, "/runs/create", f.createRun},
		{http.MethodGet, "/runs/get", f.getRun},
		{http.MethodPost, "/runs/search", f.searchRuns},
		{http.MethodPost, "/runs/update", f.updateRun},
		{http.MethodPost, "/runs/delete", f.deleteRun},
		{http.MethodPost, "/runs/restore", f.restoreRun},
		{http.MethodPost, "/runs/log-metric", f.logMetric},
		{http.MethodPost, "/runs/log-parameter", f.logParameter},
		{http.MethodPost, "/runs/log-batch", f.logBatch},
		{http.MethodPost, "/runs/log-inputs", f.logInputs},
		{http.MethodPost, "/runs/set-tag", f.setTag},
		{http.MethodPost, "/runs/delete-tag", f.deleteTag},
		{http.MethodGet, "/metrics/get-history", f.getHistory},
		{http.MethodGet, "/metrics/get-history-bulk", f.getHistoryBulk},
		{http.MethodGet, "/metrics/get-history-bulk-interval", f.getHistoryInterval},
	}
}

// roots begin the paths of the endpoints: for clients, and for MLflow's own pages.
var roots = []string{"/api/2.0/mlflow", "/ajax-api/2.0/mlflow"}

func (f *face) routes() http.Handler {
	root := chi.NewRouter()
	root.Use(httpx.Face{Server: f.HTTP, Log: f.Log, Fail: f.fail}.Wrap, httpx.Plain)
	root.NotFound(f.unknownRoute)
	root.MethodNotAllowed(f.wrongMethod(root))
	root.Get(Prefix+"/", toConsole)
	root.Get(Prefix+"/version", plainText(version))
	root.Get(Prefix+"/health", plainText("OK"))
	root.Get(Prefix+"/api/3.0/mlflow/server-info", serverInfo)
	root.Get(Prefix+"/ajax-api/3.0/mlflow/server-info", serverInfo)
	root.Group(func(r chi.Router) {
		r.Use(basicAsBearer, f.Auth.Middleware(auth.NoCookies))
		for _, at := range roots {
			for _, e := range f.endpoints() {
				r.Method(e.method, Prefix+at+e.path, f.serving(e.serve))
			}
		}
	})
	return httpx.OwnRoutes(root, nil)
}

// basicAsBearer takes the password of Basic for the token, whoever the user is.
func basicAsBearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, token, ok := r.BasicAuth(); ok {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
		}
		next.ServeHTTP(w, r)
	})
}

// toConsole answers the links that clients print, such as …/#/experiments/0/runs/…. The browser
// keeps what follows the #, and the console goes there.
func toConsole(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/experiments", http.StatusFound)
}

func plainText(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text) // the client may have left
	}
}

// serverInfo tells clients what the server can do, without a login as in MLflow. A client that is
// to use a workspace refuses a server without workspaces.
func serverInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		StoreType          string          `json:"store_type"`
		Workspaces         bool            `json:"workspaces_enabled"`
		TraceArchival      bool            `json:"trace_archival_enabled"`
		MultipartUploads   bool            `json:"multipart_uploads_enabled"`
		MultipartDownloads bool            `json:"multipart_downloads_enabled"`
		PresignedRun       bool            `json:"presigned_upload_run_id_supported"`
		PresignedModel     bool            `json:"presigned_upload_model_id_supported"`
		Features           map[string]bool `json:"features_enabled"`
	}{StoreType: "SqlStore", Workspaces: true, Features: map[string]bool{"gateway": false}})
}

// unknownRoute answers with the code by which clients recognise what a server does not have.
func (f *face) unknownRoute(w http.ResponseWriter, r *http.Request) {
	f.fail(w, r, refuse(http.StatusNotFound, endpointNotFound, "There is nothing at %s.", r.URL.Path))
}

// wrongMethod answers 405 with the path's methods.
func (f *face) wrongMethod(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			if routes.Match(chi.NewRouteContext(), m, r.URL.Path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // the router knows neither the method nor the path
			f.unknownRoute(w, r)
			return
		}
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		f.fail(w, r, refuse(http.StatusMethodNotAllowed, endpointNotFound, "This path does not take %s; use %s.", r.Method, allow))
	}
}
