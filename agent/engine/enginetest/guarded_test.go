package enginetest

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// Tables are guarded however a statement names them. DuckDB by itself would skip their NaN values.
func TestTablesNamedInEveryWay(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.changes("CREATE TABLE " + name + " (id INT, x DOUBLE, \"group\" INT)")
		r.changes("INSERT INTO " + name + " VALUES (1, 'nan', 1), (2, 1.5, 2)")
	}
	r.changes("CREATE TABLE w (number INT)")
	for query, want := range map[string][]string{
		"SELECT o.id FROM o: a WHERE o.x > 1e300":                                                               {"1"},
		"SELECT o.id FROM 'o': lake.public.a WHERE x > 1e300":                                                   {"1"},
		"SELECT id FROM a WHERE x > 1e300 UNION ALL (SELECT id FROM (TABLE b) WHERE x > 1e300)":                 {"1", "1"},
		"SELECT id FROM (SELECT 0 AS id, 0::DOUBLE AS x, 0 AS g UNION ALL TABLE b) WHERE x > 1e300":             {"1"},
		"SELECT id FROM (TABLE a EXCEPT TABLE c) WHERE x > 1e300":                                               {},
		"SELECT id FROM a WHERE id IN (WITH x AS (SELECT 1) SELECT id FROM b WHERE x > 1e300)":                  {"1"},
		"SELECT id FROM a WHERE id IN (WITH x AS (SELECT 1) FROM b SELECT id WHERE b.x > 1e300)":                {"1"},
		"WITH u AS (FROM a UNION ALL FROM b) SELECT count(*) FROM u WHERE x > 1e300":                            {"2"},
		"SELECT c.id FROM a JOIN b ON a.\"id\" = b.group, c WHERE c.x > 1e300 AND a.id = 1":                     {"1"},
		"SELECT c.id FROM a AS sample, c WHERE c.x > 1e300 AND sample.id = 1":                                   {"1"},
		"SELECT c.id FROM a sample, c WHERE c.x > 1e300 AND sample.id = 1":                                      {"1"},
		"SELECT b.id FROM VALUES (1), (3) t(v), b WHERE b.x > 1e300 AND v = 1":                                  {"1"},
		"WITH a AS (SELECT * FROM a) SELECT id FROM a WHERE x > 1e300":                                          {"1"},
		"WITH v AS (FROM b), b AS (SELECT 7 AS id) SELECT v.id FROM v, b WHERE x > 1e300":                       {"1"},
		"SELECT (SELECT max(id) FROM b WHERE x > 1e300), [i FOR i IN (SELECT [id] FROM c WHERE x > 1e300)]":     {"1|[1]"},
		"SELECT id FROM A WHERE x > 1e300":                                                                      {"1"},
		"SELECT id FROM LAKE.Public.\"A\" WHERE x > 1e300":                                                      {"1"},
		"SELECT 1 AS from, id FROM a WHERE x > 1e300":                                                           {"1|1"},
		"WITH a AS (SELECT 5 AS id) FROM a":                                                                     {"5"},
		"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n, a": {"3"},
	} {
		rows, end := r.do(r.statement(query))
		require.Nil(t, end.Error, "%s: %+v", query, end.Error)
		require.ElementsMatch(t, want, rows, query)
	}
	for _, c := range []struct {
		query string
		rows  int64
	}{
		{"MERGE INTO w USING (a JOIN b ON a.id = b.id AND a.x > 1e300 AND b.x > 1e300) ON w.number = 77 WHEN NOT MATCHED THEN INSERT VALUES (100)", 1},
		{"DELETE FROM w USING (a JOIN b ON a.id = b.id AND b.x > 1e300) WHERE w.number = 100", 1},
		{"INSERT INTO w SELECT 200 FROM o: a WHERE o.x > 1e300", 1},
		{"WITH a AS (SELECT id FROM a WHERE x > 1e300) INSERT INTO w SELECT 300 FROM a", 1},
		{"INSERT INTO w SELECT * FROM (SELECT 1 UNION ALL SELECT id FROM (TABLE b) WHERE x > 1e300)", 2},
		{"UPDATE w SET number = 9 FROM a JOIN b ON a.id = b.group WHERE number = 300 AND a.x > 1e300 AND b.x > 1e300", 1},
	} {
		require.Equal(t, c.rows, r.changes(c.query), c.query)
	}
	for query, says := range map[string]string{
		"FROM lake.a": "lake.public.a", "FROM LAKE.a": "lake.public.a", "FROM lake.a.b.c": "three parts", "FROM main.a": "belongs to the engine", "FROM lake.public.duckdb_databases": "belongs to the engine",
		"WITH RECURSIVE a AS (SELECT * FROM a UNION ALL SELECT * FROM b) FROM a": "WITH RECURSIVE", "INSERT INTO lake.c VALUES (1, 1, 1)": "lake.public.c", "DROP TABLE lake.c": "lake.public.c",
		"SELECT options FROM main.duckdb_databases": "belongs to the engine",
	} {
		f := r.fails(query)
		require.Equal(t, agent.FaultQuery, f.Fault, query)
		require.Contains(t, f.Message, says, query)
	}
	r.changes("ALTER TABLE c RENAME COLUMN id TO number")
}

// Names of databases are case-insensitive.
func TestNamesOfDatabasesInAnyCase(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t AS SELECT 1 AS a")
	r.changes("CREATE VIEW v AS SELECT a FROM LAKE.public.t")
	for _, query := range []string{"FROM \"LAKE\".public.t", "FROM Lake.public.v", "FROM v"} {
		require.Equal(t, []string{"1"}, r.ok(query), query)
	}
	s := r.statement("FROM t")
	s.Database = "LAKE"
	rows, end := r.do(s)
	require.Nil(t, end.Error)
	require.Equal(t, []string{"1"}, rows)
	require.Equal(t, "lake", end.Tables[0].Database)
}

// A statement that always loses its race ends.
func TestALostRaceEnds(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between})
	r.changes("CREATE TABLE t AS SELECT 1 AS a")
	started := time.Now()
	b.spoil(func(w http.ResponseWriter, _ *http.Request, _ func() int) { fail(w, http.StatusConflict) })
	f := r.fails("UPDATE t SET a = 2")
	require.Equal(t, agent.FaultConflict, f.Fault)
	require.Contains(t, f.Message, "lost the race for its table 100 times")
	require.EqualValues(t, 100, b.asked.Load())
	require.Less(t, time.Since(started), time.Minute)
	b.spoil(nil)
	require.Equal(t, []string{"1"}, r.ok("FROM t"))
	var lost atomic.Int64
	b.spoil(func(w http.ResponseWriter, q *http.Request, _ func() int) {
		if lost.Add(1) < 5 {
			fail(w, http.StatusConflict)
			return
		}
		b.next.ServeHTTP(w, q)
	})
	require.EqualValues(t, 1, r.changes("UPDATE t SET a = 3"))
	require.Equal(t, []string{"3"}, r.ok("FROM t"))
}

// A listing shows the current state, not that of the previous statement.
func TestListingsAreOfNow(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		require.Len(t, r.ok("SHOW TABLES"), i)
		r.changes(fmt.Sprintf("CREATE VIEW v%d AS SELECT 1 AS a", i))
	}
}
