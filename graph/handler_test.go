package graph

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/auth"
)

const viewerQuery = `{ viewer { id role user { email } workspace { name } sessionExpiresAt } }`

func TestTheConsoleSignsInAndOut(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	page := func(h http.Header) { h.Set(auth.ConsoleHeader, "console") }

	require.Nil(t, w.ok(page, viewerQuery, nil)["viewer"])
	login := `mutation($input: LoginInput!) { login(input: $input) { viewer { role user { email } workspace { name } } } }`
	input := map[string]any{"input": map[string]any{"email": a.admin.scope.Actor().Name, "password": password}}
	in := w.query(page, login, input)
	require.Equal(t, "ADMIN", at(in.Data, "login", "viewer", "role"))
	require.Equal(t, "acme", at(in.Data, "login", "viewer", "workspace", "name"))

	cookie := in.Header.Get("Set-Cookie")
	require.Contains(t, cookie, "HttpOnly")
	require.Contains(t, cookie, "SameSite=Lax")
	secret, _, _ := strings.Cut(strings.TrimPrefix(cookie, auth.CookieName+"="), ";")
	me := console(secret)
	require.Equal(t, "acme-admin@example.com", at(w.ok(me, viewerQuery, nil), "viewer", "user", "email"))

	out := w.query(me, `mutation { logout { done } }`, nil)
	require.Equal(t, true, at(out.Data, "logout", "done"))
	require.Contains(t, out.Header.Get("Set-Cookie"), "Max-Age=0")
	// An expired cookie counts as no credential: the console shows the sign-in page, and signs in
	// with the cookie still set.
	require.Nil(t, w.ok(me, viewerQuery, nil)["viewer"])
	require.Equal(t, "UNAUTHENTICATED", w.query(me, `{ overview { agents } }`, nil).code())
	require.Empty(t, w.query(me, login, input).Errors)
}

func TestWrongCredentialsAreToldAlike(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	login := `mutation($e: String!, $p: String!) { login(input: {email: $e, password: $p}) { viewer { id } } }`
	wrong := w.query(nobody, login, map[string]any{"e": a.admin.scope.Actor().Name, "p": "not the password"})
	unknown := w.query(nobody, login, map[string]any{"e": "nobody@example.com", "p": "not the password"})
	require.Equal(t, "UNAUTHENTICATED", wrong.code())
	require.Equal(t, wrong.Errors[0].Message, unknown.Errors[0].Message)
	require.Equal(t, http.StatusOK, wrong.Status)
	require.Empty(t, wrong.Header.Get("Set-Cookie"))
	notMail := w.query(nobody, login, map[string]any{"e": "nobody", "p": "x"})
	require.Equal(t, "INVALID", notMail.code())
	require.Equal(t, "email", notMail.Errors[0].Extensions["field"])
}

func TestACookieAloneIsRefused(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	forged := func(h http.Header) { h.Set("Cookie", auth.CookieName+"="+a.admin.cookie) }
	res := w.query(forged, viewerQuery, nil)
	require.Equal(t, http.StatusForbidden, res.Status)
	require.Equal(t, "FORBIDDEN", res.code())
}

func TestATokenThatDoesNotHoldIsRefusedBeforeParsing(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	require.NoError(t, w.auth.Logout(t.Context(), a.viewer.scope))
	for name, token := range map[string]string{
		"ended": a.viewer.token, "forged": a.editor.token[:len(a.editor.token)-4] + "AAAA", "unknown key": "svc_sk_no", "nonsense": "x",
	} {
		res := w.post(bearer(token), "application/json", `not even JSON`)
		require.Equal(t, http.StatusUnauthorized, res.Status, name)
		require.Equal(t, "UNAUTHENTICATED", res.code(), name)
		require.NotEmpty(t, res.Errors[0].Extensions["requestId"], name)
	}
	basic := func(h http.Header) { h.Set("Authorization", "Basic YTpi") }
	require.Equal(t, http.StatusUnauthorized, w.query(basic, viewerQuery, nil).Status)
	require.Equal(t, "FORBIDDEN", w.query(bearer(a.agentToken), viewerQuery, nil).code(), "an agent's token opens only its channel")
}

func TestWhatIsNotGraphQLIsRefused(t *testing.T) {
	w := newWorld(t, quick)
	for name, c := range map[string]struct {
		contentType, body string
		status            int
		code              string
	}{
		"no JSON type":        {"text/plain", `{"query":"{viewer{id}}"}`, http.StatusUnsupportedMediaType, "INVALID"},
		"a form":              {"application/x-www-form-urlencoded", `query={viewer{id}}`, http.StatusUnsupportedMediaType, "INVALID"},
		"not JSON":            {"application/json", `{"query":`, http.StatusBadRequest, "INVALID"},
		"two values":          {"application/json", `{"query":"{viewer{id}}"}{}`, http.StatusBadRequest, "INVALID"},
		"a batch":             {"application/json", `[{"query":"{viewer{id}}"}]`, http.StatusBadRequest, "INVALID"},
		"no query":            {"application/json", `{}`, http.StatusBadRequest, "INVALID"},
		"null":                {"application/json", `null`, http.StatusBadRequest, "INVALID"},
		"syntax":              {"application/json", `{"query":"{viewer{"}`, http.StatusOK, "INVALID"},
		"no field":            {"application/json", `{"query":"{nothing}"}`, http.StatusOK, "INVALID"},
		"no operation":        {"application/json", `{"query":"{viewer{id}}","operationName":"X"}`, http.StatusOK, "INVALID"},
		"two unnamed":         {"application/json", `{"query":"query a{viewer{id}} query b{viewer{id}}"}`, http.StatusOK, "INVALID"},
		"no operation at all": {"application/json", `{"query":"fragment f on Query{viewer{id}}"}`, http.StatusOK, "INVALID"},
		"too large":           {"application/json", `{"query":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusRequestEntityTooLarge, "TOO_LARGE"},
		"subscription":        {"application/json", `{"query":"subscription{agentUpdated{id}}"}`, http.StatusOK, "INVALID"},
	} {
		res := w.post(nobody, c.contentType, c.body)
		require.Equal(t, c.status, res.Status, name)
		require.Equal(t, c.code, res.code(), name)
		require.NotContains(t, res.Errors[0].Message, "  ", name)
		require.Equal(t, "application/json; charset=utf-8", res.Header.Get("Content-Type"), name)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/graphql?query={viewer{id}}", nil)
	require.NoError(t, err)
	res := w.send(req)
	require.Equal(t, http.StatusMethodNotAllowed, res.Status)
	require.Equal(t, "POST", res.Header.Get("Allow"))
}

func TestACodedBodyIsRefused(t *testing.T) {
	w := newWorld(t, quick)
	for coding, status := range map[string]int{"gzip": http.StatusUnsupportedMediaType, "identity": http.StatusOK} {
		res := w.query(func(h http.Header) { h.Set("Content-Encoding", coding) }, viewerQuery, nil)
		require.Equal(t, status, res.Status, coding)
	}
}

// TestACallersIDIsKept if it is valid, as in REST.
func TestACallersIDIsKept(t *testing.T) {
	w := newWorld(t, quick)
	ask := func(id string) answer {
		return w.query(func(h http.Header) { h.Set("X-Request-Id", id) }, `{ overview { agents } }`, nil)
	}
	res := ask("my-id-1")
	require.Equal(t, "my-id-1", res.Header.Get("X-Request-Id"))
	require.Equal(t, "my-id-1", res.Errors[0].Extensions["requestId"])
	for _, odd := range []string{"a b", "<x>", strings.Repeat("x", 129)} {
		require.NotEqual(t, odd, ask(odd).Header.Get("X-Request-Id"))
	}
}

func TestARequestKeepsItsID(t *testing.T) {
	w := newWorld(t, quick)
	res := w.query(nobody, `{ overview { agents } }`, nil)
	require.Equal(t, "UNAUTHENTICATED", res.code())
	require.Equal(t, res.Header.Get("X-Request-Id"), res.Errors[0].Extensions["requestId"])
}

// TestAnonymousCallersSendLittle: an unknown caller's body is small, and every body has a bounded
// number of values.
func TestAnonymousCallersSendLittle(t *testing.T) {
	w := newWorld(t, quick)
	me := bearer(w.tenant("acme").viewer.token)
	variables := func(bytes int) string {
		return `{"query":"{viewer{id}}","variables":{"a":[` + strings.Repeat("[],", bytes/3) + `0]}}`
	}
	long := func(bytes int) string {
		return `{"query":"{viewer{id}}","variables":{"a":"` + strings.Repeat("x", bytes) + `"}}`
	}
	for name, c := range map[string]struct {
		who    func(http.Header)
		body   string
		status int
	}{
		"a stranger":             {nobody, variables(1 << 15), http.StatusOK},
		"a stranger, too long":   {nobody, variables(1 << 16), http.StatusRequestEntityTooLarge},
		"a viewer":               {me, long(4 << 20), http.StatusOK},
		"a viewer, too many":     {me, variables(4 << 20), http.StatusRequestEntityTooLarge},
		"a viewer, nested":       {me, `{"query":"{viewer{id}}","variables":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, http.StatusBadRequest},
		"a viewer, far too long": {me, long(maxBody), http.StatusRequestEntityTooLarge},
	} {
		require.Equal(t, c.status, w.post(c.who, "application/json", c.body).Status, name)
	}
}

// TestAnonymousCallersTakeLittleMemory: bodies of unknown callers use little memory.
func TestAnonymousCallersTakeLittleMemory(t *testing.T) {
	w := newWorld(t, quick)
	body := `{"query":"{viewer{id}}","variables":{"a":[` + strings.Repeat("[],", (8<<20-100)/3) + `0]}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/graphql", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil { // refused while it was sent
				return
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Error(res.Status)
			}
		})
	}
	wait.Wait()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "all four together, including freed memory")
}
