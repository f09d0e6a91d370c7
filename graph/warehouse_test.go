package graph

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

const warehouseSettings = `warehouse { id writeEngine nodes trinoStart pricePerHour }`

// heartbeat sends a heartbeat of a machine's agent, and returns the answer.
func (f *fleet) heartbeat(id domain.MachineID, engines ...machine.Engine) job.AgentOrders {
	f.w.t.Helper()
	f.mu.Lock()
	scope, session := f.scopes[id], f.sessions[id]
	f.mu.Unlock()
	orders, err := f.w.services.Agents.Heartbeat(f.w.t.Context(), scope, job.AgentHeartbeat{Session: session, Idle: time.Second, Engines: engines})
	require.NoError(f.w.t, err)
	return orders
}

func TestTheSettingsOfAWarehouse(t *testing.T) {
	w := newWorld(t, quick)
	me := bearer(w.tenant("acme").editor.token)
	makes := func(input ...any) answer {
		return w.query(me, `mutation($input: CreateWarehouseInput!) { it: createWarehouse(input: $input) { `+warehouseSettings+` } }`, in(input...))
	}
	refused := func(a answer, field, says string) {
		t.Helper()
		require.Equal(t, "INVALID", a.code(), "%s", a.Body)
		require.Equal(t, field, a.Errors[0].Extensions["field"])
		require.Contains(t, a.Errors[0].Message, says)
	}
	require.Equal(t, "duckdb", at(makes("name", "before", "size", "cpu.2").Data, "it", "warehouse", "writeEngine"))
	refused(makes("name", "x", "size", "cpu.2", "writeEngine", "trino"), "writeEngine", "run `millpond engine install trino`")
	w.cloud.InstallTrino(true)
	refused(makes("name", "x", "size", "cpu.1", "writeEngine", "trino"), "writeEngine", "choose a larger one")
	refused(makes("name", "x", "size", "cpu.2", "writeEngine", "spark"), "writeEngine", "choose duckdb or trino")
	refused(makes("name", "x", "size", "cpu.1", "nodes", 2), "nodes", "has one node, and not 2")
	refused(makes("name", "x", "size", "cpu.2", "nodes", 0), "nodes", "from 1 to 16")
	refused(makes("name", "x", "size", "cpu.2", "trinoStart", "later"), "trinoStart", "first_write or with_warehouse")
	refused(makes("name", "x", "size", "cpu.2", "writeEngine", "duckdb", "trinoStart", "with_warehouse"), "trinoStart", "no Trino to start")
	made := at(makes("name", "alone", "size", "cpu.2").Data, "it", "warehouse")
	require.Equal(t, map[string]any{"id": at(made, "id"), "writeEngine": "trino", "nodes": 1.0, "trinoStart": "first_write", "pricePerHour": "0.08"}, made)
	made = at(makes("name", "large", "size", "cpu.2", "nodes", 3, "trinoStart", "with_warehouse").Data, "it", "warehouse")
	require.Equal(t, map[string]any{"id": at(made, "id"), "writeEngine": "trino", "nodes": 3.0, "trinoStart": "with_warehouse", "pricePerHour": "0.08"}, made)
}

func TestAWarehouseThatWritesWithTrinoIsFollowed(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	agents := w.reconcile()
	w.cloud.InstallTrino(true)
	m, err := w.services.Warehouses.Create(t.Context(), a.editor.scope, machine.NewMachine{Name: "big", Flavor: "cpu.2", Nodes: new(3)}, domain.Idempotency{})
	require.NoError(t, err)
	update := func(input ...any) answer {
		return w.query(me, `mutation($input: UpdateWarehouseInput!) { it: updateWarehouse(input: $input) { `+warehouseSettings+` } }`, in(append(input, "id", m.ID)...))
	}
	c := w.open(me, nil)
	events := c.subscribe(`subscription { it: warehouseUpdated { id state nodes engines { name version state message nodes } } }`, nil)
	is := func(state string) func(map[string]any) bool {
		return func(d map[string]any) bool { return at(d, "it", "id") == string(m.ID) && at(d, "it", "state") == state }
	}
	nouns[1].did(w, me, "start", map[string]any{"id": m.ID})
	c.until(events, is("RUNNING"))

	duckdb := machine.Engine{Name: "duckdb", Version: "1.5.5"}
	shown := map[string]any{"name": "duckdb", "version": "1.5.5", "state": nil, "message": nil, "nodes": nil}
	orders := agents.heartbeat(m.ID, duckdb, machine.Engine{Name: "trino", Version: "476", State: machine.EngineFailed, Message: "It has no memory.", Nodes: 3})
	require.Equal(t, &machine.WarehouseSettings{Nodes: 3, TrinoStart: machine.TrinoFirstWrite}, orders.Warehouse)
	failed := c.until(events, func(d map[string]any) bool {
		return at(d, "it", "id") == string(m.ID) && len(at(d, "it", "engines").([]any)) == 2
	})
	require.Equal(t, []any{
		shown, map[string]any{"name": "trino", "version": "476", "state": "FAILED", "message": "It has no memory.", "nodes": 3.0},
	}, at(failed, "it", "engines"))

	require.Equal(t, "CONFLICT", update("writeEngine", "duckdb", "nodes", 1).code())
	require.Equal(t, 5.0, at(update("nodes", 5).Data, "it", "warehouse", "nodes"), "it runs")
	c.until(events, func(d map[string]any) bool { return at(d, "it", "nodes") == 5.0 })
	require.Equal(t, "with_warehouse", at(update("trinoStart", "with_warehouse").Data, "it", "warehouse", "trinoStart"))
	require.Equal(t, &machine.WarehouseSettings{Nodes: 5, TrinoStart: machine.TrinoWithWarehouse}, agents.heartbeat(m.ID).Warehouse)

	nouns[1].did(w, me, "stop", map[string]any{"id": m.ID})
	stopped := c.until(events, is("STOPPED"))
	require.Equal(t, []any{shown, map[string]any{"name": "trino", "version": "476", "state": "STOPPED", "message": nil, "nodes": nil}}, at(stopped, "it", "engines"))
	require.Equal(t, "INVALID", update("writeEngine", "duckdb").code())
	require.Equal(t, "duckdb", at(update("writeEngine", "duckdb", "nodes", 1, "trinoStart", "first_write").Data, "it", "warehouse", "writeEngine"))
}
