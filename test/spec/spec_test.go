package spec_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// specification is the REST specification, row by row in its order, checked on the real binary over
// HTTP.
var specification = []struct {
	row  string
	asks func(s *spec)
}{
	{"resources: pagination: limit is 50 by default, 200 at most", func(s *spec) {
		s.jobs(51)
		require.Len(s, s.get("/jobs").list(), 50)
		require.Len(s, s.get("/jobs?limit=7").list(), 7)
		s.get("/jobs?limit=200").is(200)
		s.get("/jobs?limit=201").fails(400)
		s.get("/jobs?limit=0").fails(400)
	}},
	{"resources: pagination: cursor is opaque and taken from the previous response", func(s *spec) {
		s.jobs(3)
		first := s.get("/jobs?limit=1")
		second := s.get("/jobs?limit=1&cursor=" + first.text("next_cursor"))
		require.NotEqual(s, first.list(), second.list())
		s.get("/jobs?cursor=x").fails(400)
	}},
	{"resources: pagination: next_cursor is present only when more rows exist", func(s *spec) {
		s.jobs(2)
		require.Contains(s, s.get("/jobs?limit=1").is(200).object(), "next_cursor")
		require.NotContains(s, s.get("/runs?job_id="+s.job(single)).is(200).object(), "next_cursor")
	}},
	{"resources: compute instance: id, name, flavor, status, region, auto_stop, image", func(s *spec) {
		s.post("/compute", `{"flavor":"cpu.1"}`).fails(400)
		s.post("/compute", `{"name":"x"}`).fails(400)
		require.Contains(s, s.post("/compute", `{"name":"x","flavor":"gpu.a100"}`).fails(400).body, "cpu.1", "it lists the available flavors")
		body := compute()
		id := s.made("/compute", body)
		require.Regexp(s, `^cmp_\w+$`, id)
		s.post("/compute", body).fails(409)
		made := s.get("/compute/" + id).is(200).object()
		for field, want := range map[string]any{"name": body["name"], "flavor": "cpu.1", "status": "stopped", "region": "local", "auto_stop": "1h", "image": ""} {
			require.Equal(s, want, made[field], field)
		}
	}},
	{"resources: SQL warehouse: id and state", func(s *spec) {
		first, _ := s.get("/sql/warehouses").list()[0].(map[string]any)
		require.Regexp(s, `^wh_\w+$`, first["id"])
		require.Equal(s, "stopped", first["state"])
	}},
	{"resources: SQL execution result: columns, rows, engine, elapsed_ms, lineage", func(s *spec) {
		s.sql("CREATE TABLE IF NOT EXISTS lake.public.result (n BIGINT, name VARCHAR)").is(200)
		s.sql("INSERT INTO lake.public.result VALUES (1, 'one'), (2, NULL)").is(200)
		result := s.sql("SELECT n, name FROM lake.public.result ORDER BY n").is(200).object()
		require.Equal(s, []any{"n", "name"}, result["columns"])
		require.Equal(s, []any{[]any{1.0, "one"}, []any{2.0, nil}}, result["rows"])
		require.Equal(s, "duckdb", result["engine"])
		require.IsType(s, 0.0, result["elapsed_ms"])
		require.Equal(s, map[string]any{"read": []any{"lake.public.result"}, "written": []any{}}, result["lineage"])
		written := s.sql("INSERT INTO lake.public.result SELECT n + 2, name FROM lake.public.result").is(200).object()
		require.Equal(s, []any{}, written["columns"])
		require.Equal(s, []any{}, written["rows"])
		require.Equal(s, "trino", written["engine"])
		require.IsType(s, 0.0, written["elapsed_ms"])
		require.Equal(s, map[string]any{"read": []any{"lake.public.result"}, "written": []any{"lake.public.result"}}, written["lineage"])
	}},
	{"resources: database, table and table schema", func(s *spec) {
		s.sql("CREATE TABLE IF NOT EXISTS types (a BIGINT, b DECIMAL(38, 2), c VARCHAR)").is(200)
		require.Contains(s, s.get("/databases").is(200).body, `"name":"lake"`)
		columns := s.get("/databases/lake/schemas/public/tables/types/schema").is(200).object()["columns"].([]any)
		for i, want := range []string{"a long", "b decimal(38, 2)", "c string"} {
			c := columns[i].(map[string]any)
			require.Equal(s, want, fmt.Sprint(c["name"], " ", c["type"]))
		}
	}},
	{"resources: job: name, and tasks: an array or null; omitted on create means a single command", func(s *spec) {
		for _, body := range []any{single, `{"name":"j","command":"true","tasks":null}`} {
			job := s.post("/jobs", body).is(201).object()
			require.NotEmpty(s, job["name"])
			require.Empty(s, job["tasks"])
		}
	}},
	{"resources: job: tasks[].key, command, depends_on, max_retries, timeout_seconds", func(s *spec) {
		tasks, _ := s.post("/jobs", dag).is(201).object()["tasks"].([]any)
		second, _ := tasks[1].(map[string]any)
		for field, want := range map[string]any{"key": "load", "command": "true", "depends_on": []any{"extract"}, "max_retries": 1.0, "timeout_seconds": 30.0} {
			require.Equal(s, want, second[field], field)
		}
	}},
	{"resources: run: run_id, and status: pending, running, success, failed or cancelled", func(s *spec) {
		run := s.run(s.job(single))
		require.Regexp(s, `^run_\w+$`, run)
		require.Contains(s, []any{"pending", "running", "success"}, s.get("/runs/" + run).is(200).object()["status"])
		require.Equal(s, "success", s.over(run))
		require.Equal(s, "failed", s.over(s.run(s.job(map[string]any{"name": "fails", "command": "exit 3"}))))
	}},
	{"resources: task row: key, status, retry_count; a single command has none", func(s *spec) {
		run := s.run(s.job(dag))
		require.Equal(s, "success", s.over(run))
		rows := s.get("/runs/" + run + "/tasks").is(200).array()
		for i, key := range []string{"extract", "load"} {
			row, _ := rows[i].(map[string]any)
			require.Equal(s, key, row["key"])
			require.Equal(s, "success", row["status"])
			require.Equal(s, 0.0, row["retry_count"])
		}
		require.Equal(s, "[]", s.get("/runs/"+s.run(s.job(single))+"/tasks").is(200).body)
	}},
	{"resources: metric: latest value and step history", func(s *spec) {
		run := s.trackingRun()
		s.post(run+"/metrics", metric).is(200)
		s.post(run+"/metrics", map[string]any{"key": "loss", "value": 0.25, "step": 2}).is(200)
		latest := s.get(run).is(200).object()["metrics"].([]any)
		require.Len(s, latest, 1)
		require.Subset(s, latest[0], map[string]any{"key": "loss", "value": 0.25, "step": 2.0})
		require.Len(s, s.get(run+"/metrics/loss").list(), 2)
	}},
	{"resources: serving endpoint: status, model version, QPS and latency", func(s *spec) { s.get("/endpoints").list() }},
	{"resources: invoice and usage", func(s *spec) { s.get("/settings/billing/usage?from=2026-01-01&to=2026-01-31").list() }},

	{"states: compute: POST /compute makes it stopped", func(s *spec) {
		require.Equal(s, "stopped", s.post("/compute", compute()).is(201).text("status"))
	}},
	{"states: compute: start runs a stopped one, and its image is kept from the first start", func(s *spec) {
		one := "/compute/" + s.made("/compute", compute())
		require.Equal(s, "", s.get(one).is(200).object()["image_ref"])
		require.Equal(s, "starting", s.post(one+"/start", nil).is(200).text("status"))
		image := s.reaches(one, "running").text("image_ref")
		require.Contains(s, image, "@sha256:")
		s.post(one+"/start", nil).fails(409)
		s.post(one+"/stop", nil).is(200)
		require.Equal(s, image, s.reaches(one, "stopped").text("image_ref"))
	}},
	{"states: compute: stop stops a running one, and its machine is released", func(s *spec) {
		one := s.running("/compute")
		require.Equal(s, "stopping", s.post(one+"/stop", nil).is(200).text("status"))
		s.reaches(one, "stopped")
		s.post(one+"/stop", nil).fails(409)
	}},
	{"states: compute: DELETE of a running one is 409 and changes nothing", func(s *spec) {
		one := s.running("/compute")
		before := s.get(one).is(200).object()
		s.call("DELETE", one, nil).fails(409)
		after := s.get(one).is(200).object()
		for _, field := range []string{"id", "name", "status", "status_since", "image_ref"} {
			require.Equal(s, before[field], after[field], field)
		}
	}},
	{"states: compute: DELETE removes a stopped one", func(s *spec) {
		one := "/compute/" + s.made("/compute", compute())
		s.call("DELETE", one, nil).is(204)
		s.get(one).fails(404)
	}},
	{"states: SQL warehouse: start provisions a stopped one: starting, then running", func(s *spec) {
		one := s.stopped("/sql/warehouses")
		require.Equal(s, "starting", s.post(one+"/start", nil).is(200).text("state"))
		engines, _ := s.reaches(one, "running").object()["engines"].([]any)
		require.NotNil(s, engines)
		s.post(one+"/start", nil).fails(409)
		require.Equal(s, "stopping", s.post(one+"/stop", nil).is(200).text("state"))
		s.reaches(one, "stopped")
	}},
	{"states: run: POST /jobs/:id/run makes it pending, and carries run_id and status", func(s *spec) {
		started := s.post("/jobs/"+s.job(single)+"/run", nil).is(201).object()
		require.Equal(s, map[string]any{"run_id": started["run_id"], "status": "pending"}, started)
	}},
	{"states: run: no run is created when the quota is reached: 429", func(s *spec) { s.quotaReached() }},
	{"states: run: cancel cancels pending and running tasks: SIGTERM, then SIGKILL", func(s *spec) {
		run := s.run(s.job(map[string]any{"name": "stubborn", "tasks": []any{
			map[string]any{"key": "stays", "command": "trap 'echo SIGTERM came' TERM; echo ready; while :; do sleep 0.1; done"},
			map[string]any{"key": "waits", "command": "true", "depends_on": []string{"stays"}},
		}}))
		harness.Await(s.T, "the task is ready", func() bool { return strings.Contains(s.get("/runs/"+run+"/tasks/stays/logs").body, "ready") })
		s.post("/runs/"+run+"/cancel", nil).is(200)
		require.Equal(s, "cancelled", s.over(run))
		require.Contains(s, s.get("/runs/"+run+"/tasks/stays/logs").body, "SIGTERM came")
		for _, row := range s.get("/runs/" + run + "/tasks").is(200).array() {
			task, _ := row.(map[string]any)
			require.Equal(s, "cancelled", task["status"])
		}
		attempt, _ := s.get("/runs/" + run + "/attempts").is(200).array()[0].(map[string]any)
		require.Contains(s, attempt["signal"], "KILL")
	}},

	{"endpoints: POST /auth/login", func(s *spec) {
		in := s.as("").post("/auth/login", harness.Login).is(200).object()
		require.Equal(s, map[string]any{"access_token": in["access_token"], "token_type": "Bearer", "expires_in": 3600.0}, in)
	}},
	{"endpoints: POST /auth/refresh", func(s *spec) {
		fresh := s.post("/auth/refresh", nil).is(200).text("access_token")
		s.as(fresh).get("/workspace").is(200)
	}},
	{"endpoints: GET /compute", func(s *spec) {
		s.post("/compute", compute()).is(201)
		s.post("/compute", compute()).is(201)
		first := s.get("/compute?limit=1").is(200)
		instance, _ := first.list()[0].(map[string]any)
		for _, field := range []string{"id", "name", "flavor", "status", "region", "auto_stop"} {
			require.NotEmpty(s, instance[field], field)
		}
		require.NotEqual(s, first.list(), s.get("/compute?limit=1&cursor="+first.text("next_cursor")).list())
	}},
	{"endpoints: POST /compute", func(s *spec) {
		made := s.post("/compute", compute()).is(201).object()
		require.Regexp(s, `^cmp_`, made["id"])
		require.Equal(s, map[string]any{"id": made["id"], "status": "stopped"}, made)
	}},
	{"endpoints: POST /compute/:id/start", func(s *spec) { s.post(s.running("/compute")+"/start", nil).fails(409) }},
	{"endpoints: POST /compute/:id/stop", func(s *spec) {
		s.post("/compute/"+s.made("/compute", compute())+"/stop", nil).fails(409)
		s.post(s.running("/compute")+"/stop", nil).is(200)
		s.reaches(s.first("/compute"), "stopped")
	}},
	{"endpoints: DELETE /compute/:id", func(s *spec) {
		s.call("DELETE", "/compute/"+s.made("/compute", compute()), nil).is(204)
		s.call("DELETE", s.running("/compute"), nil).fails(409)
	}},
	{"endpoints: GET /sql/warehouses", func(s *spec) {
		for _, item := range s.get("/sql/warehouses").list() {
			warehouse, _ := item.(map[string]any)
			require.Contains(s, []any{"stopped", "starting", "running", "stopping"}, warehouse["state"])
		}
	}},
	{"endpoints: POST /sql/warehouses/:id/start", func(s *spec) {
		s.post(s.running("/sql/warehouses")+"/start", nil).fails(409)
		s.post("/sql/warehouses/wh_x/start", nil).fails(404)
	}},
	{"endpoints: POST /sql/execute", func(s *spec) {
		require.Equal(s, []any{[]any{1.0}}, s.sql("SELECT 1 AS n").is(200).object()["rows"])
		s.post("/sql/execute", map[string]any{"query": "SELECT 1", "warehouse_id": "wh_none"}).fails(404)
		s.post("/sql/execute", map[string]any{"warehouse_id": "default"}).fails(400)
		require.Contains(s, s.sql("SELECT\n  nonsense FROM lake.public.result").fails(400).body, "Line 2, column 3")
	}},
	{"endpoints: GET /databases", func(s *spec) {
		require.NotEmpty(s, s.get("/databases").list())
		made := s.post("/databases", map[string]any{"name": "Sales_" + rand.Text()}).is(201)
		require.Contains(s, s.get("/databases?limit=200").is(200).body, made.text("id"))
	}},
	{"endpoints: GET /databases/:id/tables", func(s *spec) {
		s.sql("DROP TABLE IF EXISTS counted").is(200)
		s.sql("CREATE TABLE counted AS SELECT n FROM UNNEST(sequence(1, 7)) AS t(n)").is(200)
		for _, one := range s.get("/databases/lake/tables?limit=200").list() {
			if table := one.(map[string]any); table["name"] == "counted" {
				require.Equal(s, 7.0, table["row_count"])
				require.NotZero(s, table["current_snapshot"].(map[string]any)["id"])
				return
			}
		}
		require.Fail(s, "the table is not listed")
	}},
	{"endpoints: GET /databases/:id/schemas/:schema/tables/:table/schema", func(s *spec) {
		s.sql("CREATE TABLE IF NOT EXISTS t (n BIGINT)").is(200)
		require.Contains(s, s.get("/databases/lake/schemas/public/tables/t/schema").is(200).body, `{"name":"n","type":"long"`)
		s.get("/databases/lake/schemas/public/tables/none/schema").fails(404)
	}},
	{"endpoints: POST /jobs", func(s *spec) { require.Regexp(s, `^job_`, s.post("/jobs", dag).is(201).text("id")) }},
	{"endpoints: change of /jobs/:id: tasks: null leaves the DAG intact, [] clears it, past runs are never rewritten", func(s *spec) {
		for _, method := range []string{"PATCH", "PUT"} {
			job := s.job(dag)
			run := s.run(job)
			require.Len(s, s.call(method, "/jobs/"+job, `{"tasks":null,"name":"renamed"}`).is(200).object()["tasks"], 2)
			require.Empty(s, s.call(method, "/jobs/"+job, `{"tasks":[]}`).is(200).object()["tasks"])
			require.Len(s, s.get("/runs/"+run+"/tasks").is(200).array(), 2)
			require.Equal(s, "dag", s.get("/runs/" + run).is(200).object()["job_name"])
		}
	}},
	{"endpoints: POST /jobs/:id/run", func(s *spec) {
		require.Equal(s, "success", s.over(s.post("/jobs/"+s.job(single)+"/run", nil).is(201).text("run_id")))
	}},
	{"endpoints: GET /runs/:id: status and timing", func(s *spec) {
		run := s.run(s.job(single))
		s.over(run)
		shown := s.get("/runs/" + run).is(200).object()
		for _, field := range []string{"created_at", "started_at", "finished_at"} {
			require.Regexp(s, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}Z$`, shown[field], field)
		}
	}},
	{"endpoints: GET /runs/:id/tasks: a bare array, empty for single-command jobs", func(s *spec) {
		require.Len(s, s.get("/runs/"+s.run(s.job(dag))+"/tasks").is(200).array(), 2)
		require.Empty(s, s.get("/runs/"+s.run(s.job(single))+"/tasks").is(200).array())
	}},
	{"endpoints: GET /runs/:id/tasks/:key/logs: streamed and archived", func(s *spec) {
		run := s.run(s.job(map[string]any{"name": "talks", "tasks": []any{map[string]any{"key": "k", "command": "echo one; sleep 0.2; echo two"}}}))
		require.Equal(s, "one\ntwo\n", s.get("/runs/"+run+"/tasks/k/logs?follow=true").is(200).body)
		require.Equal(s, "one\ntwo\n", s.get("/runs/"+run+"/tasks/k/logs").is(200).body)
	}},
	{"endpoints: GET /runs/:id/lineage", func(s *spec) {
		require.Equal(s, map[string]any{"read": []any{}, "written": []any{}}, s.get("/runs/"+s.run(s.job(single))+"/lineage").is(200).object())
	}},
	{"endpoints: POST /runs/:id/cancel", func(s *spec) {
		run := s.run(s.job(map[string]any{"name": "sleeps", "command": "exec sleep 600"}))
		s.post("/runs/"+run+"/cancel", nil).is(200)
		require.Equal(s, "cancelled", s.over(run))
	}},
	{"endpoints: POST /experiments/:id/runs/:run/metrics", func(s *spec) {
		require.Subset(s, s.post(s.trackingRun()+"/metrics", metric).is(200).object(), metricStored)
	}},
	{"endpoints: POST /experiments/:id/runs/:run/metrics/batch", func(s *spec) {
		run := s.trackingRun()
		for _, body := range []any{[]any{metric}, map[string]any{"metrics": []any{metric}}} {
			require.Equal(s, map[string]any{"logged": 1.0}, s.post(run+"/metrics/batch", body).is(200).object())
		}
		require.Len(s, s.get(run+"/metrics/loss").list(), 2, "each has a time of its own")
	}},
	{"endpoints: GET /experiments/:id/runs/:run/metrics/:key", func(s *spec) {
		run := s.trackingRun()
		for _, point := range []string{`{"key":"loss","value":3,"step":2,"timestamp":1000}`, `{"key":"loss","value":"NaN","step":1,"timestamp":1000}`, `{"key":"loss","value":1,"timestamp":500}`} {
			for range 2 {
				s.post(run+"/metrics", point).is(200)
			}
		}
		history := s.get(run + "/metrics/loss").is(200)
		require.JSONEq(s, `{"data":[{"step":0,"value":1,"timestamp":"1970-01-01T00:00:00.500Z"},{"step":1,"value":"NaN","timestamp":"1970-01-01T00:00:01.000Z"},
			{"step":2,"value":3,"timestamp":"1970-01-01T00:00:01.000Z"}]}`, history.body)
		require.JSONEq(s, `{"data":[]}`, s.get(run+"/metrics/unknown").is(200).body)
		s.get("/experiments/999/runs/none/metrics/loss").is(404)
		s.get("/experiments/0/runs/none/metrics/loss").is(404)
		s.as(s.stranger).get(run + "/metrics/loss").is(404)
	}},
	{"endpoints: GET /experiments/:id/runs/:run/artifacts/presigned-url", func(s *spec) {
		s.get("/experiments/e/runs/r/artifacts/presigned-url?path=m").is(200)
	}},
	{"endpoints: GET /models/:id/endpoints", func(s *spec) { s.get("/models/m/endpoints").list() }},
	{"endpoints: GET /endpoints", func(s *spec) { s.get("/endpoints").list() }},
	{"endpoints: POST /endpoints", func(s *spec) { s.post("/endpoints", map[string]any{"name": "e", "model": "m", "version": 1}).is(201) }},
	{"endpoints: GET /audit/analytics", func(s *spec) { s.get("/audit/analytics?from=2026-01-01&to=2026-01-31&group_by=day,action").is(200) }},
	{"endpoints: GET /settings/billing/invoices", func(s *spec) { s.get("/settings/billing/invoices").list() }},
	{"endpoints: GET /settings/billing/usage", func(s *spec) { s.get("/settings/billing/usage?from=2026-01-01&to=2026-01-31").list() }},

	{"authentication: an access token is short-lived: one hour, renewed before it ends", func(s *spec) {
		require.Equal(s, 3600.0, s.post("/auth/refresh", nil).is(200).object()["expires_in"])
	}},
	{"authentication: an API key is svc_sk_ and a secret part, carries the workspace, and can be revoked at any time", func(s *spec) {
		key := s.post("/settings/api-keys", `{"name":"ci","role":"editor"}`).is(201)
		require.Regexp(s, `^svc_sk_\S+$`, key.text("secret"))
		ours := s.get("/workspace").is(200).body
		require.Equal(s, ours, s.as(key.text("secret")).get("/workspace").is(200).body)
		s.call("DELETE", "/settings/api-keys/"+key.text("id"), nil).is(204)
		s.as(key.text("secret")).get("/workspace").fails(401)
	}},
	{"authentication: an agent token opens the agent's WebSocket and nothing else", func(s *spec) { s.as(s.agentToken).get("/workspace").fails(403) }},
	{"authentication: every endpoint except login needs a bearer credential; a missing one is 401", func(s *spec) {
		for _, path := range []string{"/jobs", "/runs", "/runs/run_x/logs", "/settings/members", "/auth/me", "/compute", "/sql/warehouses"} {
			require.Contains(s, s.as("").get(path).fails(401).header.Get("WWW-Authenticate"), "Bearer", path)
		}
		s.as(s.token + "x").get("/jobs").fails(401)
	}},
	{"authentication: another workspace's resource is 404", func(s *spec) {
		job := s.job(single)
		for _, path := range []string{"/jobs/" + job, "/jobs/" + job + "/runs", "/runs/" + s.run(job), "/runs/" + s.run(job) + "/logs", s.first("/compute"), s.first("/sql/warehouses")} {
			s.get(path).is(200)
			s.as(s.stranger).get(path).fails(404)
		}
		s.as(s.stranger).post("/jobs/"+job+"/run", nil).fails(404)
		s.as(s.stranger).post(s.first("/compute")+"/start", nil).fails(404)
		require.NotContains(s, s.as(s.stranger).get("/jobs").is(200).body, job)
	}},
	{"authentication: authenticated but not permitted is 403", func(s *spec) {
		viewer := s.post("/settings/api-keys", `{"name":"reader","role":"viewer"}`).is(201).text("secret")
		s.as(viewer).get("/jobs").is(200)
		s.as(viewer).post("/jobs", single).fails(403)
	}},

	{"errors: 400: malformed request or invalid parameters", func(s *spec) {
		for _, body := range []any{`{`, `{"name":1}`, `{}`, `{"name":"x","surprise":1}`} {
			s.post("/jobs", body).fails(400)
		}
		s.get("/runs?status=done").fails(400)
	}},
	{"errors: 401: missing or expired token", func(s *spec) { s.as("").get("/jobs").fails(401) }},
	{"errors: 403: authenticated but not permitted", func(s *spec) { s.as(s.agentToken).get("/jobs").fails(403) }},
	{"errors: 404: not found", func(s *spec) {
		s.get("/jobs/job_x").fails(404)
		s.get("/runs/run_x").fails(404)
		s.get("/nothing").fails(404)
	}},
	{"errors: 409: conflict, for example the resource is already in the requested state", func(s *spec) {
		run := s.run(s.job(single))
		s.over(run)
		s.post("/runs/"+run+"/cancel", nil).fails(409)
	}},
	{"errors: 409: DELETE /compute/:id while the instance is running", func(s *spec) {
		require.Contains(s, s.call("DELETE", s.running("/compute"), nil).fails(409).body, "running")
	}},
	{"errors: 429: the body states the exact ceiling: max_running_runs=<n>, current=<n>", func(s *spec) { s.quotaReached() }},
	{"errors: 429: POST /endpoints at max_endpoints", func(s *spec) {
		s.call("PATCH", "/settings/quotas/max_endpoints", `{"limit":0}`).is(200)
		require.Equal(s, `{"error":"max_endpoints=0, current=0"}`, s.post("/endpoints", map[string]any{"name": "e", "model": "m", "version": 1}).fails(429).body)
	}},

	{"limits: max_running_runs is a quota of the workspace", func(s *spec) {
		require.Equal(s, 10.0, s.as(s.stranger).quota("max_running_runs")["limit"])
	}},
	{"limits: max_endpoints is a quota of the workspace", func(s *spec) { require.Equal(s, 10.0, s.as(s.stranger).quota("max_endpoints")["limit"]) }},
	{"limits: an expired API key is refused, and stays in the list (for 30 days)", func(s *spec) {
		soon := time.Now().Add(1500 * time.Millisecond).UTC().Format(time.RFC3339Nano)
		key := s.post("/settings/api-keys", map[string]any{"name": "brief", "expires_at": soon}).is(201)
		s.as(key.text("secret")).get("/workspace").is(200)
		harness.Await(s.T, "the key expires", func() bool { return s.as(key.text("secret")).get("/workspace").status == 401 })
		require.Contains(s, s.get("/settings/api-keys").is(200).body, key.text("id"))
	}},
	{"limits: auto_stop is 30m, 2h or never, and 1h by default", func(s *spec) {
		body := compute()
		require.Equal(s, "1h", s.get("/compute/"+s.made("/compute", body)).is(200).text("auto_stop"))
		for _, choice := range []string{"30m", "2h", "never"} {
			body = compute()
			body["auto_stop"] = choice
			require.Equal(s, choice, s.get("/compute/"+s.made("/compute", body)).is(200).text("auto_stop"))
		}
		body["auto_stop"] = "5m"
		s.post("/compute", body).fails(400)
	}},
	{"limits: a warehouse starts in about three minutes", func(s *spec) {
		began := time.Now()
		s.running("/sql/warehouses")
		require.Less(s, time.Since(began), 3*time.Minute)
	}},

	{"versioning: the path prefix is /api/v1", func(s *spec) {
		res, err := harness.HTTP.Get(s.url + "/api/v2/jobs")
		require.NoError(s, err)
		defer res.Body.Close()
		require.Equal(s, 404, res.StatusCode)
		require.Equal(s, "application/json", res.Header.Get("Content-Type"))
	}},
}

// notYet lists beginnings of rows, or words in them, for nouns that the platform lacks. A row that
// passes must be removed, so the list only shrinks.
var notYet = []string{
	"/artifacts/", "/models/", "serving", "/endpoints", "invoice", "/billing/", "/audit/",
}

func TestSpecification(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: append(harness.WithTrino(t), "--no-samples")})
	p.Must("PATCH", "/sql/warehouses/"+p.Warehouse(), map[string]any{"write_engine": "trino"}, nil)
	s := newSpec(t, p)
	seen := map[string]bool{}
	for _, r := range specification {
		require.False(t, seen[r.row], "the row %q is there twice", r.row)
		seen[r.row] = true
		t.Run(r.row, func(t *testing.T) {
			p.Lend(t)
			if !slices.ContainsFunc(notYet, func(part string) bool { return strings.Contains(r.row, part) }) {
				r.asks(s.with(t))
				return
			}
			if s.holds(t, r.asks) {
				t.Error("this row passes now: remove it from notYet")
			}
		})
	}
}
