package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/rest"
	"github.com/millpond/millpond/rest/httpx"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/rest/mlflow"
	"github.com/millpond/millpond/web"
)

// site is what the server serves over HTTP: the transports, the agents' channel and the console.
type site struct {
	services  graph.Services
	lake      *lake.Catalog
	auth      *auth.Service
	topics    domain.Topics
	sessions  *hub.Sessions
	agents    *hub.Handler
	metrics   *metrics
	readiness *readiness
	log       *slog.Logger
	proxies   []string      // networks of trusted proxies
	bodyTime  time.Duration // time for a request body to arrive; 0 for the default
}

// handler joins the parts. The first match serves the request; every other path is the console.
func (s *site) handler() (http.Handler, error) {
	proxies, err := parseNetworks(s.proxies)
	if err != nil {
		return nil, err
	}
	shared := httpx.NewServer(httpx.Bounds{BodyTime: s.bodyTime})
	plain := httpx.Face{Server: shared, Log: s.log, Fail: fail, Static: true}
	api, err := rest.Handler(rest.Options{Services: restServices(s.services), Lake: s.lake, Auth: s.auth, Log: s.log, HTTP: shared})
	if err != nil {
		return nil, err
	}
	catalog, err := iceberg.Handler(iceberg.Options{Catalog: s.lake, Auth: s.auth, Log: s.log, HTTP: shared})
	if err != nil {
		return nil, err
	}
	tracking, err := mlflow.Handler(mlflow.Options{
		Experiments: s.services.Experiments, Runs: s.services.TrackingRuns, Workspaces: s.services.Workspaces, Auth: s.auth, Log: s.log, HTTP: shared,
	})
	if err != nil {
		return nil, err
	}
	dist, err := fs.Sub(web.Dist, "dist")
	if err != nil {
		return nil, err
	}
	pages, err := web.Handler(dist)
	if err != nil {
		return nil, err
	}
	console := plain.Wrap(pages)
	r := chi.NewRouter()
	r.Use(trustProxies(proxies), s.observe)
	r.Group(func(r chi.Router) {
		r.Use(plain.Wrap)
		r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
		r.Get("/readyz", s.readiness.ServeHTTP)
		r.Handle("/metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
		r.HandleFunc(agent.EnrollPath, s.agents.Enroll)
	})
	r.With(s.auth.Recognize(auth.NoCookies)).Get(agent.ConnectPath, s.agents.Connect)
	r.Get(hub.RelayPath, s.sessions.Relay)
	r.Mount("/graphql", otelhttp.NewHandler(graph.Handler(graph.Options{Services: s.services, Lake: s.lake, Auth: s.auth, Log: s.log, Topics: s.topics, Version: version, HTTP: shared}), "graphql"))
	r.Handle(iceberg.Prefix+"/*", otelhttp.NewHandler(catalog, "iceberg"))
	r.Handle(mlflow.Prefix+"/*", otelhttp.NewHandler(tracking, "mlflow"))
	r.Handle("/api/*", otelhttp.NewHandler(api, "rest"))
	r.NotFound(console.ServeHTTP)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) { // also methods that the router does not know
		switch {
		case strings.HasPrefix(req.URL.Path, iceberg.Prefix+"/"):
			catalog.ServeHTTP(w, req)
			return
		case strings.HasPrefix(req.URL.Path, mlflow.Prefix+"/"):
			tracking.ServeHTTP(w, req)
			return
		case strings.HasPrefix(req.URL.Path, "/api/"):
			api.ServeHTTP(w, req)
			return
		}
		console.ServeHTTP(w, req)
	})
	return r, nil
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": text}) // the client may be gone
}

// fail answers a request outside the APIs with an error. A refusal has its own status; every other
// error is 400.
func fail(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusBadRequest
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		status = refused.Status
	}
	answer(w, status, domain.AsError(err).Message)
}

// parseNetworks reads the networks of trusted proxies.
func parseNetworks(all []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, len(all))
	for i, s := range all {
		var err error
		if networks[i], err = netip.ParsePrefix(s); err != nil {
			return nil, err
		}
	}
	return networks, nil
}

// trustProxies takes the client's address and scheme from the headers of trusted proxies only.
func trustProxies(networks []netip.Prefix) func(http.Handler) http.Handler {
	trusted := func(address string) bool {
		addr, err := netip.ParseAddr(address)
		for _, n := range networks {
			if err == nil && n.Contains(addr.Unmap()) {
				return true
			}
		}
		return false
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Scheme = ""
			host, port, err := net.SplitHostPort(r.RemoteAddr)
			if err == nil && trusted(host) {
				// A client may have sent such headers itself; some proxies append theirs below.
				if schemes := r.Header.Values("X-Forwarded-Proto"); len(schemes) > 0 {
					r.URL.Scheme = schemes[len(schemes)-1]
				}
				hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
				for i := len(hops) - 1; i >= 0 && trusted(host); i-- {
					if hop := strings.TrimSpace(hops[i]); hop != "" {
						host = hop
					}
				}
				r.RemoteAddr = net.JoinHostPort(host, port)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// observe counts requests and logs them with their ids.
func (s *site) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK, stopping: s.readiness.stopping.Load}
		defer func() {
			if !rec.stream() {
				s.metrics.request(route(r), r.Method, rec.status, time.Since(began))
			}
			s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.Int("status", rec.status), slog.Duration("took", time.Since(began)), slog.String("request_id", rec.Header().Get("X-Request-Id")))
		}()
		next.ServeHTTP(rec, r)
	})
}

// route is the metrics label of a request: its route's pattern, in which ids are parameter names.
// Paths without a route count as / or /assets. So the number of labels is small.
func route(r *http.Request) string {
	if routed := chi.RouteContext(r.Context()); routed != nil && routed.RoutePattern() != "" {
		return routed.RoutePattern()
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		return "/assets"
	}
	return "/"
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	status   int
	wrote    bool
	hijacked bool // by a WebSocket

	stopping func() bool
}

// stream reports whether the answer is a stream: a WebSocket, or one that asks proxies not to
// buffer.
func (r *recorder) stream() bool { return r.hijacked || r.Header().Get("X-Accel-Buffering") == "no" }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status = status
		r.begin()
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.begin()
	return r.ResponseWriter.Write(b)
}

// begin closes the connection after the answer when the server is stopping. On a kept connection
// the client's next request could get lost without an answer.
func (r *recorder) begin() {
	if !r.wrote && r.stopping() {
		r.Header().Set("Connection", "close")
	}
	r.wrote = true
}

// Unwrap returns the wrapped writer, through which http.ResponseController flushes and sets
// deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Hijack implements http.Hijacker, which WebSockets need.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.hijacked = true
	return http.NewResponseController(r.ResponseWriter).Hijack()
}
