package main_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/install/installtest"
)

// withTrino are the arguments of a server on whose host Trino is installed.
func withTrino(t testing.TB) []string {
	t.Helper()
	return []string{"--engines-dir", filepath.Dir(installtest.Shared(t).Dir)}
}

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

// trinoOf is the Trino of a warehouse, as it is shown.
func (p *platform) trinoOf(warehouse string) (found engineRow) {
	p.t.Helper()
	var w warehouseRow
	p.must(http.MethodGet, "/sql/warehouses/"+warehouse, nil, &w)
	for _, e := range w.Engines {
		if e.Name == "trino" {
			return e
		}
	}
	return found
}

// javas are the processes of the platform's Trinos.
func (p *platform) javas() (pids []int) {
	for _, pr := range allProcesses() {
		if strings.Contains(pr.command, "io.trino.server.TrinoServer\x00") && strings.Contains(pr.command, p.dir+"/") {
			pids = append(pids, pr.pid)
		}
	}
	return pids
}

// TestTrinoOnAWarehouse is the life of a warehouse that writes with Trino: it is started by the first write, says so, and is gone with its agent or its warehouse; what
// a statement says of itself is what is in the table.
func TestTrinoOnAWarehouse(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: append(withTrino(t), "--no-samples")})
	var w warehouseRow
	p.must(http.MethodPost, "/sql/warehouses", map[string]any{"name": "writes", "size": "cpu.1"}, &w)
	require.Equal(t, "trino", w.WriteEngine, "that is where it is installed")
	on := func(query string, more ...any) result { return p.sql(query, append(more, "warehouse_id", "writes")...) }
	ok := func(query string, more ...any) result {
		t.Helper()
		r := on(query, more...)
		require.Equal(t, http.StatusOK, r.status, "%s: %s", query, r.raw)
		return r
	}

	require.Equal(t, "duckdb", ok("SELECT 1").Engine)
	require.Equal(t, engineRow{Name: "trino", Version: "476", State: "stopped"}, p.trinoOf(w.ID))
	require.Empty(t, p.javas())

	first := on("CREATE TABLE t AS SELECT 1 AS n", "wait_timeout", "0s")
	require.Equal(t, http.StatusAccepted, first.status)
	await(t, "the statement waits for Trino", func() bool {
		return strings.Contains(p.statement(first.StatementID).Message, "Waits for Trino")
	})
	p.awaitStatement(first.StatementID, "succeeded")
	await(t, "Trino is shown", func() bool { e := p.trinoOf(w.ID); return e.State == "running" && e.Nodes == 1 })
	require.Len(t, p.javas(), 1)

	made := ok("INSERT INTO t SELECT n + 1 FROM t")
	require.Equal(t, "trino", made.Engine)
	require.EqualValues(t, 1, *made.RowsAffected)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Read)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Written)
	require.Equal(t, [][]any{{1.0}, {2.0}}, ok("SELECT n FROM t ORDER BY n").Rows)
	require.Equal(t, [][]any{{1.0}, {2.0}}, ok("SELECT n FROM t ORDER BY n", "engine", "trino").Rows)

	p.must(http.MethodPost, "/databases", map[string]any{"name": "other"}, nil)
	ok("CREATE SCHEMA other.s")
	ok("CREATE TABLE other.s.t AS SELECT n FROM lake.public.t")
	ok("DROP TABLE other.s.t")
	ok("DROP SCHEMA other.s")
	p.must(http.MethodDelete, "/databases/other", nil, nil)
	require.Equal(t, http.StatusBadRequest, on("CREATE SCHEMA other.s").status)
	p.must(http.MethodPost, "/databases", map[string]any{"name": "other"}, nil)
	ok("CREATE SCHEMA other.s") // another database of the name is another

	const long = "INSERT INTO t SELECT a.n FROM UNNEST(sequence(1, 10000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 10000)) AS b(m) CROSS JOIN UNNEST(sequence(1, 10000)) AS c(k) WHERE sin(a.n + b.m + c.k) > 2"
	cancelled := on(long, "wait_timeout", "0s")
	p.awaitStatement(cancelled.StatementID, "running")
	p.must(http.MethodPost, "/sql/statements/"+cancelled.StatementID+"/cancel", nil, nil)
	p.awaitStatement(cancelled.StatementID, "cancelled")

	killed := on(long, "wait_timeout", "0s")
	p.awaitStatement(killed.StatementID, "running")
	kill9(t, p.machineAgent(w.ID))
	require.Contains(t, p.awaitStatement(killed.StatementID, "failed").Error.Message, "Nothing of it was committed")
	await(t, "Trino has ended with its agent", func() bool { return len(p.javas()) == 0 })
	require.EqualValues(t, 1, *ok("INSERT INTO t VALUES (3)").RowsAffected)
	require.Equal(t, [][]any{{3.0}}, ok("SELECT count(*) FROM t").Rows)

	p.must(http.MethodPost, "/sql/warehouses/"+w.ID+"/stop", nil, nil)
	await(t, "Trino has ended with its warehouse", func() bool { return len(p.javas()) == 0 })
	require.Equal(t, "stopped", p.trinoOf(w.ID).State)
}
