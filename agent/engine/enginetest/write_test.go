package enginetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

func TestWritesAndReads(t *testing.T) {
	r := newRig(t)
	require.Zero(t, r.changes("CREATE TABLE t (a BIGINT, b VARCHAR)"))
	require.EqualValues(t, 3, r.changes("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, $1)", "z"))
	for _, name := range []string{"t", "public.t", "lake.public.t", `"lake"."public"."t"`} {
		require.Equal(t, []string{"1|x", "2|y", "3|z"}, r.ok("FROM "+name+" ORDER BY a"), name)
	}
	require.EqualValues(t, 3, r.changes("INSERT INTO public.t SELECT a + 10, b FROM t"))
	require.EqualValues(t, 1, r.changes("UPDATE t SET b = 'u' WHERE a = 2"))
	require.EqualValues(t, 1, r.changes("DELETE FROM lake.public.t WHERE a = $1", 3))
	require.EqualValues(t, 2, r.changes("MERGE INTO t USING (VALUES (1, 'm'), (99, 'n')) s(a, b) ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)"))
	require.Equal(t, []string{"1|m", "2|u", "11|x", "12|y", "13|z", "99|n"}, r.ok("SELECT * FROM t ORDER BY a"))
	r.changes("ALTER TABLE t ADD COLUMN c DOUBLE")
	r.changes("ALTER TABLE t RENAME COLUMN b TO bb")
	require.Equal(t, []string{"1|m|(null)"}, r.ok("SELECT a, bb, c FROM t WHERE a = ?", 1))
	r.changes("ALTER TABLE t DROP COLUMN c")
	require.Equal(t, []string{"a|BIGINT|YES|(null)|(null)|(null)", "bb|VARCHAR|YES|(null)|(null)|(null)"}, r.ok("DESCRIBE t"))
	r.changes("CREATE TABLE u AS SELECT range AS n FROM range(100000)")
	require.Equal(t, []string{"t", "u"}, r.ok("SHOW TABLES"))
	require.Equal(t, []string{"4999950000"}, r.ok("SELECT sum(n) FROM u"))
	r.changes("ALTER TABLE u RENAME TO w")
	r.changes("DROP TABLE w")
	require.Equal(t, []string{"t"}, r.ok("SHOW TABLES"))
	require.Equal(t, 1, r.fails("SELECT * FROM w").Line)
}

func TestTablesThatAStatementNames(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE a (i INT, \"odd name\" INT)")
	r.changes("CREATE TABLE b (i INT, s STRUCT(x INT, y INT), d DATE)")
	r.changes("INSERT INTO b SELECT 1, {'x': 1, 'y': 2}, '2020-01-01'")
	r.changes("CREATE VIEW v AS SELECT i, d FROM b")
	table := func(name string, target bool) agent.StatementTable {
		return agent.StatementTable{Database: "lake", Schema: "public", Table: name, Target: target}
	}
	a, b := table("a", false), table("b", false)
	for _, c := range []struct {
		query   string
		tables  []agent.StatementTable
		columns []string // of b
	}{
		{"INSERT INTO a WITH c AS (SELECT i FROM public.b) SELECT i, 1 FROM c JOIN lake.public.a USING (i) WHERE extract(year FROM DATE '2020-01-01') > i", []agent.StatementTable{table("a", true), a, b}, nil},
		{"INSERT INTO a (i) SELECT s.x FROM b WHERE d > DATE '2019-01-01'", []agent.StatementTable{table("a", true), b}, []string{"d", "s.x"}},
		{"INSERT INTO a SELECT i, i FROM v", []agent.StatementTable{table("a", true), table("v", false), b}, []string{"i"}},
		{"UPDATE b SET d = DATE '2021-01-01' WHERE i = 1", []agent.StatementTable{table("b", true), b}, []string{"i", "s"}},
		{"DELETE FROM a WHERE i IN (SELECT i FROM b)", []agent.StatementTable{table("a", true), a, b}, []string{"i"}},
		{"CREATE TABLE c AS TABLE b", []agent.StatementTable{table("c", true), b}, []string{"d", "i", "s"}},
		{"TABLE b", []agent.StatementTable{b}, []string{"d", "i", "s"}},
		{"SELECT count(*) FROM b WHERE s.y = 2 GROUP BY i", []agent.StatementTable{b}, []string{"i", "s.y"}},
	} {
		_, end := r.do(r.statement(c.query))
		require.Nil(t, end.Error, "%s: %+v", c.query, end.Error)
		require.ElementsMatch(t, c.tables, named(end), c.query)
		for _, scan := range end.Scans {
			if strings.Contains(scan.File, "-b/data/") && c.columns != nil {
				require.Equal(t, c.columns, scan.Columns, c.query)
				c.columns = nil
			}
		}
		require.Nil(t, c.columns, "%s: %+v", c.query, end.Scans)
	}
	require.EqualValues(t, 0, r.scanned("SELECT 1"))
	require.Positive(t, r.scanned("SELECT sum(i) FROM c")+r.scanned("SELECT max(d) FROM c"))
}

// scanned returns the number of bytes that a statement read.
func (r *rig) scanned(query string) int64 {
	_, end := r.do(r.statement(query))
	require.Nil(r.t, end.Error)
	return end.Scanned
}

func TestTypesComeBack(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t (a DECIMAL(38, 3), b TIMESTAMPTZ, c UUID, d BLOB, e STRUCT(x INT, y VARCHAR[]), f MAP(VARCHAR, INT), g DATE, h TIME)")
	r.changes(`INSERT INTO t VALUES (12345678901234567890123456789012345.678, '2020-01-01 00:00:00+02', '123e4567-e89b-12d3-a456-426614174000', '\xFF'::BLOB, {'x': 1, 'y': ['p']}, MAP {'k': 2}, '2020-02-02', '01:02:03')`)
	require.Equal(t, []string{`12345678901234567890123456789012345.678|2019-12-31T22:00:00Z|123e4567-e89b-12d3-a456-426614174000|/w==|{"x":1,"y":["p"]}|[{"key":"k","value":2}]|2020-02-02|01:02:03.000000`}, r.ok("FROM t"))
}

func TestSchemas(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE SCHEMA S2")
	r.changes("CREATE SCHEMA IF NOT EXISTS S2")
	require.Equal(t, agent.FaultQuery, r.fails("CREATE SCHEMA S2").Fault)
	r.changes("CREATE SCHEMA lake.S2.inner_one")
	r.changes("CREATE TABLE S2.x AS SELECT 1 AS one")
	require.Equal(t, []string{"1"}, r.ok("FROM lake.S2.x"))
	r.changes(`CREATE TABLE lake."S2.inner_one".y AS SELECT 2 AS two`)
	require.Equal(t, []string{"2"}, r.ok(`FROM "S2.inner_one".y`))
	require.Contains(t, r.fails("DROP SCHEMA S2 CASCADE").Message, "one by one")
	require.Equal(t, agent.FaultQuery, r.fails("DROP SCHEMA S2").Fault)
	r.changes(`DROP TABLE "S2.inner_one".y`)
	r.changes("DROP SCHEMA S2.inner_one")
	r.changes("DROP TABLE S2.x")
	r.changes("DROP SCHEMA S2")
	r.changes("DROP SCHEMA IF EXISTS S2")
}

func TestViews(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t AS SELECT range AS a, 'v' || range AS b FROM range(10)")
	r.changes("CREATE VIEW v AS SELECT a, b FROM t WHERE a < 3 -- the first")
	for _, name := range []string{"v", "public.v", "lake.public.v"} {
		require.Equal(t, []string{"0|v0", "1|v1", "2|v2"}, r.ok("SELECT v.a, b FROM "+name+" ORDER BY v.a"), name)
	}
	r.changes("CREATE SCHEMA other")
	r.changes("CREATE VIEW other.w (n) AS SELECT count(*) FROM v JOIN t USING (a)")
	require.Equal(t, []string{"3"}, r.ok("SELECT n FROM other.w"))
	require.Equal(t, []string{"3|10"}, r.ok("WITH t2 AS (FROM t) SELECT n, (SELECT count(*) FROM t2) FROM other.w AS x"))
	require.Equal(t, []string{"2"}, r.ok("SELECT count(*) FROM v WHERE a >= $1", 1))
	require.Equal(t, agent.FaultQuery, r.fails("CREATE VIEW v AS SELECT 1 AS one").Fault)
	r.changes("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one")
	r.changes("CREATE OR REPLACE VIEW v AS SELECT a, 'new' AS b FROM t WHERE a = 5")
	require.Equal(t, []string{"5|new"}, r.ok("FROM v"))
	r.changes("CREATE TABLE copy AS FROM v")
	require.EqualValues(t, 1, r.changes("INSERT INTO copy FROM v"))
	require.Equal(t, []string{"5|new", "5|new"}, r.ok("FROM copy"))
	_, end := r.do(r.statement("FROM other.w"))
	require.ElementsMatch(t, []agent.StatementTable{
		{Database: "lake", Schema: "other", Table: "w"}, {Database: "lake", Schema: "public", Table: "v"}, {Database: "lake", Schema: "public", Table: "t"},
	}, named(end))
	r.changes("ALTER VIEW v RENAME TO v2")
	require.Equal(t, []string{"5|new"}, r.ok("FROM v2"))
	require.Contains(t, r.fails("FROM other.w").Message, "other.w")
	require.Contains(t, r.fails("CREATE VIEW x AS SELECT * FROM read_text('/etc/passwd')").Message, "read_text")
	require.Equal(t, agent.FaultQuery, r.fails("CREATE VIEW x AS INSERT INTO t VALUES (1, 'a')").Fault)
	require.Contains(t, r.fails("CREATE VIEW x AS SELECT $1 AS a", 1).Message, "parameters")
	r.changes("DROP VIEW v2")
	r.changes("DROP VIEW IF EXISTS v2")

	r.changes("CREATE VIEW a AS SELECT a FROM t")
	r.changes("CREATE VIEW b AS FROM a")
	r.changes("CREATE VIEW c AS FROM b")
	for _, query := range []string{"FROM a", "FROM b", "SELECT 1 AS a WHERE EXISTS (FROM c)"} {
		require.Contains(t, r.fails("CREATE OR REPLACE VIEW a AS "+query).Message, "The view would need itself", query)
	}
	require.Equal(t, []string{"10"}, r.ok("SELECT count(*) FROM c"))
	r.changes("ALTER VIEW a RENAME TO first")
	r.changes("ALTER VIEW c RENAME TO a")
	require.Contains(t, r.fails("FROM b").Message, "needs itself", "by its new name")
	require.Equal(t, agent.FaultQuery, r.fails("FROM v2").Fault)
}

// Every row of parallel writers is in the table exactly once, however often they lose the race.
func TestManyWriters(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t (writer INT, i INT)")
	r.changes("CREATE TABLE sums (total BIGINT)")
	r.changes("INSERT INTO sums VALUES (0)")
	const writers, each = 20, 2
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := range each {
				for _, s := range []agent.Statement{r.statement("INSERT INTO t VALUES ($1, $2)", w, i), r.statement("UPDATE sums SET total = total + 1")} {
					if _, end := r.do(s); end.Error != nil {
						t.Errorf("writer %d: %+v", w, *end.Error)
					}
				}
			}
		})
	}
	wait.Wait()
	require.Equal(t, []string{"40|40"}, r.ok("SELECT count(*), count(DISTINCT (writer, i)) FROM t"))
	require.Equal(t, []string{"40"}, r.ok("SELECT total FROM sums"))
}

func TestAnotherWorkspacesFilesAreClosed(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t AS SELECT 1 AS a")
	s := r.statement("FROM t")
	s.Storage = r.other
	_, end := r.do(s)
	require.NotNil(t, end.Error, "a child of one workspace reads no file of another, whatever the catalog says")
	require.Contains(t, end.Error.Message, "is not in the workspace's storage")
}

// The row count of a new table is reported, although DuckDB does not report it.
func TestRowsOfANewTable(t *testing.T) {
	r := newRig(t)
	require.EqualValues(t, 1000, r.changes("CREATE TABLE counted AS SELECT range AS n FROM range(1000)"))
	require.EqualValues(t, 0, r.changes("CREATE TABLE uncounted (n INT)"))
}
