package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// engineRow is an engine of a warehouse.
type engineRow struct {
	Name, Version, State, Message string
	Nodes                         int
}

type warehouseRow struct {
	ID, State   string
	WriteEngine string `json:"write_engine"`
	Nodes       int
	Engines     []engineRow
}

// trinoOf returns the Trino of a warehouse as the API shows it.
func trinoOf(p *harness.Platform, warehouse string) (found engineRow) {
	p.T.Helper()
	var w warehouseRow
	p.Must(http.MethodGet, "/sql/warehouses/"+warehouse, nil, &w)
	for _, e := range w.Engines {
		if e.Name == "trino" {
			return e
		}
	}
	return found
}

// javas returns the processes of the platform's Trinos.
func javas(p *harness.Platform) (pids []int) {
	for _, pr := range harness.AllProcesses() {
		if strings.Contains(pr.Command, "io.trino.server.TrinoServer\x00") && strings.Contains(pr.Command, p.Dir+"/") {
			pids = append(pids, pr.PID)
		}
	}
	return pids
}

// TestTrinoOnAWarehouse covers the life of a warehouse that writes with Trino. The first write
// starts Trino, and the statement says so. In both engines, lineage lists what a statement used.
// Trino ends with its agent or its warehouse. The reported outcome of a statement matches the table.
func TestTrinoOnAWarehouse(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: append(harness.WithTrino(t), "--no-samples")})
	var w warehouseRow
	p.Must(http.MethodPost, "/sql/warehouses", map[string]any{"name": "writes", "size": "cpu.1"}, &w)
	require.Equal(t, "trino", w.WriteEngine, "Trino is installed here")
	on := func(query string, more ...any) harness.Result {
		return p.SQL(query, append(more, "warehouse_id", "writes")...)
	}
	ok := func(query string, more ...any) harness.Result {
		t.Helper()
		r := on(query, more...)
		require.Equal(t, http.StatusOK, r.Status, "%s: %s", query, r.Raw)
		return r
	}

	require.Equal(t, "duckdb", ok("SELECT 1").Engine)
	require.Equal(t, engineRow{Name: "trino", Version: "476", State: "stopped"}, trinoOf(p, w.ID))
	require.Empty(t, javas(p))

	first := on("CREATE TABLE t AS SELECT 1 AS n", "wait_timeout", "0s")
	require.Equal(t, http.StatusAccepted, first.Status)
	harness.Await(t, "the statement waits for Trino", func() bool {
		return strings.Contains(p.Statement(first.StatementID).Message, "Waits for Trino")
	})
	p.AwaitStatement(first.StatementID, "succeeded")
	harness.Await(t, "Trino is shown", func() bool { e := trinoOf(p, w.ID); return e.State == "running" && e.Nodes == 1 })
	require.Len(t, javas(p), 1)

	made := ok("INSERT INTO t SELECT n + 1 FROM t")
	require.Equal(t, "trino", made.Engine)
	require.EqualValues(t, 1, *made.RowsAffected)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Read)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Written)
	require.Equal(t, [][]any{{1.0}, {2.0}}, ok("SELECT n FROM t ORDER BY n").Rows)
	require.Equal(t, [][]any{{1.0}, {2.0}}, ok("SELECT n FROM t ORDER BY n", "engine", "trino").Rows)

	for _, engine := range []string{"duckdb", "trino"} {
		t.Run("lineage in "+engine, func(t *testing.T) {
			p.Lend(t)
			lineageIn(p, "writes", engine)
		})
	}

	p.Must(http.MethodPost, "/databases", map[string]any{"name": "other"}, nil)
	ok("CREATE SCHEMA other.s")
	ok("CREATE TABLE other.s.t AS SELECT n FROM lake.public.t")
	ok("DROP TABLE other.s.t")
	ok("DROP SCHEMA other.s")
	p.Must(http.MethodDelete, "/databases/other", nil, nil)
	require.Equal(t, http.StatusBadRequest, on("CREATE SCHEMA other.s").Status)
	p.Must(http.MethodPost, "/databases", map[string]any{"name": "other"}, nil)
	ok("CREATE SCHEMA other.s") // the same names in another database

	const long = "INSERT INTO t SELECT a.n FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(m) CROSS JOIN UNNEST(sequence(1, 10000)) AS c(k) WHERE sin(a.n + b.m + c.k) > 2"
	cancelled := on(long, "wait_timeout", "0s")
	p.AwaitStatement(cancelled.StatementID, "running")
	p.Must(http.MethodPost, "/sql/statements/"+cancelled.StatementID+"/cancel", nil, nil)
	p.AwaitStatement(cancelled.StatementID, "cancelled")

	killed := on(long, "wait_timeout", "0s")
	p.AwaitStatement(killed.StatementID, "running")
	harness.Kill9(t, p.MachineAgent(w.ID))
	require.Contains(t, p.AwaitStatement(killed.StatementID, "failed").Error.Message, "Nothing of it was committed")
	harness.Await(t, "Trino has ended with its agent", func() bool { return len(javas(p)) == 0 })
	require.EqualValues(t, 1, *ok("INSERT INTO t VALUES (3)").RowsAffected)
	require.Equal(t, [][]any{{3.0}}, ok("SELECT count(*) FROM t").Rows)

	p.Must(http.MethodPost, "/sql/warehouses/"+w.ID+"/stop", nil, nil)
	harness.Await(t, "Trino has ended with its warehouse", func() bool { return len(javas(p)) == 0 })
	require.Equal(t, "stopped", trinoOf(p, w.ID).State)
}
