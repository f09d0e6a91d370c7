package graph

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store/storetest"
)

func TestASocketOpensWithAnyGoodCredential(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	_, key, err := w.services.APIKeys.Create(t.Context(), a.editor.scope, identity.NewAPIKey{Name: "ci"})
	require.NoError(t, err)
	for name, open := range map[string]func() *client{
		"the console's cookie": func() *client {
			return w.open(func(h http.Header) { h.Set("Cookie", "__Host-millpond="+a.viewer.cookie) }, nil)
		},
		"a token in the payload": func() *client { return w.open(nobody, map[string]any{"authorization": "Bearer " + a.viewer.token}) },
		"a key in the payload":   func() *client { return w.open(nobody, map[string]any{"Authorization": "bearer " + key}) },
		"a token in the request": func() *client { return w.open(bearer(a.viewer.token), nil) },
		"a token before a cookie": func() *client {
			return w.open(console("ended"), map[string]any{"authorization": "Bearer " + a.viewer.token})
		},
	} {
		c := open()
		id := c.subscribe(`{ viewer { workspace { name } } }`, nil)
		require.Equal(t, "acme", at(c.event(id), "viewer", "workspace", "name"), name)
		require.Equal(t, "complete", c.read().Type, name)
	}
}

func TestASocketWithoutAGoodCredentialCloses(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	for name, c := range map[string]struct {
		who     header
		payload map[string]any
		code    int
	}{
		"nothing":          {nobody, nil, closeUnauthenticated},
		"a dead cookie":    {console("ended"), nil, closeUnauthenticated},
		"a bad token":      {nobody, map[string]any{"authorization": "Bearer x"}, closeUnauthenticated},
		"no scheme":        {nobody, map[string]any{"authorization": a.admin.token}, closeUnauthenticated},
		"not text":         {nobody, map[string]any{"authorization": 5}, closeUnauthenticated},
		"an agent's token": {nobody, map[string]any{"authorization": "Bearer " + a.agentToken}, closeForbidden},
	} {
		s := w.dial(c.who)
		s.init(c.payload)
		code, reason, _ := s.closed()
		require.Equal(t, c.code, code, name)
		require.NotEmpty(t, reason, name)
	}
}

func TestAnotherSitesSocketIsRefused(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	h := http.Header{"Origin": {"https://evil.example"}, "Cookie": {"__Host-millpond=" + a.admin.cookie}}
	d := websocket.Dialer{Subprotocols: []string{subprotocol}}
	_, res, err := d.DialContext(t.Context(), "ws"+w.url[len("http"):], h)
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	says, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(says), "another site")
	require.NotContains(t, string(says), "Upgrader")
	d.Subprotocols = []string{"graphql-ws"}
	_, res, err = d.DialContext(t.Context(), "ws"+w.url[len("http"):], nil)
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
}

func TestLogoutClosesTheSocketAtOnce(t *testing.T) {
	w := newWorld(t, quick) // its next check of the credential would be in a minute
	a := w.tenant("acme")
	c := w.open(console(a.viewer.cookie), nil)
	a.connect(1)
	id := c.subscribe(`subscription { agentUpdated { id } }`, nil)
	c.event(id)
	start := time.Now()
	require.Empty(t, w.query(console(a.viewer.cookie), `mutation { logout { done } }`, nil).Errors)
	code, reason, before := c.closed()
	require.Equal(t, closeUnauthenticated, code)
	require.Equal(t, "The session has ended.", reason)
	require.Empty(t, before, "a client takes a complete for the end of what it follows")
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestAPasswordChangeClosesTheOtherSessions(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	other := w.again(a.viewer)
	mine, others := w.open(bearer(a.viewer.token), nil), w.open(bearer(other.token), nil)
	change := `mutation { changePassword(input: {current: "correct horse battery", new: "another horse battery"}) { user { email } } }`
	require.Empty(t, w.query(bearer(a.viewer.token), change, nil).Errors)
	code, _, _ := others.closed()
	require.Equal(t, closeUnauthenticated, code)
	id := mine.subscribe(`{ viewer { id } }`, nil)
	mine.event(id)
}

func TestAChangedRoleAndARevokedKeyCloseTheSocket(t *testing.T) {
	w := newWorld(t, quick)
	w.auth.Recheck = 20 * time.Millisecond
	a := w.tenant("acme")
	key, secret, err := w.services.APIKeys.Create(t.Context(), a.editor.scope, identity.NewAPIKey{Name: "ci", Role: domain.RoleEditor})
	require.NoError(t, err)
	byRole, byKey, removed := w.open(bearer(a.viewer.token), nil), w.open(bearer(secret), nil), w.open(bearer(a.editor.token), nil)

	_, err = w.services.Members.Update(t.Context(), a.admin.scope, a.viewer.id, domain.RoleEditor)
	require.NoError(t, err)
	code, reason, _ := byRole.closed()
	require.Equal(t, closeUnauthenticated, code)
	require.Equal(t, "The role has changed.", reason)

	_, err = w.services.APIKeys.Revoke(t.Context(), a.editor.scope, key.ID)
	require.NoError(t, err)
	code, _, _ = byKey.closed()
	require.Equal(t, closeUnauthenticated, code)

	require.NoError(t, w.services.Members.Remove(t.Context(), a.admin.scope, a.editor.id))
	code, _, _ = removed.closed()
	require.Equal(t, closeUnauthenticated, code)
}

func TestTheServersEndClosesSocketsToComeAgain(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(1)
	c := w.open(bearer(a.viewer.token), nil)
	c.event(c.subscribe(`subscription { agentUpdated { id } }`, nil))
	w.shutdown()
	code, _, before := c.closed()
	require.Equal(t, closeGoingAway, code)
	require.Empty(t, before)
}

func TestMalformedMessagesCloseTheSocket(t *testing.T) {
	soon := quick
	soon.init = 50 * time.Millisecond
	w := newWorld(t, soon)
	a := w.tenant("acme")
	me := bearer(a.viewer.token)
	for name, text := range map[string]string{"not JSON": "{", "not a message": `{"type":"nonsense"}`, "no type": `{}`, "an array": `[]`} {
		c := w.open(me, nil)
		require.NoError(t, c.conn.WriteMessage(websocket.TextMessage, []byte(text)))
		code, _, _ := c.closed()
		require.Equal(t, closeInvalid, code, name)
	}
	large := w.open(me, nil)
	require.NoError(t, large.conn.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte{' '}, maxMessage+1)))
	code, _, _ := large.closed()
	require.Equal(t, websocket.CloseMessageTooBig, code)

	late := w.dial(me)
	code, _, _ = late.closed()
	require.Equal(t, closeInitialiseLate, code, "the first message did not come")
}

func TestRefusedOperationsLeaveTheSocketOpen(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	c := w.open(bearer(a.viewer.token), nil)
	for query, want := range map[string]string{
		`{ nothing }`: "INVALID",
		`subscription { run(id: "run_x") { id } }`:                                               "NOT_FOUND",
		`subscription { runLogs(attempt: "att_x") { eof } }`:                                     "NOT_FOUND",
		`subscription { runLogs(attempt: "att_x", offset: "x") { eof } }`:                        "INVALID",
		`mutation { logout { done } }`:                                                           "INVALID",
		`mutation { login(input: {email: "a@b.c", password: "x"}) { viewer { id } } }`:           "INVALID",
		`{ jobs(first: 200) { edges { node { runs(first: 200) { edges { node { id } } } } } } }`: "TOO_LARGE",
		`mutation { createJob(input: {name: "x", command: "true"}) { job { id } } }`:             "FORBIDDEN",
	} {
		require.Equal(t, want, c.failure(c.subscribe(query, nil)), query)
	}
}

func TestOneSocketHoldsSoManySubscriptions(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(1)
	c := w.open(bearer(a.viewer.token), nil)
	for range maxSubscriptions {
		c.subscribe(`subscription { agentUpdated { id } }`, nil)
	}
	for range maxSubscriptions {
		require.Equal(t, "next", c.read().Type)
	}
	refused := c.subscribe(`subscription { agentUpdated { id } }`, nil)
	require.Equal(t, "RATE_LIMITED", c.failure(refused))
	require.Equal(t, refused, c.read().ID)
	c.write("complete", "1", nil)
	require.Equal(t, message{Type: "complete", ID: "1"}, c.read())
	require.Eventually(t, func() bool { // the server decrements the count right after the message
		return c.failure(c.subscribe(`subscription { agentUpdated { id } }`, nil)) == ""
	}, time.Minute, time.Millisecond)
}

// A client that answered pings and then stops reading blocks its subscription's writer for one
// write time-out, and no longer.
func TestAReaderThatStopsIsCut(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(2)
	run := a.run(a.job(job.Spec{Command: "yes"}))
	attempt := a.attempt(run.ID).ID
	a.begin(attempt)
	line := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
	for i := range 8 {
		a.write(attempt, int64(i*len(line)), line)
	}
	stuck := w.open(bearer(a.viewer.token), nil)
	stuck.write("pong", "", nil)
	stuck.event(stuck.subscribe(`subscription($a: ID!) { runLogs(attempt: $a) { chunks { data } } }`, map[string]any{"a": attempt}))
	require.Equal(t, int64(1), w.sockets.Load())
	// Another reader of the same log is not delayed by it.
	good := w.open(bearer(a.editor.token), nil)
	id := good.subscribe(`subscription($a: ID!) { runLogs(attempt: $a) { nextOffset } }`, map[string]any{"a": attempt})
	for next := ""; next != "8388608"; {
		next = at(good.event(id), "runLogs", "nextOffset").(string)
	}
	require.Eventually(t, func() bool { return w.sockets.Load() == 1 }, time.Minute, 10*time.Millisecond, "the stuck reader is still served")
}

// TestWhatTheProtocolForbidsClosesWithItsOwnCode: clients distinguish their own faults from the
// network's by the code.
func TestWhatTheProtocolForbidsClosesWithItsOwnCode(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(1)
	const live = `subscription { agentUpdated { id } }`

	early := w.dial(bearer(a.viewer.token))
	early.subscribe(live, nil)
	code, reason, _ := early.closed()
	require.Equal(t, closeUnauthenticated, code)
	require.Equal(t, "Unauthorized", reason)

	twice := w.open(bearer(a.viewer.token), nil)
	twice.init(nil)
	code, reason, _ = twice.closed()
	require.Equal(t, closeInitialisedOnce, code)
	require.Equal(t, "Too many initialisation requests", reason)

	taken := w.open(bearer(a.viewer.token), nil)
	taken.event(taken.subscribe(live, nil))
	taken.next--
	taken.subscribe(live, nil)
	code, reason, _ = taken.closed()
	require.Equal(t, closeSubscriberTaken, code)
	require.Equal(t, "Subscriber for 1 already exists", reason)

	again := w.open(bearer(a.viewer.token), nil)
	for _, query := range []string{`{ viewer { id } }`, `{ nothing }`, `{ viewer { id } }`} {
		again.next = 0 // an id is free when its operation is over
		again.subscribe(query, nil)
		for m := again.read(); m.Type != "complete"; {
			m = again.read()
		}
	}
	// gqlgen forgets an operation a moment after it has sent its end. An operation that reuses the
	// id in between could not be ended by its client.
	id := again.subscribe(live, nil)
	again.event(id)
	again.write("complete", id, nil)
	require.Equal(t, "complete", again.read().Type)
	again.next--
	require.Equal(t, id, again.subscribe(live, nil))
	again.event(id)
}

func TestAPeerThatIsSilentIsCut(t *testing.T) {
	soon := quick
	soon.ping = 50 * time.Millisecond
	w := newWorld(t, soon)
	a := w.tenant("acme")
	silent, alive := w.open(bearer(a.viewer.token), nil), w.open(bearer(a.editor.token), nil)
	_ = silent
	go func() { // reads, and so answers pings
		for {
			if _, err := alive.tryRead(); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return w.sockets.Load() == 1 }, time.Minute, 5*time.Millisecond)
	require.Never(t, func() bool { return w.sockets.Load() == 0 }, 300*time.Millisecond, 10*time.Millisecond)
}

func TestNothingOutlivesItsSocket(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(5)
	run := a.run(a.job(job.Spec{Command: "sleep"}))
	vars := map[string]any{"r": run.ID, "a": a.attempt(run.ID).ID}
	before := append(storetest.IgnoreCluster(), goleak.IgnoreCurrent())
	c := w.open(bearer(a.viewer.token), nil)
	for _, q := range []string{
		`subscription($r: ID!) { run(id: $r) { id } }`, `subscription { runs { id } }`, `subscription { agentUpdated { id } }`,
		`subscription($a: ID!) { runLogs(attempt: $a) { eof } }`,
	} {
		c.subscribe(q, vars)
	}
	for range 3 {
		c.read()
	}
	require.NoError(t, c.conn.Close())
	require.Eventually(t, func() bool { return w.sockets.Load() == 0 }, time.Minute, 5*time.Millisecond)
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before...)
}

// TestMessagesAreBounded: by the bound of unknown callers, and for every caller by the number of
// values.
func TestMessagesAreBounded(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	stranger := w.dial(nobody)
	stranger.init(map[string]any{"authorization": "Bearer " + a.viewer.token, "more": strings.Repeat("x", 64<<10)})
	code, _, _ := stranger.closed()
	require.Equal(t, websocket.CloseMessageTooBig, code)

	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(`{ viewer { workspace { name } } }`, map[string]any{"more": strings.Repeat("x", 512<<10)})
	require.Equal(t, "acme", at(c.event(id), "viewer", "workspace", "name"))
	require.Equal(t, "complete", c.read().Type)
	c.subscribe(`{ viewer { id } }`, map[string]any{"many": make([]*int, 200_000)})
	code, reason, _ := c.closed()
	require.Equal(t, closeInvalid, code)
	require.Contains(t, reason, "values")
}
