package mlflow_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostile are values in the place of every field of every request.
var hostile = []string{
	`null`, `true`, `0`, `-1`, `1.5`, `1e999`, `9223372036854775807`, `9223372036854775808`, `""`, `"x"`, `"\u0000"`, `"\ud800"`, `"é\n"`, `"NaN"`, `[]`, `{}`, `[null]`, `[[]]`, `[{}]`, `["x"]`, `[1]`,
	`[{"key":null}]`, `[{"key":"k","value":null,"timestamp":1}]`, `[{"key":"k","value":1e308,"timestamp":1e308}]`, `[{"dataset":null}]`, `[{"dataset":[]}]`, `[{"tags":[null],"dataset":{}}]`,
	`"metrics.m > 1 AND params.x = 'a' ORDER BY"`, `"attribute.run_id IN ('a',)"`, `"tags.a LIKE '%\\"`, `"start_time > 1e300"`, `["metrics.m DESC","params.x"]`, `"%s%d'; DROP TABLE experiments"`,
}

// optional are fields that the attempts do without.
var optional = map[string][]string{
	"experiments/create":                {"artifact_location", "tags"},
	"experiments/search":                {"filter", "order_by", "page_token", "view_type"},
	"runs/create":                       {"user_id", "run_name", "start_time", "tags"},
	"runs/search":                       {"filter", "order_by", "page_token", "max_results", "run_view_type"},
	"runs/update":                       {"status", "end_time"},
	"runs/log-metric":                   {"step"},
	"runs/log-batch":                    {"metrics", "params", "tags"},
	"runs/log-inputs":                   {"datasets", "models"},
	"metrics/get-history":               {"max_results", "page_token"},
	"metrics/get-history-bulk":          {"max_results"},
	"metrics/get-history-bulk-interval": {"max_results", "start_step", "end_step"},
}

// TestNothingIsOurFault: whatever is sent in place of any field is answered, and not with 5xx.
func TestNothingIsOurFault(t *testing.T) {
	w := newWorld(t)
	x := w.experiment("x")
	run := w.run(x)
	for _, a := range attempts(x, run) {
		for _, field := range append(slices.Collect(maps.Keys(a.body)), optional[a.path]...) {
			for _, value := range hostile {
				w.sound(a, field, value)
			}
		}
		w.post("experiments/restore", object{"experiment_id": x})
		w.post("runs/restore", object{"run_id": run})
	}
	require.Empty(t, w.logged.String())
}

// sound sends the request with another value of the field.
func (w *world) sound(a attempt, field, value string) {
	w.t.Helper()
	var got reply
	if a.method == http.MethodGet {
		query := url.Values{}
		for k, v := range a.body {
			query.Set(k, v.(string))
		}
		query.Set(field, strings.Trim(value, `"`))
		got = w.send(w.ours.editor, a.method, a.path, query)
	} else {
		body := map[string]json.RawMessage{}
		for k, v := range a.body {
			body[k], _ = json.Marshal(v)
		}
		body[field] = nil
		encoded, err := json.Marshal(body)
		require.NoError(w.t, err)
		at := `"` + field + `":`
		got = w.send(w.ours.editor, a.method, a.path, strings.Replace(string(encoded), at+"null", at+value, 1))
	}
	require.Less(w.t, got.status, 500, "%s %s=%s: %s", a.path, field, value, got.body)
	require.True(w.t, json.Valid([]byte(got.body)))
}

// FuzzBodies: no body of a batch is our fault.
func FuzzBodies(f *testing.F) {
	w := newWorld(f)
	run := w.run("0")
	for _, value := range hostile {
		f.Add([]byte(`{"run_id":"` + run + `","metrics":` + value + `,"params":` + value + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Contains(body, []byte("\r\n")) {
			t.Skip()
		}
		w := *w
		w.t = t
		for _, path := range []string{"runs/log-batch", "runs/search", "runs/log-inputs"} {
			got := w.post(path, string(body))
			require.Less(t, got.status, 500, "%s: %s", path, got.body)
			require.True(t, json.Valid([]byte(got.body)))
		}
	})
}
