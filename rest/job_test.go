package rest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var pipeline = map[string]any{
	"name": "pipeline", "description": "Every night",
	"tasks": []map[string]any{
		{"key": "extract", "command": "./extract.sh", "max_retries": 2, "timeout_seconds": 60},
		{"key": "load", "command": "./load.sh", "depends_on": []string{"extract"}, "environment": map[string]string{"A": "1"}},
	},
	"parameters": map[string]string{"REGION": "eu"},
	"schedule":   map[string]any{"cron": "30 6 * * 1-5", "time_zone": "Europe/Rome"},
}

func TestJobs(t *testing.T) {
	w := newWorld(t)
	token := w.ours.editor

	r := w.call(token, "POST", "/jobs", pipeline)
	made := r.object(201)
	id, _ := made["id"].(string)
	require.Equal(t, Prefix+"/jobs/"+id, r.header.Get("Location"))
	require.Equal(t, made, w.call(token, "GET", "/jobs/"+id, nil).object(200))
	require.Regexp(t, "^job_", id)
	require.Equal(t, []any{
		map[string]any{"key": "extract", "command": "./extract.sh", "depends_on": []any{}, "max_retries": 2.0, "timeout_seconds": 60.0, "environment": map[string]any{}, "compute": ""},
		map[string]any{"key": "load", "command": "./load.sh", "depends_on": []any{"extract"}, "max_retries": 0.0, "timeout_seconds": 0.0, "environment": map[string]any{"A": "1"}, "compute": ""},
	}, made["tasks"])
	require.Empty(t, made["compute"])
	require.Equal(t, false, made["compute_fallback"])
	schedule, _ := made["schedule"].(map[string]any)
	require.Equal(t, "Europe/Rome", schedule["time_zone"])
	require.NotNil(t, schedule["next_at"])
	by, _ := made["created_by"].(map[string]any)
	require.Equal(t, "user", by["kind"])

	for _, method := range []string{"PATCH", "PUT"} {
		t.Run(method, func(t *testing.T) {
			id, _ := w.call(token, "POST", "/jobs", pipeline).object(201)["id"].(string)
			change := func(body string) map[string]any { return w.call(token, method, "/jobs/"+id, body).object(200) }
			require.Len(t, change(`{}`)["tasks"], 2)
			require.Len(t, change(`{"tasks":null}`)["tasks"], 2, "null leaves the DAG intact")
			require.NotNil(t, change(`{"name":"renamed","description":null}`)["schedule"])
			require.Equal(t, "Every night", change(`{}`)["description"])
			require.Nil(t, change(`{"schedule":null}`)["schedule"], "null removes the schedule")
			require.Equal(t, []any{}, change(`{"tasks":[]}`)["tasks"], "[] clears the DAG")
			require.Equal(t, "true", change(`{"command":"true"}`)["command"])
			require.Equal(t, map[string]any{}, change(`{"parameters":{}}`)["parameters"])
			w.call(token, method, "/jobs/"+id, `{"id":"job_x"}`).refused(400)
			w.call(token, method, "/jobs/"+id, `{"tasks":[{"key":"a","command":"true"},{"key":"a","command":"true"}]}`).refused(400)
			require.Equal(t, "renamed", change(`{}`)["name"])
		})
	}
	t.Run("delete", func(t *testing.T) {
		id := w.job(token, map[string]any{"name": "gone", "command": "true"})
		r := w.call(token, "DELETE", "/jobs/"+id, nil)
		require.Equal(t, 204, r.status)
		require.Empty(t, r.body)
		w.call(token, "GET", "/jobs/"+id, nil).refused(404)
		w.call(token, "DELETE", "/jobs/"+id, nil).refused(404)
	})
	t.Run("delete while a run is pending is 409, and the run stays after it", func(t *testing.T) {
		id := w.job(token, map[string]any{"name": "busy", "command": "true"})
		run := w.start(token, id)
		w.call(token, "DELETE", "/jobs/"+id, nil).refused(409)
		w.call(token, "POST", "/runs/"+run+"/cancel", nil).object(200)
		require.Equal(t, 204, w.call(token, "DELETE", "/jobs/"+id, nil).status)
		require.Equal(t, id, w.call(token, "GET", "/runs/"+run, nil).object(200)["job_id"])
	})
	t.Run("a job without a command or tasks is saved, and cannot start", func(t *testing.T) {
		id := w.job(token, map[string]any{"name": "empty", "tasks": []any{}})
		w.call(token, "POST", "/jobs/"+id+"/run", nil).refused(409)
	})
	t.Run("preview of a schedule", func(t *testing.T) {
		require.Len(t, w.call(token, "GET", "/schedules/preview?cron=%40daily&count=3&time_zone=Europe%2FRome", nil).data(200), 3)
		require.Contains(t, w.call(token, "GET", "/schedules/preview?cron=x", nil).refused(400), "cron")
		w.call(token, "GET", "/schedules/preview", nil).refused(400)
	})
}

// Every page of every list is bounded and continues the previous one. Cursors of other lists or
// filters are refused.
func TestPaging(t *testing.T) {
	w := newWorld(t)
	token := w.ours.admin
	for i := range 7 {
		w.job(token, map[string]any{"name": fmt.Sprintf("job %d", i), "command": "true"})
	}
	var names []string
	path := "/jobs?limit=3"
	for pages := 1; ; pages++ {
		page := w.call(token, "GET", path, nil).object(200)
		data, _ := page["data"].([]any)
		for _, item := range data {
			job, _ := item.(map[string]any)
			name, _ := job["name"].(string)
			names = append(names, name)
		}
		next, more := page["next_cursor"].(string)
		if !more {
			require.Equal(t, 3, pages)
			break
		}
		path = "/jobs?limit=3&cursor=" + next
	}
	require.Equal(t, []string{"job 6", "job 5", "job 4", "job 3", "job 2", "job 1", "job 0"}, names)

	cursor, _ := w.call(token, "GET", "/jobs?limit=3", nil).object(200)["next_cursor"].(string)
	require.Contains(t, w.call(token, "GET", "/jobs?search=job&cursor="+cursor, nil).refused(400), "another list or filter")
	for _, list := range []string{
		"/jobs", "/runs", "/settings/members", "/settings/api-keys", "/settings/agents", "/settings/quotas", "/compute", "/sql/warehouses", "/flavors",
	} {
		for _, limit := range []string{"0", "201", "-1", "x", "1.5", "99999999999999999999"} {
			require.Contains(t, w.call(token, "GET", list+"?limit="+limit, nil).refused(400), "limit", list)
		}
		w.call(token, "GET", list+"?limit=200", nil).data(200)
		require.Contains(t, w.call(token, "GET", list+"?cursor=x", nil).refused(400), "cursor", list)
		if list != "/jobs" {
			require.Contains(t, w.call(token, "GET", list+"?cursor="+cursor, nil).refused(400), "cursor", list)
		}
	}
	quotas := w.call(token, "GET", "/settings/quotas?limit=1", nil).object(200)
	next, _ := quotas["next_cursor"].(string)
	require.NotEmpty(t, next)
	last := w.call(token, "GET", "/settings/quotas?limit=200&cursor="+next, nil).object(200)
	require.NotContains(t, last, "next_cursor")
	require.NotEqual(t, quotas["data"], last["data"])
}

func TestIdempotencyKeys(t *testing.T) {
	w := newWorld(t)
	token := w.ours.editor
	body := map[string]any{"name": "once", "command": "true"}
	var made sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			made.Store(w.call(token, "POST", "/jobs", body, "Idempotency-Key", "k1").object(201)["id"], true)
		})
	}
	all.Wait()
	require.Len(t, w.call(token, "GET", "/jobs", nil).data(200), 1)
	w.call(token, "POST", "/jobs", map[string]any{"name": "other", "command": "true"}, "Idempotency-Key", "k1").refused(409)
	w.call(w.ours.admin, "POST", "/jobs", body, "Idempotency-Key", "k1").object(201)

	job := w.job(token, body)
	first := w.call(token, "POST", "/jobs/"+job+"/run", nil, "Idempotency-Key", "r1").object(201)
	require.Equal(t, first, w.call(token, "POST", "/jobs/"+job+"/run", nil, "Idempotency-Key", "r1").object(201))
	require.Len(t, w.call(token, "GET", "/runs", nil).data(200), 1)
	w.call(token, "POST", "/jobs/"+job+"/run", nil, "Idempotency-Key", strings.Repeat("x", 256)).refused(400)

	run := "/runs/" + first["run_id"].(string)
	w.call(token, "POST", run+"/cancel", nil).object(200)
	require.Equal(t, "pending", w.call(token, "POST", run+"/repair", nil, "Idempotency-Key", "p1").object(200)["status"])
	w.call(token, "POST", run+"/cancel", nil).object(200)
	require.Equal(t, "cancelled", w.call(token, "POST", run+"/repair", nil, "Idempotency-Key", "p1").object(200)["status"], "it is not repaired again")
}

// The body at a quota is exactly that of the specification. Of fifty concurrent requests, exactly
// as many as the quota allows succeed.
func TestQuotaOfRuns(t *testing.T) {
	w := newWorld(t)
	job := w.job(w.ours.editor, map[string]any{"name": "many", "command": "sleep 60"})
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			r := w.call(w.ours.editor, "POST", "/jobs/"+job+"/run", nil)
			if r.status == http.StatusTooManyRequests && r.body != `{"error":"max_running_runs=10, current=10"}` {
				t.Errorf("429 with %s", r.body)
			}
			mu.Lock()
			statuses[r.status]++
			mu.Unlock()
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{201: 10, 429: 40}, statuses)

	quota := w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{"limit":11}`).object(200)
	require.Equal(t, map[string]any{"name": "max_running_runs", "unit": "count", "limit": 11.0, "default": 10.0, "current": 10.0, "description": quota["description"]}, quota)
	w.start(w.ours.editor, job)
	require.Equal(t, `{"error":"max_running_runs=11, current=11"}`, w.call(w.ours.editor, "POST", "/jobs/"+job+"/run", nil).body)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{"limit":-1}`).refused(400)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{"limit":1000001}`).refused(400)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{}`).refused(400)
	require.Equal(t, 10.0, w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{"limit":null}`).object(200)["limit"])
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_jokes", `{"limit":1}`).refused(404)
}

// TestChangingASchedule changes only the given fields.
func TestChangingASchedule(t *testing.T) {
	w := newWorld(t)
	job := w.job(w.ours.editor, map[string]any{"name": "nightly", "command": "true"})
	patch := func(schedule string) reply {
		return w.call(w.ours.editor, "PATCH", "/jobs/"+job, `{"schedule":`+schedule+`}`)
	}
	require.Contains(t, patch(`{"paused":true}`).refused(400), "schedule.cron")
	require.Equal(t, 200, patch(`{"cron":"30 2 * * *","time_zone":"Europe/Rome"}`).status)
	for _, c := range []struct {
		given, cron, zone string
		paused            bool
	}{
		{`{"paused":true}`, "30 2 * * *", "Europe/Rome", true},
		{`{"cron":"0 4 * * *","time_zone":null}`, "0 4 * * *", "Europe/Rome", true},
		{`{"paused":false}`, "0 4 * * *", "Europe/Rome", false},
		{`{}`, "0 4 * * *", "Europe/Rome", false},
	} {
		schedule, _ := patch(c.given).object(200)["schedule"].(map[string]any)
		require.Equal(t, []any{c.cron, c.zone, c.paused}, []any{schedule["cron"], schedule["time_zone"], schedule["paused"]}, c.given)
	}
	require.Contains(t, w.call(w.ours.editor, "PATCH", "/jobs/"+job, `{"command":""}`).refused(400), "nothing to run")
	require.Nil(t, patch(`null`).object(200)["schedule"])
	require.Contains(t, w.call(w.ours.editor, "POST", "/jobs", `{"name":"x","schedule":{"cron":"* * * * *"}}`).refused(400), "nothing to run")
}
