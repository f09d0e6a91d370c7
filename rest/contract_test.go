package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/rest/httpx"
	"github.com/millpond/millpond/store"
)

// Where huma's defaults differ from our contract.
func TestContract(t *testing.T) {
	w := newWorld(t)
	token := w.ours.editor

	t.Run("bodies have no $schema, no Link and no end of line", func(t *testing.T) {
		r := w.call(token, "POST", "/jobs", map[string]any{"name": "plain", "command": "true"})
		r.object(201)
		require.NotContains(t, r.body, "$schema")
		require.Empty(t, r.header.Values("Link"))
		require.Equal(t, strings.TrimSpace(r.body), r.body)
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
		require.Equal(t, "no-store", r.header.Get("Cache-Control"))
	})
	t.Run("an Accept that we do not serve gets JSON", func(t *testing.T) {
		r := w.call(token, "GET", "/workspace", nil, "Accept", "application/xml")
		r.object(200)
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
	})
	t.Run("empty arrays are [], and next_cursor is absent at the end", func(t *testing.T) {
		require.Equal(t, `{"data":[]}`, w.call(token, "GET", "/runs", nil).body)
		require.Equal(t, `{"data":[]}`, w.call(token, "GET", "/jobs?search=nothing", nil).body)
		job := w.job(token, map[string]any{"name": "single", "command": "true"})
		require.Contains(t, w.call(token, "GET", "/jobs/"+job, nil).body, `"tasks":[]`)
		require.Equal(t, "[]", w.call(token, "GET", "/runs/"+w.start(token, job)+"/tasks", nil).body)
	})
	t.Run("times are ISO 8601 in UTC with microseconds", func(t *testing.T) {
		at, _ := w.call(token, "GET", "/workspace", nil).object(200)["created_at"].(string)
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, at)
	})
	t.Run("validation errors are 400 and name the field", func(t *testing.T) {
		for _, c := range []struct{ body, says string }{
			{`{}`, `The field "name" is required.`},
			{`[]`, `The body is wrong: expected object.`},
			{`null`, `The body is wrong: expected object.`},
			{`{"name":1}`, `The value of "name" is wrong: expected string.`},
			{`{"name":"a","nmae":"b"}`, `There is no field "nmae" here; leave it out.`},
			{`{"name":"a","Name":"b"}`, `There is no field "Name" here; leave it out.`},
			{`{"NAME":"a"}`, `The field "name" is required. There is no field "NAME" here; leave it out.`},
			{`{"name":"a","tasks":[{"key":"k"}]}`, `The field "tasks[0].command" is required.`},
			{`{"name":"a","tasks":[{"key":"k","command":"true","x":1}]}`, `There is no field "tasks[0].x" here; leave it out.`},
			{`{"name":"a","tasks":{}}`, `The value of "tasks" is wrong: expected array.`},
			{`{"name":"a","max_retries":1.5}`, `The value of "max_retries" is wrong: expected integer.`},
			{`{"name":"a","max_retries":1e99}`, `max_retries`},
			{`{"name":"a","max_retries":-1}`, `max_retries`},
			{`{"name":"a","environment":{"A":1}}`, `The value of "environment.A" is wrong: expected string.`},
			{`{"name":"a","environment":[]}`, `The value of "environment" is wrong: expected object.`},
			{`{"name":"a","command":"true","schedule":{"cron":"x"}}`, `schedule.cron`},
			{`{"name":"a","command":"true","schedule":{}}`, `The field "schedule.cron" is required.`},
			{`{"name":"a","tasks":[{"key":"k","command":"true","depends_on":["k"]}]}`, `circle`},
			{`{"name":""}`, `name`},
		} {
			require.Contains(t, w.call(token, "POST", "/jobs", c.body).refused(400), c.says, c.body)
		}
		require.Equal(t, `The value of "max_retries" must be a 64-bit whole number in plain digits, not 9223372036854775808.`,
			w.call(token, "POST", "/jobs", `{"name":"a","max_retries":9223372036854775808}`).refused(400))
	})
	t.Run("unknown and repeated query parameters are 400", func(t *testing.T) {
		require.Contains(t, w.call(token, "GET", "/jobs?limits=5", nil).refused(400), `"limits"`)
		require.Contains(t, w.call(token, "GET", "/jobs?limit=5&limit=6", nil).refused(400), `"limit"`)
		require.Contains(t, w.call(token, "GET", "/workspace?x", nil).refused(400), `"x"`)
		w.call(token, "GET", "/jobs?search=%zz", nil).refused(400)
		w.call(token, "GET", "/jobs?a;b", nil).refused(400)
	})
	t.Run("unknown routes are 404, wrong methods 405 with Allow", func(t *testing.T) {
		for _, path := range []string{"/nothing", "/jobs/", "/jobs/x/y", "//jobs", "/../jobs", ""} {
			w.call(token, "GET", path, nil).refused(404)
		}
		r := w.call(token, "PATCH", "/jobs", nil)
		require.Contains(t, r.refused(405), "GET, HEAD, POST")
		require.Equal(t, "GET, HEAD, POST", r.header.Get("Allow"))
		r = w.call(token, "POST", "/jobs/x", nil)
		r.refused(405)
		require.Equal(t, "GET, HEAD, PUT, PATCH, DELETE", r.header.Get("Allow"))
		w.call(token, "BREW", "/jobs", nil).refused(405)
		w.call(token, "OPTIONS", "/jobs", nil).refused(405)
		r = w.call(token, "DELETE", "/runs/x/logs", nil)
		r.refused(405)
		require.Equal(t, "GET, HEAD", r.header.Get("Allow"))
	})
	t.Run("HEAD works wherever GET does", func(t *testing.T) {
		r := w.call(token, "HEAD", "/jobs", nil)
		require.Equal(t, 200, r.status)
		require.Empty(t, r.body)
		require.Equal(t, 404, w.call(token, "HEAD", "/jobs/job_x", nil).status)
	})
	t.Run("media types", func(t *testing.T) {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"} {
			w.call(token, "POST", "/jobs", `{"name":"a"}`, "Content-Type", kind).refused(415)
		}
		w.call(token, "POST", "/jobs", `{"name":"a"}`, "Content-Type", "application/json; charset=utf-8").object(201)
		w.call(token, "POST", "/jobs", nil).refused(400)
	})
	t.Run("NUL bytes and broken UTF-8 are 400", func(t *testing.T) {
		w.call(token, "GET", "/jobs/%00", nil).refused(400)
		w.call(token, "GET", "/jobs/%ff", nil).refused(400)
		w.call(token, "GET", "/jobs?search=%00", nil).refused(400)
		w.call(token, "GET", "/runs?job_id=%ff", nil).refused(400)
		w.call(token, "POST", "/jobs", `{"name":"a\u0000"}`).refused(400)
		w.call(token, "POST", "/jobs", "{\"name\":\"\xff\"}").refused(400)
		w.call(token, "POST", "/jobs", `{"name":"a"}`, "Idempotency-Key", "\xff").refused(400)
	})
	t.Run("hostile ids are 404", func(t *testing.T) {
		for _, id := range []string{"x", "job_'; DROP TABLE job; --", "..", "a/b", strings.Repeat("x", 5000), "🦆", "%"} {
			w.call(token, "GET", "/jobs/"+url.PathEscape(id), nil).refused(404)
			w.call(token, "GET", "/runs/"+url.PathEscape(id)+"/logs", nil).refused(404)
		}
	})
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "ci-7:a.b_c/1", w.call(w.ours.admin, "GET", "/workspace", nil, httpx.RequestIDHeader, "ci-7:a.b_c/1").header.Get(httpx.RequestIDHeader))
	first := w.call("", "GET", "/workspace", nil).header.Get(httpx.RequestIDHeader)
	require.Regexp(t, `^req_[a-z0-9]{26}$`, first)
	require.NotEqual(t, first, w.call("", "GET", "/workspace", nil).header.Get(httpx.RequestIDHeader))
	for _, insane := range []string{"a b", `a"b`, "<x>", strings.Repeat("x", 129)} {
		require.Regexp(t, `^req_`, w.call("", "GET", "/workspace", nil, httpx.RequestIDHeader, insane).header.Get(httpx.RequestIDHeader))
	}
}

// endless returns bytes for ever and counts them.
type endless struct{ given atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.given.Add(int64(len(p)))
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	t.Run("said beforehand", func(t *testing.T) {
		body := &endless{}
		r := w.request(t.Context(), w.ours.editor, "POST", "/jobs", io.LimitReader(body, 100<<20))
		r.ContentLength = 100 << 20
		r.Header.Set("Expect", "100-continue")
		res, err := (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: testTimeout}}).Do(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(t, 413, res.StatusCode)
		require.Zero(t, body.given.Load())
	})
	t.Run("chunked", func(t *testing.T) {
		body := &endless{}
		r := w.request(t.Context(), w.ours.editor, "POST", "/jobs", io.LimitReader(body, 100<<20))
		res, err := http.DefaultClient.Do(r)
		if err == nil { // the connection may be cut before the client reads the answer
			defer func() { _ = res.Body.Close() }()
			require.Equal(t, 413, res.StatusCode)
		}
		require.Less(t, body.given.Load(), int64(50<<20))
	})
	t.Run("just too large, and just not", func(t *testing.T) {
		body := `{"name":"` + strings.Repeat("x", 1<<20) + `"}`
		w.call(w.ours.editor, "POST", "/jobs", body).refused(413)
		require.Contains(t, w.call(w.ours.editor, "POST", "/jobs", body[len(body)-1<<20:]).refused(400), "not JSON")
	})
	t.Run("less without a credential", func(t *testing.T) {
		w.call("", "POST", "/auth/login", `{"email":"`+strings.Repeat("x", 64<<10)+`"}`).refused(413)
	})
	t.Run("not read at all from those whom nobody knows", func(t *testing.T) {
		body := &endless{}
		r := w.request(t.Context(), "nobody", "POST", "/jobs", io.LimitReader(body, 100<<20))
		r.Header.Set("Expect", "100-continue")
		res, err := (&http.Client{Transport: &http.Transport{ExpectContinueTimeout: testTimeout}}).Do(r)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(t, 401, res.StatusCode)
		require.Zero(t, body.given.Load())
	})
	require.Empty(t, w.call(w.ours.editor, "GET", "/jobs", nil).data(200))
}

func TestCredentials(t *testing.T) {
	w := newWorld(t)
	w.ours = w.renewed(w.ours)
	r := w.call("", "GET", "/workspace", nil)
	r.refused(401)
	require.Equal(t, `Bearer realm="millpond"`, r.header.Get("WWW-Authenticate"))
	w.call("nonsense", "GET", "/workspace", nil).refused(401)
	w.call("", "GET", "/workspace", nil, "Authorization", "Basic eDp5").refused(401)
	w.call(w.ours.agentToken, "GET", "/workspace", nil).refused(403)
	w.call("", "GET", "/workspace", nil, "Cookie", "__Host-millpond="+"x").refused(401)

	t.Run("an access token expires, and is renewed before", func(t *testing.T) {
		token := w.ours.viewer
		w.clock.advance(59 * time.Minute)
		fresh, _ := w.call(token, "POST", "/auth/refresh", nil).object(200)["access_token"].(string)
		w.clock.advance(2 * time.Minute)
		w.call(token, "GET", "/workspace", nil).refused(401)
		w.call(token, "POST", "/auth/refresh", nil).refused(401)
		w.call(fresh, "GET", "/workspace", nil).object(200)
		w.ours = w.renewed(w.ours)
	})
	t.Run("a revoked key", func(t *testing.T) {
		key := w.call(w.ours.admin, "POST", "/settings/api-keys", map[string]any{"name": "ci", "role": "viewer"}).object(201)
		secret, _ := key["secret"].(string)
		require.True(t, strings.HasPrefix(secret, "svc_sk_"))
		w.call(secret, "GET", "/workspace", nil).object(200)
		w.call(secret, "POST", "/auth/refresh", nil).refused(403)
		id, _ := key["id"].(string)
		require.Equal(t, 204, w.call(w.ours.admin, "DELETE", "/settings/api-keys/"+id, nil).status)
		w.call(secret, "GET", "/workspace", nil).refused(401)
		w.call(w.ours.admin, "DELETE", "/settings/api-keys/"+id, nil).refused(409)
	})
}

// renewed signs the tenant's members in again.
func (w *world) renewed(t tenant) tenant {
	w.t.Helper()
	sign := func(email string) string {
		token, _ := w.call("", "POST", "/auth/login", map[string]any{"email": email, "password": password}).object(200)["access_token"].(string)
		return token
	}
	t.admin = sign(t.scope.Actor().Name)
	t.editor, t.viewer = sign("editor@"+string(t.id)+".example"), sign("viewer@"+string(t.id)+".example")
	return t
}

// An internal error is hidden from callers, and logged with its request id.
func TestInternalErrorsStayInside(t *testing.T) {
	w := newWorld(t)
	w.services.Workspaces.Store = store.For[identity.Tx](broken{})
	r := w.call(w.ours.admin, "GET", "/workspace", nil, httpx.RequestIDHeader, "look-for-me")
	require.NotContains(t, r.refused(500), "10.0.0.7")
	require.Contains(t, w.logged.String(), "10.0.0.7")
	require.Contains(t, w.logged.String(), `"request_id":"look-for-me"`)
}

// broken is a database that always fails.
type broken struct{ panics bool }

func (b broken) In(context.Context, domain.Scope, func(*store.Tx) error) error {
	if b.panics {
		panic("dial 10.0.0.7")
	}
	return errors.New("dial 10.0.0.7: connection refused")
}

func TestPanicsAre500(t *testing.T) {
	w := newWorld(t)
	w.services.Workspaces.Store = store.For[identity.Tx](broken{panics: true})
	r := w.call(w.ours.admin, "GET", "/workspace", nil)
	require.NotContains(t, r.refused(500), "10.0.0.7")
	require.Contains(t, w.logged.String(), "10.0.0.7")
	require.Regexp(t, regexp.MustCompile(`"stack":".*rest`), w.logged.String())
}
