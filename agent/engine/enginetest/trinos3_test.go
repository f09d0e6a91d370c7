package enginetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/store/objects/s3test"
)

// segments is a proxy before an S3 server that records the requests for the segments of Trino's
// results.
type segments struct {
	proxy     httputil.ReverseProxy
	transport http.Transport
	front     *httptest.Server

	mu      sync.Mutex
	done    map[string][]string // names of segments by request method
	changed chan struct{}       // closed at each change of done
	spoil   func(http.ResponseWriter) bool
}

// watchSegments returns the server's address through the proxy.
func watchSegments(t *testing.T) (*segments, s3test.Server) {
	server := s3test.Start(t)
	behind, err := url.Parse(server.Endpoint)
	require.NoError(t, err)
	s := &segments{transport: http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}, done: map[string][]string{}, changed: make(chan struct{})}
	s.proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host // part of the signature
	}
	s.proxy.Transport = &s.transport
	s.front = httptest.NewServer(s)
	server.Endpoint = s.front.URL
	return s, server
}

func (s *segments) close() {
	s.front.Close()
	s.transport.CloseIdleConnections()
}

func (s *segments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.URL.Path, "/.trino-spool/") && !r.URL.Query().Has("delete") {
		s.proxy.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	spoil := s.spoil
	s.mu.Unlock()
	if r.Method == http.MethodGet && spoil != nil && spoil(w) {
		return
	}
	s.proxy.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[r.Method] = append(s.done[r.Method], path.Base(r.URL.Path))
	close(s.changed)
	s.changed = make(chan struct{})
}

// take returns the requests since the last call, each name once.
func (s *segments) take() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.done
	s.done = map[string][]string{}
	for method, names := range done {
		slices.Sort(names)
		done[method] = slices.Compact(names)
	}
	return done
}

// await waits for a request with the method since the last take, or for the end of the test.
func (s *segments) await(t *testing.T, method string) {
	for {
		s.mu.Lock()
		n, changed := len(s.done[method]), s.changed
		s.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			return
		}
	}
}

// spoilFetches lets spoil answer requests for a segment; it returns whether it did.
func (s *segments) spoilFetches(spoil func(http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = spoil
}

// spoolRig is a rig with results through the store.
type spoolRig struct {
	trinoRig
	segments *segments
	server   s3test.Server
}

// TestTrinoOnS3 checks tables on S3. Large results go through the store, and their segments are
// removed.
func TestTrinoOnS3(t *testing.T) {
	watch, server := watchSegments(t)
	r := spoolRig{trinoRig{newRigWith(t, rigOptions{lake: server.URL("some/prefix"), engine: withTrino(t)})}, watch, server}
	t.Cleanup(watch.close)
	for _, c := range []struct {
		name string
		test func(*testing.T, spoolRig)
	}{
		{"keys that are wrong when it starts", spoolWrongKeys},
		{"another start has other keys, and removes what nobody has fetched", spoolNextStart},
		{"what is written is read alike by both", func(t *testing.T, r spoolRig) { trinoWrites(t, r.trinoRig) }},
		{"values of every type", func(t *testing.T, r spoolRig) { trinoTypes(t, r.trinoRig) }},
		{"large results go through the store", spoolLarge},
		{"the store stumbles", spoolStumbles},
		{"limits", spoolLimits},
		{"an end from without", spoolEnds},
		{"nothing beside the workspace's own prefix is opened", spoolFence},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := *r.rig
			sub.t = t
			c.test(t, spoolRig{trinoRig{&sub}, watch, server})
		})
	}
}

// longRows have lengthOfRows rows, which need several segments.
const (
	longRows = "SELECT (a.n - 1) * 300 + b.n AS n, CASE WHEN b.n % 7 > 0 THEN 'row ü ' || CAST(a.n AS VARCHAR) || rpad('', 1000, 'x') END AS s, " +
		"CAST(a.n AS DECIMAL(38, 3)) / b.n AS d FROM UNNEST(sequence(1, 100)) AS a(n) CROSS JOIN UNNEST(sequence(1, 300)) AS b(n)"
	lengthOfRows = 30_000
)

func spoolWrongKeys(t *testing.T, r spoolRig) {
	require.NoError(t, os.MkdirAll(r.dir(), 0o700))
	for _, name := range []string{"01DXF6DT000000000000000000.json+zstd", "other.json"} { // a segment that expired in 2020
		require.NoError(t, os.WriteFile(filepath.Join(r.dir(), name), []byte("[]"), 0o600))
	}
	r.inDuckDB("CREATE TABLE t AS SELECT 1 AS n")
	for query, said := range map[string]string{"SELECT * FROM t": "Forbidden", longRows: "The request signature we calculated does not match the signature you provided. Check your key and signing method."} {
		s := r.inTrino(query)
		s.Storage.S3 = new(*r.storage.S3)
		s.Storage.S3.SecretKey = "mistaken-secret"
		_, end := r.do(s)
		require.NotNil(t, end.Error)
		require.Equal(t, agent.FaultEngine, end.Error.Fault)
		require.Equal(t, "The storage refused what Trino asked of it: "+said, end.Error.Message)
	}
	r.segments.take()
	require.Equal(t, []string{"1"}, r.okTrino("SELECT * FROM t"))
	require.Len(t, r.okTrino(longRows), lengthOfRows)
	require.Empty(t, r.segments.take()[http.MethodPut], "it was started with other keys: they come through the coordinator")
}

func spoolNextStart(t *testing.T, r spoolRig) {
	require.NoError(t, unix.Kill(javas(t, filepath.Join(r.engineOf.Dir(), "trino"))["coordinator"], unix.SIGKILL))
	for slices.ContainsFunc(r.engineOf.Engines(), func(e agent.Engine) bool { return e.State == agent.EngineRunning }) {
		<-r.engineOf.Changed()
	}
	r.okTrino("SELECT 1")
	r.segments.await(t, http.MethodPost) // removes several objects
	require.Equal(t, []string{"other.json"}, r.left())
	node := filepath.Join(r.engineOf.Dir(), "trino", "coordinator")
	for _, f := range append(files(t, filepath.Join(node, "etc"), "*"), filepath.Join(node, "server.log")) {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, string(content), r.server.Secret, f)
	}
}

func spoolLarge(t *testing.T, r spoolRig) {
	const made = longRows + " ORDER BY n"
	expiring := r.inTrino(made)
	expiring.Storage.S3 = new(*r.storage.S3)
	expiring.Storage.S3.SessionToken = "token"
	want, end := r.do(expiring)
	require.Nil(t, end.Error)
	require.Empty(t, r.segments.take()[http.MethodPut], "keys that expire open no segment later")
	require.Equal(t, want, r.okTrino(made))
	r.spooledOnce()

	require.EqualValues(t, lengthOfRows, r.changes("CREATE TABLE large AS "+longRows))
	require.Empty(t, r.segments.take()[http.MethodPut], "a write has no rows to fetch")
	require.Equal(t, want, r.okTrino("SELECT * FROM large ORDER BY n"))
	r.spooledOnce()
	require.Equal(t, want, r.ok("SELECT * FROM large ORDER BY n"))
	require.Equal(t, []string{"30000"}, r.okTrino("SELECT count(*) FROM large"))
	require.Empty(t, r.segments.take()[http.MethodPut], "a small result needs no store")
}

// spooledOnce checks that there were segments, and that each was fetched and removed.
func (r spoolRig) spooledOnce() {
	r.t.Helper()
	done := r.segments.take()
	require.Greater(r.t, len(done[http.MethodPut]), 1)
	require.Equal(r.t, done[http.MethodPut], done[http.MethodGet])
	require.Equal(r.t, done[http.MethodPut], done[http.MethodDelete])
	require.Equal(r.t, []string{"other.json"}, r.left())
}

func spoolStumbles(t *testing.T, r spoolRig) {
	var fetches atomic.Int64
	r.segments.spoilFetches(func(w http.ResponseWriter) bool {
		switch fetches.Add(1) {
		case 1, 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			cut(w)
		default:
			return false
		}
		return true
	})
	require.Len(t, r.okTrino("SELECT * FROM large"), lengthOfRows)
	r.segments.spoilFetches(func(w http.ResponseWriter) bool {
		fail(w, http.StatusForbidden)
		return true
	})
	f := r.failsTrino("SELECT * FROM large")
	r.segments.spoilFetches(nil)
	require.Equal(t, agent.FaultEngine, f.Fault)
	require.Equal(t, "A part of the result cannot be read from the storage, where Trino wrote it: the store answers with 403 Forbidden.", f.Message)
}

func spoolLimits(t *testing.T, r spoolRig) {
	for _, most := range []int64{10, 5_000, 15_000} {
		r.segments.take()
		s := r.inTrino("SELECT * FROM large")
		s.MaxRows = most
		rows, end := r.do(s)
		require.Nil(t, end.Error)
		require.EqualValues(t, most, len(rows))
		require.True(t, end.Truncated)
		done := r.segments.take()
		require.Subset(t, done[http.MethodDelete], done[http.MethodGet], "what was read does not stay")
	}
}

func spoolEnds(t *testing.T, r spoolRig) {
	r.segments.take()
	s := r.inTrino("SELECT l.*, u.m FROM large AS l CROSS JOIN UNNEST(sequence(1, 1000)) AS u(m)")
	go func() {
		r.segments.await(t, http.MethodGet)
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, r.engine.URL+fmt.Sprintf(agent.StatementPath, s.ID), nil)
		if err == nil {
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}()
	rows, end := r.do(s)
	require.NotNil(t, end.Error)
	require.Equal(t, agent.FaultCancelled, end.Error.Fault, end.Error.Message)
	require.Less(t, len(rows), 1000*lengthOfRows)
	require.Equal(t, []string{"30000"}, r.okTrino("SELECT count(*) FROM large"))
}

// spoolFence changes the storage to another workspace's, as TestS3 does for DuckDB. Then manifests
// name files elsewhere.
func spoolFence(t *testing.T, r spoolRig) {
	const refused = "is not in the workspace's storage"
	r.changes("CREATE TABLE fenced AS SELECT 1 AS n")
	for _, query := range []string{"SELECT * FROM fenced", "INSERT INTO fenced VALUES (2)"} {
		s := r.inTrino(query)
		s.Storage = r.other
		_, end := r.do(s)
		require.NotNil(t, end.Error, query)
		require.Equal(t, agent.FaultQuery, end.Error.Fault, end.Error.Message)
		require.Contains(t, end.Error.Message, refused)
	}
	require.Equal(t, []string{"1"}, r.okTrino("SELECT * FROM fenced"))
	outside := "location = '" + r.other.Prefix + "x/y'"
	for _, with := range []string{outside, "object_store_layout_enabled = true, data_" + outside} {
		require.Contains(t, r.failsTrino("CREATE TABLE outside WITH ("+with+") AS SELECT 1 AS n").Message, refused)
	}
	for i, to := range []string{r.other.Prefix, "s3://other/", r.storage.Prefix} {
		name := fmt.Sprint("foreign", i)
		r.inDuckDB("CREATE TABLE " + name + " AS SELECT 7 AS n")
		r.forge(r.path, name, to)
		if to == r.storage.Prefix {
			require.Equal(t, []string{"7"}, r.okTrino("SELECT * FROM "+name), "a manifest is read that was written again")
			continue
		}
		require.Contains(t, r.failsTrino("SELECT * FROM "+name).Message, refused, to)
	}
}

func (r *rig) inDuckDB(query string) {
	r.t.Helper()
	s := r.statement(query)
	s.Engine = duckdb.Name
	_, end := r.do(s)
	require.Nil(r.t, end.Error)
}

// path returns the path of the object at an address.
func (r spoolRig) path(uri string) string {
	return filepath.Join(filepath.Dir(r.server.Dir), strings.TrimPrefix(uri, "s3://"))
}

func (r spoolRig) dir() string { return r.path(r.storage.Prefix + ".trino-spool") }

// left returns the names of the remaining segments.
func (r spoolRig) left() (names []string) {
	for _, f := range files(r.t, r.dir(), "*") {
		names = append(names, filepath.Base(f))
	}
	return names
}

// forge changes a table's manifests to name its files below another prefix. If that is a path, it
// also copies the files there.
func (r *rig) forge(path func(uri string) string, name, to string) {
	tables, err := filepath.Glob(path(r.storage.Prefix + "*/*-" + name))
	require.NoError(r.t, err)
	require.Len(r.t, tables, 1)
	for _, f := range files(r.t, tables[0], "*.parquet") {
		if strings.HasPrefix(to, "http") {
			break
		}
		target := filepath.Join(path(to), strings.TrimPrefix(f, path(r.storage.Prefix)))
		content, err := os.ReadFile(f)
		require.NoError(r.t, err)
		require.NoError(r.t, os.MkdirAll(filepath.Dir(target), 0o755))
		require.NoError(r.t, os.WriteFile(target, content, 0o644))
	}
	for _, f := range files(r.t, tables[0], "*-m*.avro") {
		rewrite(r.t, f, func(_, file map[string]any) {
			file["file_path"] = strings.Replace(file["file_path"].(string), r.storage.Prefix, to, 1)
		})
	}
	for _, f := range files(r.t, tables[0], "snap-*.avro") {
		rewrite(r.t, f, func(list, _ map[string]any) {
			info, err := os.Stat(path(list["manifest_path"].(string)))
			require.NoError(r.t, err)
			list["manifest_length"] = info.Size()
		})
	}
}
