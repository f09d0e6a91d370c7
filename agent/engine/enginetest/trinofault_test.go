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

// TestTrinoFaults checks the guarantees for failures during a write.
func TestTrinoFaults(t *testing.T) {
	way := &interloper{}
	o := withTrino(t)
	o.Trino.Spill = 1 << 20
	r := trinoRig{newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: o, between: func(h http.Handler) http.Handler {
		way.catalog = h
		return way
	}})}
	r.changes("CREATE TABLE kept AS SELECT 1 AS n")

	run := func(name string, test func(*testing.T, trinoRig)) {
		t.Run(name, func(t *testing.T) {
			sub := *r.rig
			sub.t = t
			test(t, trinoRig{&sub})
		})
	}
	run("the catalog is away, and comes back", func(t *testing.T, r trinoRig) {
		var asked atomic.Int64
		way.do(func(w http.ResponseWriter, r *http.Request, catalog http.Handler) {
			switch asked.Add(1) {
			case 1:
				cut(w)
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				catalog.ServeHTTP(w, r)
			}
		})
		defer way.do(nil)
		require.EqualValues(t, 1, r.changes("INSERT INTO kept VALUES (2)"))
		require.EqualValues(t, 3, asked.Load())
		require.Equal(t, []string{"2"}, r.ok("SELECT count(*) FROM kept"))
	})
	run("the answer to a commit is lost", func(t *testing.T, r trinoRig) {
		var asked atomic.Int64
		way.do(func(w http.ResponseWriter, r *http.Request, catalog http.Handler) {
			if asked.Add(1) == 1 {
				catalog.ServeHTTP(unheard{w}, r)
				cut(w)
				return
			}
			catalog.ServeHTTP(w, r)
		})
		defer way.do(nil)
		require.EqualValues(t, 1, r.changes("INSERT INTO kept VALUES (3)"))
		require.EqualValues(t, 2, asked.Load())
		require.Equal(t, []string{"3"}, r.ok("SELECT count(*) FROM kept"))
	})
	run("a query needs more memory than there is", func(t *testing.T, r trinoRig) {
		f := r.failsTrino("SELECT max(cardinality(x)) FROM (SELECT array_agg(a.n * b.n) AS x FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n))")
		require.Equal(t, agent.FaultResources, f.Fault, f.Message)
		require.Equal(t, []string{"3"}, r.okTrino("SELECT count(*) FROM kept"), "others go on")
	})
	run("there is no room for what does not fit into memory", func(t *testing.T, r trinoRig) {
		f := r.failsTrino("SELECT count(*), max(c) FROM (SELECT a.n * 10000 + b.n AS k, count(*) AS c FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n) GROUP BY 1)")
		require.Equal(t, agent.FaultResources, f.Fault, f.Message)
		require.Equal(t, []string{"3"}, r.okTrino("SELECT count(*) FROM kept"), "others go on")
	})
	for _, c := range []struct {
		name      string
		committed bool
	}{{"Trino is killed before a commit arrives", false}, {"Trino is killed after a commit", true}} {
		run(c.name, func(t *testing.T, r trinoRig) {
			before := r.ok("SELECT count(*) FROM kept")
			way.do(func(w http.ResponseWriter, req *http.Request, catalog http.Handler) {
				way.do(nil)
				if c.committed {
					catalog.ServeHTTP(unheard{w}, req)
				}
				require.NoError(t, unix.Kill(javas(t, filepath.Join(r.engineOf.Dir(), "trino"))["coordinator"], unix.SIGKILL))
				// The catalog proxy forwards the commit all the same. The control plane refuses it
				// after the statement's end.
				if !c.committed {
					refused := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
					refused.ServeHTTP(w, req)
					return
				}
				cut(w)
			})
			_, end := r.do(r.statement("INSERT INTO kept VALUES (4)"))
			require.NotNil(t, end.Error)
			require.Equal(t, agent.FaultEngine, end.Error.Fault, end.Error.Message)
			require.True(t, end.Error.Unsure, "whether it was committed tells the catalog")
			after := r.ok("SELECT count(*) FROM kept")
			require.Equal(t, c.committed, before[0] != after[0], "%s, then %s", before, after)
			r.changes("INSERT INTO kept VALUES (5)") // Trino restarts
		})
	}
}
