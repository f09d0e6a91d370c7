package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestForwardedAddresses: what a trusted proxy says is believed, from right to left as far as it is trusted; what the client has sent along is not,
// in whichever line it stands.
func TestForwardedAddresses(t *testing.T) {
	networks, err := parseNetworks([]string{"10.0.0.0/8"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from         string
		addresses    []string
		schemes      []string
		want, scheme string
	}{
		"one line":                        {"10.0.0.1:9", []string{"6.6.6.6, 192.0.2.1"}, []string{"https"}, "192.0.2.1:9", "https"},
		"the proxy's own line below":      {"10.0.0.1:9", []string{"6.6.6.6", "192.0.2.1"}, []string{"https", "http"}, "192.0.2.1:9", "http"},
		"two proxies":                     {"10.0.0.1:9", []string{"6.6.6.6", "192.0.2.1, 10.0.0.2"}, nil, "192.0.2.1:9", ""},
		"nothing forwarded":               {"10.0.0.1:9", nil, nil, "10.0.0.1:9", ""},
		"from somebody who is no proxy":   {"192.0.2.7:9", []string{"6.6.6.6"}, []string{"https"}, "192.0.2.7:9", ""},
		"from a proxy, IPv4 within IPv6":  {"[::ffff:10.0.0.1]:9", []string{"192.0.2.1"}, nil, "192.0.2.1:9", ""},
		"a client within the own network": {"10.0.0.1:9", []string{"10.1.1.1"}, nil, "10.1.1.1:9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.from
			r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"] = c.addresses, c.schemes
			trustProxies(networks)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				require.Equal(t, c.want, r.RemoteAddr)
				require.Equal(t, c.scheme, r.URL.Scheme)
			})).ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// TestInventedMethodsAreOneSeries: a client cannot fill the memory with metrics.
func TestInventedMethodsAreOneSeries(t *testing.T) {
	s := &server{log: slog.New(slog.DiscardHandler)}
	s.metrics = newMetrics(s)
	handler := s.observe(http.NotFoundHandler())
	for n := range 100 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("INVENTED"+strings.Repeat("X", n), "/", nil))
	}
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPatch, "/", nil))
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.metrics.requests)
	families, err := registry.Gather()
	require.NoError(t, err)
	methods := map[string]uint64{}
	for _, series := range families[0].GetMetric() {
		for _, label := range series.GetLabel() {
			if label.GetName() == "method" {
				methods[label.GetValue()] += series.GetHistogram().GetSampleCount()
			}
		}
	}
	require.Equal(t, map[string]uint64{"other": 100, "PATCH": 1}, methods)
}
