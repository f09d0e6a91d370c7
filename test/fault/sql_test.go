package fault_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// engineChildren returns the processes in which the warehouse runs statements.
func engineChildren(p *harness.Platform, warehouse string) (pids []int) {
	agent := p.MachineAgent(warehouse)
	for _, pr := range harness.AllProcesses() {
		if pr.Parent == agent && agent > 0 && strings.Contains(pr.Command, "engine-child") {
			pids = append(pids, pr.PID)
		}
	}
	return pids
}

// startStatement starts a statement that does not end by itself, and returns its id once it runs.
func startStatement(p *harness.Platform, query string) string {
	p.T.Helper()
	r := p.SQL(query, "wait_timeout", "0s")
	require.Equal(p.T, 202, r.Status, "%s", r.Raw)
	p.AwaitStatement(r.StatementID, "running")
	return r.StatementID
}

// TestSQLIsKilled kills the processes that run a statement. The statement ends correctly, and the
// next one runs.
func TestSQLIsKilled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	p.OK("CREATE TABLE t AS SELECT 1 AS n")
	warehouse := p.Warehouse()
	for _, victim := range []struct {
		name string
		kill func()
	}{
		{"the process of the statement", func() {
			for _, pid := range engineChildren(p, warehouse) {
				harness.Kill9(t, pid)
			}
		}},
		{"the warehouse's agent", func() { harness.Kill9(t, p.MachineAgent(warehouse)) }},
		{"the server", func() { p.Servers[0].Restart() }},
	} {
		t.Run(victim.name, func(t *testing.T) {
			p.Lend(t)
			id := startStatement(p, harness.SlowQuery)
			victim.kill()
			st := p.AwaitStatement(id, "failed")
			require.NotEmpty(t, st.Error.Message)
			require.Contains(t, []string{"engine", "resources"}, st.Error.Fault)
			harness.Await(t, "the next statement runs", func() bool {
				r, err := p.TrySQL(t.Context(), "SELECT n FROM t")
				return err == nil && r.Status == 200 && r.Rows[0][0] == 1.0
			})
		})
	}
}

// TestWritesAreKilled kills the server or the warehouse's agent repeatedly while statements write.
// The table matches the reported states: a succeeded statement's row is there once, a failed one's
// is not.
func TestWritesAreKilled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	p.OK("CREATE TABLE t (n BIGINT)")
	warehouse := p.Warehouse()
	sent := 0
	for round := range 4 {
		var writers sync.WaitGroup
		for range 4 {
			sent++
			query := fmt.Sprintf("INSERT INTO t SELECT %d FROM range(1)", sent)
			writers.Go(func() { _, _ = p.TrySQL(t.Context(), query) }) // the list shows how it ended
		}
		harness.Await(t, "some statements have arrived", func() bool {
			var all harness.Page[harness.StatementRow]
			return p.Get("/sql/statements?limit=200&search=insert", &all) && len(all.Data) >= sent-2
		})
		if round%2 == 0 {
			p.Servers[0].Restart()
		} else if agent := p.MachineAgent(warehouse); agent > 0 {
			harness.Kill9(t, agent)
		}
		writers.Wait()
	}
	var all harness.Page[harness.StatementRow]
	harness.Await(t, "all are over", func() bool {
		if all = (harness.Page[harness.StatementRow]{}); !p.Get("/sql/statements?limit=200&search=insert", &all) {
			return false
		}
		for _, st := range all.Data {
			if st.State == "queued" || st.State == "running" {
				return false
			}
		}
		return true
	})
	there := map[string]int{}
	harness.Await(t, "the table can be read", func() bool {
		r, err := p.TrySQL(t.Context(), "SELECT n FROM t")
		clear(there)
		for _, row := range r.Rows {
			there[fmt.Sprint(row[0])]++
		}
		return err == nil && r.Status == 200
	})
	for _, st := range all.Data {
		n := strings.Fields(st.Query)[4]
		if st.State == "succeeded" {
			require.Equal(t, 1, there[n], "%s succeeded: %s", n, st.StatementID)
			require.True(t, st.Write)
			require.True(t, st.RowCount == nil || *st.RowCount == 1, "its row count is known, or null")
		} else {
			require.Zero(t, there[n], "%s %s: %+v", n, st.State, st.Error)
			require.NotContains(t, st.Error.Message, "not known")
		}
	}
	t.Logf("%d statements, %d rows", len(all.Data), len(there))
}

// TestSQLOverTwoServers: the other server shows, awaits, reads and cancels a statement that one
// server runs.
func TestSQLOverTwoServers(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Replicas: 2, Args: []string{"--no-samples"}})
	other := *p
	other.Client = &harness.Client{URL: p.Servers[0].URL, Key: p.Key}
	p.OK("CREATE TABLE t AS SELECT range AS n FROM range(1000)")
	require.Equal(t, [][]any{{1000.0}}, other.OK("SELECT count(*) FROM t").Rows)

	id := startStatement(p, harness.SlowQuery)
	require.Equal(t, "running", other.Statement(id).State)
	other.Must(http.MethodPost, "/sql/statements/"+id+"/cancel", nil, nil)
	p.AwaitStatement(id, "cancelled")

	first := p.OK("SELECT range AS n FROM range(10)", "Idempotency-Key", "over two")
	again := other.OK("SELECT range AS n FROM range(10)", "Idempotency-Key", "over two")
	require.Equal(t, first.StatementID, again.StatementID)
	require.Equal(t, first.Rows, again.Rows)
}
