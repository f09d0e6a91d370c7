package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
)

// maintainer waits for the process of this engine that maintains a table, and returns it.
func (r *rig) maintainer() int {
	t := r.t
	t.Helper()
	for {
		dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, path := range dirs {
			line, _ := os.ReadFile(path)
			at, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
			if !bytes.HasSuffix(line, []byte(engine.MaintainCommand+"\x00")) || !strings.HasPrefix(at, r.engineOf.Dir()+"/") {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
			if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.Fields(rest)[1] == strconv.Itoa(os.Getpid()) {
				return pid
			}
		}
		require.NoError(t, t.Context().Err())
	}
}

// Maintenance that is ended at any time, in any way, leaves the table in its old or its new state.
func TestMaintenanceThatIsEnded(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between})
	r.changes("CREATE TABLE ended (id BIGINT, s VARCHAR)")
	for i := range 4 {
		r.changes(fmt.Sprintf("INSERT INTO ended SELECT i, 'row ' || i FROM range(%d, %d) t(i)", i*300_000, (i+1)*300_000))
	}
	const sum = "SELECT count(*), sum(id), count(DISTINCT s) FROM ended"
	want := r.ok(sum)
	const query = "ALTER TABLE ended EXECUTE optimize"
	cancelled := r.statement(query)
	started := time.Now()
	go func() {
		r.awaitRunning(cancelled.ID)
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, r.engine.URL+fmt.Sprintf(agent.StatementPath, cancelled.ID), nil)
		if err == nil {
			started = time.Now()
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}()
	_, end := r.do(cancelled)
	require.NotNil(t, end.Error)
	require.Equal(t, agent.FaultCancelled, end.Error.Fault, end.Error.Message)
	require.Less(t, time.Since(started), 2*time.Second)
	require.Equal(t, want, r.ok(sum))

	killed := r.statement(query)
	go func() {
		r.awaitRunning(killed.ID)
		_ = syscall.Kill(r.maintainer(), syscall.SIGKILL)
	}()
	_, end = r.do(killed)
	require.NotNil(t, end.Error)
	require.Equal(t, want, r.ok(sum))

	b.spoil(func(_ http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		_ = syscall.Kill(r.maintainer(), syscall.SIGKILL)
		b.spoil(nil)
	})
	_, end = r.do(r.statement(query))
	require.NotNil(t, end.Error)
	require.True(t, end.Error.Unsure, end.Error.Message)
	require.Equal(t, want, r.ok(sum), "it was committed")
	require.Zero(t, r.metrics(query)["rewritten_data_files"])

	timed := r.statement("ALTER TABLE ended EXECUTE remove_orphan_files")
	timed.Timeout = agent.Duration(time.Nanosecond)
	_, end = r.do(timed)
	require.Equal(t, agent.FaultTimeout, end.Error.Fault)
}
