package rest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// scattered creates a table in lake.public with one file per id.
func (w *world) scattered(name string, ids ...int64) string {
	w.t.Helper()
	id := string(w.table(w.ours, name, false).ID)
	for _, i := range ids {
		w.adds(w.ours, name, i)
	}
	return id
}

// maintained runs the maintenance of a new table.
func (w *world) maintained() string {
	w.t.Helper()
	id := w.scattered(unique("maintained"), 1)
	return fmt.Sprint(w.call(w.ours.editor, "POST", "/tables/"+id+"/maintenance/run", nil).object(202)["id"])
}

// upkeep runs the server's maintenance after every change, until the run is over.
func (w *world) upkeep(run string) map[string]any {
	w.t.Helper()
	wake, stop := w.services.Maintenance.Topics.Subscribe(domain.MaintenanceTopic, domain.HandoverTopic)
	defer stop()
	late := time.After(testTimeout)
	for {
		_, err := domain.Tick(w.t.Context(), w.clock, w.services.Maintenance.Due)
		require.NoError(w.t, err)
		require.NoError(w.t, w.services.Statements.Sweep(w.t.Context()))
		r := w.call(w.ours.viewer, "GET", "/maintenance/runs/"+run, nil).object(200)
		if r["state"] != "queued" && r["state"] != "running" {
			return r
		}
		select {
		case <-wake:
		case <-late:
			require.Fail(w.t, "it is not over", r)
		}
	}
}

// A table's maintenance shows its policy, its settings and their levels.
func TestMaintenanceOfATable(t *testing.T) {
	w := sqlWorld(t)
	table := "/tables/" + w.scattered("events", 1, 2, 3, 4, 5, 6) + "/maintenance"
	m := w.call(w.ours.viewer, "GET", table, nil).object(200)
	require.Equal(t, map[string]any{"compact": map[string]any{}, "expire": map[string]any{}, "orphans": map[string]any{}}, m["policy"])
	require.Equal(t, map[string]any{
		"enabled": true, "schedule": map[string]any{"cron": "0 3 * * *", "time_zone": "UTC"}, "warehouse_id": "", "start_warehouse": true,
		"compact": map[string]any{"enabled": true, "file_size_threshold": 134217728.0, "min_files": 5.0, "delete_percent": 10.0},
		"expire":  map[string]any{"enabled": true, "keep_days": 7.0, "max_snapshots": 1000.0, "erase_after_days": 1.0}, "orphans": map[string]any{"enabled": true, "older_than_days": 7.0},
	}, m["effective"])
	require.Contains(t, m["next_at"], "T03:00:00.000000Z")
	require.Equal(t, "default", m["origins"].(map[string]any)["compact.min_files"])

	w.call(w.ours.admin, "PUT", "/maintenance", `{"expire":{"keep_days":30},"orphans":{"enabled":false}}`).object(200)
	w.call(w.ours.editor, "PUT", "/databases/lake/maintenance", `{"schedule":{"cron":"@weekly","time_zone":"Europe/Rome"},"warehouse_id":"default"}`).object(200)
	m = w.call(w.ours.editor, "PUT", table, `{"compact":{"min_files":3},"enabled":null}`).object(200)
	origins, effective := m["origins"].(map[string]any), m["effective"].(map[string]any)
	require.Equal(t, []any{"default", "workspace", "database", "table", "database"},
		[]any{origins["enabled"], origins["expire.keep_days"], origins["schedule"], origins["compact.min_files"], origins["warehouse_id"]})
	require.Equal(t, w.warehouse(w.ours), effective["warehouse_id"], "its id, by its name")
	require.Equal(t, map[string]any{"min_files": 3.0}, m["policy"].(map[string]any)["compact"])
	require.Equal(t, m, w.call(w.ours.viewer, "GET", table, nil).object(200))

	run := w.call(w.ours.editor, "POST", table+"/run", nil, "Idempotency-Key", "k").object(202)
	require.Equal(t, []any{"queued", "manual", "events", "user"}, []any{run["state"], run["trigger"], run["table"], run["created_by"].(map[string]any)["kind"]})
	require.Equal(t, run, w.call(w.ours.editor, "POST", table+"/run", nil, "Idempotency-Key", "k").object(202))
	run = w.upkeep(fmt.Sprint(run["id"]))
	require.Equal(t, "succeeded", run["state"], run)
	operations := run["operations"].([]any)
	require.Len(t, operations, 2, "orphans are turned off")
	compact, expire := operations[0].(map[string]any), operations[1].(map[string]any)
	require.Equal(t, []any{"compact", `ALTER TABLE "lake"."public"."events" EXECUTE optimize(file_size_threshold => '128MB')`, "succeeded"},
		[]any{compact["kind"], compact["query"], compact["state"]})
	require.Equal(t, `ALTER TABLE "lake"."public"."events" EXECUTE expire_snapshots(retention_threshold => '30d', max_snapshots => 1000, erase_after => '1d')`, expire["query"])
	before := compact["before"].(map[string]any)
	require.Equal(t, []any{6.0, 0.0, 6.0}, []any{before["files"], before["delete_files"], before["snapshots"]}, "as the catalog recorded them")
	require.Equal(t, []any{3.0, 0.0}, []any{expire["files_removed"], expire["snapshots_expired"]})
	require.Contains(t, expire["metrics"], "kept")
	st := w.statement(fmt.Sprint(compact["statement_id"]))
	require.Equal(t, map[string]any{"kind": "system", "id": "system", "name": "maintenance"}, st["created_by"])
	require.Equal(t, []any{"maintenance", run["table_id"]}, []any{st["purpose"], st["table_id"]})
	require.Empty(t, w.call(w.ours.viewer, "GET", "/sql/statements", nil).data(200), "a list leaves them out")
	require.Len(t, w.call(w.ours.viewer, "GET", "/sql/statements?purpose=maintenance", nil).data(200), 2)
	w.call(w.ours.viewer, "GET", "/sql/statements?purpose=none", nil).refused(400)

	require.Len(t, w.call(w.ours.viewer, "GET", "/maintenance/runs?database=lake", nil).data(200), 1)
	require.Empty(t, w.call(w.ours.viewer, "GET", "/maintenance/runs?table=tbl_other", nil).data(200))
	w.call(w.ours.viewer, "GET", "/maintenance/runs?database=none", nil).refused(404)
	w.call(w.theirs.viewer, "GET", "/maintenance/runs/"+fmt.Sprint(run["id"]), nil).refused(404)
}

func TestMaintenanceOfADatabase(t *testing.T) {
	w := sqlWorld(t)
	w.scattered("one", 1, 2, 3, 4, 5)
	w.scattered("two", 1, 2, 3, 4, 5)
	w.scattered("quiet", 1)
	require.Equal(t, 2.0, w.call(w.ours.editor, "POST", "/databases/lake/maintenance/run", nil).object(202)["queued"])
	runs := w.call(w.ours.viewer, "GET", "/maintenance/runs?limit=1", nil).object(200)
	require.Len(t, runs["data"], 1)
	rest := w.call(w.ours.viewer, "GET", fmt.Sprint("/maintenance/runs?limit=1&cursor=", runs["next_cursor"]), nil).object(200)
	require.Len(t, rest["data"], 1)
	require.NotContains(t, rest, "next_cursor")
}

func TestWhatIsRefusedOfMaintenance(t *testing.T) {
	w := newWorld(t)
	empty := "/tables/" + string(w.table(w.ours, "empty", false).ID) + "/maintenance"
	for body, field := range map[string]string{
		`{"compact":{"file_size_threshold":1}}`:             "file_size_threshold",
		`{"compact":{"min_files":1}}`:                       "min_files",
		`{"compact":{"delete_percent":101}}`:                "delete_percent",
		`{"expire":{"keep_days":0}}`:                        "keep_days",
		`{"expire":{"max_snapshots":9}}`:                    "max_snapshots",
		`{"expire":{"erase_after_days":31}}`:                "erase_after_days",
		`{"orphans":{"older_than_days":0}}`:                 "older_than_days",
		`{"schedule":{"cron":"often"}}`:                     "cron",
		`{"schedule":{"cron":"@daily","time_zone":"Mars"}}`: "time zone",
		`{"warehouse_id":"none"}`:                           "none",
		`{"compact":{"surprise":true}}`:                     "surprise",
		`{"schedule":{"time_zone":"UTC"}}`:                  "cron",
	} {
		require.Contains(t, w.call(w.ours.editor, "PUT", empty, body).refused(400), field, body)
	}
	require.Contains(t, w.call(w.ours.editor, "POST", empty+"/run", nil).refused(409), "never written")
	view := "/tables/" + string(w.view(w.ours, "lake", "a_view").ID) + "/maintenance"
	w.call(w.ours.viewer, "GET", view, nil).refused(404)
}
