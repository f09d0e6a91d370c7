package duckdb

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
)

// TestTheLockHoldsByItself runs the escapes in a child's DuckDB without the checks of the text.
func TestTheLockHoldsByItself(t *testing.T) {
	root := t.TempDir() + "/"
	dir := t.TempDir()
	db, err := openDatabase(spawned.Options{Extensions: unpacked, Dir: dir, Memory: 256 << 20, Threads: 1, TempLimit: 1 << 20})
	require.NoError(t, err)
	require.NoError(t, db.lock(agent.Storage{Prefix: "file://" + root}))
	c, err := db.take()
	require.NoError(t, err)
	for _, q := range []string{
		"FROM read_text('/etc/passwd')", "FROM read_csv('/etc/passwd')", "FROM read_blob('/proc/self/environ')", "FROM '/etc/passwd.csv'", "COPY (SELECT 1) TO '" + dir + "/x.csv'", "COPY (SELECT 1) TO '/tmp/millpond-x.csv'",
		"ATTACH '/tmp/millpond-x.db' AS x", "FROM read_text('" + root + "../x')", "FROM read_text('http://127.0.0.1:1/x')", "FROM read_parquet('s3://other/x.parquet')", "LOAD '" + unpacked + "/other.duckdb_extension'",
		"SET threads = 2", "SET enable_external_access = true", "SET allowed_directories = ['/']", "CREATE PERSISTENT SECRET s (TYPE s3)", "INSTALL spatial", "FROM read_text('" + unpacked + "/avro.duckdb_extension')",
	} {
		require.Error(t, c.exec(q), q)
	}
	require.NoError(t, c.exec("COPY (SELECT 1) TO '"+root+"x.csv'"), "the workspace's own storage is open")
	c.close()
	for _, c := range db.connections {
		c.close()
	}
}
