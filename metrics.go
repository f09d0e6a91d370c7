package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"

	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// metrics are the Prometheus metrics at /metrics.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics(db *database, sessions *hub.Sessions, logs *job.Logs) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "millpond_http_request_seconds", Help: "Time to answer requests, by path pattern. Streams are not counted.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"route", "method", "status"})}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("millpond_agents_connected", "Agents whose connection this replica holds.", func() float64 { return float64(sessions.Connected()) }),
		gauge("millpond_database_connections", "Open connections of tenant transactions.", func() float64 { return float64(db.Connections()) }),
		gauge("millpond_lineage_resolved_share", "Share with known lineage among the statements of the last 24 hours that succeeded and name tables. NaN without such statements.", func() float64 { return lineageShare(db.System()) }),
		gauge("millpond_log_tails", "Attempts whose log is followed on this replica.", func() float64 { return float64(logs.Followed()) }),
	)
	return m
}

// lineageTimeout bounds the query for the share of statements with known lineage.
const lineageTimeout = 2 * time.Second

// lineageShare is the share with known lineage among the last day's statements that name tables. It
// is NaN without such statements.
func lineageShare(system *store.System) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), lineageTimeout)
	defer cancel()
	c, err := system.LineageCoverage(ctx, time.Now().Add(-24*time.Hour))
	share, ok := c.Share()
	if err != nil || !ok {
		return math.NaN()
	}
	return share
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Observe(took.Seconds())
}

// knownMethod is the method, or "other" if HTTP does not define it. A client may invent endless
// methods, and each would be a permanent series.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}

// startTracing sends traces to the OpenTelemetry collector in OTEL_EXPORTER_OTLP_ENDPOINT, which
// the library reads itself. Without an endpoint it does nothing.
func startTracing(ctx context.Context, endpoint string) (stop func(context.Context) error, err error) {
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(semconv.ServiceName("millpond"), semconv.ServiceVersion(version))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return provider.Shutdown, nil
}

const (
	readyTime = 2 * time.Second // bounds the database query
	readyKept = time.Second     // how long the answer is reused
)

// readiness is whether this replica can serve. It caches for a moment whether the database accepts
// writes: each check writes, and anybody may send requests.
type readiness struct {
	store    *store.Store
	objects  *objects.Objects
	stopping atomic.Bool // set when the stop begins

	mu    sync.Mutex
	until time.Time
	err   error
}

func (r *readiness) writable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTime) // not the caller's context: other callers use the answer too
	defer cancel()
	r.err = r.store.Writable(ctx)
	r.until = time.Now().Add(readyKept)
	return r.err
}

// ServeHTTP answers whether this replica can serve: it is not stopping, and its database accepts
// writes. A full storage is named but does not fail the check: requests that do not write to it are
// served.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if r.stopping.Load() {
		answer(w, http.StatusServiceUnavailable, "the server is being stopped")
		return
	}
	if err := r.writable(); err != nil {
		reason := "the database does not answer"
		if e, ok := errors.AsType[*domain.Error](err); ok {
			reason = e.Message
		}
		answer(w, http.StatusServiceUnavailable, reason)
		return
	}
	if full, err := r.objects.Full(); err == nil && full {
		answer(w, http.StatusOK, "ready, but the storage is full: free space there")
		return
	}
	answer(w, http.StatusOK, "ready")
}
