package rest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestRuns(t *testing.T) {
	w := newWorld(t)
	token := w.ours.editor
	agent := w.connect(w.ours)

	t.Run("start answers with run_id and status pending, and nothing else", func(t *testing.T) {
		job := w.job(token, map[string]any{"name": "single", "command": "true", "parameters": map[string]string{"REGION": "eu", "DAY": ""}})
		for _, start := range []reply{
			w.call(token, "POST", "/jobs/"+job+"/run", nil),
			w.call(token, "POST", "/jobs/"+job+"/run", `{}`),
			w.call(token, "POST", "/jobs/"+job+"/run", `{"parameters":{"REGION":"us"}}`),
		} {
			started := start.object(201)
			require.Equal(t, map[string]any{"run_id": started["run_id"], "status": "pending"}, started)
			require.Regexp(t, "^run_", started["run_id"])
			id, _ := started["run_id"].(string)
			require.Equal(t, Prefix+"/runs/"+id, start.header.Get("Location"))
			agent.ends(agent.next(), 0, 0)
		}
		runs := w.call(token, "GET", "/jobs/"+job+"/runs?limit=1", nil).data(200)
		run, _ := runs[0].(map[string]any)
		require.Equal(t, map[string]any{"REGION": "us", "DAY": ""}, run["parameters"])
		require.Contains(t, w.call(token, "POST", "/jobs/"+job+"/run", `{"parameters":{"NOPE":"x"}}`).refused(400), "NOPE")
		w.call(token, "POST", "/jobs/"+job+"/run", `{"parameters":{"REGION":1}}`).refused(400)
		w.call(token, "POST", "/jobs/"+job+"/run", `x`).refused(400)
		w.call(token, "POST", "/jobs/"+job+"/run", `{}`, "Content-Type", "").refused(415)
	})
	t.Run("a run shows its status and timing", func(t *testing.T) {
		job := w.job(token, map[string]any{"name": "timed", "command": "true"})
		id := w.start(token, job)
		attempt := agent.next()
		run := w.call(token, "GET", "/runs/"+id, nil).object(200)
		require.Equal(t, "running", run["status"])
		require.Equal(t, id, run["run_id"])
		require.Equal(t, id, run["id"])
		require.Equal(t, job, run["job_id"])
		require.Equal(t, "timed", run["job_name"])
		require.Equal(t, "manual", run["trigger"])
		require.NotNil(t, run["created_at"])
		require.NotNil(t, run["started_at"])
		require.Nil(t, run["finished_at"])
		require.NotNil(t, run["duration_ms"])
		agent.ends(attempt, 3, 0)
		run = w.call(token, "GET", "/runs/"+id, nil).object(200)
		require.Equal(t, "failed", run["status"])
		require.Contains(t, run["message"], "exit code 3")
		require.NotNil(t, run["finished_at"])
		attempts := w.call(token, "GET", "/runs/"+id+"/attempts", nil)
		require.Equal(t, 200, attempts.status)
		require.Contains(t, attempts.body, `"exit_code":3`)
	})
	t.Run("task rows, cancel and repair", func(t *testing.T) {
		job, _ := w.call(token, "POST", "/jobs", pipeline).object(201)["id"].(string)
		id := w.start(token, job)
		attempt := agent.next()
		rows := w.tasks(token, id)
		require.Equal(t, []string{"extract running", "load pending"}, rows)
		require.Contains(t, w.call(token, "GET", "/runs/"+id+"/tasks", nil).body, `"retry_count":0`)

		run := w.call(token, "POST", "/runs/"+id+"/cancel", nil).object(200)
		require.Equal(t, "running", run["status"], "until its last process has ended")
		require.NotNil(t, run["cancel_requested_at"])
		w.call(token, "POST", "/runs/"+id+"/cancel", nil).refused(409)
		require.Equal(t, []string{"extract running", "load cancelled"}, w.tasks(token, id))
		w.call(token, "POST", "/runs/"+id+"/repair", nil).refused(409)
		agent.ends(attempt, 143, 0)
		require.Equal(t, "cancelled", w.call(token, "GET", "/runs/"+id, nil).object(200)["status"])
		w.call(token, "POST", "/runs/"+id+"/cancel", nil).refused(409)

		run = w.call(token, "POST", "/runs/"+id+"/repair", nil).object(200)
		require.Contains(t, []any{"pending", "running"}, run["status"])
		agent.ends(agent.next(), 0, 0)
		agent.ends(agent.next(), 0, 0)
		require.Equal(t, []string{"extract success", "load success"}, w.tasks(token, id))
		require.Equal(t, "success", w.call(token, "GET", "/runs/"+id, nil).object(200)["status"])
		w.call(token, "POST", "/runs/"+id+"/repair", nil).refused(409)
	})
	t.Run("a pending run is cancelled at once", func(t *testing.T) {
		job := w.job(w.theirs.editor, map[string]any{"name": "nowhere", "command": "true"})
		id := w.start(w.theirs.editor, job)
		require.Equal(t, "cancelled", w.call(w.theirs.editor, "POST", "/runs/"+id+"/cancel", nil).object(200)["status"])
	})
	t.Run("filters", func(t *testing.T) {
		all := len(w.call(token, "GET", "/runs", nil).data(200))
		require.Len(t, w.call(token, "GET", "/runs?status=success,failed,cancelled", nil).data(200), all)
		require.Len(t, w.call(token, "GET", "/runs?status=success&status=failed&status=cancelled", nil).data(200), all)
		require.Len(t, w.call(token, "GET", "/runs?status=failed", nil).data(200), 1)
		require.Empty(t, w.call(token, "GET", "/runs?status=pending", nil).data(200))
		require.Contains(t, w.call(token, "GET", "/runs?status=done", nil).refused(400), `"done"`)
		require.Contains(t, w.call(token, "GET", "/runs?status=failed,,", nil).refused(400), `""`)
		require.Empty(t, w.call(token, "GET", "/runs?job_id=job_x", nil).data(200))
		w.call(token, "GET", "/jobs/job_x/runs", nil).refused(404)
	})
}

// tasks are the run's task rows as "key status".
func (w *world) tasks(token, run string) (rows []string) {
	w.t.Helper()
	r := w.call(token, "GET", "/runs/"+run+"/tasks", nil)
	require.Equal(w.t, 200, r.status, r.body)
	for _, row := range decode[[]map[string]any](w.t, r.body) {
		rows = append(rows, fmt.Sprint(row["key"], " ", row["status"]))
	}
	return rows
}

func TestSettings(t *testing.T) {
	w := newWorld(t)
	admin := w.ours.admin

	t.Run("who am I", func(t *testing.T) {
		me := w.call(w.ours.editor, "GET", "/auth/me", nil).object(200)
		require.Equal(t, "editor", me["role"])
		workspace, _ := me["workspace"].(map[string]any)
		require.Equal(t, "ours", workspace["name"])
		user, _ := me["user"].(map[string]any)
		require.Equal(t, "editor", user["name"])
		require.NotEmpty(t, me["session_expires_at"])
	})
	t.Run("members", func(t *testing.T) {
		require.Len(t, w.call(admin, "GET", "/settings/members", nil).data(200), 3)
		made := w.call(admin, "POST", "/settings/members", `{"email":"New@Example.com","role":"viewer","name":"New"}`).object(201)
		require.Equal(t, "new@example.com", made["email"])
		id, _ := made["id"].(string)
		link, _ := made["setup_token"].(string)
		w.call(admin, "POST", "/settings/members", `{"email":"new@example.com","role":"boss"}`).refused(400)
		w.call(admin, "POST", "/settings/members", `{"email":"x","role":"viewer"}`).refused(400)

		w.call("", "POST", "/auth/setup", map[string]any{"token": link, "email": "new@example.com", "password": "short"}).refused(400)
		in := w.call("", "POST", "/auth/setup", map[string]any{"token": link, "email": "new@example.com", "password": password}).object(200)
		token, _ := in["access_token"].(string)
		w.call("", "POST", "/auth/setup", map[string]any{"token": link, "email": "new@example.com", "password": password}).refused(400)
		w.call(token, "POST", "/jobs", `{"name":"x","command":"true"}`).refused(403)
		require.Equal(t, "editor", w.call(admin, "PATCH", "/settings/members/"+id, `{"role":"editor"}`).object(200)["role"])
		w.call(token, "POST", "/jobs", `{"name":"x","command":"true"}`).object(201)

		require.Equal(t, 204, w.call(token, "POST", "/auth/password", map[string]any{"current": password, "new": "another good password"}).status)
		w.call(token, "POST", "/auth/password", map[string]any{"current": password, "new": "another good password"}).refused(400)
		require.Equal(t, 204, w.call(admin, "DELETE", "/settings/members/"+id, nil).status)
		w.call(token, "GET", "/workspace", nil).refused(401)

		me, _ := w.call(admin, "GET", "/auth/me", nil).object(200)["actor"].(map[string]any)
		self, _ := me["id"].(string)
		w.call(admin, "PATCH", "/settings/members/"+self, `{"role":"viewer"}`).refused(409)
		w.call(admin, "DELETE", "/settings/members/"+self, nil).refused(409)
	})
	t.Run("API keys", func(t *testing.T) {
		w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"up","role":"admin"}`).refused(403)
		w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"old","expires_at":"2020-01-01T00:00:00Z"}`).refused(400)
		w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"odd","expires_at":"tomorrow"}`).refused(400)
		r := w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"mine","expires_at":"2126-01-01T00:00:00+02:00"}`)
		key := r.object(201)
		require.Equal(t, "viewer", key["role"], "the least, where none is named")
		require.Equal(t, "2125-12-31T22:00:00.000000Z", key["expires_at"])
		secret, _ := key["secret"].(string)
		require.Equal(t, "api_key", w.call(secret, "GET", "/auth/me", nil).object(200)["actor"].(map[string]any)["kind"])
		w.call(secret, "POST", "/settings/api-keys", `{"name":"child"}`).refused(403)
		require.NotContains(t, w.call(w.ours.editor, "GET", "/settings/api-keys", nil).body, secret)
		require.Empty(t, w.call(w.ours.viewer, "GET", "/settings/api-keys", nil).data(200))
		id, _ := key["id"].(string)
		w.call(w.ours.viewer, "DELETE", "/settings/api-keys/"+id, nil).refused(404)
	})
	t.Run("agents", func(t *testing.T) {
		agents := w.call(w.ours.viewer, "GET", "/settings/agents", nil).data(200)
		require.Len(t, agents, 1)
		id := string(w.ours.agent.ID)
		require.Equal(t, "new", w.call(w.ours.viewer, "GET", "/settings/agents/"+id, nil).object(200)["status"])
		w.connect(w.ours)
		agent := w.call(w.ours.viewer, "GET", "/settings/agents/"+id, nil).object(200)
		require.Equal(t, "connected", agent["status"])
		require.Equal(t, 100.0, agent["slots"])
		token, _ := w.call(admin, "POST", "/settings/agents/"+id+"/rotate-token", nil).object(200)["token"].(string)
		require.NotEqual(t, w.ours.agentToken, token)
		_, err := w.auth.Bearer(t.Context(), w.ours.agentToken)
		require.True(t, domain.IsCode(err, domain.CodeUnauthenticated))
	})
	t.Run("workspace", func(t *testing.T) {
		require.Equal(t, "ours", w.call(w.ours.viewer, "GET", "/workspace", nil).object(200)["name"])
		require.Equal(t, 1.0, w.call(w.ours.viewer, "GET", "/workspace/overview", nil).object(200)["agents"])
		require.Equal(t, `{"removed":0}`, w.call(admin, "DELETE", "/samples", nil).body)
	})
	t.Run("logout ends the session", func(t *testing.T) {
		require.Equal(t, 204, w.call(w.ours.viewer, "POST", "/auth/logout", nil).status)
		w.call(w.ours.viewer, "GET", "/workspace", nil).refused(401)
	})
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	email := w.ours.scope.Actor().Name
	in := w.call("", "POST", "/auth/login", map[string]any{"email": email, "password": password}).object(200)
	require.Equal(t, map[string]any{"access_token": in["access_token"], "token_type": "Bearer", "expires_in": 3600.0}, in)
	wrong := w.call("", "POST", "/auth/login", map[string]any{"email": email, "password": "wrong"})
	unknown := w.call("", "POST", "/auth/login", map[string]any{"email": "nobody@example.com", "password": "wrong"})
	require.Equal(t, wrong.refused(401), unknown.refused(401))
	require.Empty(t, wrong.header.Values("Set-Cookie"))
	w.call("", "POST", "/auth/login", `{"email":"x"}`).refused(400)

	failures := 0
	for w.call("", "POST", "/auth/login", map[string]any{"email": email, "password": "wrong"}).status != 429 {
		failures++
		require.Less(t, failures, 50, "failed logins are limited")
	}
	limited := w.call("", "POST", "/auth/login", map[string]any{"email": email, "password": password})
	limited.refused(429)
	require.Equal(t, "60", limited.header.Get("Retry-After"))
}
