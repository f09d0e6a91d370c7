package graph

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
)

const runsPage = `query($n: Int!) { runs(first: $n) { edges { node {
  id jobName status job { id name }
  tasks { key status attempts { number status logSize agent { name } } }
  attempts { number }
} } pageInfo { hasNextPage endCursor } } }`

// A page costs the same number of transactions whatever its length: its rows are loaded together.
func TestAPageCostsAConstantNumberOfReads(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(200)
	_, err := w.services.Quotas.Update(t.Context(), a.admin.scope, quota.MaxRunningRuns, new(int64(200)))
	require.NoError(t, err)
	for range 5 {
		j := a.job(job.Spec{Tasks: []job.TaskSpec{{Key: "one", Command: "true"}, {Key: "two", Command: "true"}}})
		for range 10 {
			a.run(j)
		}
	}
	me := bearer(a.admin.token)
	reads := func(query string, n int) int64 {
		return w.fewestReads(func() { w.ok(me, query, map[string]any{"n": n}) })
	}
	five, fifty := reads(runsPage, 5), reads(runsPage, 50)
	require.Equal(t, five, fifty)
	// Runs, jobs, tasks, attempts, sizes, agents.
	require.LessOrEqual(t, fifty, int64(6))

	data := w.ok(me, runsPage, map[string]any{"n": 50})
	require.Len(t, at(data, "runs", "edges"), 50)
	for i := range 50 {
		require.Equal(t, "one", at(data, "runs", "edges", i, "node", "tasks", 0, "key"))
		require.Equal(t, a.agent.Name, at(data, "runs", "edges", i, "node", "tasks", 1, "attempts", 0, "agent", "name"))
	}

	latest := `query($n: Int!) { jobs(first: $n) { edges { node { latestRun { id } } } } }`
	require.Equal(t, int64(2), reads(latest, 5))
	bars := `query($n: Int!) { jobs(first: $n) { edges { node { id runs(first: 4, status: [RUNNING, PENDING]) { pageInfo { endCursor hasNextPage } edges { node { id jobId } } } } } } }`
	require.Equal(t, int64(2), reads(bars, 5))
	page := at(w.ok(me, bars, map[string]any{"n": 5}), "jobs", "edges", 3, "node")
	require.Len(t, at(page, "runs", "edges"), 4)
	require.Equal(t, at(page, "id"), at(page, "runs", "edges", 0, "node", "jobId"))
	next := w.ok(me, `query($id: ID!, $after: String) { job(id: $id) { runs(first: 9, status: [RUNNING, PENDING], after: $after) { edges { node { id } } } } }`,
		map[string]any{"id": at(page, "id"), "after": at(page, "runs", "pageInfo", "endCursor")})
	require.Len(t, at(next, "job", "runs", "edges"), 6, "its cursor reads on")
	for range 3 {
		_, _, err := w.services.APIKeys.Create(t.Context(), a.admin.scope, identity.NewAPIKey{Name: "key"})
		require.NoError(t, err)
	}
	require.Equal(t, int64(2), reads(`query($n: Int!) { apiKeys(first: $n) { edges { node { createdBy { email } } } } }`, 5))
}

func TestAConnectionIsPagedByItsCursors(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	for range 7 {
		a.job(job.Spec{Command: "true"})
	}
	me := bearer(a.viewer.token)
	query := `query($after: String, $filter: JobFilter) { jobs(first: 3, after: $after, filter: $filter) { edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }`
	var ids []any
	var after any
	for more := true; more; {
		page := w.ok(me, query, map[string]any{"after": after, "filter": map[string]any{"search": nil}})["jobs"]
		edges := at(page, "edges").([]any)
		for _, e := range edges {
			ids = append(ids, at(e, "node", "id"))
		}
		require.Equal(t, at(edges[len(edges)-1], "cursor"), at(page, "pageInfo", "endCursor"))
		after, more = at(page, "pageInfo", "endCursor"), at(page, "pageInfo", "hasNextPage").(bool)
		if len(ids) == 3 { // an edge's own cursor continues from there
			second := w.ok(me, query, map[string]any{"after": at(edges[0], "cursor")})
			require.Equal(t, ids[1], at(second, "jobs", "edges", 0, "node", "id"))
		}
	}
	require.Len(t, ids, 7)
	other := w.query(me, query, map[string]any{"after": after, "filter": map[string]any{"search": "other"}})
	require.Equal(t, "INVALID", other.code())
	require.Equal(t, "after", other.Errors[0].Extensions["field"])
	empty := w.ok(me, `{ apiKeys { edges { cursor } pageInfo { endCursor hasNextPage } } }`, nil)
	require.Equal(t, map[string]any{"edges": []any{}, "pageInfo": map[string]any{"endCursor": nil, "hasNextPage": false}}, empty["apiKeys"])
}

func TestAJobIsChangedFieldByField(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	const shown = `job { id name description command tasks { key dependsOn } maxRetries environment { name value } schedule { cron timeZone paused next(count: 2) missed } maxConcurrentRuns }`
	create := `mutation($input: CreateJobInput!) { createJob(input: $input) { ` + shown + ` } }`
	update := `mutation($input: UpdateJobInput!) { updateJob(input: $input) { ` + shown + ` } }`
	change := func(input map[string]any) any {
		return at(w.ok(me, update, map[string]any{"input": input}), "updateJob", "job")
	}
	made := at(w.ok(me, create, map[string]any{"input": map[string]any{
		"name": "etl", "description": nil, "maxRetries": nil, "tasks": []any{map[string]any{"key": "one", "command": "true"}},
		"environment": []any{map[string]any{"name": "A", "value": "1"}}, "schedule": map[string]any{"cron": "0 3 * * *"},
	}}), "createJob", "job")
	id := at(made, "id")
	require.Equal(t, "", at(made, "description"))
	require.Nil(t, at(made, "command"))
	require.Equal(t, 0.0, at(made, "maxRetries"))
	require.Equal(t, []any{map[string]any{"key": "one", "dependsOn": []any{}}}, at(made, "tasks"))
	require.Equal(t, "UTC", at(made, "schedule", "timeZone"))
	require.Len(t, at(made, "schedule", "next"), 2)

	same := change(map[string]any{"id": id, "tasks": nil, "environment": nil, "name": nil})
	require.Equal(t, made, same, "what is left out or null stays")
	change(map[string]any{"id": id, "schedule": map[string]any{"timeZone": "Europe/Rome"}})
	paused := change(map[string]any{"id": id, "schedule": map[string]any{"paused": true}})
	require.Empty(t, at(paused, "schedule", "next"))
	require.Equal(t, "Europe/Rome", at(paused, "schedule", "timeZone"), "what is left out of a schedule stays")
	for _, count := range []int{0, -1, 101} {
		refused := w.query(me, `query($id: ID!, $n: Int) { job(id: $id) { schedule { next(count: $n) } } }`, map[string]any{"id": at(w.ok(me, create, map[string]any{
			"input": map[string]any{"name": "x", "command": "true", "schedule": map[string]any{"cron": "@daily"}},
		}), "createJob", "job", "id"), "n": count})
		require.Equal(t, "INVALID", refused.code())
	}
	require.Nil(t, at(change(map[string]any{"id": id, "schedule": nil}), "schedule"), "but a schedule of null is removed")
	single := change(map[string]any{"id": id, "tasks": []any{}, "command": "date", "environment": []any{}})
	require.Nil(t, at(single, "tasks"))
	require.Equal(t, "date", at(single, "command"))
	require.Empty(t, at(single, "environment"))

	bad := w.query(me, update, map[string]any{"input": map[string]any{"id": id, "schedule": map[string]any{"cron": "0 3 * * *", "timeZone": "Mars/Olympus"}}})
	require.Equal(t, "INVALID", bad.code())
	require.Equal(t, "schedule.timeZone", bad.Errors[0].Extensions["field"])
	circle := []any{map[string]any{"key": "a", "command": "true", "dependsOn": []any{"b"}}, map[string]any{"key": "b", "command": "true", "dependsOn": []any{"a"}}}
	bad = w.query(me, update, map[string]any{"input": map[string]any{"id": id, "command": "", "tasks": circle}})
	require.Equal(t, "INVALID", bad.code())
	require.Equal(t, "date", at(w.ok(me, `query($id: ID!) { job(id: $id) { command } }`, map[string]any{"id": id}), "job", "command"), "nothing changed")
}

func TestAnIdempotentStartMakesOneRun(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	j := a.job(job.Spec{Command: "true", Parameters: []job.Variable{{Name: "P", Value: "1"}}})
	start := `mutation($input: StartRunInput!) { startRun(input: $input) { run { id startedBy trigger singleCommand command parameters { name value } tasks { key } } } }`
	input := map[string]any{"jobId": j.ID, "idempotencyKey": "k", "parameters": []any{map[string]any{"name": "P", "value": "2"}}}
	first := w.ok(bearer(a.editor.token), start, map[string]any{"input": input})
	again := w.ok(bearer(a.editor.token), start, map[string]any{"input": input})
	require.Equal(t, first, again)
	run := at(first, "startRun", "run")
	require.Equal(t, "MANUAL", at(run, "trigger"))
	require.Equal(t, "acme-editor@example.com", at(run, "startedBy"))
	require.Equal(t, []any{map[string]any{"name": "P", "value": "2"}}, at(run, "parameters"))
	require.Equal(t, true, at(run, "singleCommand"))
	require.Empty(t, at(run, "tasks"))
	input["parameters"] = nil
	require.Equal(t, "CONFLICT", w.query(bearer(a.editor.token), start, map[string]any{"input": input}).code())
}

func TestAnIdempotentCreateAndRepairAreDoneOnce(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.editor.token)
	create := `mutation($input: CreateJobInput!) { createJob(input: $input) { job { id name } } }`
	input := map[string]any{"name": "etl", "command": "true", "idempotencyKey": "k", "files": []any{map[string]any{"path": "a", "content": "YQ=="}}}
	first := w.ok(me, create, map[string]any{"input": input})
	require.Equal(t, first, w.ok(me, create, map[string]any{"input": input}))
	input["name"] = "other"
	require.Equal(t, "CONFLICT", w.query(me, create, map[string]any{"input": input}).code())
	delete(input, "idempotencyKey")
	require.NotEqual(t, at(first, "createJob", "job", "id"), at(w.ok(me, create, map[string]any{"input": input}), "createJob", "job", "id"))

	run := a.run(a.job(job.Spec{Command: "false"}))
	repair := `mutation($input: RepairRunInput!) { repairRun(input: $input) { run { id status } } }`
	cancelled := func() {
		_, err := w.services.Runs.Cancel(t.Context(), a.editor.scope, run.ID)
		require.NoError(t, err)
	}
	cancelled()
	repaired := w.ok(me, repair, map[string]any{"input": map[string]any{"id": run.ID, "idempotencyKey": "r"}})
	require.Equal(t, "PENDING", at(repaired, "repairRun", "run", "status"))
	cancelled()
	again := w.ok(me, repair, map[string]any{"input": map[string]any{"id": run.ID, "idempotencyKey": "r"}})
	require.Equal(t, "CANCELLED", at(again, "repairRun", "run", "status"), "the same run, which is not repaired again")
}

func TestAQuotaSaysExactlyHowItStands(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	_, err := w.services.Quotas.Update(t.Context(), a.admin.scope, quota.MaxRunningRuns, new(int64(1)))
	require.NoError(t, err)
	j := a.job(job.Spec{Command: "true"})
	a.run(j)
	res := w.query(bearer(a.editor.token), `mutation($id: ID!) { startRun(input: {jobId: $id}) { run { id } } }`, map[string]any{"id": j.ID})
	require.Equal(t, "QUOTA_EXCEEDED", res.code())
	require.Equal(t, "max_running_runs=1, current=1", res.Errors[0].Message)
}

// A limit that a client forgot does not reset the quota.
func TestAQuotaIsResetOnlyByNull(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	update := func(limit string) answer {
		return w.query(bearer(a.admin.token), `mutation { updateQuota(input: {name: "max_running_runs"`+limit+`}) { quota { limit } } }`, nil)
	}
	require.Equal(t, map[string]any{"updateQuota": map[string]any{"quota": map[string]any{"limit": "7"}}}, update(`, limit: 7`).Data)
	res := update("")
	require.Equal(t, "INVALID", res.code())
	require.Equal(t, "limit is missing; give a number, or null for the default.", res.Errors[0].Message)
	require.Equal(t, map[string]any{"updateQuota": map[string]any{"quota": map[string]any{"limit": "10"}}}, update(`, limit: null`).Data)
}

func TestADeletedJobLeavesItsRuns(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	j := a.job(job.Spec{Command: "true"})
	run := a.run(j)
	me := bearer(a.editor.token)
	remove := `mutation($id: ID!) { deleteJob(input: {id: $id}) { id } }`
	require.Equal(t, "CONFLICT", w.query(me, remove, map[string]any{"id": j.ID}).code())
	_, err := w.services.Runs.Cancel(t.Context(), a.editor.scope, run.ID)
	require.NoError(t, err)
	w.ok(me, remove, map[string]any{"id": j.ID})
	data := w.ok(me, `query($run: ID!, $job: ID!) { run(id: $run) { jobId jobName job { id } } job(id: $job) { id } }`, map[string]any{"run": run.ID, "job": j.ID})
	require.Equal(t, map[string]any{"jobId": string(j.ID), "jobName": j.Name, "job": nil}, data["run"])
	require.Nil(t, data["job"])
}

func TestANewMemberGetsALink(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.admin.token)
	add := `mutation { addMember(input: {email: "New+1@example.com", role: EDITOR}) { setUpUrl member { id role user { id email } } } }`
	made := at(w.ok(me, add, nil), "addMember")
	require.Equal(t, "new+1@example.com", at(made, "member", "user", "email"))
	require.Equal(t, at(made, "member", "user", "id"), at(made, "member", "id"))
	link, err := url.Parse(at(made, "setUpUrl").(string))
	require.NoError(t, err)
	require.Equal(t, w.url, link.Scheme+"://"+link.Host)
	require.Equal(t, "/setup", link.Path)
	require.Equal(t, "new+1@example.com", link.Query().Get("email"))
	setUp := `mutation($t: String!) { setUp(input: {token: $t, email: "new+1@example.com", password: "correct horse battery"}) { viewer { role } } }`
	require.Equal(t, "EDITOR", at(w.ok(nobody, setUp, map[string]any{"t": link.Query().Get("token")}), "setUp", "viewer", "role"))
	require.Equal(t, "INVALID", w.query(nobody, setUp, map[string]any{"t": link.Query().Get("token")}).code(), "a link works once")
	last := w.query(me, `mutation($id: ID!) { removeMember(input: {id: $id}) { id } }`, map[string]any{"id": a.admin.id})
	require.Equal(t, "CONFLICT", last.code())
	require.True(t, strings.Contains(last.Errors[0].Message, "only admin"))
}

func TestAKeyIsAViewerWithoutASession(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	make := `mutation { createApiKey(input: {name: "ci", role: VIEWER, expiresAt: "2999-01-01T00:00:00Z"}) { secret apiKey { id hint role expiresAt createdBy { id } } } }`
	made := at(w.ok(bearer(a.editor.token), make, nil), "createApiKey")
	require.Equal(t, "2999-01-01T00:00:00.000000Z", at(made, "apiKey", "expiresAt"))
	require.Equal(t, string(a.editor.id), at(made, "apiKey", "createdBy", "id"))
	viewer := w.ok(bearer(at(made, "secret").(string)), viewerQuery, nil)["viewer"]
	require.Equal(t, at(made, "apiKey", "id"), at(viewer, "id"))
	require.Equal(t, "VIEWER", at(viewer, "role"))
	require.Nil(t, at(viewer, "user"))
	require.Nil(t, at(viewer, "sessionExpiresAt"))
	past := w.query(bearer(a.editor.token), strings.Replace(make, "2999", "1999", 1), nil)
	require.Equal(t, "INVALID", past.code())
	require.Equal(t, "expiresAt", past.Errors[0].Extensions["field"])
}
