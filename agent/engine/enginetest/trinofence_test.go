package enginetest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// With tables that are files, Trino opens only the workspace's files, whatever their metadata
// names. It works with all rights of Landlock's first version.
func trinoFence(t *testing.T, r trinoRig) {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		t.Skipf("this kernel has no Landlock (%v): that Trino cannot leave the workspace is not proven here", errno)
	}
	r.changes("CREATE TABLE fenced AS SELECT 1 AS n")
	r.changes("INSERT INTO fenced VALUES (2), (3)")
	r.changes("UPDATE fenced SET n = 5 WHERE n = 2")
	r.changes("DELETE FROM fenced WHERE n = 1")
	require.Equal(t, []string{"3", "5"}, r.okTrino("SELECT n FROM fenced ORDER BY n"))

	asked := atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer web.Close()
	decoy := strings.Replace(web.URL, "127.0.0.1", "localhost", 1) // the rig refuses addresses with 127.0.0.1 in errors
	path := func(uri string) string { return strings.TrimPrefix(uri, "file://") }
	outside := t.TempDir()
	ours := r.storage.Prefix
	for name, to := range map[string]string{
		"same": ours, "theirs": r.other.Prefix, "outside": "file://" + outside + "/", "dots": ours + "../dots/", "http": decoy + "/", "https": "https" + strings.TrimPrefix(decoy, "http") + "/",
	} {
		r.inDuckDB("CREATE TABLE " + name + " AS SELECT 7 AS n")
		r.forge(path, name, to)
		if name == "same" {
			require.Equal(t, []string{"7"}, r.okTrino("SELECT * FROM "+name), "a manifest is read that was written again")
			continue
		}
		require.NotEmpty(t, r.failsTrino("SELECT * FROM "+name).Message, name)
		r.okTrino("DELETE FROM fenced WHERE n = 99")
	}
	require.Zero(t, asked.Load(), "no request is sent")

	r.inDuckDB("CREATE TABLE linked AS SELECT 7 AS n")
	tables, err := filepath.Glob(filepath.Join(path(ours), "*/*-linked"))
	require.NoError(t, err)
	for _, f := range files(t, tables[0], "*.parquet") {
		moved := filepath.Join(outside, filepath.Base(f))
		require.NoError(t, os.Rename(f, moved))
		require.NoError(t, os.Symlink(moved, f))
	}
	require.NotEmpty(t, r.failsTrino("SELECT * FROM linked").Message)
	require.Equal(t, []string{"3", "5"}, r.okTrino("SELECT n FROM fenced ORDER BY n"))

	s := r.inTrino("SELECT * FROM fenced")
	s.Storage = r.other
	_, end := r.do(s)
	require.NotNil(t, end.Error)
	require.Contains(t, end.Error.Message, "another storage")
}

// Without Landlock in the kernel, a statement for Trino is refused and no other engine runs it.
func TestTrinoWithoutFence(t *testing.T) {
	options := withTrino(t)
	options.Trino.MaxABI, options.Trino.Unfenced = -1, false
	r := trinoRig{newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: options})}
	r.inDuckDB("CREATE TABLE t AS SELECT 1 AS n")
	for _, failure := range []*agent.StatementFailure{r.fails("INSERT INTO t VALUES (2)"), r.fails("CREATE TABLE u AS SELECT 1 AS n"), r.failsTrino("SELECT * FROM t")} {
		require.Equal(t, agent.FaultQuery, failure.Fault, "to run it again is of no use")
		require.Contains(t, failure.Message, "no Landlock")
		require.Contains(t, failure.Message, "--trino-may-open-host-files")
		require.False(t, failure.Unsure)
	}
	require.Equal(t, []string{"1"}, r.ok("SELECT n FROM t"))
}
