package mlflow_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// attempt is a request in a working order of the others.
type attempt struct {
	method, path string
	body         object
	writes       bool
}

func attempts(experiment, run string) []attempt {
	x, r := func(more object) object { more["experiment_id"] = experiment; return more }, func(more object) object { more["run_id"] = run; return more }
	return []attempt{
		{"POST", "experiments/create", object{"name": "new"}, true},
		{"GET", "experiments/get", x(object{}), false},
		{"GET", "experiments/get-by-name", object{"experiment_name": "x"}, false},
		{"GET", "experiments/search", object{"max_results": "5"}, false},
		{"POST", "experiments/search", object{"max_results": "5"}, false},
		{"POST", "experiments/update", x(object{"new_name": "x"}), true},
		{"POST", "experiments/set-experiment-tag", x(object{"key": "k", "value": "v"}), true},
		{"POST", "experiments/delete-experiment-tag", x(object{"key": "k"}), true},
		{"POST", "experiments/search-datasets", object{"experiment_ids": []string{experiment}}, false},
		{"POST", "experiments/delete", x(object{}), true},
		{"POST", "experiments/restore", x(object{}), true},
		{"POST", "runs/create", x(object{}), true},
		{"GET", "runs/get", r(object{}), false},
		{"POST", "runs/search", object{"experiment_ids": []string{experiment}}, false},
		{"POST", "runs/update", r(object{"run_name": "n"}), true},
		{"POST", "runs/log-metric", r(object{"key": "k", "value": 1, "timestamp": 1}), true},
		{"POST", "runs/log-parameter", r(object{"key": "k", "value": "v"}), true},
		{"POST", "runs/set-tag", r(object{"key": "k", "value": "v"}), true},
		{"POST", "runs/delete-tag", r(object{"key": "k"}), true},
		{"POST", "runs/log-batch", r(object{}), true},
		{"POST", "runs/log-inputs", r(object{}), true},
		{"GET", "metrics/get-history", r(object{"metric_key": "k"}), false},
		{"GET", "metrics/get-history-bulk", r(object{"metric_key": "k"}), false},
		{"GET", "metrics/get-history-bulk-interval", object{"run_ids": run, "metric_key": "k"}, false},
		{"POST", "runs/delete", r(object{}), true},
		{"POST", "runs/restore", r(object{}), true},
	}
}

func (w *world) try(token string, a attempt, headers ...string) reply {
	if a.method == http.MethodGet {
		query := url.Values{}
		for k, v := range a.body {
			query.Set(k, v.(string))
		}
		return w.send(token, a.method, a.path, query, headers...)
	}
	return w.send(token, a.method, a.path, a.body, headers...)
}

// TestEveryEndpointKeepsItsRole: nobody without a token, a viewer only reads, and another
// workspace's things are not found.
func TestEveryEndpointKeepsItsRole(t *testing.T) {
	w := newWorld(t)
	w.experiment("new in theirs has the number of this")
	x := w.experiment("x")
	all := attempts(x, w.run(x))
	for _, a := range all {
		w.try("", a).refused(401, "UNAUTHENTICATED", "token")
		w.try("nonsense", a).refused(401, "UNAUTHENTICATED", "token")
		w.try(w.ours.agentToken, a).refused(403, "PERMISSION_DENIED", "agent")
		if got := w.try(w.ours.viewer, a); a.writes {
			got.refused(403, "PERMISSION_DENIED", "viewer")
		} else {
			got.object()
		}
		stranger := w.try(w.theirs.admin, a)
		switch _, named := a.body["run_id"]; {
		case stranger.status == http.StatusOK:
			require.NotContains(t, stranger.body, `"x"`, a.path)
			require.False(t, a.writes && a.path != "experiments/create", a.path)
		case named:
			stranger.refused(404, missing, "Run with id=")
		default:
			stranger.refused(404, missing, "")
		}
	}
	for _, a := range all {
		w.try(w.ours.editor, a).object()
		w.try(w.ours.editor, attempt{a.method, "/ajax-api/2.0/mlflow/" + a.path, a.body, a.writes}).mustNot(404, 401, 403, 405)
	}
	require.Empty(t, w.logged.String())
}

func (r reply) mustNot(statuses ...int) {
	r.t.Helper()
	if !strings.Contains(r.body, "No tag") && !strings.Contains(r.body, "No Experiment") {
		require.NotContains(r.t, statuses, r.status, r.body)
	}
}

func TestBasicAndTheWorkspaceHeader(t *testing.T) {
	w := newWorld(t)
	basic := func(user, password string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
	query := url.Values{"experiment_id": {"0"}}
	w.send("", "GET", "experiments/get", query, basic("anyone", w.ours.viewer)...).object()
	w.send("", "GET", "experiments/get", query, basic("", w.ours.viewer)...).object()
	w.send("", "GET", "experiments/get", query, basic(w.ours.viewer, "")...).refused(401, "UNAUTHENTICATED", "token")
	w.send("", "GET", "experiments/get", query, basic("viewer", password)...).refused(401, "UNAUTHENTICATED", "token")
	for _, name := range []string{string(w.ours.id), "ours", " ours ", ""} {
		w.send(w.ours.viewer, "GET", "experiments/get", query, "X-MLFLOW-WORKSPACE", name).object()
	}
	for _, name := range []string{string(w.theirs.id), "theirs", "none"} {
		w.send(w.ours.viewer, "GET", "experiments/get", query, "X-MLFLOW-WORKSPACE", name).refused(404, missing, "Workspace '"+name+"' not found")
	}
}

func TestWhatTheServerTells(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"/version": "3.17.2", "/health": "OK"} {
		got := w.send("", "GET", path, nil)
		require.Equal(t, []any{200, want, "text/plain; charset=utf-8"}, []any{got.status, got.body, got.header.Get("Content-Type")})
	}
	for _, path := range []string{"/api/3.0/mlflow/server-info", "/ajax-api/3.0/mlflow/server-info"} {
		info := w.send("", "GET", path, nil).object()
		require.Equal(t, []any{true, false}, []any{info["workspaces_enabled"], info["multipart_uploads_enabled"]})
	}
	for _, path := range []string{
		"/api/2.0/mlflow", "/api/2.0/mlflow/artifacts/list", "/api/2.0/mlflow/runs/log-model", "/api/2.0/mlflow/registered-models/create", "/api/2.0/mlflow/logged-models",
		"/api/3.0/mlflow/traces", "/v1/traces", "/api/2.0/mlflow-artifacts/artifacts/x", "/api/2.0/mlflow/runs/outputs", "/api/2.0/mlflow/runs/get/",
	} {
		for _, method := range []string{"GET", "POST", "PATCH", "DELETE", "PUT", "BREW"} {
			w.send(w.ours.admin, method, path, nil).refused(404, unknown, "There is nothing at ")
		}
	}
	for _, method := range []string{"POST", "PATCH", "DELETE", "PUT", "BREW"} {
		w.send(w.ours.admin, method, "/", nil).refused(405, unknown, "use GET")
	}
	got := w.post("runs/get", object{"run_id": "x"})
	got.refused(405, unknown, "use GET")
	require.Equal(t, "GET", got.header.Get("Allow"))
	w.send(w.ours.admin, "BREW", "runs/create", nil).refused(405, unknown, "use POST")
}

// TestLinksLeadToTheConsole: the links that clients print.
func TestLinksLeadToTheConsole(t *testing.T) {
	w := newWorld(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(w.url + "/")
	require.NoError(t, err)
	defer res.Body.Close()
	client.CloseIdleConnections()
	require.Equal(t, []any{http.StatusFound, "/experiments"}, []any{res.StatusCode, res.Header.Get("Location")})
}
