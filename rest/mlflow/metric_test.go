package mlflow_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	log := func(more object) reply {
		body := object{"run_id": run, "key": "m", "value": 1, "timestamp": 1}
		for k, v := range more {
			if body[k] = v; v == nil {
				delete(body, k)
			}
		}
		return w.post("runs/log-metric", body)
	}
	for key, value := range map[string]any{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "text": "0.5", "exp": json.RawMessage("1e-300"), "zero": math.Copysign(0, -1), "long": json.RawMessage("123456789012345678901234567890")} {
		log(object{"key": key, "value": value, "timestamp": "7", "step": json.RawMessage("1e3")}).done()
	}
	log(object{"key": "edge", "timestamp": 253402300799999, "step": "-9223372036854775808"}).done()
	log(object{"key": "edge", "step": json.RawMessage("9223372036854775807"), "model_id": "m-1", "dataset_name": "d", "dataset_digest": "e"}).done()
	got := map[string]any{}
	for _, m := range at(t, w.get("runs/get", "run_id", run).object(), "run", "data", "metrics").([]any) {
		got[m.(object)["key"].(string)] = m.(object)["value"]
	}
	require.Equal(t, map[string]any{
		"nan": "NaN", "inf": math.MaxFloat64, "-inf": -math.MaxFloat64, "text": 0.5, "exp": 1e-300, "zero": 0.0, "long": 123456789012345678901234567890.0, "edge": 1.0,
	}, got)
	require.Contains(t, w.get("metrics/get-history", "run_id", run, "metric_key", "edge").body,
		`{"metrics":[{"key":"edge","value":1,"timestamp":1,"step":9223372036854775807},{"key":"edge","value":1,"timestamp":253402300799999,"step":-9223372036854775808}]}`)

	for words, more := range map[string]object{
		"Missing value for required parameter 'run_id'.":                    {"run_id": nil},
		"Missing value for required parameter 'key'.":                       {"key": ""},
		"Missing value for required parameter 'value'.":                     {"value": nil},
		"Missing value for required parameter 'timestamp'.":                 {"timestamp": nil},
		`Invalid value "x" for parameter 'value' supplied`:                  {"value": "x"},
		`Invalid value "inf" for parameter 'value' supplied`:                {"value": "inf"},
		`Invalid value "0x1p-2" for parameter 'value' supplied`:             {"value": "0x1p-2"},
		`Invalid value true for parameter 'value' supplied`:                 {"value": true},
		`Invalid value 1e400 for parameter 'value' supplied`:                {"value": json.RawMessage("1e400")},
		`Invalid value 9223372036854775808 for parameter 'step' supplied`:   {"step": json.RawMessage("9223372036854775808")},
		`Invalid value 1.5 for parameter 'step' supplied`:                   {"step": 1.5},
		`Invalid value "1.0" for parameter 'timestamp' supplied`:            {"timestamp": "1.0"},
		`Invalid value [] for parameter 'key' supplied`:                     {"key": []int{}},
		"Got invalid timestamp -1 for metric 'm'":                           {"timestamp": -1},
		"Got invalid timestamp 253402300800000 for metric 'm'":              {"timestamp": 253402300800000},
		"Names may only contain alphanumerics, underscores (_), dashes (-)": {"key": "a;"},
		"must not resolve to other names when treated as such":              {"key": "..a"},
		"exceeds the maximum length of 250 characters":                      {"key": strings.Repeat("é", 251)},
	} {
		log(more).refused(400, invalid, words)
	}
	log(object{"run_id": "none"}).refused(404, missing, "Run with id=none not found")
	log(object{"key": strings.Repeat("é", 250)}).done()
	require.Empty(t, w.logged.String())
}

func TestParameters(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	log := func(key, value string) reply {
		return w.post("runs/log-parameter", object{"run_id": run, "key": key, "value": value})
	}
	log("a", "1").done()
	log("a", "1").done()
	log("a", "2").refused(400, invalid, "Changing param values is not allowed. Param with key='a' was already logged with value='1' for run ID='"+run+"'. Attempted logging new value '2'.")
	log("b", "").done()
	log("c", strings.Repeat("é", 6001)).done()
	require.Equal(t, []any{object{"key": "a", "value": "1"}, object{"key": "b", "value": ""}, object{"key": "c", "value": strings.Repeat("é", 6000)}},
		at(t, w.get("runs/get", "run_id", run).object(), "run", "data", "params"))
	w.post("runs/log-parameter", object{"run_id": run}).refused(400, invalid, "Missing value for required parameter 'key'.")
}

func TestBatches(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	batch := func(more object) reply {
		more["run_id"] = run
		return w.post("runs/log-batch", more)
	}
	for range 2 { // clients repeat requests
		batch(object{"metrics": points("m", 0, 800), "params": pairs("p", 100), "tags": pairs("t", 100)}).done()
	}
	data := at(t, w.get("runs/get", "run_id", run).object(), "run", "data")
	require.Len(t, at(t, data, "params"), 100)
	require.Len(t, at(t, data, "tags"), 101)
	require.Len(t, w.get("metrics/get-history", "run_id", run, "metric_key", "m").object()["metrics"], 800)
	batch(object{"metrics": points("n", 0, 1000)}).done()
	batch(object{}).done()

	for words, more := range map[string]object{
		"A batch logging request can contain at most 1000 metrics. Got 1001 metrics. Please split up metrics across multiple requests and try again.": {"metrics": points("x", 0, 1001)},
		"A batch logging request can contain at most 100 params. Got 101 params.":                                                                     {"params": pairs("x", 101)},
		"A batch logging request can contain at most 100 tags. Got 101 tags.":                                                                         {"tags": pairs("x", 101)},
		"at most 1000 metrics, params, and tags. Got 1001 metrics, params, and tags.":                                                                 {"metrics": points("x", 0, 801), "params": pairs("x", 100), "tags": pairs("x", 100)},
		"Missing value for required parameter 'metrics[1].value'.":                                                                                    {"metrics": append(points("x", 0, 1), object{"key": "x", "timestamp": 1})},
		"Missing value for required parameter 'metrics[0].key'.":                                                                                      {"metrics": []object{{"value": 1, "timestamp": 1}}},
		"Missing value for required parameter 'metrics[0].timestamp'.":                                                                                {"metrics": []object{{"key": "x", "value": 1}}},
		`Invalid value "x" for parameter 'metrics[0].step' supplied`:                                                                                  {"metrics": []object{{"key": "x", "value": 1, "timestamp": 1, "step": "x"}}},
		"Missing value for required parameter 'params[0].key'.":                                                                                       {"params": []object{{"value": "v"}}},
		"Missing value for required parameter 'tags[1].key'.":                                                                                         {"tags": append(pairs("x", 1), object{"key": ""})},
		`Invalid value {"key":"x"} for parameter 'metrics' supplied`:                                                                                  {"metrics": object{"key": "x"}},
		"Invalid value [5] for parameter 'metrics' supplied":                                                                                          {"metrics": []int{5}},
		"Duplicate parameter keys have been submitted":                                                                                                {"params": []object{{"key": "x", "value": "1"}, {"key": "x", "value": "1"}}},
		"Changing param values is not allowed.":                                                                                                       {"params": []object{{"key": "p7", "value": "w"}}, "metrics": points("x", 0, 1), "tags": pairs("x", 1)},
	} {
		batch(more).refused(400, invalid, words)
	}
	data = at(t, w.get("runs/get", "run_id", run).object(), "run", "data")
	require.Len(t, at(t, data, "tags"), 101, "all or nothing")
	require.Len(t, at(t, data, "metrics"), 2, "all or nothing")
	w.post("runs/log-batch", object{"run_id": "a/b"}).refused(400, invalid, `Invalid value "a/b" for parameter 'run_id' supplied.`)
	w.post("runs/log-batch", object{"run_id": "none", "metrics": points("x", 0, 1)}).refused(404, missing, "Run with id=none not found")
	require.Empty(t, w.logged.String())
}

func TestABatchOfAMegabyte(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	body := fmt.Sprintf(`{"run_id":%q,"filler":"`, run)
	body += strings.Repeat("x", 1_000_000-len(body)-2) + `"}`
	w.post("runs/log-batch", body).done()
	w.post("runs/log-batch", body+" ").refused(400, invalid, "Batched logging API requests must be at most 1000000 bytes, got a request of size 1000001.")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/api/2.0/mlflow/runs/log-batch", io.MultiReader(strings.NewReader(body), strings.NewReader(" ")))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+w.ours.editor)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 400, res.StatusCode, "also of unknown length")
}
