package iceberg_test

import (
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// duck is DuckDB with its Iceberg extension.
type duck struct {
	t  *testing.T
	db *sql.Conn
}

func newDuck(t *testing.T) *duck {
	t.Helper()
	db, err := sql.Open("duckdb", "?allow_unsigned_extensions=false")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	d := &duck{t, conn}
	dir := t.TempDir()
	for _, name := range []string{"avro", "httpfs", "iceberg"} {
		d.exec("LOAD '" + extension(t, dir, name) + "'")
	}
	t.Chdir(t.TempDir()) // the extension creates directories in the working directory
	return d
}

// extension unpacks an extension that the engine embeds.
func extension(t *testing.T, dir, name string) string {
	t.Helper()
	packed, err := os.Open(filepath.Join("../../agent/engine/extensions", runtime.GOOS+"_"+runtime.GOARCH, name+".duckdb_extension.gz"))
	if err != nil {
		t.Fatalf("DuckDB's extensions are not here: run scripts/extensions.sh, as make does (%v)", err)
	}
	defer func() { _ = packed.Close() }()
	z, err := gzip.NewReader(packed)
	require.NoError(t, err)
	path := filepath.Join(dir, name+".duckdb_extension")
	out, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.Copy(out, z)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return path
}

func (d *duck) exec(statements ...string) {
	d.t.Helper()
	for _, s := range statements {
		_, err := d.db.ExecContext(d.t.Context(), s)
		require.NoError(d.t, err, s)
	}
}

// rows returns the rows of a query, each as text.
func (d *duck) rows(query string) []string {
	d.t.Helper()
	found, err := d.db.QueryContext(d.t.Context(), query)
	require.NoError(d.t, err, query)
	defer func() { _ = found.Close() }()
	columns, err := found.Columns()
	require.NoError(d.t, err)
	all := []string{}
	for found.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(d.t, found.Scan(into...))
		all = append(all, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	require.NoError(d.t, found.Err(), query)
	return all
}

// TestDuckDB reads and writes with DuckDB's own extension: tables, nested namespaces, all kinds of
// changes, and transactions over several tables.
func TestDuckDB(t *testing.T) {
	python := pyIceberg(t)
	w := newWorld(t)
	d := newDuck(t)
	d.exec(
		"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '"+w.url+"', TOKEN '"+w.ours.key+"', SUPPORT_NESTED_NAMESPACES true)",
		"CREATE SCHEMA lake.duck",
		"CREATE TABLE lake.duck.people (id BIGINT, name VARCHAR, seen TIMESTAMP, amount DECIMAL(38, 10))",
		"INSERT INTO lake.duck.people SELECT i, 'n' || i, TIMESTAMP '2024-01-01' + i * INTERVAL 1 DAY, i * 1.5 FROM range(10) t(i)",
	)
	require.Equal(t, []string{"10 45"}, d.rows("SELECT count(*), sum(id)::BIGINT FROM lake.duck.people"))
	d.exec("UPDATE lake.duck.people SET name = 'changed' WHERE id = 3", "DELETE FROM lake.duck.people WHERE id >= 8")
	require.Equal(t, []string{"8 28"}, d.rows("SELECT count(*), sum(id)::BIGINT FROM lake.duck.people"))
	d.exec("MERGE INTO lake.duck.people p USING (SELECT 1::BIGINT AS id, 'merged' AS name UNION ALL SELECT 100, 'new') n ON p.id = n.id " +
		"WHEN MATCHED THEN UPDATE SET name = n.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (n.id, n.name)")
	require.Equal(t, []string{"1 merged", "3 changed", "100 new"}, d.rows("SELECT id, name FROM lake.duck.people WHERE name NOT LIKE 'n_' ORDER BY id"))
	d.exec("ALTER TABLE lake.duck.people ADD COLUMN score DOUBLE", "INSERT INTO lake.duck.people (id, score) VALUES (101, 0.5)")
	require.Equal(t, []string{"0.5"}, d.rows("SELECT score FROM lake.duck.people WHERE score IS NOT NULL"))

	d.exec("CREATE TABLE lake.duck.a (id INTEGER)", "CREATE TABLE lake.duck.b (id INTEGER)",
		"BEGIN", "INSERT INTO lake.duck.a VALUES (1)", "INSERT INTO lake.duck.b VALUES (2)", "COMMIT",
		"BEGIN", "INSERT INTO lake.duck.a VALUES (10)", "INSERT INTO lake.duck.b VALUES (20)", "ROLLBACK")
	require.Equal(t, []string{"1 2"}, d.rows("SELECT a.id, b.id FROM lake.duck.a, lake.duck.b"))
	d.exec("CREATE TABLE lake.duck.made AS SELECT 42 AS answer")
	require.Equal(t, []string{"42"}, d.rows("SELECT answer FROM lake.duck.made"))

	w.schema(w.ours, "duck", "deep")
	d.exec("DETACH lake", "ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '"+w.url+"', CLIENT_ID 'ci', CLIENT_SECRET '"+w.ours.key+
		"', OAUTH2_SERVER_URI '"+w.url+"/v1/oauth/tokens', SUPPORT_NESTED_NAMESPACES true)",
		`CREATE TABLE lake."duck.deep".nested (id INTEGER)`, `INSERT INTO lake."duck.deep".nested VALUES (7)`)
	require.Equal(t, []string{"7"}, d.rows(`SELECT id FROM lake."duck.deep".nested`))
	require.Equal(t, 204, w.call(w.ours.viewer, "HEAD", w.ns(w.ours, "/duck%1Fdeep/tables/nested"), nil).status)
	tables := d.rows("SELECT schema || '.' || name FROM (SHOW ALL TABLES) WHERE database = 'lake' ORDER BY 1")
	require.Equal(t, []string{"duck.a", "duck.b", "duck.deep.nested", "duck.made", "duck.people"}, tables)
	d.exec("DROP TABLE lake.duck.made")
	require.Equal(t, 404, w.call(w.ours.viewer, "HEAD", w.ns(w.ours, "/duck/tables/made"), nil).status)

	// Samples hold the position deletes that DuckDB has written, whose format it writes as
	// "parquet".
	people, err := w.catalog.Table(t.Context(), w.ours.scope, lake.Ref{Database: "lake", Schema: "duck", Name: "people"}, lake.KindTable)
	require.NoError(t, err)
	sampled, err := w.catalog.Sample(t.Context(), w.ours.scope, people.ID, 100)
	require.NoError(t, err)
	var ids []string
	for _, row := range sampled.Rows {
		ids = append(ids, fmt.Sprint(row[0], " ", row[1]))
	}
	require.ElementsMatch(t, []string{"0 n0", "1 merged", "2 n2", "3 changed", "4 n4", "5 n5", "6 n6", "7 n7", "100 new", "101 <nil>"}, ids)

	// Other clients see what DuckDB wrote. Plain iceberg-go 0.7.0 reads no position deletes of
	// DuckDB: it distinguishes the formats "parquet" and "PARQUET".
	tbl, err := w.goClient(t, w.ours.key).LoadTable(t.Context(), []string{"duck", "a"})
	require.NoError(t, err)
	require.Equal(t, int64(1), tbl.CurrentSnapshot().Summary.Properties.GetInt64("total-records", 0))
	const read = `import sys; from pyiceberg.catalog import load_catalog
c = load_catalog("x", type="rest", uri=sys.argv[1], warehouse="lake", token=sys.argv[2])
print(sorted(c.load_table("duck.people").scan().to_arrow()["id"].to_pylist()))`
	out, err := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", read, w.url, w.ours.key).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "[0, 1, 2, 3, 4, 5, 6, 7, 100, 101]\n", string(out))

	_, err = d.db.ExecContext(t.Context(), "ATTACH 'lake' AS other (TYPE iceberg, ENDPOINT '"+w.url+"', TOKEN 'wrong')")
	require.Error(t, err)
	require.NotContains(t, w.logged.String(), "request failed")
	require.NotContains(t, w.logged.String(), "panicked")
}
