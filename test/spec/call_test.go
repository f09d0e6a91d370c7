package spec_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// spec is the API from the view of one caller.
type spec struct {
	require.TestingT
	T          *testing.T
	url        string
	token      string // of the caller
	stranger   string // token of another workspace's administrator
	agentToken string
}

// Bodies that rows send.
var (
	single = map[string]any{"name": "single", "command": "true"}
	dag    = map[string]any{"name": "dag", "tasks": []any{
		map[string]any{"key": "extract", "command": "true"},
		map[string]any{"key": "load", "command": "true", "depends_on": []string{"extract"}, "max_retries": 1, "timeout_seconds": 30},
	}}
	metric       = map[string]any{"key": "loss", "value": 0.5, "step": 1}
	metricStored = map[string]any{"key": "loss", "value": 0.5, "step": 1.0}
)

// compute returns the body of a new instance with the smallest flavor, which fits every host.
func compute() map[string]any { return map[string]any{"name": rand.Text(), "flavor": "cpu.1"} }

// newSpec signs in, and creates another workspace with an administrator.
func newSpec(t *testing.T, p *harness.Platform) *spec {
	t.Helper()
	s := &spec{TestingT: t, T: t, url: p.URL}
	s.token = s.post("/auth/login", harness.Login).is(200).text("access_token")
	s.call("PATCH", "/settings/quotas/max_running_runs", `{"limit":1000}`).is(200)
	out, err := execute(t, "workspace", "create", "other", "--data-dir", p.Dir)
	require.NoError(t, err, out)
	link := harness.SetUpLink.FindStringSubmatch(out)
	require.NotNil(t, link, out)
	s.agentToken = harness.CreatedToken.FindString(out)
	require.NotEmpty(t, s.agentToken, out)
	s.stranger = s.as("").post("/auth/setup", map[string]any{"token": link[1], "email": "bob@example.com", "password": "correct horse battery"}).is(200).text("access_token")
	return s
}

// execute runs the binary to its end.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := harness.Command(t, args...).CombinedOutput()
	return string(out), err
}

func (s *spec) with(t *testing.T) *spec {
	row := *s
	row.TestingT, row.T = t, t
	return &row
}

func (s *spec) as(token string) *spec {
	other := *s
	other.token = token
	return &other
}

// probe is a test that records a failure as a result.
type probe struct{ failed bool }

// Errorf implements require.TestingT.
func (p *probe) Errorf(string, ...any) { p.failed = true }

// FailNow implements require.TestingT.
func (p *probe) FailNow() {
	p.failed = true
	runtime.Goexit()
}

// holds reports whether the row passes, without failing the test.
func (s *spec) holds(t *testing.T, asks func(*spec)) bool {
	t.Helper()
	p := &probe{failed: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // the answer has an unexpected shape
		row := s.with(t)
		row.TestingT = p
		p.failed = false
		asks(row)
	}()
	<-done
	return !p.failed
}

func (s *spec) get(path string) answer { return s.call("GET", path, nil) }

func (s *spec) post(path string, body any) answer { return s.call("POST", path, body) }

// call sends one request; a string body is sent as it is.
func (s *spec) call(method, path string, body any) answer {
	var content io.Reader
	if text, raw := body.(string); raw {
		content = strings.NewReader(text)
	} else if body != nil {
		b, err := json.Marshal(body)
		require.NoError(s, err)
		content = strings.NewReader(string(b))
	}
	r, err := http.NewRequestWithContext(s.T.Context(), method, s.url+"/api/v1"+path, content)
	require.NoError(s, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := harness.HTTP.Do(r)
	require.NoError(s, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(s, err)
	return answer{s, fmt.Sprintf("%s %s", method, path), res.StatusCode, res.Header, string(b)}
}

func (s *spec) made(path string, body any) string { return s.post(path, body).is(201).text("id") }

func (s *spec) job(body any) string { return s.made("/jobs", body) }

// trackingRun starts a tracking run in the experiment Default, and returns its path.
func (s *spec) trackingRun() string {
	const runs = "/experiments/0/runs"
	return runs + "/" + s.made(runs, map[string]any{})
}

func (s *spec) run(job string) string { return s.post("/jobs/"+job+"/run", nil).is(201).text("run_id") }

// sql runs a statement on the workspace's warehouse and starts it if necessary.
func (s *spec) sql(query string) answer {
	return s.post("/sql/execute", map[string]any{"query": query, "warehouse_id": "default"})
}

// jobs ensures that there are at least n jobs.
func (s *spec) jobs(n int) {
	for range n - len(s.get("/jobs?limit=200").list()) {
		s.job(single)
	}
}

// first returns the path of the oldest item in a list.
func (s *spec) first(list string) string {
	oldest, _ := s.get(list + "?limit=1").list()[0].(map[string]any)
	return fmt.Sprint(list, "/", oldest["id"])
}

// stopped returns the path of the oldest machine in a list, and stops it.
func (s *spec) stopped(list string) string {
	one := s.first(list)
	if s.standing(one) == "running" {
		s.post(one+"/stop", nil).is(200)
	}
	s.reaches(one, "stopped")
	return one
}

// running returns the path of the oldest machine in a list, and starts it.
func (s *spec) running(list string) string {
	one := s.first(list)
	if s.standing(one) == "stopped" {
		s.post(one+"/start", nil).is(200)
	}
	s.reaches(one, "running")
	return one
}

// reaches waits until the machine is in the state.
func (s *spec) reaches(one, state string) answer {
	harness.Await(s.T, one+" is "+state, func() bool {
		now := s.standing(one)
		return now == state || now == "failed"
	})
	require.Equal(s, state, s.standing(one), s.get(one).body)
	return s.get(one).is(200)
}

// standing returns a machine's state: the field is state for a warehouse, and status for a compute
// instance.
func (s *spec) standing(one string) string {
	if strings.HasPrefix(one, "/compute") {
		return s.get(one).is(200).text("status")
	}
	return s.get(one).is(200).text("state")
}

// over waits for the run's end and returns its status.
func (s *spec) over(run string) (status string) {
	harness.Await(s.T, "the run is over", func() bool {
		status = s.get("/runs/" + run).is(200).text("status")
		return status != "pending" && status != "running"
	})
	return status
}

func (s *spec) quota(name string) map[string]any {
	for _, q := range s.get("/settings/quotas").list() {
		if quota, _ := q.(map[string]any); quota["name"] == name {
			return quota
		}
	}
	require.Fail(s, "there is no quota "+name)
	return nil
}

// quotaReached uses the other workspace. Its runs wait for an agent that never connects.
func (s *spec) quotaReached() {
	other := s.as(s.stranger)
	job := other.job(single)
	current, _ := other.quota("max_running_runs")["current"].(float64)
	for range 10 - int(current) {
		other.run(job)
	}
	refused := other.post("/jobs/"+job+"/run", nil).fails(429)
	require.Equal(s, `{"error":"max_running_runs=10, current=10"}`, refused.body)
	require.Len(s, other.get("/runs").list(), 10)
}

// answer is the response to a request.
type answer struct {
	s       *spec
	request string
	status  int
	header  http.Header
	body    string
}

func (a answer) is(status int) answer {
	require.Equal(a.s, status, a.status, "%s answered %s", a.request, a.body)
	return a
}

// fails checks the status, and that the body is exactly {"error": "…"}.
func (a answer) fails(status int) answer {
	body := a.is(status).object()
	require.Len(a.s, body, 1, a.body)
	require.NotEmpty(a.s, body["error"], a.body)
	return a
}

func (a answer) object() (v map[string]any) {
	require.NoError(a.s, json.Unmarshal([]byte(a.body), &v), "%s answered %s", a.request, a.body)
	return v
}

func (a answer) array() (v []any) {
	require.NoError(a.s, json.Unmarshal([]byte(a.body), &v), "%s answered %s", a.request, a.body)
	return v
}

func (a answer) text(field string) string {
	text, _ := a.object()[field].(string)
	require.NotEmpty(a.s, text, "%s answered %s", a.request, a.body)
	return text
}

// list returns the data of a page.
func (a answer) list() []any {
	data, ok := a.is(200).object()["data"].([]any)
	require.True(a.s, ok, "%s answered %s", a.request, a.body)
	return data
}
