package graph

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
)

func wide(n, command int) (spec job.Spec) {
	for i := range n {
		spec.Tasks = append(spec.Tasks, job.TaskSpec{Key: fmt.Sprintf("t%d", i), Command: strings.Repeat("x", command)})
	}
	return spec
}

// TestAResponseIsBounded by its actual content: the price does not include the number and size of a
// run's tasks.
func TestAResponseIsBounded(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(300)
	me := bearer(a.viewer.token)
	_, err := w.services.Quotas.Update(t.Context(), a.admin.scope, quota.MaxRunningRuns, new(int64(100)))
	require.NoError(t, err)
	job := a.job(wide(1000, 1))
	first := a.run(job)
	one := map[string]any{"id": first.ID}

	data := w.ok(me, `query($id: ID!) { run(id: $id) { tasks { key command status attempts { number status } } } }`, one)
	require.Len(t, at(data, "run", "tasks"), 1000, "one run is shown whole, however wide")
	require.Equal(t, "x", at(data, "run", "tasks", 999, "command"))
	require.Len(t, at(data, "run", "tasks", 0, "attempts"), 1)

	res := w.query(me, `query($id: ID!) { run(id: $id) { tasks { attempts { logTail(bytes: 1) } } } }`, one)
	require.Equal(t, "TOO_LARGE", res.code(), "300 ends of logs")
	res = w.query(me, "query($id: ID!) { run(id: $id) { tasks { "+repeated(600, "a%d: key ")+"} } }", one)
	require.Equal(t, "TOO_LARGE", res.code(), "600,000 fields")

	large := a.job(wide(40, 100<<10))
	for range 9 {
		a.run(large)
	}
	res = w.query(me, `{ runs(first: 200) { edges { node { tasks { command } } } } }`, nil)
	require.Equal(t, "TOO_LARGE", res.code(), "36 MiB of commands")
	for range 20 {
		a.run(job)
	}
	before := w.counted.count.Load()
	res = w.query(me, `{ runs(first: 200) { edges { node { id tasks { key } } } } }`, nil)
	require.Equal(t, "TOO_LARGE", res.code(), "21,360 tasks")
	require.LessOrEqual(t, w.counted.count.Load()-before, int64(2), "they are refused before they are read")
	data = w.ok(me, `{ runs(first: 19) { edges { node { id tasks { key } } } } }`, nil)
	require.Len(t, at(data, "runs", "edges", 18, "node", "tasks"), 1000)
	require.NotContains(t, w.log.String(), "internal error")
}

// TestARunIsShownWithWhatItFroze in every field that returns a run.
func TestARunIsShownWithWhatItFroze(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	j := a.job(job.Spec{Command: "echo hi", Parameters: []job.Variable{{Name: "DAY", Value: "1"}}})
	const fields = `{ singleCommand command parameters { name value } tasks { key } }`
	want := map[string]any{
		"singleCommand": true, "command": "echo hi", "tasks": []any{}, "parameters": []any{map[string]any{"name": "DAY", "value": "2"}},
	}
	start := `mutation($job: ID!) { startRun(input: {jobId: $job, parameters: [{name: "DAY", value: "2"}]}) { run { id ...F } } } fragment F on Run ` + fields
	data := w.ok(me, start, map[string]any{"job": j.ID})
	id := at(data, "startRun", "run", "id")
	delete(at(data, "startRun", "run").(map[string]any), "id")
	require.Equal(t, want, at(data, "startRun", "run"))
	data = w.ok(me, `query($id: ID!) { run(id: $id) `+fields+` runs { edges { node `+fields+` } } jobs(first: 1) { edges { node { latestRun `+fields+` runs(first: 1) { edges { node `+fields+` } } } } } }`, map[string]any{"id": id})
	require.Equal(t, want, at(data, "run"))
	require.Equal(t, want, at(data, "runs", "edges", 0, "node"))
	require.Equal(t, want, at(data, "jobs", "edges", 0, "node", "latestRun"))
	require.Equal(t, want, at(data, "jobs", "edges", 0, "node", "runs", "edges", 0, "node"))
	c := w.open(me, nil)
	sub := c.subscribe(`subscription { runs `+fields+` }`, nil)
	require.Equal(t, want, at(c.event(sub), "runs"))
}

// TestAnotherUpgradeIsPassedOver: Java's client and curl offer HTTP/2 with a normal POST.
func TestAnotherUpgradeIsPassedOver(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	for _, upgrade := range []string{"h2c", "TLS/1.0", "websocket"} {
		res := w.query(func(h http.Header) {
			bearer(a.viewer.token)(h)
			h.Set("Connection", "Upgrade, HTTP2-Settings")
			h.Set("Upgrade", upgrade)
			h.Set("HTTP2-Settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA")
		}, `{ viewer { role } }`, nil)
		if upgrade == "websocket" {
			require.Equal(t, http.StatusBadRequest, res.Status, "a WebSocket is opened by GET")
			continue
		}
		require.Equal(t, http.StatusOK, res.Status, upgrade)
		require.Equal(t, "VIEWER", at(res.Data, "viewer", "role"))
	}
	// The cookie alone does not count with such a header either: another site's page can make a
	// browser send it.
	res := w.query(func(h http.Header) {
		console(a.viewer.cookie)(h)
		h.Del(auth.ConsoleHeader)
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", "h2c")
	}, `{ viewer { role } }`, nil)
	require.Equal(t, http.StatusForbidden, res.Status)
}
