package mlflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// steps returns the steps of the answer's points, and those of each run.
func steps(t testing.TB, answer object) (all []int, of map[string][]int) {
	t.Helper()
	of = map[string][]int{}
	points, _ := answer["metrics"].([]any)
	for _, p := range points {
		step := int(p.(object)["step"].(float64))
		all = append(all, step)
		if run, ok := p.(object)["run_id"].(string); ok {
			of[run] = append(of[run], step)
		}
	}
	return all, of
}

func upTo(from, n int) []int {
	made := make([]int, n)
	for i := range made {
		made[i] = from + i
	}
	return made
}

// series logs n points of the metric m.
func (w *world) series(run string, n int) {
	w.t.Helper()
	for from := 0; from < n; from += 1000 {
		w.post("runs/log-batch", object{"run_id": run, "metrics": points("m", from, min(1000, n-from))}).done()
	}
}

func TestHistories(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	const n = 10_001 // three pages within
	w.series(run, n)
	whole := w.get("metrics/get-history", "run_id", run, "metric_key", "m").object()
	all, _ := steps(t, whole)
	require.Equal(t, upTo(0, n), all)
	require.Len(t, whole, 1)
	for _, most := range []int{1, 4999, 5000, 5001, 10_000, n, n + 1} {
		var got []int
		pages := 0
		for token := ""; pages < 2; pages++ { // two pages of one point are enough
			query := []string{"run_id", run, "metric_key", "m", "max_results", fmt.Sprint(most)}
			if token != "" {
				query = append(query, "page_token", token)
			}
			page := w.get("metrics/get-history", query...).object()
			steps, _ := steps(t, page)
			require.LessOrEqual(t, len(steps), most)
			got = append(got, steps...)
			token, _ = page["next_page_token"].(string)
			require.Equal(t, len(got) < n, token != "", most)
			if token == "" {
				break
			}
		}
		require.Equal(t, upTo(0, min(n, 2*most)), got)
	}
	require.Empty(t, w.get("metrics/get-history", "run_id", run, "metric_key", "none").object())
	require.Empty(t, w.get("metrics/get-history", "run_id", run, "metric_key", "none", "max_results", "5").object())

	w.post("runs/log-batch", object{"run_id": run, "metrics": []object{
		{"key": "odd", "value": "NaN", "timestamp": 1}, {"key": "odd", "value": "Infinity", "timestamp": 1}, {"key": "odd", "value": "-Infinity", "timestamp": 1}, {"key": "odd", "value": 0, "timestamp": 1},
	}}).done()
	var values []any
	for token := ""; ; {
		page := w.get("metrics/get-history", "run_id", run, "metric_key", "odd", "max_results", "1", "page_token", token).object()
		values = append(values, at(t, page, "metrics", 0, "value"))
		if token, _ = page["next_page_token"].(string); token == "" {
			break
		}
	}
	require.Equal(t, []any{-1.7976931348623157e308, 0.0, 1.7976931348623157e308, "NaN"}, values)

	for words, query := range map[string][]string{
		"Missing value for required parameter 'run_id'.":                                       {"metric_key", "m"},
		"Missing value for required parameter 'metric_key'.":                                   {"run_id", run},
		"Invalid value 0 for parameter 'max_results' supplied. It must be a positive integer.": {"run_id", run, "metric_key", "m", "max_results", "0"},
		"Invalid value -9223372036854775808 for parameter 'max_results' supplied.":             {"run_id", run, "metric_key", "m", "max_results", "-9223372036854775808"},
		`Invalid value "9223372036854775808" for parameter 'max_results' supplied`:             {"run_id", run, "metric_key", "m", "max_results", "9223372036854775808"},
		"Invalid page token": {"run_id", run, "metric_key", "m", "page_token", "no token"},
		"Invalid page token: use the token of the previous page as it came.": {"run_id", run, "metric_key", "m", "page_token", "AAAA"},
		"The query holds a NUL byte or is not valid UTF-8.":                  {"run_id", run, "metric_key", "\x00"},
	} {
		w.get("metrics/get-history", query...).refused(400, invalid, words)
	}
	w.get("metrics/get-history", "run_id", run, "metric_key", "m", "max_results", "9223372036854775807").object()
	w.get("metrics/get-history", "run_id", "none", "metric_key", "m").refused(404, missing, "Run with id=none not found")
}

func TestHistoriesOfSeveralRuns(t *testing.T) {
	w := newWorld(t)
	a, b := w.run("0"), w.run("0")
	w.series(a, 6000)
	w.series(b, 20)
	bulk := func(query ...string) reply { return w.get("metrics/get-history-bulk", query...) }
	_, of := steps(t, bulk("run_id", b, "run_id", a, "run_id", "none", "run_id", a, "metric_key", "m").object())
	require.Equal(t, map[string][]int{a: upTo(0, 6000), b: upTo(0, 20)}, of)
	all, of := steps(t, bulk("run_id", b, "run_id", a, "metric_key", "m", "max_results", "6005").object())
	require.Equal(t, append(upTo(0, 6000), upTo(0, 5)...), all, "by run")
	require.Len(t, of[b], 5)
	require.Empty(t, bulk("run_id", b, "metric_key", "m", "max_results", "0").object())
	bulk("metric_key", "m").refused(400, invalid, "GetMetricHistoryBulk request must specify at least one run_id.")
	bulk("run_id", b).refused(400, invalid, "GetMetricHistoryBulk request must specify a metric_key.")
	bulk("run_id", b, "metric_key", "m", "max_results", "x").refused(400, invalid, `Invalid value "x" for parameter 'max_results' supplied`)
	bulk("run_id", b, "metric_key", "m", "max_results", "-1").refused(400, invalid, `Invalid value -1 for parameter 'max_results' supplied`)
	many := strings.Split(strings.Repeat("run_id,"+b+",", 100)+"metric_key,m", ",")
	_, of = steps(t, bulk(many...).object())
	require.Len(t, of[b], 20)
	bulk(append(many, "run_id", b)...).refused(400, invalid, "cannot specify more than 100 run_ids. Received 101 run_ids.")
}

func TestHistoriesAreSampled(t *testing.T) {
	w := newWorld(t)
	a, b := w.run("0"), w.run("0")
	w.series(a, 1003)
	w.series(b, 7)
	w.post("runs/log-batch", object{"run_id": b, "metrics": []object{{"key": "m", "value": 1, "timestamp": 0, "step": 99}}}).done()
	interval := func(query ...string) reply { return w.get("metrics/get-history-bulk-interval", query...) }
	_, of := steps(t, interval("run_ids", a, "run_ids", b, "run_ids", "none", "metric_key", "m", "max_results", "10").object())
	require.Equal(t, append(upTo(0, 7), 99), of[b], "by step, not by time")
	require.Len(t, of[a], 10)
	require.Equal(t, []int{0, 101, 202, 303, 403, 503, 603, 703, 803, 1002}, of[a], "as ntile has it, and the last")
	for most, want := range map[string][]int{"1": {1002}, "2": {0, 1002}} {
		_, of = steps(t, interval("run_ids", a, "metric_key", "m", "max_results", most).object())
		require.Equal(t, want, of[a])
	}
	_, of = steps(t, interval("run_ids", a, "run_ids", b, "metric_key", "m", "start_step", "5", "end_step", "99", "max_results", "3").object())
	require.Equal(t, map[string][]int{a: {5, 37, 99}, b: {5, 6, 99}}, of)
	_, of = steps(t, interval("run_ids", a, "metric_key", "m").object())
	require.Len(t, of[a], 1003)
	require.Empty(t, interval("run_ids", a, "metric_key", "none").object())
	for words, query := range map[string][]string{
		"Missing value for required parameter 'run_ids'.":                                              {"metric_key", "m"},
		"Missing value for required parameter 'metric_key'.":                                           {"run_ids", a},
		"If either start step or end step are specified, both must be specified.":                      {"run_ids", a, "metric_key", "m", "start_step", "5"},
		"end_step must be greater than start_step. Found start_step=5 and end_step=4.":                 {"run_ids", a, "metric_key", "m", "start_step", "5", "end_step", "4"},
		"max_results must be between 1 and 2500.":                                                      {"run_ids", a, "metric_key", "m", "max_results", "2501"},
		"max_results must be between 1 and 2500. See the API docs":                                     {"run_ids", a, "metric_key", "m", "max_results", "0"},
		"GetMetricHistoryBulkInterval request must specify at most 100 run_ids. Received 101 run_ids.": append(strings.Split(strings.Repeat("run_ids,"+a+",", 101), ",")[:202], "metric_key", "m"),
	} {
		interval(query...).refused(400, invalid, words)
	}
}
