package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

// TestForwardedAddresses: headers of trusted proxies are used, from right to left as far as they
// are trusted. The client's own headers are not, in any line.
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

// TestTheOperatorIsSpokenToInSentences: a database error appears only if no sentence says what to
// fix.
func TestTheOperatorIsSpokenToInSentences(t *testing.T) {
	cause := errors.New("pq: duplicate key value (23505)")
	require.Equal(t, "Choose another name.", operatorMessage(fmt.Errorf("making it: %w", domain.Errorf(domain.CodeConflict, "Choose another name.").Because(cause))))
	require.Contains(t, operatorMessage(domain.Errorf(domain.CodeUnavailable, "The database does not answer.").Because(cause)), "23505")
	require.Contains(t, operatorMessage(fmt.Errorf("listening: %w", cause)), "listening")
}

// TestInventedMethodsAreOneSeries: a client cannot fill the memory with metrics.
func TestInventedMethodsAreOneSeries(t *testing.T) {
	s := &site{log: slog.New(slog.DiscardHandler), metrics: newMetrics(nil, nil, nil), readiness: &readiness{}}
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

// TestMetricsTellOperationsApart: labels are path patterns, so there are few. Streams are not
// counted.
func TestMetricsTellOperationsApart(t *testing.T) {
	i := newInstance(t)
	call := func(method, path, body string) map[string]any {
		req, err := http.NewRequestWithContext(t.Context(), method, i.web.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+i.token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		var v map[string]any
		_ = json.Unmarshal(b, &v) // HTML pages are no JSON
		return v
	}
	job := call("POST", "/api/v1/jobs", `{"name":"waits","command":"true"}`)["id"].(string)
	call("GET", "/api/v1/jobs/"+job, "")
	call("GET", "/api/v1/jobs/other", "")
	call("POST", "/api/v1/auth/login", `{"email":"a@example.com","password":"x"}`)
	run := call("POST", "/api/v1/jobs/"+job+"/run", "")["run_id"].(string)
	call("GET", "/api/v1/runs/"+run+"/logs", "")
	call("POST", "/api/v1/runs/"+run+"/cancel", "")
	call("GET", "/api/v1/runs/"+run+"/logs?follow=true", "")
	call("POST", "/graphql", `{"query":"{viewer{id}}"}`)
	call("GET", "/api/v1/"+strings.Repeat("nothing/", 20), "")
	call("GET", "/assets/gone.js", "")
	call("GET", "/some.file", "")
	socket, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(i.web.URL, "http")+"/graphql",
		http.Header{"Sec-Websocket-Protocol": {"graphql-transport-ws"}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.NoError(t, socket.Close())
	i.web.Close() // all requests have ended

	families, err := i.server.site.metrics.registry.Gather()
	require.NoError(t, err)
	counted := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "millpond_http_request_seconds" {
			continue
		}
		for _, series := range family.GetMetric() {
			var route, method, status string
			for _, label := range series.GetLabel() {
				switch label.GetName() {
				case "route":
					route = label.GetValue()
				case "method":
					method = label.GetValue()
				case "status":
					status = label.GetValue()
				}
			}
			counted[method+" "+route+" "+status] = series.GetHistogram().GetSampleCount()
		}
	}
	require.Equal(t, map[string]uint64{
		"POST /api/v1/jobs 201": 1, "GET /api/v1/jobs/{id} 200": 1, "GET /api/v1/jobs/{id} 404": 1, "POST /api/v1/auth/login 401": 1,
		"POST /api/v1/jobs/{id}/run 201": 1, "GET /api/v1/runs/{id}/logs 200": 1, "POST /api/v1/runs/{id}/cancel 200": 1,
		"POST /graphql 200": 1, "GET /api/v1/* 404": 1, "GET /assets 404": 1, "GET / 404": 1,
	}, counted)
}

// readOnly returns the address of a database that refuses writes.
func readOnly(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	return u.String()
}

func openStore(t *testing.T, dsn string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// TestReadyzNamesWhatIsFull: it is 503 only if the database refuses writes. Frequent requests do
// not each write to the database.
func TestReadyzNamesWhatIsFull(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	root := filepath.Join(t.TempDir(), "objects")
	files, err := objects.Open("file://" + root)
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	r := &readiness{store: openStore(t, dsn), objects: files}
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	is := func(status int, text string) {
		t.Helper()
		got, body := ask()
		require.Equal(t, status, got, body)
		require.Contains(t, body, text)
	}
	is(http.StatusOK, `"ready"`)

	writes := r.store
	r.store = openStore(t, readOnly(t, dsn))
	r.until = time.Now().Add(time.Hour)
	is(http.StatusOK, `"ready"`)
	r.until = time.Time{}
	is(http.StatusServiceUnavailable, "The database refuses to write: it is read-only.")
	require.WithinDuration(t, time.Now().Add(readyKept), r.until, readyKept)

	r.store = writes
	r.until = time.Now().Add(time.Hour)
	is(http.StatusServiceUnavailable, "read-only")
	r.until = time.Time{}
	require.NoError(t, os.Remove(root))
	require.NoError(t, os.Symlink("/proc", root)) // a file system without room
	is(http.StatusOK, "ready, but the storage is full: free space there")
	r.stopping.Store(true)
	is(http.StatusServiceUnavailable, "being stopped")
}
