package rest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trackingRun starts a run in a new experiment, and returns its path.
func (w *world) trackingRun() string {
	w.t.Helper()
	id, _ := w.call(w.ours.editor, "POST", "/experiments", map[string]any{"name": unique("x")}).object(201)["id"].(string)
	runs := "/experiments/" + id + "/runs"
	run, _ := w.call(w.ours.editor, "POST", runs, `{}`).object(201)["id"].(string)
	return runs + "/" + run
}

// TestMetricBodies: what is wrong is named, and changes nothing.
func TestMetricBodies(t *testing.T) {
	w := newWorld(t)
	run := w.trackingRun()
	many := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"key":"a","value":1},`, n), ",") + "]"
	}
	for body, message := range map[string]string{
		`{"value":1}`:                                           `The field "key" is required.`,
		`{"key":"a"}`:                                           `The field "value" is required.`,
		`{"key":"a","value":null}`:                              `The value of a metric is a number, or "NaN", "Infinity" or "-Infinity".`,
		`{"key":"a","value":"1"}`:                               `The value of a metric is a number`,
		`{"key":"a","value":1e400}`:                             `too large a number`,
		`{"key":"","value":1}`:                                  `Metric name cannot be empty.`,
		`{"key":"a/../b","value":1}`:                            `must not resolve to other names`,
		`{"key":"/a","value":1}`:                                `must not resolve to other names`,
		`{"key":"a\nb","value":1}`:                              `Names may only contain`,
		`{"key":"a","value":1,"step":1.5}`:                      "step",
		`{"key":"a","value":1,"step":9223372036854775808}`:      "step",
		`{"key":"a","value":1,"timestamp":-1}`:                  "Timestamp must be a nonnegative long",
		`{"key":"a","value":1,"timestamp":9223372036854775807}`: "Timestamp must be a nonnegative long",
		`{"key":"a","value":1,"timestamp":"yesterday"}`:         "A timestamp is a time in ISO 8601",
		`{"key":"` + strings.Repeat("ä", 251) + `","value":1}`:  "maximum length of 250 characters",
		`{"key":"a","value":1,"kind":1}`:                        `There is no field "kind" here`,
	} {
		require.Contains(t, w.call(w.ours.editor, "POST", run+"/metrics", body).refused(400), message, body)
	}
	for body, message := range map[string]string{
		`[]`:               "1 to 1000 points",
		`{}`:               "1 to 1000 points",
		`{"metrics":null}`: `"metrics" cannot be null`,
		many(1001):         "1 to 1000 points",
		`[{"key":"a"}]`:    `The value of a metric is a number`,
		`[{"key":"a","value":1},{"key":"..","value":1}]`: "must not resolve to other names",
		`{"metrics":[{"key":"a","value":1,"x":1}]}`:      `There is no field "x" here`,
		`"a"`: "cannot be of the type string",
	} {
		require.Contains(t, w.call(w.ours.editor, "POST", run+"/metrics/batch", body).refused(400), message, body)
	}
	require.Equal(t, []any{}, w.call(w.ours.viewer, "GET", run, nil).object(200)["metrics"])
	require.JSONEq(t, `{"logged":1000}`, w.call(w.ours.editor, "POST", run+"/metrics/batch", many(1000)).body)
	require.JSONEq(t, `{"key":"Größe/x 1","value":"-Infinity","step":-9223372036854775808,"timestamp":"9999-12-31T23:59:59.999Z"}`,
		w.call(w.ours.editor, "POST", run+"/metrics", `{"key":"Größe/x 1","value":"-Infinity","step":-9223372036854775808,"timestamp":253402300799999}`).body)
}

// TestHistoriesForCharts have few points, with the extremes.
func TestHistoriesForCharts(t *testing.T) {
	w := newWorld(t)
	run := w.trackingRun()
	points := make([]map[string]any, 1000)
	for i := range points {
		points[i] = map[string]any{"key": "a", "value": i % 7, "step": i, "timestamp": i}
	}
	points[300]["value"], points[777]["value"] = -5, 99
	w.call(w.ours.editor, "POST", run+"/metrics/batch", map[string]any{"metrics": points}).object(200)
	history := func(query string) []any {
		t.Helper()
		data, _ := w.call(w.ours.viewer, "GET", run+"/metrics/a"+query, nil).object(200)["data"].([]any)
		return data
	}
	require.Len(t, history(""), 1000)
	require.Len(t, history("?max_points=1000"), 1000)
	few := history("?max_points=50")
	require.LessOrEqual(t, len(few), 50)
	for _, step := range []int{0, 300, 777, 999} {
		require.Contains(t, few, map[string]any{"step": float64(step), "value": float64(points[step]["value"].(int)), "timestamp": fmt.Sprintf("1970-01-01T00:00:00.%03dZ", step)})
	}
	for _, wrong := range []string{"0", "9", "10001", "-1", "x", ""} {
		w.call(w.ours.viewer, "GET", run+"/metrics/a?max_points="+wrong, nil).refused(400)
	}
	require.Empty(t, w.call(w.ours.viewer, "GET", run+"/metrics/none?max_points=10", nil).object(200)["data"])
	w.call(w.theirs.viewer, "GET", run+"/metrics/a?max_points=10", nil).refused(404)
}

// TestKeysWithSlashes are one element of the path, encoded or not.
func TestKeysWithSlashes(t *testing.T) {
	w := newWorld(t)
	run := w.trackingRun()
	w.call(w.ours.editor, "POST", run+"/metrics", `{"key":"val/a b/loss","value":1}`).object(200)
	for _, path := range []string{"/metrics/val%2Fa%20b%2Floss", "/metrics/val/a%20b/loss"} {
		require.Len(t, w.call(w.ours.viewer, "GET", run+path, nil).data(200), 1, path)
	}
	require.Equal(t, 204, w.call(w.ours.editor, "POST", run+"/tags", `{"tags":[{"key":"a/b","value":"1"}]}`).status)
	require.Equal(t, 204, w.call(w.ours.editor, "DELETE", run+"/tags/a/b", nil).status)
	w.call(w.ours.editor, "DELETE", run+"/tags/a/b", nil).refused(404)
}

// TestALifeOfARun through the API.
func TestALifeOfARun(t *testing.T) {
	w := newWorld(t)
	run := w.trackingRun()
	edit := func(method, path string, body any, status int) {
		t.Helper()
		require.Equal(t, status, w.call(w.ours.editor, method, run+path, body).status, "%s %s", method, path)
	}
	edit("POST", "/parameters", `{"parameters":[{"key":"depth","value":"3"}]}`, 204)
	edit("POST", "/parameters", `{"parameters":[{"key":"depth","value":"3"}]}`, 204)
	edit("POST", "/parameters", `{"parameters":[{"key":"depth","value":"4"}]}`, 409)
	edit("POST", "/tags", `{"tags":[{"key":"millpond.run_id","value":"x"}]}`, 400)
	edit("POST", "/tags", `{"tags":[{"key":"mlflow.runName","value":"renamed"}]}`, 204)
	edit("POST", "/inputs", `{"inputs":[{"name":"n","digest":"d","source_type":"local","source":"s","tags":[{"key":"mlflow.data.context","value":"train"}]}]}`, 204)
	edit("PATCH", "", `{"status":"finished","finished_at":"2026-03-01T08:30:00.1234Z"}`, 200)
	got := w.call(w.ours.viewer, "GET", run, nil).object(200)
	require.Equal(t, []any{"renamed", "finished", "2026-03-01T08:30:00.123000Z"}, []any{got["name"], got["status"], got["finished_at"]})
	require.Equal(t, []any{map[string]any{"key": "depth", "value": "3"}}, got["parameters"])
	require.Len(t, got["inputs"], 1)
	edit("PATCH", "", `{"status":"running"}`, 200)
	require.Nil(t, w.call(w.ours.viewer, "GET", run, nil).object(200)["finished_at"])
	edit("DELETE", "", nil, 204)
	edit("DELETE", "", nil, 409)
	edit("POST", "/metrics", `{"key":"a","value":1}`, 409)
	edit("POST", "/restore", nil, 200)
	edit("POST", "/restore", nil, 409)
	edit("POST", "/metrics", `{"key":"a","value":1}`, 200)
}

// TestPagesOfRuns: each run once, whatever the order, and the same cursor only with its search.
func TestPagesOfRuns(t *testing.T) {
	w := newWorld(t)
	runs := w.trackingRun()
	runs = runs[:strings.LastIndex(runs, "/")]
	for i := range 6 {
		run, _ := w.call(w.ours.editor, "POST", runs, fmt.Sprintf(`{"name":"r%d"}`, i)).object(201)["id"].(string)
		if i%2 == 0 {
			w.call(w.ours.editor, "POST", runs+"/"+run+"/metrics", fmt.Sprintf(`{"key":"loss","value":%s}`, []string{`1`, `"NaN"`, `-1`}[i/2])).object(200)
		}
	}
	for _, order := range []string{"", "metrics.loss ASC", "metrics.loss DESC", "start_time ASC", "end_time DESC", "params.x ASC", "tags.`mlflow.runName` DESC", "attributes.run_name ASC"} {
		seen := map[any]bool{}
		query := map[string]any{"limit": 2}
		if order != "" {
			query["order_by"] = []string{order}
		}
		for more := true; more; {
			page := w.call(w.ours.viewer, "POST", runs+"/search", query).object(200)
			for _, r := range page["data"].([]any) {
				id := r.(map[string]any)["id"]
				require.False(t, seen[id], "%s: a run is there twice", order)
				seen[id] = true
			}
			query["cursor"], more = page["next_cursor"]
		}
		require.Len(t, seen, 7, order)
	}
	cursor := w.call(w.ours.viewer, "GET", runs+"?limit=1", nil).object(200)["next_cursor"]
	require.NotEmpty(t, cursor)
	w.call(w.ours.viewer, "GET", fmt.Sprintf("%s?limit=1&view=all&cursor=%s", runs, cursor), nil).refused(400)
	w.call(w.ours.viewer, "GET", runs+"?cursor=x", nil).refused(400)
}
