package mlflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRuns(t *testing.T) {
	w := newWorld(t)
	x := w.experiment("x")
	made := at(t, w.post("runs/create", object{
		"experiment_id": x, "user_id": "ada", "start_time": "1700000000123", "run_name": "first", "tags": []object{{"key": "a", "value": "1"}},
	}).object(), "run").(object)
	id := at(t, made, "info", "run_id").(string)
	require.Equal(t, object{
		"info": object{
			"run_id": id, "run_uuid": id, "run_name": "first", "experiment_id": x, "user_id": "ada", "status": "RUNNING", "start_time": 1700000000123.0,
			"artifact_uri": "mlflow-artifacts:/" + x + "/" + id + "/artifacts", "lifecycle_stage": "active",
		},
		"data":   object{"tags": []any{object{"key": "a", "value": "1"}, object{"key": "mlflow.runName", "value": "first"}}},
		"inputs": object{}, "outputs": object{},
	}, made)
	require.Equal(t, object{"run": made}, w.get("runs/get", "run_uuid", id, "run_id", id).object())
	require.Equal(t, object{"run": made}, w.get("runs/get", "run_uuid", id).object(), "older clients")

	info := at(t, w.post("runs/update", object{"run_id": id, "status": "FINISHED", "end_time": 1700000000456, "run_name": ""}).object(), "run_info").(object)
	require.Equal(t, []any{"FINISHED", 1700000000456.0, "first"}, []any{info["status"], info["end_time"], info["run_name"]})
	info = at(t, w.post("runs/update", object{"run_uuid": id, "status": 1, "run_name": "second"}).object(), "run_info").(object)
	require.Equal(t, []any{"RUNNING", nil, "second"}, []any{info["status"], info["end_time"], info["run_name"]})
	tags := at(t, w.get("runs/get", "run_id", id).object(), "run", "data", "tags").([]any)
	require.Contains(t, tags, object{"key": "mlflow.runName", "value": "second"})
	w.post("runs/set-tag", object{"run_id": id, "key": "mlflow.runName", "value": "third"}).done()
	require.Equal(t, "third", at(t, w.get("runs/get", "run_id", id).object(), "run", "info", "run_name"))
	w.post("runs/set-tag", object{"run_id": id, "key": "mlflow.runName", "value": ""}).refused(400, invalid, "must not be empty")

	for range 2 { // clients repeat requests
		w.post("runs/delete", object{"run_id": id}).done()
	}
	require.Equal(t, "deleted", at(t, w.get("runs/get", "run_id", id).object(), "run", "info", "lifecycle_stage"))
	for _, a := range attempts(x, id) {
		if strings.HasPrefix(a.path, "runs/") && a.writes && a.path != "runs/create" && a.path != "runs/delete" && a.path != "runs/restore" {
			w.try(w.ours.editor, a).refused(400, invalid, "The run "+id+" must be in the 'active' state")
		}
	}
	for range 2 {
		w.post("runs/restore", object{"run_id": id}).done()
	}
	w.post("runs/delete-tag", object{"run_id": id, "key": "a"}).done()
	w.post("runs/delete-tag", object{"run_id": id, "key": "a"}).refused(404, missing, "No tag with name: a")

	unnamed := at(t, w.post("runs/create", object{}).object(), "run", "info").(object)
	require.Equal(t, "0", unnamed["experiment_id"])
	require.NotEmpty(t, unnamed["run_name"])
	require.Positive(t, unnamed["start_time"])
	w.post("experiments/delete", object{"experiment_id": x}).done()
	w.post("runs/delete", object{"run_id": id}).done()
	w.post("runs/restore", object{"run_id": id}).refused(400, invalid, "The experiment "+x+" must be in the 'active' state")
}

func TestRunsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	run := w.run("0")
	none := strings.Repeat("0", 32)
	for _, c := range []struct {
		path   string
		body   object
		status int
		code   string
		words  string
	}{
		{"create", object{"experiment_id": "7"}, 404, missing, "No Experiment with id=7 exists"},
		{"create", object{"experiment_id": "x"}, 400, invalid, "Invalid experiment ID 'x'"},
		{"create", object{"experiment_id": 0}, 400, invalid, "Invalid value 0 for parameter 'experiment_id' supplied"},
		{"create", object{"start_time": "soon"}, 400, invalid, `Invalid value "soon" for parameter 'start_time' supplied`},
		{"create", object{"start_time": -1}, 400, invalid, "start_time"},
		{"create", object{"start_time": 1 << 62}, 400, invalid, "start_time"},
		{"create", object{"start_time": 1.5}, 400, invalid, "Invalid value 1.5 for parameter 'start_time' supplied"},
		{"create", object{"run_name": "a", "tags": []object{{"key": "mlflow.runName", "value": "b"}}}, 400, invalid, "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values"},
		{"create", object{"tags": []object{{"key": "millpond.run_id", "value": "b"}}}, 400, invalid, "platform"},
		{"update", object{}, 400, invalid, "Missing value for required parameter 'run_id'."},
		{"update", object{"run_id": none}, 404, missing, "Run with id=" + none + " not found"},
		{"update", object{"run_id": "../x"}, 404, missing, "Run with id=../x not found"},
		{"update", object{"run_id": run, "status": "DONE"}, 400, invalid, `Invalid value "DONE" for parameter 'status' supplied`},
		{"update", object{"run_id": run, "status": 9}, 400, invalid, "Invalid value 9 for parameter 'status' supplied"},
		{"update", object{"run_id": run, "status": "FAILED", "end_time": -5}, 400, invalid, "end_time"},
		{"delete", object{"run_id": none}, 404, missing, "Run with id=" + none + " not found"},
		{"restore", object{"run_id": none}, 404, missing, "Run with id=" + none + " not found"},
		{"set-tag", object{"run_id": none, "key": "k"}, 404, missing, "Run with id=" + none + " not found"},
		{"set-tag", object{"run_id": run, "value": "v"}, 400, invalid, "Missing value for required parameter 'key'."},
		{"set-tag", object{"run_id": run, "key": "k", "value": 5}, 400, invalid, "Invalid value 5 for parameter 'value' supplied"},
		{"delete-tag", object{"run_id": none, "key": "k"}, 404, missing, "Run with id=" + none + " not found"},
		{"search", object{"experiment_ids": "0"}, 400, invalid, `Invalid value "0" for parameter 'experiment_ids' supplied`},
		{"search", object{"experiment_ids": []any{0}}, 400, invalid, "Invalid value 0 for parameter 'experiment_ids' supplied"},
		{"search", object{"experiment_ids": []string{"x"}}, 400, invalid, "Invalid experiment ID 'x'"},
		{"search", object{"experiment_ids": []string{"0"}, "max_results": 0}, 400, invalid, "Invalid value 0 for parameter 'max_results' supplied"},
		{"search", object{"experiment_ids": []string{"0"}, "max_results": 50001}, 400, invalid, "Invalid value 50001 for parameter 'max_results' supplied"},
		{"search", object{"experiment_ids": []string{"0"}, "max_results": "9223372036854775808"}, 400, invalid, "for parameter 'max_results' supplied"},
		{"search", object{"experiment_ids": []string{"0"}, "filter": "params.a ="}, 400, invalid, "Invalid clause(s) in filter string"},
		{"search", object{"experiment_ids": []string{"0"}, "order_by": []string{"metrics.a", "metric.a DESC"}}, 400, invalid, "duplicate"},
		{"search", object{"experiment_ids": []string{"0"}, "page_token": "e30"}, 400, invalid, "page token"},
	} {
		w.post("runs/"+c.path, c.body).refused(c.status, c.code, c.words)
	}
	w.get("runs/get", "run_id", none).refused(404, missing, "Run with id="+none+" not found")
	w.get("runs/get").refused(400, invalid, "Missing value for required parameter 'run_id'.")
	require.Empty(t, w.logged.String())
}

func TestRunsAreFound(t *testing.T) {
	w := newWorld(t)
	x, y := w.experiment("x"), w.experiment("y")
	var ids []any
	for i := range 5 {
		id := w.run(x, object{"start_time": 1000 + i})
		w.post("runs/log-metric", object{"run_id": id, "key": "m", "value": i % 3, "timestamp": 1}).done()
		ids = append(ids, id)
	}
	w.run(y)
	w.post("runs/delete", object{"run_id": ids[4]}).done()
	found := func(page object) (found []any) {
		for _, r := range page["runs"].([]any) {
			found = append(found, at(t, r, "info", "run_id"))
		}
		return found
	}
	search := func(more object) object {
		body := object{"experiment_ids": []string{x}}
		for k, v := range more {
			body[k] = v
		}
		return w.post("runs/search", body).object()
	}
	require.Equal(t, []any{ids[3], ids[2], ids[1], ids[0]}, found(search(nil)), "the newest first")
	require.Equal(t, []any{ids[4]}, found(search(object{"run_view_type": "DELETED_ONLY"})))
	require.Equal(t, []any{ids[3], ids[0]}, found(search(object{"filter": "metrics.m = 0"})))
	require.Empty(t, search(object{"filter": "metrics.m > 5"}))
	require.Empty(t, w.post("runs/search", object{}).object())
	require.Len(t, found(w.post("runs/search", object{"experiment_ids": []string{x, y, "99"}}).object()), 5)
	require.Equal(t, []any{object{"key": "m", "value": 2.0, "timestamp": 1.0, "step": 0.0}}, at(t, search(nil), "runs", 1, "data", "metrics"))
	var paged []any
	for body := (object{"max_results": 2, "order_by": []string{"metrics.m DESC"}}); ; {
		page := search(body)
		paged = append(paged, found(page)...)
		if page["next_page_token"] == nil {
			break
		}
		body["page_token"] = page["next_page_token"]
	}
	require.Equal(t, []any{ids[2], ids[1], ids[3], ids[0]}, paged)
}

func TestInputs(t *testing.T) {
	w := newWorld(t)
	x := w.experiment("x")
	run := w.run(x)
	d := func(more object) object {
		made := object{"name": "n", "digest": "d", "source_type": "t", "source": "s"}
		for k, v := range more {
			made[k] = v
		}
		return made
	}
	input := func(dataset object, tags ...object) object { return object{"dataset": dataset, "tags": tags} }
	log := func(inputs ...object) reply {
		return w.post("runs/log-inputs", object{"run_id": run, "datasets": inputs})
	}
	log(input(d(object{"schema": "{}", "profile": "p"}), object{"key": "mlflow.data.context", "value": "train"}), input(d(object{"digest": "e"}))).done()
	log(input(d(nil))).done()
	require.Equal(t, object{"dataset_inputs": []any{
		object{"dataset": object{"name": "n", "digest": "d", "source_type": "t", "source": "s", "schema": "{}", "profile": "p"}, "tags": []any{object{"key": "mlflow.data.context", "value": "train"}}},
		object{"dataset": object{"name": "n", "digest": "e", "source_type": "t", "source": "s"}},
	}}, at(t, w.get("runs/get", "run_id", run).object(), "run", "inputs"))
	require.Equal(t, object{"dataset_summaries": []any{
		object{"experiment_id": x, "name": "n", "digest": "d", "context": "train"}, object{"experiment_id": x, "name": "n", "digest": "e"},
	}}, w.post("experiments/search-datasets", object{"experiment_ids": []string{x, "0", "9"}}).object())

	log(input(d(object{"name": ""}))).refused(400, invalid, "Missing value for required parameter 'datasets[0].dataset.name'.")
	log(object{}).refused(400, invalid, "Missing value for required parameter 'datasets[0].dataset.name'.")
	log(input(d(nil)), input(d(object{"schema": 1}))).refused(400, invalid, "Invalid value 1 for parameter 'datasets[1].dataset.schema' supplied")
	log(input(d(nil), object{"value": "v"})).refused(400, invalid, "Missing value for required parameter 'datasets[0].tags[0].key'.")
	log(input(d(object{"name": strings.Repeat("é", 501)}))).refused(400, invalid, "'name' exceeds the maximum length of 500 characters")
	log(input(d(object{"name": strings.Repeat("é", 500)}))).done()
	many := make([]object, 1001)
	for i := range many {
		many[i] = input(d(nil))
	}
	log(many...).refused(400, invalid, "1000")
	log(many[:1000]...).done()
	w.post("runs/log-inputs", object{"run_id": run, "datasets": object{}}).refused(400, invalid, "Invalid value {} for parameter 'datasets' supplied")
	w.post("runs/log-inputs", object{"run_id": "a b"}).refused(400, invalid, `Invalid value "a b" for parameter 'run_id' supplied.`)
	w.post("runs/log-inputs", object{"run_id": "none"}).refused(404, missing, "Run with id=none not found")
	w.post("runs/log-inputs", object{"run_id": run, "models": []object{{"model_id": "m"}}}).refused(404, unknown, "logged models")
	w.post("experiments/search-datasets", object{}).refused(400, invalid, "SearchDatasets request must specify at least one experiment_id.")
	ids := strings.Split(strings.Repeat("0 ", 20)+"0", " ")
	w.post("experiments/search-datasets", object{"experiment_ids": ids}).refused(400, invalid, "cannot specify more than 20 experiment_ids. Received 21 experiment_ids.")
	w.post("experiments/search-datasets", object{"experiment_ids": ids[:20]}).done()
}
