package hub_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

func TestOnlyAnAgentsTokenConnects(t *testing.T) {
	w := newWorld(t)
	in, err := w.first.auth.SetUp(t.Context(), auth.SetUp{Token: w.setUp, Email: "a@example.com", Name: "A", Password: "correct horse battery"})
	require.NoError(t, err)
	admin, err := w.first.auth.Bearer(t.Context(), in.Token)
	require.NoError(t, err)
	_, key, err := w.first.apiKeys.Create(t.Context(), admin, identity.NewAPIKey{Name: "k", Role: domain.RoleAdmin})
	require.NoError(t, err)
	c := w.first.connect()
	c.hello()
	attempt := c.attempt(w.first)
	for name, refused := range map[string]struct {
		token  string
		status int
		text   string
	}{
		"none":            {"", http.StatusUnauthorized, "Send the token as"},
		"garbage":         {"x", http.StatusUnauthorized, "token is missing"},
		"unknown agent":   {machine.NewAgentToken(), http.StatusUnauthorized, "Make a new token"},
		"cut":             {w.token[:len(w.token)-1], http.StatusUnauthorized, "Make a new token"},
		"a user's":        {in.Token, http.StatusForbidden, "Only an agent's token"},
		"an API key":      {key, http.StatusForbidden, "Only an agent's token"},
		"a task's":        {attempt.Env["MILLPOND_TOKEN"], http.StatusForbidden, "Only an agent's token"},
		"another replica": {w.first.keys.ReplicaToken(), http.StatusUnauthorized, "token is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tunnel.Dial(t.Context(), w.first.url, refused.token, nil)
			f := final(t, err)
			require.Equal(t, refused.status, f.Status)
			require.Contains(t, f.Message, refused.text)
		})
	}
	require.Equal(t, 1, w.first.sessions.Connected())
	c.beat() // and the connected agent was not disturbed
}

func TestConnectTakesNothingButAnUpgrade(t *testing.T) {
	w := newWorld(t)
	status, _ := w.first.get(agent.ConnectPath, w.token)
	require.Equal(t, http.StatusBadRequest, status)
	require.Zero(t, w.first.sessions.Connected())
}

func TestAnAgentIsConnectedFromItsHelloToItsEnd(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	require.Equal(t, machine.AgentNew, w.status(), "before its hello")
	welcome := c.hello()
	require.Equal(t, agent.Welcome{
		AgentID: string(w.agent.ID), Lease: agent.Duration(machine.DefaultLease.Length), HeartbeatEvery: agent.Duration(machine.DefaultLease.Heartbeat),
		Attempts: []agent.DesiredAttempt{}, Group: w.system.Workspace().FileGroup(),
	}, welcome)
	require.Equal(t, []uint32{agent.FirstGroup, agent.LastGroup}, []uint32{domain.FirstFileGroup, domain.LastFileGroup}, "an agent takes any workspace's group")
	a := w.now()
	require.Equal(t, []any{"1.2.3", "host", "linux", "amd64", 4, "first"}, []any{a.Version, a.Hostname, a.OS, a.Arch, a.Slots, a.Replica})
	require.Equal(t, machine.AgentConnected, w.status())
	require.Equal(t, 1, w.first.sessions.Connected())
	require.NoError(t, c.link.Close())
	w.eventually("the agent's end is recorded", func() bool { return w.status() == machine.AgentDisconnected })
	require.Zero(t, w.first.sessions.Connected())
}

func (w *world) now() machine.Agent {
	a, err := w.first.services.Agents.Get(w.t.Context(), w.system, w.agent.ID)
	require.NoError(w.t, err)
	return a
}

func (w *world) status() machine.AgentStatus { return w.now().Status(time.Now()) }

func TestASecondConnectionTakesTheFirstOnesPlace(t *testing.T) {
	for _, where := range []string{"here", "on another replica"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			to := w.first
			if where != "here" {
				to = w.replica("second")
			}
			old := w.first.connect()
			old.hello()
			a := old.attempt(w.first)
			old.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "one\n"), nil)

			c := to.connect()
			if to == w.first {
				old.ended() // at once, without the new one's hello
			}
			require.Equal(t, []agent.DesiredAttempt{{ID: a.ID, Desire: agent.DesireRun, LogNext: 4}}, c.hello(running(a.ID)).Attempts)
			old.ended()
			_, _, err := old.send(http.MethodPost, agent.LogsPath, chunk(a.ID, 4, "lost\n"))
			require.Error(t, err)

			c.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 4, "two\n"), nil)
			require.Equal(t, "one\ntwo\n", to.stored(a.ID))
			w.eventually("one session is left", func() bool { return w.first.sessions.Connected()+connectedElsewhere(w, to) == 1 })
			require.Equal(t, machine.AgentConnected, w.status(), "the end of the old connection is not the agent's")
			require.Equal(t, to.id, w.now().Replica)
			require.NoError(t, w.first.sessions.Cancel(t.Context(), w.agent.ID, domain.AttemptID(a.ID)))
			require.Equal(t, http.MethodPost, c.next().method)
		})
	}
}

func connectedElsewhere(w *world, r *replica) int {
	if r == w.first {
		return 0
	}
	return r.sessions.Connected()
}

// A connection is superseded in the database before its replica is notified.
func TestASupersededConnectionStoresNothingAndEnds(t *testing.T) {
	for name, path := range map[string]string{"heartbeat": agent.HeartbeatPath, "logs": agent.LogsPath} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.first.connect()
			c.hello()
			a := c.attempt(w.first)
			c.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "one\n"), nil)
			before := w.now()
			w.exec(`UPDATE agents SET session = 'newer' WHERE id = $1`, w.agent.ID)
			body := []byte("{}")
			if path == agent.LogsPath {
				body = chunk(a.ID, 4, "lost\n")
			}
			if status, _, err := c.send(http.MethodPost, path, body); err == nil { // on an error the replica was notified first
				require.Equal(t, http.StatusConflict, status)
			}
			c.ended()
			require.Equal(t, "one\n", w.first.stored(a.ID))
			after := w.now()
			require.Equal(t, before.LeaseExpiresAt, after.LeaseExpiresAt)
			w.eventually("the session is gone", func() bool { return w.first.sessions.Connected() == 0 })
			require.Equal(t, "newer", w.now().Session)
			require.NotContains(t, w.first.log.String(), "level=ERROR")
		})
	}
}

// Before its hello a connection may do nothing. It gets an error before it ends.
func TestAConnectionWithoutHelloIsToldThatItIsNotTheCurrentOne(t *testing.T) {
	w := newWorld(t)
	for path, body := range map[string][]byte{agent.HeartbeatPath: []byte("{}"), agent.LogsPath: chunk("att_1", 0, "x")} {
		c := w.first.connect()
		require.Equal(t, job.ErrSuperseded.Message, c.refused(http.StatusConflict, http.MethodPost, path, body))
		c.ended()
	}
	require.Equal(t, machine.AgentNew, w.status())
}

func TestARotatedTokenEndsTheConnection(t *testing.T) {
	w := newWorld(t)
	second := w.replica("second")
	c := w.first.connect()
	c.hello()
	_, fresh, err := second.services.Agents.RotateToken(t.Context(), w.system, w.agent.ID)
	require.NoError(t, err)
	c.ended()
	for _, r := range []*replica{w.first, second} {
		_, err = tunnel.Dial(t.Context(), r.url, w.token, nil)
		require.Equal(t, http.StatusUnauthorized, final(t, err).Status)
	}
	w.token = fresh
	w.first.connect().hello()
	require.Equal(t, machine.AgentConnected, w.status())
}

// The holder of an old token must not keep a connection for later.
func TestARotatedTokenEndsTheConnectionThatHasNotSaidHello(t *testing.T) {
	w := newWorld(t)
	second := w.replica("second")
	c := second.connect()
	w.eventually("it is there", func() bool { return second.sessions.Connected() == 1 })
	_, fresh, err := w.first.services.Agents.RotateToken(t.Context(), w.system, w.agent.ID)
	require.NoError(t, err)
	w.eventually("it ends or may say nothing", func() bool {
		status, _, err := c.send(http.MethodPost, agent.HelloPath, encode(t, greeting()))
		require.NotEqual(t, http.StatusOK, status)
		return err != nil
	})
	c.ended()
	w.token = fresh
	w.first.connect().hello()
}

func TestHelloWithAReplacedTokenIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	w.exec(`UPDATE agents SET token_hash = 'another' WHERE machine_id = ''`) // and the replica has not been notified
	require.Contains(t, c.refused(http.StatusUnauthorized, http.MethodPost, agent.HelloPath, encode(t, greeting())), "token has been replaced")
	require.Equal(t, machine.AgentNew, w.status())
}

// The holder of an old token must not regain its connection by repeated hellos.
func TestHelloAgainDoesNotOutliveARotation(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	var saying sync.WaitGroup
	saying.Go(func() {
		for status := http.StatusOK; status == http.StatusOK; {
			status, _, _ = c.send(http.MethodPost, agent.HelloPath, encode(t, greeting()))
		}
	})
	_, _, err := w.first.services.Agents.RotateToken(t.Context(), w.system, w.agent.ID)
	require.NoError(t, err)
	saying.Wait()
	c.ended()
	require.Empty(t, w.now().Session)
}

func TestAnotherInstanceDoesNotTakeTheAgentsPlace(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	c.attempt(w.first)
	require.NoError(t, c.link.Close())
	w.eventually("it is gone", func() bool { return w.status() == machine.AgentDisconnected })
	other := greeting()
	other.Instance = "i2"
	text := w.first.connect().refused(http.StatusConflict, http.MethodPost, agent.HelloPath, encode(t, other))
	require.Contains(t, text, "Another instance of the agent acme agent, on host, may still be at work")
	w.first.connect().hello()
}

func TestADeletedAgentsConnectionEnds(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	w.exec(`DELETE FROM agents WHERE id = $1`, w.agent.ID)
	w.exec(`SELECT pg_notify('millpond', $1)`, string(domain.AgentTopic(w.agent.ID)))
	c.ended()
	_, err := tunnel.Dial(t.Context(), w.first.url, w.token, nil)
	require.Equal(t, http.StatusUnauthorized, final(t, err).Status)
}

func TestCloseEndsEverySessionAndTakesNoMore(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	w.first.sessions.Close()
	require.Zero(t, w.first.sessions.Connected(), "Close waits for the sessions")
	require.Equal(t, machine.AgentDisconnected, w.status(), "and for what they record")
	c.ended()
	late := w.first.connect()
	late.ended()
	require.Error(t, w.first.sessions.Cancel(t.Context(), w.agent.ID, domain.AttemptID(a.ID)))
	w.first.sessions.Close() // a second Close is harmless
}

func TestAnotherVersionOfTheProtocolIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	for _, body := range []string{`{"protocol": 2, "slots": 1, "new": {}}`, `{"protocol": 0, "slots": 1}`, `{"slots": 1}`} {
		text := c.refused(http.StatusUpgradeRequired, http.MethodPost, agent.HelloPath, []byte(body))
		require.Contains(t, text, "speaks version 1 of the agent protocol")
		require.Contains(t, text, "use an agent of the server's version")
	}
	require.Equal(t, machine.AgentNew, w.status())
	c.hello()
}

// bodies that every JSON path refuses, with the status and the text of the answer.
var badBodies = map[string]struct {
	body   []byte
	status int
	text   string
}{
	"nothing":      {nil, http.StatusBadRequest, "does not match what this path accepts"},
	"no JSON":      {[]byte("x"), http.StatusBadRequest, "does not match what this path accepts"},
	"cut JSON":     {[]byte(`{"protocol": 1, "slots"`), http.StatusBadRequest, "does not match what this path accepts"},
	"a list":       {[]byte(`[]`), http.StatusBadRequest, "does not match what this path accepts"},
	"a wrong type": {[]byte(`{"attempts": 1, "state": 1}`), http.StatusBadRequest, "does not match what this path accepts"},
}

func TestABadBodyIsRefusedAndTheSessionGoesOn(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	for path, method := range map[string]string{
		agent.HelloPath: http.MethodPost, agent.HeartbeatPath: http.MethodPost, "/v1/attempts/" + a.ID + "/status": http.MethodPut,
	} {
		for name, bad := range badBodies {
			require.Contains(t, c.refused(bad.status, method, path, bad.body), bad.text, "%s %s", path, name)
		}
	}
	large := c.refused(http.StatusRequestEntityTooLarge, http.MethodPost, agent.HeartbeatPath, bytes.Repeat([]byte(" "), 8<<20+1))
	require.Contains(t, large, "larger than the 8388608 bytes")
	slots := greeting()
	for _, slots.Slots = range []int{-1, 0, 1 << 20} {
		require.Contains(t, c.refused(http.StatusBadRequest, http.MethodPost, agent.HelloPath, encode(t, slots)), "slots")
	}
	nul := greeting()
	nul.Hostname = "a\x00b"
	require.Contains(t, c.refused(http.StatusBadRequest, http.MethodPost, agent.HelloPath, encode(t, nul)), "NUL")
	for _, path := range []string{"/v1/nothing", "/v1/attempts/" + a.ID, "/"} {
		status, _, err := c.send(http.MethodPost, path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, status)
	}
	c.beat()
	require.NotContains(t, w.first.log.String(), "level=ERROR")
	require.NotContains(t, w.first.log.String(), "agent disconnected")
}
