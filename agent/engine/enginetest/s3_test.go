package enginetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/store/objects/s3test"
)

// TestS3 writes and reads tables on a real S3 server, only below the workspace's prefix.
func TestS3(t *testing.T) {
	server := s3test.Start(t)
	other := filepath.Join(filepath.Dir(server.Dir), "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	var o overtaken
	r := newRigWith(t, rigOptions{lake: server.URL("some/prefix"), between: o.between})
	require.NotNil(t, r.storage.S3)
	r.changes("CREATE TABLE t (a BIGINT, b VARCHAR)")
	require.EqualValues(t, 3, r.changes("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')"))
	r.changes("CREATE TABLE u AS SELECT range AS n, 'row ' || range AS s FROM range(100000)")
	require.Equal(t, []string{"4999950000|100000"}, r.ok("SELECT sum(n), count(DISTINCT s) FROM u"))
	require.EqualValues(t, 1, r.changes("UPDATE t SET b = 'u' WHERE a = 2"))
	require.EqualValues(t, 1, r.changes("DELETE FROM t WHERE a = 3"))
	require.EqualValues(t, 2, r.changes("MERGE INTO t USING (VALUES (1, 'm'), (9, 'n')) s(a, b) USING (a) WHEN MATCHED THEN UPDATE SET b = s.b WHEN NOT MATCHED THEN INSERT"))
	require.Equal(t, []string{"1|m", "2|u", "9|n"}, r.ok("FROM t ORDER BY a"))
	_, end := r.do(r.statement("SELECT sum(n) FROM u WHERE s <> ''"))
	require.Nil(t, end.Error)
	require.Len(t, end.Scans, 1)
	require.Equal(t, []string{"n", "s"}, end.Scans[0].Columns)
	require.NotEmpty(t, files(t, server.Dir, "*.parquet"), "the tables lie in the bucket")

	r.changes("CREATE TABLE log (a BIGINT)")
	tried := o.whileOvertaken(func(n int) {
		if n == 0 {
			require.EqualValues(t, 1, r.changes("INSERT INTO log VALUES (1)"))
		}
	}, func() { require.EqualValues(t, 1, r.changes("INSERT INTO log VALUES (2)")) })
	require.Len(t, tried, 3)
	require.Equal(t, tried[0], tried[2], "an append that lost its race is rebased")
	require.Equal(t, []string{"1", "2"}, r.ok("FROM log ORDER BY a"))

	// The catalog is changed to name files elsewhere; the child's own limits stay.
	read := r.statement("FROM t")
	read.Storage = r.other
	_, end = r.do(read)
	require.NotNil(t, end.Error, "a child of one workspace reads no file of another, although its keys open the bucket")
	require.Contains(t, end.Error.Message, "is not in the workspace's storage")
	write := r.statement("INSERT INTO t VALUES (4, 'q')")
	write.Storage = r.other
	_, end = r.do(write)
	require.NotNil(t, end.Error)
	elsewhere := r.statement("FROM t")
	elsewhere.Storage.Prefix = "s3://other/"
	_, end = r.do(elsewhere)
	require.NotNil(t, end.Error, "nor of another bucket")
	require.Equal(t, []string{"1|m", "2|u", "9|n"}, r.ok("FROM t ORDER BY a"))

	wrong := r.statement("FROM t")
	wrong.Storage.S3 = new(*r.storage.S3)
	wrong.Storage.S3.SecretKey = "wrong"
	_, end = r.do(wrong)
	require.NotNil(t, end.Error)
	require.Equal(t, agent.FaultEngine, end.Error.Fault)
	require.NotContains(t, end.Error.Message, server.Secret)
}

// files returns the files below dir with matching names.
func files(t testing.TB, dir, pattern string) (found []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, filepath.Base(path)); ok && err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	}))
	return found
}
