package duckdb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// opened returns a DuckDB connection as a child opens it.
func opened(t testing.TB) (*database, *connection) {
	db, err := openDatabase(spawned.Options{Extensions: unpacked, Dir: t.TempDir(), Memory: 256 << 20, Threads: 1, TempLimit: 1 << 20})
	require.NoError(t, err)
	require.NoError(t, db.lock(agent.Storage{Prefix: "file://" + t.TempDir() + "/"}))
	c, err := db.take()
	require.NoError(t, err)
	t.Cleanup(func() {
		c.close()
		for _, c := range db.connections {
			c.close()
		}
		duckdb.Close(&db.handle)
	})
	return db, c
}

// corpus are queries that name the tables a, b and c in every position of a table.
var corpus = []string{
	"FROM a", "SELECT * FROM a, b", "FROM a x, b AS y, c z(q)", "FROM x: a, y: b", "TABLE a", "SELECT 1 UNION ALL TABLE a", "FROM a UNION FROM b EXCEPT FROM c", "(TABLE a) INTERSECT (TABLE b)", "FROM (a JOIN b USING (i))",
	"FROM a JOIN b USING (i), c", "FROM a NATURAL JOIN b", "FROM a ASOF JOIN b ON a.i >= b.i", "FROM a SEMI JOIN b USING (i) ANTI JOIN c USING (i)", "FROM a POSITIONAL JOIN b", "FROM a CROSS JOIN (FROM b)", "FROM a, LATERAL (SELECT a.i) q, b",
	"SELECT (FROM a), ARRAY(FROM b), EXISTS (FROM c)", "SELECT i IN (FROM a), i = ANY (FROM b)", "WITH x AS (FROM a), y AS MATERIALIZED (FROM b) FROM x, y", "WITH x AS (FROM a UNION ALL FROM b) FROM x", "FROM (WITH x AS (FROM a) FROM x), b",
	"SELECT 1 IN (WITH x AS (SELECT 1) FROM a)", "SELECT extract(year FROM d), trim(BOTH 'x' FROM s), substring(s FROM 1 FOR 2) FROM a", "SELECT i IS DISTINCT FROM j FROM a", "FROM a JOIN b ON a.\"i\" = b.group, c", "FROM a AS sample, b",
	"FROM a sample, b", "FROM a USING SAMPLE 10%", "FROM a TABLESAMPLE 10%, b", "FROM VALUES (1), (2) t(x), a", "FROM (VALUES (1), (2)) t(x), a", "PIVOT a ON i IN (1)", "PIVOT (a JOIN b USING (i)) ON i IN (1) USING sum(j)", "UNPIVOT a ON i, j INTO NAME n VALUE v",
	"FROM a PIVOT (sum(i) FOR j IN (1, 2)), b", "FROM a UNPIVOT (v FOR n IN (i, j)), b", "SELECT 1 AS from, 2 AS select FROM a", "SELECT i: 1 FROM a", "FROM a SELECT i ORDER BY i DESC, j", "SELECT sum(i) OVER (PARTITION BY j ORDER BY k DESC) FROM a, b",
	"SELECT i FROM a WINDOW w AS (ORDER BY i), b AS (ORDER BY j) UNION ALL FROM b", "FROM a WHERE [x FOR x IN (FROM b)] = [1, c]", "FROM a JOIN b ON a.i IN [1, 2], c", "SELECT {'a': (FROM b), 'c': 1} FROM a", "FROM ONLY a", "FROM a x AT (VERSION => 1), b",
	"DESCRIBE a", "DESCRIBE SELECT * FROM a, b", "SUMMARIZE a", "SUMMARIZE FROM a, b", "SHOW a", "FROM a GROUP BY ALL HAVING i IN (FROM b) ORDER BY (FROM c)", "FROM p.a, q.r.b", "SELECT a.*, COLUMNS('x') FROM a", "FROM a LIMIT (SELECT count(*) FROM b)",
	"WITH a AS (SELECT * FROM a) FROM a", "WITH RECURSIVE a AS (SELECT 1 UNION ALL FROM a) FROM a", "FROM ((FROM a) UNION ALL FROM b)", "SELECT i FROM a QUALIFY row_number() OVER (ORDER BY i) = (FROM b)", "FROM a x(i, j), b y(k)", "FROM range(3) r, a",
	"SELECT CASE WHEN i IN (FROM a) THEN (FROM b) END", "SELECT list(i ORDER BY j DESC) FILTER (WHERE i IN (FROM b)) FROM a", "SELECT * EXCLUDE (i) REPLACE (j + 1 AS j) FROM a, b", "FROM if, tables, databases, \"set\"", "FROM query_a a, b", "FROM (FROM a) AS values, b",
	"SELECT x -> x + 1 FROM a, b", "SELECT lambda x: x + 1 FROM a", "SELECT list_transform([1], lambda x: x + 1) FROM a, b", "SELECT a::INT, b[1:2], c.d.e FROM a, b, c", "SELECT '1'::STRUCT(i INT) FROM a", "SELECT DISTINCT ON (i) j FROM a, b",
}

// The tokenizer finds the same tables at the same positions as DuckDB's parser.
func TestTheSameTablesAsDuckDB(t *testing.T) {
	db, c := opened(t)
	e := &execution{child: &child{db: db}, conn: c, s: &agent.Statement{}}
	for _, q := range corpus {
		all := sqltext.Tokens(q)
		found := sqltext.TableRefs(all)
		require.NoError(t, e.checkRead(q, 0, all, found), q)
		var tables []sqltext.TableRef
		for _, m := range found {
			if !m.Call {
				tables = append(tables, m)
			}
		}
		for i := range tables {
			require.Error(t, e.checkRead(q, 0, all, slices.Delete(slices.Clone(tables), i, i+1)), "%s names %s", q, tables[i].Parts)
		}
	}
	require.ErrorContains(t, e.checkRead("FROM a", 0, nil, nil), "named here in a form")
}

// The syntax tree alone holds each fence of a read, wherever what it forbids stands.
func TestWhatAReadMayNotDo(t *testing.T) {
	db, c := opened(t)
	e := &execution{child: &child{db: db}, conn: c, s: &agent.Statement{Catalog: agent.Catalog{Databases: []string{"lake"}}}}
	for query, why := range map[string]string{
		"SELECT 1; SELECT 2": "more than one", "PIVOT a ON i": "needs the values", "INSERT INTO a VALUES (1)": "kind of statement", "SET threads = 1": "kind of statement", "SELECT 1 FROM": "syntax error",
		"FROM (SHOW TABLES)": "cannot be part of another one", "FROM (DESCRIBE a)": "cannot be part of another one", "SELECT (FROM (SUMMARIZE a))": "cannot be part of another one",
		"SELECT * FROM read_text('x')": "read_text", "FROM x.main.read_csv('x')": "read_csv", "FROM a, glob('/*')": "glob", "FROM query('SELECT 1')": "query", "FROM histogram('x', a)": "histogram", "FROM duckdb_settings()": "duckdb_settings",
		"SELECT getenv('x')": "getenv", "SELECT GETENV('x') OVER ()": "getenv", "SELECT 1 ORDER BY getenv('x')": "getenv", "FROM a LIMIT getenv('x')": "getenv", "FROM a AT (VERSION => getenv('x'))": "getenv",
		"SELECT list_transform([1], x -> current_setting('x'))": "current_setting", "SELECT DISTINCT ON (getvariable('x')) 1": "getvariable", "FROM (VALUES (nextval('q')))": "nextval",
		"FROM 'x.csv'": "read as a table", "FROM \"/etc/x\"": "read as a table", "DESCRIBE 's3://a/b'": "read as a table", "FROM o: 'x'": "read as a table",
		"FROM duckdb_tables": "belongs to the engine", "DESCRIBE memory.main.a": "belongs to the engine", "FROM information_schema.tables": "belongs to the engine", "FROM lake.a": "name its schema too", "FROM lake.a.b.c": "three parts",
	} {
		all := sqltext.Tokens(query)
		require.ErrorContains(t, e.checkRead(query, 0, all, sqltext.TableRefs(all)), why, query)
	}
}

// A function that a new DuckDB version adds must be allowed or forbidden explicitly.
func TestFunctionsOfDuckDB(t *testing.T) {
	_, c := opened(t)
	names, err := c.strings("SELECT DISTINCT lower(function_name) || ' ' || function_type FROM duckdb_functions() WHERE regexp_matches(function_name, '^[a-zA-Z_]') ORDER BY 1")
	require.NoError(t, err)
	got := strings.Join(names, "\n") + "\n"
	path := filepath.Join("testdata", "functions.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "read what is new, forbid in database.go what reads files, settings or runs SQL, and write the list with UPDATE_GOLDEN=1")
}

// A text that is one statement by its tokens is at most one statement for DuckDB.
func FuzzTokens(f *testing.F) {
	_, c := opened(f)
	var refused []string // by the engine
	b, err := os.ReadFile("../testdata/refused.json")
	require.NoError(f, err)
	require.NoError(f, json.Unmarshal(b, &refused))
	for _, q := range slices.Concat(corpus, refused) {
		f.Add(q)
	}
	for _, q := range []string{"SELECT 1;SELECT 2", "SELECT ';' /* ; */ -- ;", "SELECT $$;$$", "SELECT $a$;$a$;", "SELECT e'\\';'", "SELECT 1e';'", "SELECT \";\"", "SELECT x';'';'", "SELECT $é$;$é$", "SELECT 1_a$;$", "SELECT 'a'\n';'", "SELECT /*/*;*/;*/1"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		q = sqltext.PlainSpace(q)
		if len(q) > 1000 || strings.Count(q, "(") > 100 {
			return
		}
		if _, err := sqltext.Classify(q); err != nil {
			return
		}
		n, err := c.count(q)
		if err == nil && n > 1 && !strings.Contains(strings.ToLower(q), "pivot") {
			t.Fatalf("%q is %d statements", q, n)
		}
	})
}
