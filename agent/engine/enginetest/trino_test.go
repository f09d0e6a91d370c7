package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/install/installtest"
	"github.com/millpond/millpond/agent/engine/trino"
)

// withTrino are options of an engine with Trino as the write engine. Its JVM uses one compiler
// tier, which halves the start time. Without Landlock in the kernel, Trino runs without a fence.
func withTrino(t testing.TB) engine.Options {
	return engine.Options{Trino: &trino.Options{Installation: installtest.Trino(t), Memory: trino.MinMemory, Cores: 2, Unfenced: true, JVM: []string{"-XX:TieredStopAtLevel=1"}}}
}

// trinoRig is a rig with Trino, named by its statements.
type trinoRig struct{ *rig }

func (r trinoRig) inTrino(query string, parameters ...any) agent.Statement {
	s := r.statement(query, parameters...)
	s.Engine = engine.TrinoName
	return s
}

// okTrino runs a statement in Trino and returns its rows.
func (r trinoRig) okTrino(query string, parameters ...any) []string {
	r.t.Helper()
	rows, end := r.do(r.inTrino(query, parameters...))
	require.Nil(r.t, end.Error, "%s: %+v", query, end.Error)
	return rows
}

func (r trinoRig) failsTrino(query string, parameters ...any) *agent.StatementFailure {
	r.t.Helper()
	_, end := r.do(r.inTrino(query, parameters...))
	require.NotNil(r.t, end.Error, query)
	return end.Error
}

// TestTrino runs tests on one shared Trino. The last ones kill it.
func TestTrino(t *testing.T) {
	way := &interloper{}
	o := withTrino(t)
	o.Trino.Spill, o.Trino.MaxABI = 1<<20, 1
	r := trinoRig{newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: o, between: func(h http.Handler) http.Handler {
		way.catalog = h
		return way
	}})}
	for _, c := range []struct {
		name string
		test func(*testing.T, trinoRig)
	}{
		{"writes go there and reads do not", trinoRoutes},
		{"what is written is read alike by both", trinoWrites},
		{"a statement tells what it read and wrote", trinoLineage},
		{"parameters", trinoParameters},
		{"values of every type", trinoTypes},
		{"what is not allowed is refused", trinoRefuses},
		{"comments are none for both", trinoComments},
		{"limits and an end from without", trinoEnds},
		{"databases come and go", trinoDatabases},
		{"errors have their place", trinoErrors},
		{"who may only read does not write", trinoReads},
		{"writers of one table lose no row", trinoRaces},
		{"what differs between the dialects is written down", trinoDialects},
		{"views say why they are not read", trinoViews},
		{"writers of every kind change one table", trinoMixed},
		{"only the workspace's files are opened", trinoFence},
		{"the catalog is away, and comes back", way.trinoCatalogAway},
		{"the answer to a commit is lost", way.trinoAnswerLost},
		{"a query needs more than there is", trinoNeedsMore},
		{"Trino is killed before a commit arrives", way.trinoKilledBefore},
		{"Trino is killed after a commit", way.trinoKilledAfter},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := *r.rig
			sub.t = t
			c.test(t, trinoRig{&sub})
		})
	}
}

func trinoRoutes(t *testing.T, r trinoRig) {
	for _, c := range []struct{ query, engine, named, reason string }{
		{"CREATE TABLE routes (n INTEGER)", "trino", "", "The write engine of this warehouse is Trino."},
		{"INSERT INTO routes VALUES (1)", "trino", "", "The write engine of this warehouse is Trino."},
		{"SELECT * FROM routes", "duckdb", "", "DuckDB serves reads."},
		{"SELECT * FROM routes", "trino", "trino", "The request names Trino."},
		{"INSERT INTO routes VALUES (2)", "duckdb", "duckdb", "The request names DuckDB."},
		{"CREATE VIEW routed AS SELECT n FROM routes", "duckdb", "", "Views are kept by the catalog, in DuckDB's dialect, which is that of reads."},
		{"CREATE OR REPLACE TABLE routes AS SELECT 7 AS n", "trino", "", "The write engine of this warehouse is Trino."},
		{"ALTER TABLE routes ADD COLUMN s VARCHAR", "trino", "", "The write engine of this warehouse is Trino."},
		{"CREATE SCHEMA routed_schema", "trino", "", "The write engine of this warehouse is Trino."},
		{"DROP SCHEMA routed_schema", "trino", "", "The write engine of this warehouse is Trino."},
		{"ALTER TABLE routes EXECUTE optimize", "duckdb", "", "Tables are maintained by iceberg-go on every warehouse."},
		{"ALTER TABLE routes EXECUTE optimize", "duckdb", "trino", "Tables are maintained by iceberg-go on every warehouse."},
		{"ALTER TABLE routes EXECUTE expire_snapshots", "duckdb", "trino", "Tables are maintained by iceberg-go on every warehouse."},
		{`ALTER TABLE "routes" EXECUTE "REMOVE_ORPHAN_FILES"`, "duckdb", "duckdb", "Tables are maintained by iceberg-go on every warehouse."},
		{"ALTER TABLE routes EXECUTE drop_extended_stats", "trino", "", "The write engine of this warehouse is Trino."},
		{"ALTER TABLE routes EXECUTE optimize_manifests", "trino", "trino", "The request names Trino."},
	} {
		s := r.statement(c.query)
		s.Engine = c.named
		head, end := r.headOf(s)
		require.Nil(t, end.Error, "%s: %+v", c.query, end.Error)
		require.Equal(t, c.engine, head.Engine, c.query)
		require.Equal(t, c.reason, head.RoutingReason, c.query)
	}
	require.Equal(t, []string{"7|(null)"}, r.ok("SELECT * FROM routes"))
	require.Contains(t, r.fails("SELECT * FROM routes LIMIT ALL FETCH").Message, "", "a read that DuckDB does not know is no other engine's")
}

func trinoWrites(t *testing.T, r trinoRig) {
	require.EqualValues(t, 2, r.changes("CREATE TABLE w AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, s)"))
	require.EqualValues(t, 1, r.changes("INSERT INTO w VALUES (3, 'c')"))
	require.EqualValues(t, 1, r.changes("UPDATE w SET s = 'z' WHERE n = 1"))
	require.EqualValues(t, 1, r.changes("DELETE FROM w WHERE n = 2"))
	require.EqualValues(t, 2, r.changes("MERGE INTO w USING (VALUES (3, 'm'), (4, 'n')) AS v(n, s) ON w.n = v.n WHEN MATCHED THEN UPDATE SET s = v.s WHEN NOT MATCHED THEN INSERT VALUES (v.n, v.s)"))
	want := []string{"1|z", "3|m", "4|n"}
	require.Equal(t, want, r.ok("SELECT * FROM w ORDER BY n"))
	require.Equal(t, want, r.okTrino("SELECT * FROM w ORDER BY n"))
}

func trinoLineage(t *testing.T, r trinoRig) {
	r.changes("CREATE TABLE source AS SELECT 1 AS a, 2 AS b, 3 AS c")
	_, end := r.do(r.statement("CREATE TABLE target AS SELECT a, b AS d FROM source WHERE a > 0"))
	require.Nil(t, end.Error)
	require.EqualValues(t, 1, end.Rows)
	require.Positive(t, end.Scanned)
	require.Equal(t, []agent.StatementTable{
		{Database: "lake", Schema: "public", Table: "source", Columns: []string{"a", "b"}},
		{Database: "lake", Schema: "public", Table: "target", Target: true},
	}, named(end))
	_, end = r.do(r.statement("UPDATE target SET d = 5 WHERE a = 1"))
	require.Nil(t, end.Error)
	require.Equal(t, []agent.StatementTable{
		{Database: "lake", Schema: "public", Table: "target", Columns: []string{"a"}},
		{Database: "lake", Schema: "public", Table: "target", Target: true},
	}, named(end))
}

func trinoParameters(t *testing.T, r trinoRig) {
	r.changes("CREATE TABLE p (n BIGINT, s VARCHAR, d DECIMAL(20, 3), b BOOLEAN)")
	r.changes("INSERT INTO p VALUES ($1, $2, CAST($3 AS DECIMAL(20, 3)), $4), ($1, $2, NULL, $5)", 7, "it's $1 -- ?", 12.345, true, nil)
	require.Equal(t, []string{"7|it's $1 -- ?|12.345|true", "7|it's $1 -- ?|(null)|(null)"}, r.ok("SELECT * FROM p ORDER BY d"))
	require.Equal(t, []string{"2|1"}, r.okTrino("SELECT $2, $1", 1, 2))
	require.Equal(t, []string{"x|y"}, r.okTrino("SELECT ?, ?", "x", "y"))
	require.Equal(t, []string{"12345678901234567890|-1"}, r.okTrino("SELECT ?, ?", json.Number("12345678901234567890"), -1))
	require.Contains(t, r.failsTrino("SELECT $2", 1).Message, "has 2 parameters, but 1 were given")
	require.Contains(t, r.failsTrino("SELECT 1", 1).Message, "has 0 parameters, but 1 were given")
	require.Contains(t, r.failsTrino("SELECT $0").Message, "Parameters are $1, $2 and so on")
	require.Contains(t, r.failsTrino("SELECT $name", 1).Message, "Parameters are $1, $2 and so on")
}

func trinoTypes(t *testing.T, r trinoRig) {
	for _, c := range []struct{ expression, want string }{
		{"TRUE", "true"},
		{"CAST(-128 AS TINYINT)", "-128"},
		{"CAST(-32768 AS SMALLINT)", "-32768"},
		{"9223372036854775807", "9223372036854775807"},
		{"CAST(1.5 AS REAL)", "1.5"},
		{"nan()", "NaN"},
		{"-infinity()", "-Inf"},
		{"CAST('-12345678901234567890123456789012345.678' AS DECIMAL(38, 3))", "-12345678901234567890123456789012345.678"},
		{"'ü☃\U0001f600'", "ü☃\U0001f600"},
		{"X'00ff'", "AP8="},
		{"DATE '1582-10-04'", "1582-10-04"},
		{"DATE '-0044-03-15'", "-0044-03-15"},
		{"TIME '23:59:59.999999'", "23:59:59.999999"},
		{"TIMESTAMP '1969-12-31 23:59:59.999999'", "1969-12-31T23:59:59.999999"},
		{"TIMESTAMP '2020-02-29 12:00:00.123456 Europe/Berlin'", "2020-02-29T11:00:00.123456Z"},
		{"TIMESTAMP '2020-02-29 12:00:00 +05:30'", "2020-02-29T06:30:00Z"},
		{"TIMESTAMP '2020-01-01 00:00:00.123456789012'", "2020-01-01 00:00:00.123456789012"},
		{"UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59'", "12151fd2-7586-11e9-8f9e-2a86e4085a59"},
		{`JSON '{"a": [1, null]}'`, `{"a":[1,null]}`},
		{"INTERVAL '1' DAY", "1 00:00:00.000"},
		{"NULL", "(null)"},
		{"ARRAY[1, NULL, 3]", "[1,null,3]"},
		{"MAP(ARRAY[1, 2], ARRAY['x', NULL])", `[{"key":1,"value":"x"},{"key":2,"value":null}]`},
		{`CAST(ROW(1, ROW('x', ARRAY[2])) AS ROW(a INTEGER, "B" ROW(c VARCHAR, d ARRAY(BIGINT))))`, `{"B":{"c":"x","d":[2]},"a":1}`},
	} {
		require.Equal(t, []string{c.want}, r.okTrino("SELECT "+c.expression+" AS v"), c.expression)
	}
	require.Empty(t, r.okTrino("SELECT 1 AS n WHERE FALSE"))
	require.Contains(t, r.failsTrino("SELECT MAP(ARRAY[ROW(1)], ARRAY[2])").Message, "is a map whose keys are of the type row")
	require.Len(t, r.okTrino("SELECT n, CAST(n AS VARCHAR) FROM UNNEST(sequence(1, 10000)) AS t(n) CROSS JOIN UNNEST(sequence(1, 10)) AS u(m)"), 100_000)
}

// trinoRefuses checks the engine's list of kinds and Trino's own rules. The latter are tested with
// statements that the former allows.
func trinoRefuses(t *testing.T, r trinoRig) {
	r.changes("CREATE TABLE guarded AS SELECT 1 AS n")
	for _, query := range []string{
		"CREATE CATALOG other USING iceberg", "DROP CATALOG lake", "GRANT SELECT ON guarded TO USER bob", "REVOKE SELECT ON guarded FROM USER bob", "SET ROLE admin", "CREATE ROLE r", "SET SESSION task_concurrency = 4",
		"CALL lake.system.rollback_to_snapshot('public', 'guarded', 1)", "USE lake.public", "PREPARE x FROM SELECT 1", "EXECUTE x", "DEALLOCATE PREPARE x", "START TRANSACTION", "COMMIT", "ANALYZE guarded",
		"COMMENT ON TABLE guarded IS 'x'", "TRUNCATE TABLE guarded", "SET SESSION AUTHORIZATION platform", "DENY SELECT ON guarded TO USER bob", "REFRESH MATERIALIZED VIEW x", "CREATE MATERIALIZED VIEW x AS SELECT 1",
		"EXPLAIN ANALYZE INSERT INTO guarded VALUES (2)", "CREATE FUNCTION f() RETURNS BIGINT RETURN 1", "SELECT 1; DROP TABLE guarded", "EXECUTE IMMEDIATE 'SELECT 1'", "KILL QUERY 'x'", "CREATE BRANCH b IN TABLE guarded",
	} {
		f := r.failsTrino(query)
		require.Equal(t, agent.FaultQuery, f.Fault, "%s: %s", query, f.Message)
	}
	for query, said := range map[string]string{
		"SELECT * FROM system.runtime.queries":                                                  "Access Denied",
		"SELECT * FROM system.runtime.nodes":                                                    "Access Denied",
		"SELECT * FROM system.metadata.catalogs":                                                "Access Denied",
		"SELECT * FROM system.jdbc.tables":                                                      "Access Denied",
		"INSERT INTO system.runtime.queries SELECT 1":                                           "Access Denied",
		"SELECT * FROM jmx.current.x":                                                           "jmx",
		"SELECT * FROM other.public.x":                                                          "other",
		"ALTER TABLE guarded EXECUTE add_files(location => 'file:///etc', format => 'PARQUET')": "add_files",
		"ALTER TABLE guarded EXECUTE expire_snapshots(retention_threshold => '0s')":             "shorter than the least",
		"ALTER TABLE guarded EXECUTE remove_orphan_files(retention_threshold => '0s')":          "shorter than the least",
		"CREATE TABLE outside (n INTEGER) WITH (location = 'file:///tmp/outside')":              "",
		"CREATE TABLE outside WITH (location = 'file:///tmp/outside') AS SELECT 1 n":            "",
		"ALTER TABLE guarded SET AUTHORIZATION platform":                                        "",
	} {
		f := r.failsTrino(query)
		require.Contains(t, f.Message, said, query)
	}
	for _, query := range []string{
		"CREATE TABLE other_files (n INTEGER) WITH (format = 'ORC')", `CREATE TABLE other_files WITH ("Format" = 'avro') AS SELECT 1 AS n`, "ALTER TABLE guarded SET PROPERTIES format = 'ORC'",
		"CREATE TABLE other_files WITH (format_version = 1) AS SELECT 1 AS n",
	} {
		require.Contains(t, r.failsTrino(query).Message, "Leave ", query)
	}
	r.changes("CREATE TABLE named_so WITH (format = 'PARQUET') AS SELECT n AS format FROM guarded WHERE CAST(n AS VARCHAR) = 'ORC' OR n = 1")
	require.NoDirExists(t, "/tmp/outside")
	r.changes("CREATE TABLE foreign_files AS SELECT 1 AS n")
	(&written{lakeRig: r.withOthers(), name: "foreign_files"}).reload().set(iceberg.Properties{"gc.enabled": "false"})
	for _, do := range []string{"remove_orphan_files", "expire_snapshots"} {
		require.Contains(t, r.failsTrino("ALTER TABLE foreign_files EXECUTE "+do+"(retention_threshold => '2d')").Message, "gc.enabled=false")
	}
	r.changes("ALTER TABLE foreign_files EXECUTE optimize")
	require.Contains(t, r.failsTrino("CREATE TABLE by_double (d DOUBLE) WITH (partitioning = ARRAY['bucket(d, 4)'])").Message, "bucket", "it is said why, and not tried again")
	require.Equal(t, []string{"lake"}, r.okTrino("SHOW CATALOGS"))
	require.Equal(t, []string{"1"}, r.ok("SELECT * FROM guarded"))
}

// A text that only one of the two engines parses as a comment is a comment for neither.
func trinoComments(t *testing.T, r trinoRig) {
	require.Equal(t, []string{"1"}, r.okTrino("/* /* */ CALL system.x() -- */ SELECT 1"))
	require.Equal(t, []string{"1"}, r.okTrino("SELECT -- ü ; GRANT\n 1 /* ☃ */"))
	f := r.failsTrino("SELECT /* ☃ */\n  nothing")
	require.Equal(t, []int{2, 3}, []int{f.Line, f.Column}, f.Message)
	require.Contains(t, r.failsTrino("SELECT E'\\''").Message, "supports only strings in single quotes")
	require.Contains(t, r.failsTrino("SELECT $$x$$").Message, "supports only strings in single quotes")
	require.Contains(t, r.fails("CREATE TABLE dollars AS SELECT $$x$$ AS a").Message, "supports only strings in single quotes", "no other engine runs a write of Trino's")
}

func trinoEnds(t *testing.T, r trinoRig) {
	s := r.inTrino("SELECT n FROM UNNEST(sequence(1, 10000)) AS t(n)")
	s.MaxRows = 10
	rows, end := r.do(s)
	require.Nil(t, end.Error)
	require.Len(t, rows, 10)
	require.True(t, end.Truncated)
	r.changes("CREATE TABLE cut AS SELECT n FROM UNNEST(sequence(1, 10000)) AS t(n)")
	s = r.inTrino("SELECT n FROM cut")
	s.MaxRows = 10
	_, end = r.do(s)
	require.Nil(t, end.Error)
	require.Equal(t, []agent.StatementTable{{Database: "lake", Schema: "public", Table: "cut", Columns: []string{"n"}}}, named(end), "also of a result that is cut")

	const long = "SELECT count(*) FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS c(n) WHERE sin(a.n + b.n + c.n) > 2"
	s = r.inTrino(long)
	s.Timeout = agent.Duration(500 * time.Millisecond)
	_, end = r.do(s)
	require.Equal(t, agent.FaultTimeout, end.Error.Fault, end.Error.Message)

	s = r.inTrino("CREATE TABLE ended AS " + long)
	go func() {
		r.awaitRunning(s.ID)
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, r.engine.URL+fmt.Sprintf(agent.StatementPath, s.ID), nil)
		if err == nil {
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}()
	_, end = r.do(s)
	require.Equal(t, agent.FaultCancelled, end.Error.Fault, end.Error.Message)
	require.NotEmpty(t, r.fails("SELECT * FROM ended"), "nothing of it is there")
}

func trinoDatabases(t *testing.T, r trinoRig) {
	require.Equal(t, agent.FaultQuery, r.failsTrino("SELECT * FROM absent.public.x").Fault)
	s := r.inTrino("SELECT 1")
	s.Database = "absent"
	_, end := r.do(s)
	require.Contains(t, end.Error.Message, `There is no database "absent" here`)
}

func trinoErrors(t *testing.T, r trinoRig) {
	f := r.failsTrino("SELECT 1 +\n  * FROM x")
	require.Equal(t, agent.FaultQuery, f.Fault)
	require.Equal(t, []int{2, 3}, []int{f.Line, f.Column}, f.Message)
	require.False(t, strings.HasPrefix(f.Message, "line "), f.Message)
	require.Contains(t, r.failsTrino("SELECT * FROM absent").Message, "does not exist")
	require.Contains(t, r.failsTrino("SELECT 1 / 0").Message, "ivision by zero")
}

func trinoReads(t *testing.T, r trinoRig) {
	s := r.inTrino("CREATE TABLE never AS SELECT 1 AS n")
	s.Write = false
	_, end := r.do(s)
	require.Equal(t, agent.FaultForbidden, end.Error.Fault)
}

func trinoRaces(t *testing.T, r trinoRig) {
	r.changes("CREATE TABLE raced AS SELECT 0 AS n")
	const writers, each = 3, 2
	failed := make(chan *agent.StatementFailure, writers*each)
	for range writers {
		go func() {
			for range each {
				_, end := r.do(r.statement("UPDATE raced SET n = n + 1"))
				failed <- end.Error
			}
		}()
	}
	for range writers * each {
		require.Nil(t, <-failed)
	}
	require.Equal(t, []string{fmt.Sprint(writers * each)}, r.ok("SELECT n FROM raced"))
}
