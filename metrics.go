package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
)

// metrics are what Prometheus reads at /metrics.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
}

func newMetrics(s *server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "millpond_http_request_seconds", Help: "Time to answer requests, by the pattern of their path. Streams, which are open for as long as they are followed, are left out.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"route", "method", "status"})}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("millpond_agents_connected", "Agents whose connection this replica holds.", func() float64 { return float64(s.hub.Connected()) }),
		gauge("millpond_database_connections", "Open connections of tenant transactions.", func() float64 { return float64(s.store.Connections()) }),
		gauge("millpond_lineage_resolved_share", "Of the statements of the last 24 hours that succeeded and name tables, the share whose lineage is known; NaN where there are none.", s.lineageShare),
		gauge("millpond_log_tails", "Attempts whose log is followed on this replica.", func() float64 { return float64(s.services.Logs.Followed()) }),
	)
	return m
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Observe(took.Seconds())
}

// knownMethod is "other" for what HTTP does not define: a client may invent methods without end, and each would be a series for ever.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}

// startTracing sends traces to an OpenTelemetry collector when OTEL_EXPORTER_OTLP_ENDPOINT, which the library reads itself, names one.
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
