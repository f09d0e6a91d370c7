package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/trino"
)

// javas returns the Trino processes with files below a directory, by node name.
func javas(t testing.TB, dir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		for _, arg := range strings.Split(string(b), "\x00") {
			node, ok := strings.CutPrefix(arg, "-Dconfig="+dir+"/")
			if !ok {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			found[strings.TrimSuffix(node, "/etc/config.properties")] = pid
		}
	}
	return found
}

// TestTrinoCluster checks a warehouse of three nodes. A killed worker is replaced and fails only
// the statements that it ran. Leaving and joining nodes do not interrupt statements. A cluster that
// needs more nodes than at its start restarts when idle.
func TestTrinoCluster(t *testing.T) {
	o := withTrino(t)
	o.Trino.Memory = 3 * trino.MinMemory
	rig := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: o})
	r := trinoRig{rig}
	e := r.engineOf
	e.Configure(agent.WarehouseSettings{Nodes: 1, TrinoStart: agent.StartWithWarehouse, Storage: r.storage.Prefix})
	r.awaitNodes(1)
	e.Configure(agent.WarehouseSettings{Nodes: 3, TrinoStart: agent.StartWithWarehouse, Storage: r.storage.Prefix}) // the idle cluster divides its memory again
	r.awaitNodes(3)
	r.changes("CREATE TABLE many AS SELECT n, n % 7 AS k FROM UNNEST(sequence(1, 10000)) AS t(n) CROSS JOIN UNNEST(sequence(1, 10)) AS u(m)")
	const sum = "SELECT count(*), sum(n), count(DISTINCT k) FROM many"
	want := r.ok(sum)
	require.Equal(t, want, r.okTrino(sum))

	nodes := javas(t, filepath.Join(e.Dir(), "trino"))
	require.Len(t, nodes, 3)
	for name, pid := range nodes {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		require.NoError(t, err)
		require.Contains(t, string(maps), o.Trino.Installation.StartupCache, "%s starts from the cache", name)
	}
	for name, pid := range nodes {
		if name != "coordinator" {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			break
		}
	}
	r.awaitNodes(2)
	r.awaitNodes(3)
	require.Equal(t, want, r.okTrino(sum))

	over := make(chan agent.StatementEnd)
	s := r.inTrino("INSERT INTO many SELECT a.n, b.m FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 200)) AS b(m) WHERE sin(a.n + b.m) > -2")
	go func() {
		_, end := r.do(s)
		over <- end
	}()
	r.awaitRunning(s.ID)
	e.Configure(agent.WarehouseSettings{Nodes: 1, TrinoStart: agent.StartWithWarehouse, Storage: r.storage.Prefix})
	end := <-over
	require.Nil(t, end.Error, "%+v", end.Error)
	require.EqualValues(t, 2_000_000, end.Rows)
	r.awaitNodes(1)
	require.Equal(t, []string{"2100000"}, r.okTrino("SELECT count(*) FROM many"))
	r.awaitCluster(func(e agent.Engine) bool { return e.Message == "" })
	for name := range javas(t, filepath.Join(e.Dir(), "trino")) {
		require.Equal(t, "coordinator", name)
	}
	left, err := filepath.Glob(filepath.Join(e.Dir(), "trino", "worker-*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left of nodes that are gone")

	first := javas(t, filepath.Join(e.Dir(), "trino"))["coordinator"]
	e.Configure(agent.WarehouseSettings{Nodes: 2, TrinoStart: agent.StartWithWarehouse, Storage: r.storage.Prefix})
	r.awaitNodes(2)
	require.Equal(t, first, javas(t, filepath.Join(e.Dir(), "trino"))["coordinator"], "it comes back to what its memory was divided among")
}

// awaitNodes waits until this many nodes of Trino accept work.
func (r trinoRig) awaitNodes(n int) {
	r.t.Helper()
	r.awaitCluster(func(e agent.Engine) bool { return e.Nodes == n && e.State == agent.EngineRunning })
}

func (r trinoRig) awaitCluster(is func(agent.Engine) bool) {
	r.t.Helper()
	for {
		for _, e := range r.engineOf.Engines() {
			if e.Name == engine.TrinoName && is(e) {
				return
			}
			require.NotEqual(r.t, agent.EngineFailed, e.State, fmt.Sprint(e.Message))
		}
		<-r.engineOf.Changed()
	}
}
