package enginetest

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// interloper is a proxy between Trino and the catalog that interferes with commits.
type interloper struct {
	catalog http.Handler
	next    atomic.Pointer[func(w http.ResponseWriter, r *http.Request, catalog http.Handler)]
}

func (i *interloper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	commit := r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/tables/") && !strings.HasSuffix(r.URL.Path, "/metrics")
	if way := i.next.Load(); way != nil && commit {
		(*way)(w, r, i.catalog)
		return
	}
	i.catalog.ServeHTTP(w, r)
}

func (i *interloper) do(way func(w http.ResponseWriter, r *http.Request, catalog http.Handler)) {
	if way == nil {
		i.next.Store(nil)
		return
	}
	i.next.Store(&way)
}

// unheard discards an answer.
type unheard struct{ http.ResponseWriter }

func (unheard) Header() http.Header         { return http.Header{} }
func (unheard) Write(b []byte) (int, error) { return len(b), nil }
func (unheard) WriteHeader(int)             {}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

// keep creates a table with one row for a test of a failure during a write.
func (r trinoRig) keep(table string) {
	r.t.Helper()
	r.changes("CREATE TABLE " + table + " AS SELECT 1 AS n")
}

func (i *interloper) trinoCatalogAway(t *testing.T, r trinoRig) {
	r.keep("away")
	var asked atomic.Int64
	i.do(func(w http.ResponseWriter, r *http.Request, catalog http.Handler) {
		switch asked.Add(1) {
		case 1:
			cut(w)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			catalog.ServeHTTP(w, r)
		}
	})
	defer i.do(nil)
	require.EqualValues(t, 1, r.changes("INSERT INTO away VALUES (2)"))
	require.EqualValues(t, 3, asked.Load())
	require.Equal(t, []string{"2"}, r.ok("SELECT count(*) FROM away"))
}

func (i *interloper) trinoAnswerLost(t *testing.T, r trinoRig) {
	r.keep("lost")
	var asked atomic.Int64
	i.do(func(w http.ResponseWriter, r *http.Request, catalog http.Handler) {
		if asked.Add(1) == 1 {
			catalog.ServeHTTP(unheard{w}, r)
			cut(w)
			return
		}
		catalog.ServeHTTP(w, r)
	})
	defer i.do(nil)
	require.EqualValues(t, 1, r.changes("INSERT INTO lost VALUES (3)"))
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, []string{"2"}, r.ok("SELECT count(*) FROM lost"))
}

// trinoNeedsMore runs queries that need more memory than there is, and more room for what does not
// fit into memory.
func trinoNeedsMore(t *testing.T, r trinoRig) {
	r.keep("small")
	for _, query := range []string{
		"SELECT max(cardinality(x)) FROM (SELECT array_agg(a.n * b.n) AS x FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n))",
		"SELECT count(*), max(c) FROM (SELECT a.n * 10000 + b.n AS k, count(*) AS c FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n) GROUP BY 1)",
	} {
		f := r.failsTrino(query)
		require.Equal(t, agent.FaultResources, f.Fault, f.Message)
		require.Equal(t, []string{"1"}, r.okTrino("SELECT count(*) FROM small"), "others go on")
	}
}

func (i *interloper) trinoKilledBefore(t *testing.T, r trinoRig) {
	i.trinoKilled(t, r, "before", false)
	r.changes("INSERT INTO before VALUES (5)") // Trino restarts
}

func (i *interloper) trinoKilledAfter(t *testing.T, r trinoRig) { i.trinoKilled(t, r, "after", true) }

func (i *interloper) trinoKilled(t *testing.T, r trinoRig, table string, committed bool) {
	r.keep(table)
	i.do(func(w http.ResponseWriter, req *http.Request, catalog http.Handler) {
		i.do(nil)
		if committed {
			catalog.ServeHTTP(unheard{w}, req)
		}
		require.NoError(t, unix.Kill(javas(t, filepath.Join(r.engineOf.Dir(), "trino"))["coordinator"], unix.SIGKILL))
		// The catalog proxy forwards the commit all the same. The control plane refuses it after the
		// statement's end.
		if !committed {
			refused := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			refused.ServeHTTP(w, req)
			return
		}
		cut(w)
	})
	_, end := r.do(r.statement("INSERT INTO " + table + " VALUES (4)"))
	require.NotNil(t, end.Error)
	require.Equal(t, agent.FaultEngine, end.Error.Fault, end.Error.Message)
	require.True(t, end.Error.Unsure, "whether it was committed tells the catalog")
	want := "1"
	if committed {
		want = "2"
	}
	require.Equal(t, []string{want}, r.ok("SELECT count(*) FROM "+table))
}
