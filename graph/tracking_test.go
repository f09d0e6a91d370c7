package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/tracking"
)

const trackedFields = `id name state user createdBy startedAt finishedAt deletedAt artifactUri experimentId experiment { id name } metrics { key value step timestamp points }
	parameters { key value } tags(keys: ["t", "u"]) { key value } inputs { name digest sourceType source schema profile tags { key value } } jobRunId jobRun { id } taskKey attemptId`

// tell sends a mutation of one input and returns its payload.
func (w *world) tell(who header, field, input, selection string, pairs ...any) any {
	w.t.Helper()
	return at(w.ok(who, `mutation($input: `+input+`!) { `+field+`(input: $input) { `+selection+` } }`, in(pairs...)), field)
}

func (w *world) refusedTo(who header, field, input, selection string, pairs ...any) answer {
	w.t.Helper()
	return w.query(who, `mutation($input: `+input+`!) { `+field+`(input: $input) { `+selection+` } }`, in(pairs...))
}

func pointOf(key string, step, at string, value any) map[string]any {
	return map[string]any{"key": key, "step": step, "timestamp": at, "value": value}
}

// From an experiment to its run's end, deletion and return.
func TestAnExperimentAndItsRun(t *testing.T) {
	w := newWorld(t, quick)
	a, b := w.tenant("acme"), w.tenant("beta")
	viewer, me, stranger := bearer(a.viewer.token), bearer(a.editor.token), bearer(b.admin.token)
	for range 2 { // the same key returns the same
		x := at(w.tell(me, "createExperiment", "CreateExperimentInput", "experiment { id name artifactLocation tags { key value } createdBy deletedAt }",
			"name", "churn", "tags", pairsOf("a", "1"), "idempotencyKey", "k"), "experiment")
		require.Equal(t, map[string]any{
			"id": "1", "name": "churn", "artifactLocation": "mlflow-artifacts:/1", "tags": []any{map[string]any{"key": "a", "value": "1"}}, "createdBy": a.editor.scope.Actor().Name, "deletedAt": nil,
		}, x)
	}
	x := at(w.tell(me, "setExperimentTags", "SetExperimentTagsInput", "experiment { tags { key } }", "id", "1", "tags", pairsOf("b", "2")), "experiment")
	require.Len(t, at(x, "tags"), 2)
	x = at(w.tell(me, "deleteExperimentTag", "DeleteExperimentTagInput", "experiment { tags { key } }", "id", "1", "key", "a"), "experiment")
	require.Equal(t, []any{map[string]any{"key": "b"}}, at(x, "tags"))
	x = at(w.tell(me, "updateExperiment", "UpdateExperimentInput", "experiment { name }", "id", "1", "name", "churn 2"), "experiment")
	require.Equal(t, "churn 2", at(x, "name"))

	run := at(w.tell(me, "createTrackingRun", "CreateTrackingRunInput", "run { "+trackedFields+" }",
		"experiment", "1", "name", "first", "user", "ann", "startedAt", "2026-11-21T07:44:52.120Z", "tags", pairsOf("t", "1")), "run")
	id := at(run, "id")
	require.Equal(t, []any{"RUNNING", "ann", "2026-11-21T07:44:52.120000Z", "mlflow-artifacts:/1/" + id.(string) + "/artifacts", "churn 2", nil, nil},
		[]any{at(run, "state"), at(run, "user"), at(run, "startedAt"), at(run, "artifactUri"), at(run, "experiment", "name"), at(run, "jobRun"), at(run, "finishedAt")})
	batch := []any{
		pointOf("loss", "1", "1000", 0.5), pointOf("loss", "2", "2000", "NaN"), pointOf("loss", "3", "3000", "-Infinity"), pointOf("acc", "9223372036854775807", "1000", 1e300),
		map[string]any{"key": "now", "value": 3},
	}
	for range 2 { // now differs, the others are the same points
		logged := w.tell(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "points", batch, "parameters", pairsOf("p", "1"), "tags", pairsOf("t", "2", "u", "3"))
		require.Equal(t, 5.0, at(logged, "logged"))
	}
	data := datasetOf("iris")
	data["tags"] = pairsOf("mlflow.data.context", "training")
	w.tell(me, "logTrackingRunInputs", "LogTrackingRunInputsInput", "run { inputs { name } }", "id", id, "inputs", []any{data})
	w.tell(me, "deleteTrackingRunTag", "DeleteTrackingRunTagInput", "run { id }", "id", id, "key", "u")
	refused := w.refusedTo(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "parameters", pairsOf("p", "2"))
	require.Equal(t, "CONFLICT", refused.code(), "%s", refused.Body)
	refused = w.refusedTo(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "points", []any{pointOf("", "0", "0", 1)})
	require.Equal(t, "INVALID", refused.code(), "%s", refused.Body)

	found := w.ok(viewer, `query($id: ID!) { trackingRun(id: $id) { `+trackedFields+` some: metrics(keys: ["acc"]) { value step } }
		trackingRuns(experiments: ["1", "0"]) { edges { node { `+trackedFields+` } } } experiments { edges { node { id runs(first: 1) { edges { node { id name } } } } } } }`, map[string]any{"id": id})
	got := at(found, "trackingRun")
	require.Equal(t, []any{map[string]any{"value": 1e300, "step": "9223372036854775807"}}, at(got, "some"))
	delete(got.(map[string]any), "some")
	require.Equal(t, map[string]any{"key": "loss", "value": "-Infinity", "step": "3", "timestamp": "3000", "points": "3"}, at(got, "metrics", 1))
	require.Equal(t, []any{map[string]any{"key": "p", "value": "1"}}, at(got, "parameters"))
	require.Equal(t, []any{map[string]any{"key": "t", "value": "2"}}, at(got, "tags"))
	require.Equal(t, []any{map[string]any{"name": "iris", "digest": "abc", "sourceType": "local", "source": "{}", "schema": nil, "profile": nil, "tags": []any{map[string]any{"key": "mlflow.data.context", "value": "training"}}}}, at(got, "inputs"))
	require.Equal(t, got, at(found, "trackingRuns", "edges", 0, "node"))
	require.Equal(t, []any{"1", "first"}, []any{at(found, "experiments", "edges", 0, "node", "id"), at(found, "experiments", "edges", 0, "node", "runs", "edges", 0, "node", "name")}, "newest first")

	history := `query($id: ID!, $first: Int, $after: String) { trackingRun(id: $id) { points(key: "loss", first: $first, after: $after) { points { step timestamp value } pageInfo { endCursor hasNextPage } } } }`
	page := at(w.ok(viewer, history, map[string]any{"id": id, "first": 2}), "trackingRun", "points")
	require.Equal(t, []any{map[string]any{"step": "1", "timestamp": "1000", "value": 0.5}, map[string]any{"step": "2", "timestamp": "2000", "value": "NaN"}}, at(page, "points"))
	require.Equal(t, true, at(page, "pageInfo", "hasNextPage"))
	page = at(w.ok(viewer, history, map[string]any{"id": id, "after": at(page, "pageInfo", "endCursor")}), "trackingRun", "points")
	require.Equal(t, []any{map[string]any{"step": "3", "timestamp": "3000", "value": "-Infinity"}}, at(page, "points"))
	require.Equal(t, false, at(page, "pageInfo", "hasNextPage"))
	for _, wrong := range []map[string]any{{"id": id, "first": 0}, {"id": id, "first": 1001}, {"id": id, "after": "x"}} {
		res := w.query(viewer, history, wrong)
		require.Equal(t, "INVALID", res.code(), "%s", res.Body)
		require.Contains(t, wrong, res.Errors[0].Extensions["field"])
	}

	chart := `query($id: ID!, $key: String!, $n: Int) { trackingRun(id: $id) { lineage { read { fullName } written { fullName } } chart(key: $key, maxPoints: $n) { points { step timestamp value } total cursor } } }`
	drawn := at(w.ok(viewer, chart, map[string]any{"id": id, "key": "loss", "n": 10}), "trackingRun")
	require.Equal(t, map[string]any{"read": []any{}, "written": []any{}}, at(drawn, "lineage"))
	require.Len(t, at(drawn, "chart", "points"), 3)
	require.Equal(t, "3", at(drawn, "chart", "total"))
	rest := w.ok(viewer, history, map[string]any{"id": id, "after": at(drawn, "chart", "cursor")})
	require.Empty(t, at(rest, "trackingRun", "points", "points"), "the chart's cursor is the end")
	var aliases strings.Builder
	for i := range 800 {
		fmt.Fprintf(&aliases, "a%d: step ", i)
	}
	many := w.query(viewer, `query($id: ID!) { trackingRun(id: $id) { chart(key: "loss", maxPoints: 10000) { points { `+aliases.String()+` } } } }`, map[string]any{"id": id})
	require.Equal(t, "TOO_LARGE", many.code(), "each point has 800 fields")
	none := at(w.ok(viewer, chart, map[string]any{"id": id, "key": "none"}), "trackingRun", "chart")
	require.Equal(t, map[string]any{"points": []any{}, "total": "0", "cursor": nil}, none)
	for _, n := range []int{0, 9, 10_001} {
		res := w.query(viewer, chart, map[string]any{"id": id, "key": "loss", "n": n})
		require.Equal(t, "INVALID", res.code(), "%s", res.Body)
		require.Equal(t, "maxPoints", res.Errors[0].Extensions["field"])
	}

	run = at(w.tell(me, "updateTrackingRun", "UpdateTrackingRunInput", "run { "+trackedFields+" }", "id", id, "state", "FINISHED", "name", "last"), "run")
	require.Equal(t, []any{"FINISHED", "last"}, []any{at(run, "state"), at(run, "name")})
	require.NotNil(t, at(run, "finishedAt"))
	require.Equal(t, at(got, "metrics"), at(run, "metrics"), "read after the change")
	refused = w.refusedTo(me, "updateTrackingRun", "UpdateTrackingRunInput", "run { id }", "id", id, "name", "")
	require.Equal(t, "name", refused.Errors[0].Extensions["field"], "%s", refused.Body)

	w.tell(me, "deleteTrackingRun", "DeleteTrackingRunInput", "id", "id", id)
	counts := func(who header) []int {
		d := w.ok(who, `{ active: trackingRuns(experiments: ["1"]) { edges { cursor } } deleted: trackingRuns(experiments: ["1"], view: DELETED) { edges { cursor } }
			all: trackingRuns(experiments: ["1"], view: ALL) { edges { cursor } } experiments(view: DELETED) { edges { cursor } } }`, nil)
		return []int{len(at(d, "active", "edges").([]any)), len(at(d, "deleted", "edges").([]any)), len(at(d, "all", "edges").([]any)), len(at(d, "experiments", "edges").([]any))}
	}
	require.Equal(t, []int{0, 1, 1, 0}, counts(viewer))
	require.NotNil(t, at(w.ok(viewer, `query($id: ID!) { trackingRun(id: $id) { deletedAt } }`, map[string]any{"id": id}), "trackingRun", "deletedAt"))
	refused = w.refusedTo(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "points", batch)
	require.Equal(t, "CONFLICT", refused.code())
	w.tell(me, "restoreTrackingRun", "RestoreTrackingRunInput", "run { id deletedAt metrics { key } }", "id", id)
	w.tell(me, "deleteExperiment", "DeleteExperimentInput", "id", "id", "1")
	require.Equal(t, []int{0, 1, 1, 1}, counts(viewer))
	w.tell(me, "restoreExperiment", "RestoreExperimentInput", "experiment { deletedAt runs { edges { cursor } } }", "id", "1")
	require.Equal(t, []int{1, 0, 1, 0}, counts(viewer))
	require.Equal(t, []int{0, 0, 0, 0}, counts(stranger))

	refused = w.refusedTo(viewer, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "points", batch)
	require.Equal(t, denied, refused.code())
	refused = w.refusedTo(stranger, "logTrackingRun", "LogTrackingRunInput", "logged", "id", id, "points", batch)
	require.Equal(t, absent, refused.code())
	res := w.query(viewer, `query { trackingRuns(experiments: ["1"], after: "x") { edges { cursor } } }`, nil)
	require.Equal(t, []any{"INVALID", "after"}, []any{res.code(), res.Errors[0].Extensions["field"]})
}

// A job's run shows the tracking runs that its tasks made, and they show it. A page of them is read
// at once.
func TestTheTrackingRunsOfAJob(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(10)
	viewer := bearer(a.viewer.token)
	j := a.job(job.Spec{Tasks: []job.TaskSpec{{Key: "train", Command: "true"}}})
	reads := func() (edges any, n int64) {
		n = w.fewestReads(func() {
			d := w.ok(viewer, `{ runs { edges { node { id trackingRuns { name experiment { name } metrics { points } taskKey jobRunId jobRun { id jobName } } } } } }`, nil)
			edges = at(d, "runs", "edges")
		})
		return edges, n
	}
	var few int64
	for i := range 4 {
		run := a.run(j)
		attempt := a.attempt(run.ID)
		a.begin(attempt.ID)
		scope := domain.NewScope(a.workspace.ID, domain.Actor{Kind: domain.ActorRun, ID: string(attempt.ID), Name: j.Name}, domain.RoleEditor)
		for n := range i + 1 {
			tracked, err := w.services.TrackingRuns.Create(t.Context(), scope, tracking.NewRun{Name: fmt.Sprint(n)}, domain.Idempotency{})
			require.NoError(t, err)
			require.NoError(t, w.services.TrackingRuns.LogPoints(t.Context(), scope, "", tracked.ID, []tracking.Point{{Key: "loss"}}))
		}
		edges, count := reads()
		shown := at(edges, 0, "node", "trackingRuns").([]any)
		require.Len(t, shown, i+1)
		require.Equal(t, map[string]any{
			"name": "0", "experiment": map[string]any{"name": "Default"}, "metrics": []any{map[string]any{"points": "1"}}, "taskKey": "train",
			"jobRunId": string(run.ID), "jobRun": map[string]any{"id": string(run.ID), "jobName": j.Name},
		}, shown[0])
		if i == 0 {
			few = count
		}
		require.Equal(t, few, count, "each level is one read")
	}
}

func TestTheRunsOfAnExperimentAreFollowed(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	w.tell(me, "createExperiment", "CreateExperimentInput", "experiment { id }", "name", "x")
	create := func(experiment, name string) any {
		return at(w.tell(me, "createTrackingRun", "CreateTrackingRunInput", "run { id }", "experiment", experiment, "name", name), "run", "id")
	}
	first := create("1", "first")
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(`subscription { trackingRunChanges(experiment: "1") { name state deletedAt metrics { key } } }`, nil)
	require.Equal(t, map[string]any{"name": "first", "state": "RUNNING", "deletedAt": nil, "metrics": []any{}}, c.event(id)["trackingRunChanges"])
	create("0", "other")
	create("1", "second")
	require.Equal(t, "second", at(c.event(id), "trackingRunChanges", "name"), "of this experiment alone")
	w.tell(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", first, "points", []any{pointOf("loss", "1", "1", 1)})
	w.tell(me, "updateTrackingRun", "UpdateTrackingRunInput", "run { id }", "id", first, "state", "FAILED")
	require.Equal(t, map[string]any{"name": "first", "state": "FAILED", "deletedAt": nil, "metrics": []any{map[string]any{"key": "loss"}}}, c.event(id)["trackingRunChanges"])
	w.tell(me, "deleteTrackingRun", "DeleteTrackingRunInput", "id", "id", first)
	require.NotNil(t, at(c.event(id), "trackingRunChanges", "deletedAt"))
	require.Equal(t, absent, c.failure(c.subscribe(`subscription { trackingRunChanges(experiment: "77") { name } }`, nil)))
}

func TestTheNewPointsOfARun(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	run := at(w.tell(me, "createTrackingRun", "CreateTrackingRunInput", "run { id }"), "run", "id")
	log := func(points ...any) {
		w.tell(me, "logTrackingRun", "LogTrackingRunInput", "logged", "id", run, "points", points)
	}
	log(pointOf("loss", "1", "1000", 1))
	const subscription = `subscription($run: ID!, $keys: [String!], $after: [TrackingPositionInput!]) {
		trackingRunPoints(run: $run, keys: $keys, after: $after) { key points { step timestamp value } reset total cursor } }`
	c := w.open(bearer(a.viewer.token), nil)
	now := c.subscribe(subscription, map[string]any{"run": run})
	next := func(id string) any {
		event := c.event(id)["trackingRunPoints"].([]any)
		require.Len(t, event, 1)
		return event[0]
	}
	shown := func(of any) []any { return []any{at(of, "key"), at(of, "reset"), at(of, "total"), at(of, "points")} }
	require.Equal(t, []any{"loss", true, "1", []any{}}, shown(next(now)), "what is to be read at first")
	log(pointOf("loss", "2", "2000", "NaN"))
	last := next(now)
	require.Equal(t, []any{"loss", false, "2", []any{map[string]any{"step": "2", "timestamp": "2000", "value": "NaN"}}}, shown(last))
	log(pointOf("loss", "3", "1500", 3))
	require.Equal(t, []any{"loss", true, "3", []any{}}, shown(next(now)), "it is earlier than the last one")
	log(pointOf("acc", "1", "1", "Infinity"))
	require.Equal(t, []any{"acc", false, "1", []any{map[string]any{"step": "1", "timestamp": "1", "value": "Infinity"}}}, shown(next(now)))

	whole := c.subscribe(subscription, map[string]any{"run": run, "keys": []any{"loss"}, "after": []any{}})
	require.Len(t, at(next(whole), "points"), 3, "from the first point")
	resumed := c.subscribe(subscription, map[string]any{"run": run, "keys": []any{"loss"}, "after": []any{map[string]any{"key": "loss", "total": "2", "cursor": at(last, "cursor")}}})
	require.Equal(t, []any{"loss", true, "3", []any{}}, shown(next(resumed)))
	page := at(w.ok(me, `query($id: ID!) { trackingRun(id: $id) { points(key: "loss", first: 2) { pageInfo { endCursor } } } }`, map[string]any{"id": run}), "trackingRun", "points")
	read := c.subscribe(subscription, map[string]any{"run": run, "keys": []any{"loss"}, "after": []any{map[string]any{"key": "loss", "total": "2", "cursor": at(page, "pageInfo", "endCursor")}}})
	require.Len(t, at(next(read), "points"), 1, "it continues after a page of the history")

	require.Equal(t, "INVALID", c.failure(c.subscribe(subscription, map[string]any{"run": run, "after": []any{map[string]any{"key": "acc", "total": "2", "cursor": at(last, "cursor")}}})), "the cursor of another metric")
	require.Equal(t, absent, c.failure(c.subscribe(subscription, map[string]any{"run": "none"})))
	stranger := w.open(bearer(w.tenant("beta").admin.token), nil)
	require.Equal(t, absent, stranger.failure(stranger.subscribe(subscription, map[string]any{"run": run})))
}
