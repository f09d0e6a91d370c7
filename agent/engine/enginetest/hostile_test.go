package enginetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
)

// trouble is a proxy before the catalog that spoils its answers to changes.
type trouble struct {
	next  http.Handler
	do    atomic.Pointer[func(w http.ResponseWriter, r *http.Request, change func() int)]
	asked atomic.Int64 // number of changes
}

func (b *trouble) between(next http.Handler) http.Handler {
	b.next = next
	return b
}

// spoil calls do for each further change; nil stops that. The function passed to do makes the
// change and returns its status.
func (b *trouble) spoil(do func(w http.ResponseWriter, r *http.Request, change func() int)) {
	b.asked.Store(0)
	b.do.Store(&do)
}

func (b *trouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	do := b.do.Load()
	if r.Method == http.MethodGet || r.Method == http.MethodHead || do == nil || *do == nil {
		b.next.ServeHTTP(w, r)
		return
	}
	b.asked.Add(1)
	(*do)(w, r, func() int {
		answer := httptest.NewRecorder()
		b.next.ServeHTTP(answer, r)
		return answer.Code
	})
	_, _ = io.Copy(io.Discard, r.Body)
}

func fail(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":{"message":"So it is.","type":"X","code":1}}`)
}

// Lost answers of the catalog neither duplicate nor lose a row. The engine asks again, and the
// catalog recognizes the request.
func TestAnswersOfTheCatalogThatAreLost(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between, engine: engine.Options{CommitTime: time.Second}})
	r.changes("CREATE TABLE t (a BIGINT)")
	once := func(spoiled func(w http.ResponseWriter, r *http.Request, change func() int)) {
		var n atomic.Int64
		b.spoil(func(w http.ResponseWriter, r *http.Request, change func() int) {
			if n.Add(1) > 2 {
				b.next.ServeHTTP(w, r)
				return
			}
			spoiled(w, r, change)
		})
	}
	never := func(w http.ResponseWriter, _ *http.Request, _ func() int) { fail(w, http.StatusServiceUnavailable) }
	done := func(w http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		fail(w, http.StatusInternalServerError)
	}
	dropped := func(_ http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		panic(http.ErrAbortHandler)
	}
	for i, spoiled := range []func(http.ResponseWriter, *http.Request, func() int){never, done, dropped} {
		once(spoiled)
		require.EqualValues(t, 1, r.changes("INSERT INTO t VALUES ($1)", i))
		once(spoiled)
		r.changes("CREATE TABLE made AS SELECT 1 AS a")
		once(spoiled)
		require.EqualValues(t, 1, r.changes("UPDATE made SET a = 2"))
		require.Equal(t, []string{"2"}, r.ok("FROM made"))
		once(spoiled)
		r.changes("DROP TABLE made")
	}
	require.Equal(t, []string{"0", "1", "2"}, r.ok("FROM t ORDER BY a"))

	for _, c := range []struct {
		spoiled func(http.ResponseWriter, *http.Request, func() int)
		rows    string
	}{{never, "0"}, {done, "1"}, {dropped, "1"}} {
		b.spoil(c.spoiled)
		_, end := r.do(r.statement("INSERT INTO t VALUES (77)"))
		require.NotNil(t, end.Error)
		require.Equal(t, agent.FaultEngine, end.Error.Fault)
		require.True(t, end.Error.Unsure, end.Error.Message)
		b.spoil(nil)
		require.Equal(t, []string{c.rows}, r.ok("SELECT count(*) FROM t WHERE a = 77"), "what was committed can be read")
		r.changes("DELETE FROM t WHERE a = 77")
	}

	b.spoil(func(w http.ResponseWriter, _ *http.Request, _ func() int) { fail(w, http.StatusUnauthorized) })
	f := r.fails("INSERT INTO t VALUES (1)")
	require.Equal(t, agent.FaultForbidden, f.Fault)
	require.Equal(t, "The catalog refused it: So it is.", f.Message)
	b.spoil(func(w http.ResponseWriter, _ *http.Request, _ func() int) { fail(w, http.StatusConflict) })
	f = r.fails("INSERT INTO t VALUES (1)")
	require.Equal(t, agent.FaultConflict, f.Fault)
	require.Contains(t, f.Message, "lost the race for its table 100 times")
	require.EqualValues(t, 100, b.asked.Load())
	b.spoil(nil)
	require.Equal(t, []string{"0", "1", "2"}, r.ok("FROM t ORDER BY a"))
}

// Damaged files fail, with a reason, only the statements that need them.
func TestDamagedFiles(t *testing.T) {
	r := newRig(t)
	root := strings.TrimPrefix(r.storage.Prefix, "file://")
	change := func(f func([]byte) []byte) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, f(b), 0o600)
			}
			return err
		}
	}
	flip := func(from, to int) func(string) error { // to is counted from the end
		return change(func(b []byte) []byte {
			for i := from; i < len(b)-to; i++ {
				b[i] ^= 0x5a
			}
			return b
		})
	}
	cut := change(func(b []byte) []byte { return b[:len(b)/2] })
	empty := change(func([]byte) []byte { return nil })
	for i, c := range []struct {
		files  string
		damage func(string) error
		says   string
	}{
		{"*.parquet", flip(4, 200), ""},
		{"*.parquet", flip(0, 0), ""},
		{"*.parquet", cut, ""},
		{"*.parquet", empty, ""},
		{"*.parquet", os.Remove, "missing"},
		{"snap-*.avro", cut, "damaged"},
		{"snap-*.avro", os.Remove, "missing"},
		{"*-m0.avro", cut, ""},
		{"*.avro", empty, ""},
		{"*.avro", os.Remove, "missing"},
	} {
		name := "t" + string(rune('a'+i))
		r.changes("CREATE TABLE " + name + " AS SELECT range AS a, 'v' || range AS b FROM range(10000)")
		n := 0
		for _, f := range files(t, root, c.files) {
			if strings.Contains(f, "-"+name+"/") {
				n++
				require.NoError(t, c.damage(f))
			}
		}
		f := r.fails("SELECT sum(a), max(b) FROM " + name)
		t.Logf("%s %d: %+v", c.files, n, *f)
		require.Contains(t, []agent.StatementFault{agent.FaultQuery, agent.FaultEngine}, f.Fault)
		require.Contains(t, f.Message, c.says)
		require.NotEmpty(t, f.Message)
		r.ok("SELECT 1")
	}
}

func TestColumnsThatIcebergCannotHold(t *testing.T) {
	r := newRig(t)
	for _, typ := range []string{
		"UHUGEINT", "INTERVAL", "ENUM('a', 'b')", "UNION(x INT, y VARCHAR)", "BIT", "TINYINT", "SMALLINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "JSON", "TIMETZ", "TIMESTAMP_S",
		"TIMESTAMP_MS", "TIMESTAMP_NS", "BIGNUM", "INT[3]", "STRUCT(a TINYINT)", "MAP(INTERVAL, INT)", "INT PRIMARY KEY", "INT CHECK (a > 1)", "INT UNIQUE", "VARCHAR COLLATE NOCASE", "INT REFERENCES u (a)",
		"INT, PRIMARY KEY (a)", "INT, UNIQUE (a)", "INT, CHECK (a > 1)", "INT, CONSTRAINT c CHECK (a > 1)",
	} {
		f := r.fails("CREATE TABLE t (a " + typ + ")")
		require.Equal(t, agent.FaultQuery, f.Fault, "%s: %s", typ, f.Message)
	}
	for typ, kept := range map[string]string{"HUGEINT": "DECIMAL(38,0)", "DECIMAL": "DECIMAL(18,3)", "CHAR(3)": "VARCHAR", "INT NOT NULL": "INTEGER"} {
		r.changes("CREATE TABLE t (a " + typ + ", \"check\" INT, \"primary\" INT)")
		require.Equal(t, "a|"+kept, strings.Join(strings.Split(r.ok("DESCRIBE t")[0], "|")[:2], "|"), typ)
		r.changes("DROP TABLE t")
	}
	require.Equal(t, agent.FaultQuery, r.fails("CREATE TABLE t AS SELECT 170141183460469231731687303715884105727::HUGEINT AS a").Fault)
	require.Equal(t, agent.FaultQuery, r.fails("CREATE TABLE t AS SELECT 'infinity'::TIMESTAMP AS a").Fault)
	r.changes("CREATE TABLE n (a INT NOT NULL)")
	require.Equal(t, agent.FaultQuery, r.fails("INSERT INTO n VALUES (NULL)").Fault)
	r.changes("CREATE TABLE c AS SELECT CASE WHEN unique_one > 1 THEN 'a' ELSE 'b' COLLATE NOCASE END AS x FROM (SELECT 1 AS unique_one)")
}

// TestListings runs the listings that people use first.
func TestListings(t *testing.T) {
	r := newRig(t)
	require.Empty(t, r.ok("SHOW TABLES"))
	r.changes("CREATE TABLE b (i INT)")
	r.changes("CREATE VIEW a AS SELECT 1 AS one")
	r.changes("CREATE SCHEMA s")
	r.changes("CREATE SCHEMA lake.s.deep")
	r.changes("CREATE TABLE s.it AS SELECT 1 AS n")
	r.changes(`CREATE TABLE lake."s.deep"."it's" AS SELECT 1 AS n`)
	for query, want := range map[string][]string{
		"SHOW TABLES": {"a", "b"}, "show tables -- all": {"a", "b"}, "SHOW TABLES FROM lake": {"a", "b"}, "SHOW TABLES IN s": {"it"}, "SHOW TABLES FROM lake.s;": {"it"}, `SHOW TABLES FROM "s.deep"`: {"it's"},
		"SHOW DATABASES": {"lake"}, "SHOW SCHEMAS": {"lake|public", "lake|s", "lake|s.deep"}, "SHOW SCHEMAS FROM lake": {"lake|public", "lake|s", "lake|s.deep"},
		"SHOW ALL TABLES": {"lake|public|a", "lake|public|b", "lake|s|it", "lake|s.deep|it's"}, "SHOW": {"lake|public|a", "lake|public|b", "lake|s|it", "lake|s.deep|it's"},
		"DESCRIBE b": {"i|INTEGER|YES|(null)|(null)|(null)"}, "DESCRIBE a": {"one|INTEGER|YES|(null)|(null)|(null)"}, "SHOW b": {"i|INTEGER|YES|(null)|(null)|(null)"},
	} {
		rows, end := r.do(r.statement(query))
		require.Nil(t, end.Error, "%s: %+v", query, end.Error)
		require.Equal(t, want, rows, query)
	}
	require.Contains(t, r.fails("SHOW TABLES FROM nowhere").Message, "nowhere")
	require.Contains(t, r.fails("CREATE OR REPLACE TABLE b AS SELECT 1 AS i").Message, "DELETE FROM")
}
