package engine

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// refusedStatements returns statements of every kind that the engine refuses, hidden in every way
// that SQL allows.
func refusedStatements(t *testing.T) (all []string) {
	b, err := os.ReadFile("testdata/refused.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &all))
	require.NotEmpty(t, all)
	return all
}

// ways are escapes from the engine through a query: files, addresses, settings and the engine's own
// state.
var ways = []string{
	"read_csv('/etc/passwd')", "read_csv_auto('/etc/passwd')", "read_text('/etc/passwd')", "read_blob('/etc/passwd')", "read_parquet('/etc/passwd')", "parquet_scan('x')", "read_json('/etc/passwd')",
	"read_json_auto('x')", "read_json_objects('x')", "read_ndjson('x')", "read_ndjson_auto('x')", "read_ndjson_objects('x')", "read_avro('x')", "read_duckdb('x')", "sniff_csv('/etc/passwd')", "glob('/etc/*')",
	"parquet_metadata('x')", "parquet_schema('x')", "parquet_file_metadata('x')", "parquet_kv_metadata('x')", "parquet_full_metadata('x')", "parquet_bloom_probe('x', 'a', 1)", "iceberg_scan('x')",
	"iceberg_metadata('x')", "iceberg_snapshots('x')", "iceberg_to_ducklake('a', 'b')", "duckdb_secrets()", "duckdb_settings()", "duckdb_extensions()", "duckdb_functions()", "duckdb_databases()",
	"duckdb_memory()", "duckdb_temporary_files()", "duckdb_variables()", "duckdb_logs()", "query('SELECT 1')", "query_table('t')", "which_secret('s3://a', 's3')", "pragma_version()", "pragma_database_size()",
	"enable_logging()", "enable_profiling()", "checkpoint()", "sqlite_scan('x', 'y')", "postgres_scan('x', 'y', 'z')", "arrow_scan(1, 2, 3)", "json_execute_serialized_sql('x')", "test_all_types()",
	"READ_TEXT ('/etc/passwd')", "\"read_text\"('/etc/passwd')", "main.read_text('/etc/passwd')", "system.main.read_text('/etc/passwd')", "read_text/* x */('/etc/passwd')", "read_text -- x\n('/etc/passwd')",
	"read_text\u00a0('/etc/passwd')", "\"READ_text\" ( $$/etc/passwd$$ )", "histogram('/etc/passwd', a)", "U&\"read\\005ftext\"('/etc/passwd')",
	"'/etc/passwd'", "'/etc/passwd.csv'", "\"/etc/x.parquet\"", "'s3://bucket/x.parquet'", "\"http://127.0.0.1/x.csv\"", "'file:///etc/x.json'", "$$/etc/x.csv$$", "E'/etc/x.csv'", "lake.public.\"/etc/x.csv\"",
	"'x.parquet'", "\"x.csv\"", "o: 'x.parquet'", "\"o\": read_text('x')", "'o': main.duckdb_databases", "main.duckdb_databases", "o: duckdb_settings", "(SHOW TABLES)", "(DESCRIBE x)", "(DESC x)", "(SUMMARIZE x)", "duckdb_settings",
	"sql_auto_complete('SEL')", "json_serialize_plan('SELECT 1')", "information_schema.tables", "pg_catalog.pg_settings", "pg_settings", "sqlite_master", "duckdb_logs",
}

// places are the positions in a query where an escape may occur.
var places = []string{
	"SELECT * FROM %s", "FROM %s", "SELECT 1 FROM range(1) AS a, %s AS b", "SELECT 1 FROM range(1) r JOIN %s q ON true", "SELECT * FROM (FROM %s)", "SELECT (SELECT count(*) FROM %s)",
	"WITH a AS (FROM %s) FROM a", "WITH a AS MATERIALIZED (SELECT * FROM %s) SELECT * FROM a", "SELECT 1 WHERE EXISTS (FROM %s)", "EXPLAIN SELECT * FROM %s", "EXPLAIN ANALYZE FROM %s", "DESCRIBE SELECT * FROM %s",
	"SUMMARIZE FROM %s", "SELECT * FROM range(1) a LEFT JOIN LATERAL (FROM %s) ON true", "(((SELECT * FROM %s)))", "SELECT 1 UNION ALL FROM %s", "SELECT 1 FROM (range(1) a JOIN %s b ON true)",
	"INSERT INTO memory.main.t FROM %s", "CREATE TABLE memory.main.x AS FROM %s", "SELECT ARRAY(FROM %s)", "PIVOT %s ON a IN (1)", "SELECT [x FOR x IN [1]], q.* FROM %s q",
	"WITH a AS (WITH %s AS (SELECT 1) SELECT 1) FROM %s",
}

func TestRefusedStatements(t *testing.T) {
	s := serve(t, nil)
	for _, q := range refusedStatements(t) {
		f := s.do(s.statement(q)).end.Error
		require.NotNil(t, f, "%q", q)
		require.Equal(t, agent.FaultQuery, f.Fault, "%s: %s", q, f.Message)
		require.NotContains(t, f.Message, "nternal", q)
	}
	s.ok("SELECT 1")
}

// refusals are the engine's messages about escapes. DuckDB's parser refuses some of them in some
// positions.
var refusals = `is not run here|can be read as a table|belongs to the engine|cannot be part of another one|not read here|^Parser error|has three parts at most|is not in the workspace's storage|Table with name \S+ does not exist|with name "?(sqlite|postgres)_scan"? (is not in the catalog|does not exist)`

// Deep nesting is refused before it costs time, and types too deep for Arrow with their reason.
// Parentheses that only group are free.
func TestNesting(t *testing.T) {
	s := serve(t, nil)
	nest := func(open, inner, closing string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
	}
	for _, q := range []string{
		nest("[", "1", "]", 900), nest("list_value(", "1", ")", 900), nest("{'a': ", "1", "}", 900), nest("[(", "1", ")]", 500), nest("(SELECT [x] FROM ", "range(1) t(x)", ")", 900),
	} {
		f := s.fails("SELECT " + q + " IS NULL")
		require.Equal(t, agent.FaultQuery, f.Fault)
		require.Contains(t, f.Message, "nests deeper than 200 levels", q)
		require.NotZero(t, f.Column, q)
	}
	s.ok("SELECT " + nest("(", "1", ")", 900))
	s.ok("SELECT 1 WHERE " + nest("NOT (", "true", ")", 300) + " AND (" + nest("(", "true", " OR (false))", 300) + ")")
	s.ok("SELECT " + nest("[", "1", "]", 63))
	for _, open := range []string{"[", "{'a': "} {
		closing := map[string]string{"[": "]", "{'a': ": "}"}[open]
		require.Contains(t, s.fails("SELECT "+nest(open, "1", closing, 64)+" AS a").Message, "nests deeper than 63 levels")
	}
}

func TestNoWayOut(t *testing.T) {
	s := serve(t, nil)
	require.NoError(t, os.WriteFile(s.root+"x.csv", []byte("secret\n1\n"), 0o600))
	for _, q := range []string{
		"SELECT 1a$$, * FROM read_text('FILE') --$$", "SELECT $1a$$, * FROM read_text('FILE') --$$", "SELECT 1FROM 'FILE'", "SELECT 1 UNION ALL SELECT 1FROM 'FILE'", "SELECT E'a'\n'\\' ' , * FROM read_text('FILE') --'",
		"FROM o: 'FILE'", "SELECT 1 UNION ALL TABLE \"FILE\"", "SELECT 1 IN (WITH x AS (SELECT 1) FROM 'FILE')", "WITH c AS (FROM range(1) UNION ALL FROM 'FILE') FROM c", "FROM range(1) a JOIN range(1) b ON a.range = b.group, 'FILE'",
		"FROM range(1) AS sample, 'FILE'", "FROM VALUES (1) t(x), 'FILE'", "CREATE TABLE t AS SELECT 1 FROM (o: 'FILE')", "INSERT INTO t (TABLE 'FILE')", "INSERT INTO t SELECT 1 UNION TABLE \"FILE\"",
	} {
		q = strings.ReplaceAll(q, "FILE", s.prefix+"x.csv")
		f := s.fails(q)
		require.Equal(t, agent.FaultQuery, f.Fault, "%s: %s", q, f.Message)
		require.Regexp(t, refusals+"|Put a space between|is not continued", f.Message, q)
	}
	for _, way := range ways {
		for _, place := range places {
			q := strings.ReplaceAll(place, "%s", way)
			f := s.do(s.statement(q)).end.Error
			require.NotNil(t, f, q)
			require.Equal(t, agent.FaultQuery, f.Fault, "%s: %s", q, f.Message)
			require.Regexp(t, refusals, f.Message, q)
		}
	}
	s.ok("SELECT 1")
}

func TestAllowedStatements(t *testing.T) {
	s := serve(t, nil)
	for q, want := range map[string]string{
		"SELECT count(*) FROM unnest([1, 2, 3])":                                                           "3",
		"SELECT 'ATTACH ; SET x' || $$; DROP$$":                                                            "ATTACH ; SET x; DROP",
		"SELECT count(*) FROM range(3) -- ; ATTACH":                                                        "3",
		"SELECT /* ; SET /* x */ */ 1 ;;":                                                                  "1",
		"SELECT repeat('ab', 2)":                                                                           "abab",
		"SELECT extract(year FROM DATE '2020-01-01') + length(trim(BOTH '/' FROM '/a/'))":                  "2021",
		"SELECT (1 IS DISTINCT FROM 2)::VARCHAR || 'a/b.parquet'":                                          "truea/b.parquet",
		"SELECT count(*) FROM (VALUES ('s3://x/a.parquet'), ('/etc/b.csv')) v(p)":                          "2",
		"WITH read_csv AS (SELECT 1 AS a) SELECT a FROM read_csv":                                          "1",
		"WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f WHERE n < 5) SELECT max(n) FROM f": "5",
		"SELECT sum(value::INT) FROM json_each('[1,2]')":                                                   "3",
		"SELECT max(v) FROM (PIVOT (SELECT 'x' a, 3 v) ON a IN ('x') USING sum(v)) t(v)":                   "3",
	} {
		require.Equal(t, want, s.ok(q).value(t), q)
	}
}

func TestAReadMayNotWrite(t *testing.T) {
	s := serve(t, nil)
	for _, q := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE t (a INT)", "WITH a AS (SELECT 1) DELETE FROM t", "DROP SCHEMA x", "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE"} {
		st := s.statement(q)
		st.Write = false
		f := s.do(st).end.Error
		require.NotNil(t, f, q)
		require.Equal(t, agent.FaultForbidden, f.Fault, q)
	}
}

func TestPlacesOfErrors(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		query        string
		line, column int
	}{
		{"SELECT\n  'é', x FROM t", 2, 15},
		{"selec 1", 1, 1},
		{"SELECT 1,\n\n é.b FROM range(1)", 3, 2},
		{"SELECT\u00a0\u00a0nope", 1, 9},
		{"SELECT 1; SELECT 2", 1, 9},
		{"SELECT '日本語',\n\t'ü' || nosuch(1)", 2, 9},
		{"SELECT {'a': 1}, CAST('é' AS INTERVAL), CAST('x' AS INT)", 1, 18},
		{"SELECT INTERVAL 1 DAY,\n CAST('x' || range AS INT) FROM range(3)", 2, 2},
	} {
		f := s.fails(c.query)
		require.Equal(t, [2]int{c.line, c.column}, [2]int{f.Line, f.Column}, "%s: %s", c.query, f.Message)
	}
}

func TestAStatementTooLarge(t *testing.T) {
	s := serve(t, nil)
	require.Contains(t, s.fails("SELECT '"+strings.Repeat("x", 10<<20)+"'").Message, "bytes")
	require.Contains(t, s.ok("SELECT length('"+strings.Repeat("x", sqltext.MaxQuery-100)+"')").value(t), "104")
}

// A child runs no statement of another kind than its class, by the kind that DuckDB prepares.
func TestAChildBelievesNoClass(t *testing.T) {
	s := serve(t, nil)
	read := sqltext.Class{Kind: "SELECT", Query: true}
	for _, c := range []struct {
		query string
		class sqltext.Class
	}{
		{"ATTACH ':memory:' AS x", read},
		{"SELECT 1; ATTACH ':memory:' AS x", read},
		{"INSERT INTO t VALUES (1)", read},
		{"SET threads = 1", sqltext.Class{Kind: "EXPLAIN", Explain: true}},
		{"SELECT 1", sqltext.Class{}},
		{"ATTACH ':memory:' AS x", sqltext.Class{}},
	} {
		p, err := s.engine.pool.take(t.Context(), lockOf(s.statement("").Storage))
		require.NoError(t, err)
		end, err := p.run(duckdb.Statement{Statement: s.statement(c.query), Class: c.class}, func(agent.FrameKind, []byte) {})
		s.engine.pool.give(p)
		require.NoError(t, err)
		require.NotNil(t, end.Error, c.query)
		require.Equal(t, agent.FaultQuery, end.Error.Fault, "%s: %s", c.query, end.Error.Message)
	}
	s.ok("SELECT 1")
}
