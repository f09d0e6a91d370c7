package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// warehouse is the id of the workspace's warehouse.
func (p *platform) warehouse() string {
	p.t.Helper()
	var all page[machineRow]
	p.must(http.MethodGet, "/sql/warehouses", nil, &all)
	return all.Data[0].ID
}

// engineChildren are the processes in which the warehouse runs statements.
func (p *platform) engineChildren(warehouse string) (pids []int) {
	agent := p.machineAgent(warehouse)
	for _, pr := range allProcesses() {
		if pr.parent == agent && agent > 0 && strings.Contains(pr.command, "engine-child") {
			pids = append(pids, pr.pid)
		}
	}
	return pids
}

// running begins a statement that does not end by itself, and returns its id once it runs.
func (p *platform) running(query string) string {
	p.t.Helper()
	r := p.sql(query, "wait_timeout", "0s")
	require.Equal(p.t, 202, r.status, "%s", r.raw)
	p.awaitStatement(r.StatementID, "running")
	return r.StatementID
}

// TestSQLIsKilled kills what runs a statement. It comes to a true end, and the next one runs.
func TestSQLIsKilled(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})
	p.ok("CREATE TABLE t AS SELECT 1 AS n")
	warehouse := p.warehouse()
	for _, victim := range []struct {
		name string
		kill func()
	}{
		{"the process of the statement", func() {
			for _, pid := range p.engineChildren(warehouse) {
				kill9(t, pid)
			}
		}},
		{"the warehouse's agent", func() { kill9(t, p.machineAgent(warehouse)) }},
		{"the server", func() { p.servers[0].restart() }},
	} {
		t.Run(victim.name, func(t *testing.T) {
			p.lend(t)
			id := p.running(slow)
			victim.kill()
			st := p.awaitStatement(id, "failed")
			require.NotEmpty(t, st.Error.Message)
			require.Contains(t, []string{"engine", "resources"}, st.Error.Fault)
			await(t, "the next statement runs", func() bool {
				r, err := p.trySQL(t.Context(), "SELECT n FROM t")
				return err == nil && r.status == 200 && r.Rows[0][0] == 1.0
			})
		})
	}
}

// TestWritesAreKilled kills the server, or the warehouse's agent, while statements write, again and again. What a statement says of itself is what is in the table: a row
// of one that has succeeded is there once, and that of one that has failed is not there.
func TestWritesAreKilled(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})
	p.ok("CREATE TABLE t (n BIGINT)")
	warehouse := p.warehouse()
	sent := 0
	for round := range 4 {
		var writers sync.WaitGroup
		for range 4 {
			sent++
			query := fmt.Sprintf("INSERT INTO t SELECT %d FROM range(1)", sent)
			writers.Go(func() { _, _ = p.trySQL(t.Context(), query) }) // its end is read from its row
		}
		await(t, "some of them have come", func() bool {
			var all page[statementRow]
			return p.get("/sql/statements?limit=200&search=insert", &all) && len(all.Data) >= sent-2
		})
		if round%2 == 0 {
			p.servers[0].restart()
		} else if agent := p.machineAgent(warehouse); agent > 0 {
			kill9(t, agent)
		}
		writers.Wait()
	}
	var all page[statementRow]
	await(t, "all are over", func() bool {
		if all = (page[statementRow]{}); !p.get("/sql/statements?limit=200&search=insert", &all) {
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
	await(t, "the table can be read", func() bool {
		r, err := p.trySQL(t.Context(), "SELECT n FROM t")
		clear(there)
		for _, row := range r.Rows {
			there[fmt.Sprint(row[0])]++
		}
		return err == nil && r.status == 200
	})
	for _, st := range all.Data {
		n := strings.Fields(st.Query)[4]
		if st.State == "succeeded" {
			require.Equal(t, 1, there[n], "%s succeeded: %s", n, st.StatementID)
			require.True(t, st.Write)
			require.True(t, st.RowCount == nil || *st.RowCount == 1, "it tells how many rows it wrote, or that this is not known")
		} else {
			require.Zero(t, there[n], "%s %s: %+v", n, st.State, st.Error)
		}
	}
	t.Logf("%d statements, %d rows", len(all.Data), len(there))
}

// TestSQLOverTwoServers: a statement that one server runs is seen, waited for, read and cancelled on the other.
func TestSQLOverTwoServers(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{replicas: 2, args: []string{"--no-samples"}})
	other := *p
	other.client = &client{url: p.servers[0].url, key: p.key}
	p.ok("CREATE TABLE t AS SELECT range AS n FROM range(1000)")
	require.Equal(t, [][]any{{1000.0}}, other.ok("SELECT count(*) FROM t").Rows)

	id := p.running(slow)
	require.Equal(t, "running", other.statement(id).State)
	other.must(http.MethodPost, "/sql/statements/"+id+"/cancel", nil, nil)
	p.awaitStatement(id, "cancelled")

	first := p.ok("SELECT range AS n FROM range(10)", "Idempotency-Key", "over two")
	again := other.ok("SELECT range AS n FROM range(10)", "Idempotency-Key", "over two")
	require.Equal(t, first.StatementID, again.StatementID)
	require.Equal(t, first.Rows, again.Rows)
}
