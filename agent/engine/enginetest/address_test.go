package enginetest

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine"
)

// Addresses of the catalog stay in the engine, however the catalog fails. The rig checks this in
// all other tests.
func TestAddressesStayInTheEngine(t *testing.T) {
	var spoil atomic.Pointer[http.HandlerFunc]
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: engine.Options{CommitTime: time.Second}, between: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if do := spoil.Load(); do != nil && strings.Contains(req.URL.Path, "/namespaces") {
				(*do)(w, req)
				return
			}
			next.ServeHTTP(w, req)
		})
	}})
	r.changes("CREATE TABLE t AS SELECT range AS a FROM range(10)")
	ways := map[string]http.HandlerFunc{
		"no JSON":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"failed":        func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusInternalServerError) },
		"no text":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"unreachable":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"not its table": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"metadata":{}}`) },
	}
	for name, way := range ways {
		spoil.Store(&way)
		for _, query := range []string{
			"FROM t", "INSERT INTO t VALUES (1)", "DROP TABLE t", "CREATE TABLE u (a INT)", "SHOW TABLES", "CREATE VIEW v AS SELECT 1 AS a", "ALTER TABLE t EXECUTE optimize",
		} {
			_, end := r.do(r.statement(query))
			if end.Error != nil {
				t.Logf("%s: %s: %s", name, query, end.Error.Message)
			}
		}
	}
	spoil.Store(nil)
	require.NotEmpty(t, r.ok("EXPLAIN ANALYZE FROM t"))
	require.Equal(t, []string{"10"}, r.ok("SELECT count(*) FROM t"))
}
