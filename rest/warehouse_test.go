package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarehouseIsMade(t *testing.T) {
	w := newWorld(t)
	r := w.call(w.ours.editor, "POST", "/sql/warehouses", map[string]any{"name": "reports", "size": "cpu.2"})
	made := r.object(201)
	id, _ := made["id"].(string)
	require.Equal(t, Prefix+"/sql/warehouses/"+id, r.header.Get("Location"))
	require.Equal(t, made, w.call(w.ours.viewer, "GET", "/sql/warehouses/"+id, nil).object(200), "the whole warehouse")
	require.Equal(t, []any{"stopped", "cpu.2", "duckdb", []any{}}, []any{made["state"], made["size"], made["write_engine"], made["engines"]})
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
