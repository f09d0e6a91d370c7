package graph

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

const (
	policyFields = `policy { enabled schedule { cron timeZone } compact { enabled fileSizeThreshold minFiles deletePercent } expire { enabled keepDays maxSnapshots eraseAfterDays }
		orphans { enabled olderThanDays } warehouseId startWarehouse }`
	maintenanceFields = `maintenance { ` + policyFields + ` effective { enabled schedule { cron timeZone } compact { enabled fileSizeThreshold minFiles deletePercent }
		expire { enabled keepDays maxSnapshots eraseAfterDays } orphans { enabled olderThanDays } warehouseId startWarehouse } origins { field level } nextAt }`
	maintenanceRun = `id tableId table { name } fullName trigger createdBy state message nextTryAt startedAt finishedAt todo operations { kind query statementId warehouseId state
		before { files bytes deleteFiles snapshots } after { files } snapshotsExpired filesRemoved metrics { name value } seconds cost currency message }`
)

// upkeeps runs the server's maintenance after every change, until the test ends.
func (w *world) upkeeps() {
	wake, stop := w.db.Topics().Subscribe(domain.MaintenanceTopic, domain.HandoverTopic)
	ctx, cancel := context.WithCancel(context.Background())
	var server sync.WaitGroup
	server.Go(func() {
		for ctx.Err() == nil {
			_, err := domain.Tick(ctx, w.services.Clock, w.services.Maintenance.Due)
			if err = errors.Join(err, w.services.Statements.Sweep(ctx)); err != nil && ctx.Err() == nil {
				w.t.Error(err)
			}
			select {
			case <-wake:
			case <-ctx.Done():
			}
		}
	})
	w.t.Cleanup(func() { cancel(); server.Wait(); stop() })
}

func origin(m any, field string) any {
	for _, o := range at(m, "origins").([]any) {
		if at(o, "field") == field {
			return at(o, "level")
		}
	}
	return nil
}

// The scenario of the REST API's test: policy, settings, a run, and its history.
func TestMaintenanceOfATable(t *testing.T) {
	w, a := sqlWorld(t)
	table := a.table("events")
	for i := range 6 {
		a.adds("events", int64(i))
	}
	viewer, me, admin := bearer(a.viewer.token), bearer(a.editor.token), bearer(a.admin.token)
	shown := `query($id: ID!) { table(id: $id) { ` + maintenanceFields + ` } }`
	m := at(w.ok(viewer, shown, map[string]any{"id": table.ID}), "table", "maintenance")
	require.Equal(t, map[string]any{
		"enabled": nil, "schedule": nil, "warehouseId": nil, "startWarehouse": nil, "expire": map[string]any{"enabled": nil, "keepDays": nil, "maxSnapshots": nil, "eraseAfterDays": nil},
		"compact": map[string]any{"enabled": nil, "fileSizeThreshold": nil, "minFiles": nil, "deletePercent": nil}, "orphans": map[string]any{"enabled": nil, "olderThanDays": nil},
	}, at(m, "policy"))
	require.Equal(t, map[string]any{
		"enabled": true, "schedule": map[string]any{"cron": "0 3 * * *", "timeZone": "UTC"}, "warehouseId": nil, "startWarehouse": true,
		"expire": map[string]any{"enabled": true, "keepDays": 7.0, "maxSnapshots": 1000.0, "eraseAfterDays": 1.0}, "orphans": map[string]any{"enabled": true, "olderThanDays": 7.0},
		"compact": map[string]any{"enabled": true, "fileSizeThreshold": "134217728", "minFiles": 5.0, "deletePercent": 10.0},
	}, at(m, "effective"))
	require.Equal(t, "DEFAULT", origin(m, "schedule"))
	require.NotNil(t, at(m, "nextAt"))

	policy := func(fields ...any) map[string]any { return in(fields...)["input"].(map[string]any) }
	w.ok(admin, `mutation($input: UpdateMaintenanceInput!) { updateMaintenance(input: $input) { `+maintenanceFields+` } }`,
		in("policy", policy("expire", policy("keepDays", 30), "orphans", policy("enabled", false))))
	w.ok(me, `mutation($input: UpdateDatabaseMaintenanceInput!) { updateDatabaseMaintenance(input: $input) { `+maintenanceFields+` } }`,
		in("id", "lake", "policy", policy("warehouseId", "default", "schedule", policy("cron", "@weekly"))))
	m = at(w.ok(me, `mutation($input: UpdateTableMaintenanceInput!) { updateTableMaintenance(input: $input) { `+maintenanceFields+` } }`,
		in("id", table.ID, "policy", policy("compact", policy("minFiles", 3, "fileSizeThreshold", "1048576")))), "updateTableMaintenance", "maintenance")
	require.Equal(t, []any{"WORKSPACE", "DATABASE", "TABLE", "DATABASE"}, []any{origin(m, "expire.keep_days"), origin(m, "schedule"), origin(m, "compact.min_files"), origin(m, "warehouse_id")})
	require.Equal(t, []any{"1048576", string(a.warehouse().ID)}, []any{at(m, "effective", "compact", "fileSizeThreshold"), at(m, "effective", "warehouseId")})
	refused := w.query(me, `mutation($input: UpdateTableMaintenanceInput!) { updateTableMaintenance(input: $input) { maintenance { nextAt } } }`,
		in("id", table.ID, "policy", policy("expire", policy("keepDays", 0))))
	require.Equal(t, "INVALID", refused.code(), "%s", refused.Body)

	socket := w.open(viewer, nil)
	events := socket.subscribe(`subscription($id: ID) { maintenanceRunsUpdated(table: $id) { `+maintenanceRun+` } }`, map[string]any{"id": table.ID})
	w.upkeeps()
	run := at(w.ok(me, `mutation($input: RunTableMaintenanceInput!) { runTableMaintenance(input: $input) { run { `+maintenanceRun+` } } }`, in("id", table.ID)), "runTableMaintenance", "run")
	require.Equal(t, []any{"MANUAL", "lake.public.events", "events", a.editor.scope.Actor().Name}, []any{at(run, "trigger"), at(run, "fullName"), at(run, "table", "name"), at(run, "createdBy")})
	over := at(socket.until(events, func(d map[string]any) bool { return at(d, "maintenanceRunsUpdated", "state") == "SUCCEEDED" }), "maintenanceRunsUpdated")
	require.Equal(t, at(run, "id"), at(over, "id"))
	require.Equal(t, []any{"COMPACT", "SUCCEEDED", "6", `ALTER TABLE "lake"."public"."events" EXECUTE optimize(file_size_threshold => '1MB')`}, []any{
		at(over, "operations", 0, "kind"), at(over, "operations", 0, "state"), at(over, "operations", 0, "before", "files"), at(over, "operations", 0, "query"),
	})
	require.Equal(t, "EXPIRE", at(over, "operations", 1, "kind"))
	require.Nil(t, at(over, "nextTryAt"))
	late := w.open(viewer, nil)
	events = late.subscribe(`subscription { maintenanceRunsUpdated { id state } }`, nil)
	missed := at(late.until(events, func(map[string]any) bool { return true }), "maintenanceRunsUpdated")
	require.Equal(t, []any{at(run, "id"), "SUCCEEDED"}, []any{at(missed, "id"), at(missed, "state")}, "it ended while the client reconnected")

	history := `query($id: ID!) { maintenanceRun(id: $id) { id } maintenanceRuns(database: "lake") { edges { node { id } } }
		database(id: "lake") { ` + maintenanceFields + ` maintenanceRuns { edges { node { id } } } tables { edges { node { maintenanceRuns(first: 1) { edges { node { id } } } } } } } }`
	found := w.ok(viewer, history, map[string]any{"id": at(run, "id")})
	for _, path := range [][]any{
		{"maintenanceRun", "id"},
		{"maintenanceRuns", "edges", 0, "node", "id"},
		{"database", "maintenanceRuns", "edges", 0, "node", "id"},
		{"database", "tables", "edges", 0, "node", "maintenanceRuns", "edges", 0, "node", "id"},
	} {
		require.Equal(t, at(run, "id"), at(found, path...), path)
	}
	require.Equal(t, "DATABASE", origin(at(found, "database", "maintenance"), "schedule"))

	listed := w.ok(viewer, `{ all: statements { edges { node { id } } } it: statements(filter: {purpose: MAINTENANCE}) { edges { node { id purpose tableId table { name } notBefore } } } }`, nil)
	require.Empty(t, at(listed, "all", "edges"), "a list leaves them out")
	require.Len(t, at(listed, "it", "edges"), 2)
	require.Equal(t, []any{"MAINTENANCE", string(table.ID), "events"},
		[]any{at(listed, "it", "edges", 0, "node", "purpose"), at(listed, "it", "edges", 0, "node", "tableId"), at(listed, "it", "edges", 0, "node", "table", "name")})
}

// The maintenance of a page of tables is read at once. Views have no maintenance.
func TestTheMaintenanceOfManyTablesIsReadAtOnce(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.viewer.token)
	reads := func() int64 {
		return w.fewestReads(func() {
			w.ok(me, `{ database(id: "lake") { tables { edges { node { maintenance { nextAt } } } } } }`, nil)
		})
	}
	a.table("one")
	few := reads()
	for i := range 10 {
		a.table(fmt.Sprint("table", i))
	}
	require.Equal(t, few, reads())
	view := a.view("a_view", "SELECT 1")
	require.Nil(t, at(w.ok(me, `query($id: ID!) { table(id: $id) { maintenance { nextAt } } }`, map[string]any{"id": view.ID}), "table", "maintenance"))
}
