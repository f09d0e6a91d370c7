package mlflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	invalid = "INVALID_PARAMETER_VALUE"
	missing = "RESOURCE_DOES_NOT_EXIST"
	exists  = "RESOURCE_ALREADY_EXISTS"
	unknown = "ENDPOINT_NOT_FOUND"
)

func TestExperiments(t *testing.T) {
	w := newWorld(t)
	id := w.post("experiments/create", object{"name": "mine", "tags": []object{{"key": "a", "value": "1"}}, "unknown": true}).object()["experiment_id"].(string)
	require.Equal(t, "1", id)
	got := at(t, w.get("experiments/get", "experiment_id", id).object(), "experiment").(object)
	require.Positive(t, got["creation_time"])
	require.Equal(t, got["creation_time"], got["last_update_time"])
	delete(got, "creation_time")
	delete(got, "last_update_time")
	require.Equal(t, object{
		"experiment_id": id, "name": "mine", "artifact_location": "mlflow-artifacts:/1", "lifecycle_stage": "active", "tags": []any{object{"key": "a", "value": "1"}},
	}, got)
	require.Equal(t, id, at(t, w.get("experiments/get-by-name", "experiment_name", "mine").object(), "experiment", "experiment_id"))
	require.Equal(t, "Default", at(t, w.get("experiments/get", "experiment_id", "0").object(), "experiment", "name"))

	other := w.post("experiments/create", object{"name": "other", "artifact_location": "s3://b/p"}).object()["experiment_id"].(string)
	require.Equal(t, "s3://b/p", at(t, w.get("experiments/get", "experiment_id", other).object(), "experiment", "artifact_location"))
	w.post("experiments/update", object{"experiment_id": id, "new_name": "other"}).refused(400, exists, "already exists")
	w.post("experiments/create", object{"name": "other"}).refused(400, exists, "Experiment(name=other) already exists.")
	w.post("experiments/update", object{"experiment_id": id, "new_name": "yours"}).done()
	w.post("experiments/set-experiment-tag", object{"experiment_id": id, "key": "b"}).done()
	w.post("experiments/delete-experiment-tag", object{"experiment_id": id, "key": "a"}).done()
	w.post("experiments/delete-experiment-tag", object{"experiment_id": id, "key": "a"}).refused(404, missing, "No tag with name: a")
	got = at(t, w.get("experiments/get", "experiment_id", id).object(), "experiment").(object)
	require.Equal(t, []any{"yours", []any{object{"key": "b", "value": ""}}}, []any{got["name"], got["tags"]})

	w.post("experiments/delete", object{"experiment_id": id}).done()
	require.Equal(t, "deleted", at(t, w.get("experiments/get-by-name", "experiment_name", "yours").object(), "experiment", "lifecycle_stage"))
	w.post("experiments/delete", object{"experiment_id": id}).refused(404, missing, "No Experiment with id=1 exists")
	w.post("experiments/update", object{"experiment_id": id, "new_name": "x"}).refused(400, "INVALID_STATE", "Cannot rename a non-active experiment.")
	w.post("experiments/set-experiment-tag", object{"experiment_id": id, "key": "b"}).refused(400, invalid, "must be in the 'active' state")
	w.post("runs/create", object{"experiment_id": id}).refused(400, invalid, "must be in the 'active' state")
	w.post("experiments/restore", object{"experiment_id": id}).done()
	w.post("experiments/restore", object{"experiment_id": id}).refused(404, missing, "No Experiment with id=1 exists")
	w.post("experiments/delete", object{"experiment_id": "0"}).refused(400, invalid, "Default")
}

func TestExperimentsThatAreWrong(t *testing.T) {
	w := newWorld(t)
	const see = " See the API docs for more information about request parameters."
	for _, c := range []struct {
		path   string
		body   any
		status int
		code   string
		words  string
	}{
		{"create", object{}, 400, invalid, "Missing value for required parameter 'name'." + see},
		{"create", "", 400, invalid, "Missing value for required parameter 'name'."},
		{"create", object{"name": ""}, 400, invalid, "Missing value for required parameter 'name'."},
		{"create", object{"name": nil}, 400, invalid, "Missing value for required parameter 'name'."},
		{"create", object{"name": 1}, 400, invalid, "Invalid value 1 for parameter 'name' supplied:  Hint: Value was of type 'int'." + see},
		{"create", object{"name": object{"a": []int{1}}}, 400, invalid, `Invalid value {"a":[1]} for parameter 'name' supplied:  Hint: Value was of type 'dict'.`},
		{"create", object{"name": strings.Repeat("x", 501)}, 400, invalid, "500 characters"},
		{"create", object{"name": "x", "tags": "a"}, 400, invalid, `Invalid value "a" for parameter 'tags' supplied`},
		{"create", object{"name": "x", "tags": []int{1}}, 400, invalid, `Invalid value [1] for parameter 'tags' supplied`},
		{"create", object{"name": "x", "tags": []object{{"value": "1"}}}, 400, invalid, "Missing value for required parameter 'tags[0].key'."},
		{"create", object{"name": "x", "tags": []object{{"key": "k", "value": 1.5}}}, 400, invalid, "Invalid value 1.5 for parameter 'tags[0].value' supplied:  Hint: Value was of type 'float'."},
		{"create", object{"name": "x", "artifact_location": true}, 400, invalid, "Invalid value true for parameter 'artifact_location' supplied:  Hint: Value was of type 'bool'."},
		{"create", `{"name":"\u0000"}`, 400, invalid, "NUL"},
		{"create", `{"name":"\ud800"}`, 400, invalid, "surrogate"},
		{"create", "{\"name\":\"\xff\"}", 400, invalid, "UTF-8"},
		{"create", `["name"]`, 400, invalid, "not a JSON object"},
		{"create", `{"name":`, 400, invalid, "not JSON"},
		{"create", `{"name":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, 400, invalid, "deeper"},
		{"create", `{"name":[` + strings.Repeat("1,", 200_000) + `1]}`, 413, invalid, "values"},
		{"create", `{"name":"` + strings.Repeat("x", 20<<20) + `"}`, 413, invalid, "20971520"},
		{"update", object{"experiment_id": "1"}, 400, invalid, "Missing value for required parameter 'new_name'."},
		{"update", object{"experiment_id": "7", "new_name": "x"}, 404, missing, "No Experiment with id=7 exists"},
		{"delete", object{"experiment_id": "x"}, 400, invalid, "Invalid experiment ID 'x'. Experiment ID must be a valid integer."},
		{"delete", object{"experiment_id": "9223372036854775807"}, 404, missing, "No Experiment with id=9223372036854775807 exists"},
		{"delete", object{"experiment_id": "9223372036854775808"}, 400, invalid, "Invalid experiment ID"},
		{"restore", object{"experiment_id": "-1"}, 404, missing, "No Experiment with id=-1 exists"},
		{"set-experiment-tag", object{"experiment_id": "7", "key": "a", "value": "b"}, 404, missing, "No Experiment with id=7 exists"},
		{"set-experiment-tag", object{"experiment_id": "0", "key": "a;", "value": "b"}, 400, invalid, "Names may only contain"},
		{"delete-experiment-tag", object{"experiment_id": "7", "key": "a"}, 404, missing, "No Experiment with id=7 exists"},
		{"search", object{}, 400, invalid, "Invalid value 0 for parameter 'max_results' supplied."},
		{"search", object{"max_results": 50001}, 400, invalid, "at most 50000"},
		{"search", object{"max_results": 1, "view_type": "SOME"}, 400, invalid, `Invalid value "SOME" for parameter 'view_type' supplied`},
		{"search", object{"max_results": 1, "filter": "bogus = 'a'"}, 400, invalid, "Invalid attribute key 'bogus'"},
		{"search", object{"max_results": 1, "order_by": []string{"bogus"}}, 400, invalid, "bogus"},
		{"search", object{"max_results": 1, "order_by": []any{"name", 2}}, 400, invalid, "Invalid value 2 for parameter 'order_by' supplied"},
		{"search", object{"max_results": 1, "page_token": "x"}, 400, invalid, "page token"},
	} {
		w.post("experiments/"+c.path, c.body).refused(c.status, c.code, c.words)
	}
	w.get("experiments/get").refused(400, invalid, "Missing value for required parameter 'experiment_id'.")
	w.get("experiments/get", "experiment_id", "7").refused(404, missing, "No Experiment with id=7 exists")
	w.get("experiments/get-by-name", "experiment_name", "none").refused(404, missing, "Could not find experiment with name 'none'")
	w.get("experiments/search", "max_results", "ten").refused(400, invalid, `Invalid value "ten" for parameter 'max_results' supplied:  Hint: Value was of type 'str'.`)
	w.send(w.ours.editor, "POST", "experiments/create", `{"name":"x"}`, "Content-Type", "text/plain").refused(400, invalid, "Content-Type must be one of ['application/json'].")
	w.send(w.ours.editor, "POST", "experiments/create", `{"name":"x"}`, "Content-Encoding", "gzip").refused(415, invalid, "Content-Encoding")
	require.Empty(t, w.logged.String(), "nothing was our fault")
}

func TestExperimentsAreFound(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"alpha", "beta", "gamma"} {
		w.experiment(name)
	}
	w.post("experiments/delete", object{"experiment_id": "2"}).done()
	names := func(found object) (names []any) {
		for _, e := range found["experiments"].([]any) {
			names = append(names, e.(object)["name"])
		}
		return names
	}
	require.Equal(t, []any{"gamma", "alpha", "Default"}, names(w.post("experiments/search", object{"max_results": "10"}).object()))
	require.Equal(t, []any{"beta"}, names(w.post("experiments/search", object{"max_results": 10, "view_type": "DELETED_ONLY"}).object()))
	require.Equal(t, []any{"beta"}, names(w.get("experiments/search", "max_results", "10", "view_type", "2").object()))
	require.Equal(t, []any{"Default", "alpha"}, names(w.get("experiments/search", "max_results", "10", "filter", "name != 'gamma'", "order_by", "name", "order_by", "creation_time").object()))
	page := w.post("experiments/search", object{"max_results": 3, "view_type": "ALL", "order_by": []string{"name DESC"}}).object()
	require.Equal(t, []any{"gamma", "beta", "alpha"}, names(page))
	page = w.post("experiments/search", object{"max_results": 3, "view_type": "ALL", "order_by": []string{"name DESC"}, "page_token": page["next_page_token"]}).object()
	require.Equal(t, []any{"Default"}, names(page))
	require.NotContains(t, page, "next_page_token")
	require.Empty(t, w.post("experiments/search", object{"max_results": 3, "filter": "name = 'none'"}).object())
}
