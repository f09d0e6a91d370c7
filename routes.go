package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/rest"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/web"
)

// routes joins the transports: what is matched first is served, everything else is the console.
func (s *server) routes() (http.Handler, error) {
	proxies, err := parseNetworks(s.config.TrustedProxies)
	if err != nil {
		return nil, err
	}
	api, err := rest.Handler(rest.Options{Services: *s.services, Lake: s.lake, Auth: s.auth, Topics: s.store.Topics(), Log: s.log})
	if err != nil {
		return nil, err
	}
	catalog, err := iceberg.Handler(iceberg.Options{Catalog: s.lake, Auth: s.auth, Log: s.log})
	if err != nil {
		return nil, err
	}
	dist, err := fs.Sub(web.Dist, "dist")
	if err != nil {
		return nil, err
	}
	console, err := web.Handler(dist)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(trustProxies(proxies), s.observe, timely(s.bodyTime))
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	r.Get("/readyz", s.ready)
	r.Handle("/metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	r.With(s.auth.Middleware(auth.NoCookies)).Get(agent.ConnectPath, s.hub.Connect)
	r.HandleFunc(agent.EnrollPath, s.hub.Enroll)
	r.Get(hub.RelayPath, s.hub.Relay)
	r.Mount("/graphql", otelhttp.NewHandler(graph.Handler(graph.Options{Services: *s.services, Lake: s.lake, Auth: s.auth, Log: s.log, Topics: s.store.Topics(), Version: version}), "graphql"))
	r.Handle(iceberg.Prefix+"/*", otelhttp.NewHandler(catalog, "iceberg"))
	r.Handle("/api/*", otelhttp.NewHandler(api, "rest"))
	r.NotFound(console.ServeHTTP)
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) { // the method may be one that the router does not know
		switch {
		case strings.HasPrefix(req.URL.Path, iceberg.Prefix+"/"):
			catalog.ServeHTTP(w, req)
			return
		case strings.HasPrefix(req.URL.Path, "/api/"):
			api.ServeHTTP(w, req)
			return
		}
		console.ServeHTTP(w, req)
	})
	return r, nil
}

// readyTime bounds the question to the database.
const readyTime = 2 * time.Second

// ready says whether this replica can serve: its database answers.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if err := s.store.Ping(ctx); err != nil {
		answer(w, http.StatusServiceUnavailable, "the database does not answer")
		return
	}
	answer(w, http.StatusOK, "ready")
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": text}) // a client that is gone needs no answer
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

// trustProxies takes the client's address and scheme from what a trusted proxy says, and from nobody else.
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
				// A client may have sent lines of its own; some proxies put theirs below.
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

// observe counts requests, logs them with their ids and turns a panic into a 500.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.log.Error("panic", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				if !rec.wrote {
					answer(rec, http.StatusInternalServerError, "something went wrong")
				}
			}
			if !rec.stream() {
				s.metrics.request(route(r), r.Method, rec.status, time.Since(began))
			}
			s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.Int("status", rec.status), slog.Duration("took", time.Since(began)), slog.String("request_id", rec.Header().Get("X-Request-Id")))
		}()
		next.ServeHTTP(rec, r)
	})
}

// route is what metrics are kept by: the pattern of the route that was taken, in which ids are names. What has no route of its own is the console, or
// nothing. So there are few values, whatever is asked.
func route(r *http.Request) string {
	if routed := chi.RouteContext(r.Context()); routed != nil && routed.RoutePattern() != "" {
		return routed.RoutePattern()
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		return "/assets"
	}
	return "/"
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool
	taken  bool // the connection was hijacked
}

// stream says whether the answer is one that lasts for as long as it is followed: a WebSocket, or one that tells proxies not to gather it.
func (r *recorder) stream() bool { return r.taken || r.Header().Get("X-Accel-Buffering") == "no" }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController what is below: flushing and deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Hijack implements http.Hijacker, which WebSockets need.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.taken = true
	return http.NewResponseController(r.ResponseWriter).Hijack()
}
