package rest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/machine"
)

func TestComputeIsMade(t *testing.T) {
	w := newWorld(t)
	r := w.call(w.ours.editor, "POST", "/compute", map[string]any{"name": "trainer", "flavor": "cpu.2"})
	made := r.object(201)
	require.Equal(t, map[string]any{"id": made["id"], "status": "stopped"}, made, "exactly these two fields")
	id, _ := made["id"].(string)
	require.Equal(t, Prefix+"/compute/"+id, r.header.Get("Location"))
	shown := w.call(w.ours.viewer, "GET", "/compute/"+id, nil).object(200)
	by, _ := shown["created_by"].(map[string]any)
	require.Equal(t, "user", by["kind"])
	require.Equal(t, []any{shown}, w.call(w.ours.viewer, "GET", "/compute", nil).data(200))
	require.NotContains(t, shown, "engines")
	require.NotContains(t, shown, "write_engine")
}

// A task on a compute instance shows it, from the wait for its start to its last attempt.
func TestTasksOnCompute(t *testing.T) {
	w := newWorld(t)
	token, id := w.ours.editor, w.machine(computeNoun, w.ours.editor, "trainer")
	job := w.job(token, map[string]any{"name": "on it", "compute": "trainer", "tasks": []any{
		map[string]any{"key": "train", "command": "true"},
		map[string]any{"key": "publish", "command": "true", "depends_on": []string{"train"}},
	}})
	require.Equal(t, id, w.call(token, "GET", "/jobs/"+job, nil).object(200)["compute"], "a name is kept as the id")

	run := w.start(token, job)
	require.Equal(t, "starting", w.state(computeNoun, id), "it is started for them")
	row := w.taskRow(run, 0)
	require.Equal(t, []any{id, "queued", "Waits for the compute instance trainer, which is being started."}, []any{row["compute"], row["status"], row["message"]})
	agent := w.arrives()
	_, err := w.services.Runs.Dispatch(t.Context())
	require.NoError(t, err)
	attempt := agent.next()
	require.Equal(t, []any{id, "running"}, []any{w.taskRow(run, 0)["compute"], w.taskRow(run, 0)["status"]})
	require.Contains(t, w.call(token, "GET", "/runs/"+run+"/attempts", nil).body, `"agent_id":"`+agent.scope.Actor().ID+`"`)
	require.Nil(t, w.call(token, "GET", "/compute/"+id, nil).object(200)["auto_stop_at"], "it has something to do")

	agent.ends(attempt, 0, 0)
	agent.ends(agent.next(), 0, 0)
	require.Equal(t, "success", w.call(token, "GET", "/runs/"+run, nil).object(200)["status"])
	idle := w.call(token, "GET", "/compute/"+id, nil).object(200)
	require.NotNil(t, idle["auto_stop_at"])
	require.NotNil(t, idle["last_used_at"])

	t.Run("a job or a task names an existing compute instance", func(t *testing.T) {
		theirs := w.machine(computeNoun, w.theirs.editor, "elsewhere")
		warehouse := w.machine(warehouseNoun, token, "sql")
		for _, unknown := range []string{"nothing", theirs, "elsewhere", warehouse, "sql"} {
			require.Contains(t, w.call(token, "POST", "/jobs", map[string]any{"name": "x", "command": "true", "compute": unknown}).refused(400), "There is no compute instance")
			tasks := []any{map[string]any{"key": "a", "command": "true", "compute": unknown}}
			require.Contains(t, w.call(token, "POST", "/jobs", map[string]any{"name": "x", "tasks": tasks}).refused(400), "tasks[0].compute")
			require.Contains(t, w.call(token, "PATCH", "/jobs/"+job, map[string]any{"compute": unknown}).refused(400), "compute")
		}
		changed := w.call(token, "PATCH", "/jobs/"+job, `{"compute":"","compute_fallback":true}`).object(200)
		require.Equal(t, []any{"", true}, []any{changed["compute"], changed["compute_fallback"]})
		plain := w.start(token, job)
		require.Empty(t, w.taskRow(plain, 0)["compute"])
	})
}

func (w *world) taskRow(run string, i int) map[string]any {
	w.t.Helper()
	r := w.call(w.ours.viewer, "GET", "/runs/"+run+"/tasks", nil)
	require.Equal(w.t, 200, r.status, r.body)
	return decode[[]map[string]any](w.t, r.body)[i]
}

func TestFlavors(t *testing.T) {
	w := newWorld(t)
	first := w.call(w.ours.viewer, "GET", "/flavors?limit=1", nil)
	require.JSONEq(t, `[{"name":"cpu.1","cores":1,"memory":4294967296,"gpus":0,"gpu":"","available":true,"limits":"","price_per_hour":null,"currency":""}]`, encoded(t, first.data(200)))
	require.NoError(t, w.machines.store.System().InsertPrices(t.Context(), machine.ProviderLocal, "local", time.Unix(0, 0), map[string]machine.Price{
		"cpu.1": {Hourly: decimal.RequireFromString("0.04"), Currency: "USD"},
		"cpu.2": {Hourly: decimal.RequireFromString("123456789.123456"), Currency: "EUR"},
	}))
	require.Contains(t, w.call(w.ours.viewer, "GET", "/flavors?limit=1", nil).body, `"price_per_hour":0.04,"currency":"USD"`)
	next, _ := first.object(200)["next_cursor"].(string)
	second := w.call(w.ours.viewer, "GET", "/flavors?limit=1&cursor="+next, nil).body
	require.Contains(t, second, `"price_per_hour":123456789.123456,"currency":"EUR"`, "a number with all its digits")
	require.Len(t, w.call(w.ours.viewer, "GET", "/flavors", nil).data(200), 7)
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
