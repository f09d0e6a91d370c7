package rest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

func TestWarehouseIsMade(t *testing.T) {
	w := newWorld(t)
	r := w.call(w.ours.editor, "POST", "/sql/warehouses", map[string]any{"name": "reports", "size": "cpu.2"})
	made := r.object(201)
	id, _ := made["id"].(string)
	require.Equal(t, Prefix+"/sql/warehouses/"+id, r.header.Get("Location"))
	require.Equal(t, made, w.call(w.ours.viewer, "GET", "/sql/warehouses/"+id, nil).object(200), "the whole warehouse")
	require.Equal(t, []any{"stopped", "cpu.2", "duckdb", []any{}}, []any{made["state"], made["size"], made["write_engine"], made["engines"]})
	require.Equal(t, []any{1.0, "first_write"}, []any{made["nodes"], made["trino_start"]})
	require.Nil(t, made["last_used_at"])

	w.started(warehouseNoun, id)
	require.Equal(t, []any{map[string]any{"name": "duckdb", "version": "1.5.5"}}, w.call(w.ours.viewer, "GET", "/sql/warehouses/"+id, nil).object(200)["engines"])
}

func TestAWorkspaceStartsWithOneWarehouse(t *testing.T) {
	w := newWorld(t)
	all := w.call(w.ours.viewer, "GET", "/sql/warehouses", nil).data(200)
	require.Len(t, all, 1)
	first, _ := all[0].(map[string]any)
	require.Equal(t, []any{"default", "stopped", "1h"}, []any{first["name"], first["state"], first["auto_stop"]})
	by, _ := first["created_by"].(map[string]any)
	require.Equal(t, "system", by["kind"])
}

// makes creates a warehouse with further fields.
func (w *world) makes(name, size, more string) reply {
	w.t.Helper()
	return w.call(w.ours.editor, "POST", "/sql/warehouses", fmt.Sprintf(`{"name":%q,"size":%q%s}`, name, size, more))
}

func TestTheWriteEngineOfAWarehouse(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "duckdb", w.makes("none is there", "cpu.2", "").object(201)["write_engine"])
	require.Contains(t, w.makes("x", "cpu.2", `,"write_engine":"trino"`).refused(400), "run `millpond engine install trino`")
	w.machines.cloud.InstallTrino(true)
	for _, c := range []struct{ size, more, engine string }{
		{"cpu.2", "", "trino"}, {"cpu.1", "", "duckdb"}, {"cpu.2", `,"write_engine":"duckdb"`, "duckdb"}, {"cpu.2", `,"write_engine":"trino"`, "trino"},
	} {
		require.Equal(t, c.engine, w.makes("of "+c.size+c.more, c.size, c.more).object(201)["write_engine"], "%+v", c)
	}
	require.Contains(t, w.makes("x", "cpu.1", `,"write_engine":"trino"`).refused(400), "choose a larger one")
	require.Equal(t, "duckdb", w.call(w.ours.viewer, "GET", "/sql/warehouses", nil).data(200)[1].(map[string]any)["write_engine"], "the earlier warehouse does not change")

	body := map[string]any{"name": "once", "size": "cpu.4"}
	once := w.call(w.ours.editor, "POST", "/sql/warehouses", body, "Idempotency-Key", "k").object(201)
	w.machines.cloud.InstallTrino(false)
	require.Equal(t, once, w.call(w.ours.editor, "POST", "/sql/warehouses", body, "Idempotency-Key", "k").object(201), "made with trino, which is not there any more")
}

func TestAWarehousesSettingsAreRefusedWhereTheyDoNotGoTogether(t *testing.T) {
	w := newWorld(t)
	w.machines.cloud.InstallTrino(true)
	before := w.snapshot()
	for more, says := range map[string]string{
		`,"nodes":0`: "nodes is 0; it must be from 1 to 16", `,"nodes":17`: "nodes is 17", `,"nodes":-1`: "nodes is -1", `,"nodes":1.5`: "nodes",
		`,"nodes":2,"write_engine":"duckdb"`:                      "writes with duckdb has one node, and not 2",
		`,"trino_start":"with_warehouse","write_engine":"duckdb"`: "writes with duckdb has no Trino to start",
		`,"trino_start":"later"`:                                  `The value of "trino_start" is wrong`, `,"write_engine":"spark"`: `The value of "write_engine" is wrong`,
	} {
		require.Contains(t, w.makes("x", "cpu.2", more).refused(400), says, more)
	}
	require.Contains(t, w.makes("x", "cpu.1", `,"nodes":2`).refused(400), "writes with duckdb", "which is what a warehouse of the size gets")
	require.Equal(t, before, w.snapshot())

	id, _ := w.makes("x", "cpu.2", `,"nodes":null`).object(201)["id"].(string)
	for body, says := range map[string]string{
		`{"nodes":0}`: "nodes is 0", `{"trino_start":"later"}`: "trino_start", `{"trino_start":""}`: "trino_start", `{"write_engine":"spark"}`: "write engine",
		`{"write_engine":""}`: "write_engine", `{"size":"cpu.1"}`: "choose a larger one", `{"write_engine":"duckdb","nodes":2}`: "one node",
	} {
		require.Contains(t, w.call(w.ours.editor, "PATCH", "/sql/warehouses/"+id, body).refused(400), says, body)
	}
}

func TestAWarehouseThatWritesWithTrino(t *testing.T) {
	w := newWorld(t)
	w.machines.cloud.InstallTrino(true)
	made := w.makes("big", "cpu.2", `,"nodes":3,"trino_start":"with_warehouse"`).object(201)
	require.Equal(t, []any{"trino", 3.0, "with_warehouse"}, []any{made["write_engine"], made["nodes"], made["trino_start"]})
	id, _ := made["id"].(string)
	one := "/sql/warehouses/" + id
	engines := func() any { return w.call(w.ours.viewer, "GET", one, nil).object(200)["engines"] }
	patch := func(body string) reply { return w.call(w.ours.editor, "PATCH", one, body) }

	agent := w.started(warehouseNoun, id)
	orders, err := w.services.Agents.Heartbeat(t.Context(), agent.scope, job.AgentHeartbeat{Session: agent.session, Idle: time.Second, Engines: []machine.Engine{
		{Name: "duckdb", Version: "1.5.5"}, {Name: "trino", Version: "476", State: machine.EngineFailed, Message: "It has no memory.", Nodes: 3},
	}})
	require.NoError(t, err)
	require.Equal(t, &machine.WarehouseSettings{Nodes: 3, TrinoStart: machine.TrinoWithWarehouse}, orders.Warehouse)
	duckdb := map[string]any{"name": "duckdb", "version": "1.5.5"}
	require.Equal(t, []any{
		duckdb, map[string]any{"name": "trino", "version": "476", "state": "failed", "message": "It has no memory.", "nodes": 3.0},
	}, engines())
	changed := patch(`{"nodes":5,"trino_start":"first_write"}`).object(200)
	require.Equal(t, []any{5.0, "first_write", "running"}, []any{changed["nodes"], changed["trino_start"], changed["state"]})
	require.Contains(t, patch(`{"write_engine":"duckdb","nodes":1}`).refused(409), "its size, image, slots and write engine change only while it is stopped")
	require.Equal(t, 5.0, patch(`{}`).object(200)["nodes"], "nothing was changed")

	w.call(w.ours.editor, "POST", one+"/stop", nil).object(200)
	require.Equal(t, []any{duckdb, map[string]any{"name": "trino", "version": "476", "state": "stopped"}}, engines())
	w.reconcile()
	require.Contains(t, patch(`{"write_engine":"duckdb"}`).refused(400), "set nodes to 1")
	changed = patch(`{"write_engine":"duckdb","nodes":1}`).object(200)
	require.Equal(t, []any{"duckdb", 1.0}, []any{changed["write_engine"], changed["nodes"]})
}
