package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

// executing reports whether a goroutine is in the function.
func executing(function string) bool {
	stacks := make([]byte, 4<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(function))
}

func delivery(id domain.AgentID) job.Delivery {
	return job.Delivery{
		Attempt: job.Attempt{ID: "att_1", RunID: "run_1", TaskKey: "load", Number: 2, AgentID: id},
		Command: "run", Environment: map[string]string{"A": "b=c\n"}, TimeoutSeconds: 3, GraceSeconds: 4,
		Files: []job.File{{Path: "a/b", Content: []byte{0, 255}}, {Path: "run", Executable: true, Content: []byte("#!")}},
	}
}

// delivered is delivery on the wire.
var delivered = agent.Attempt{
	ID: "att_1", RunID: "run_1", TaskKey: "load", Number: 2, Command: "run", Env: map[string]string{"A": "b=c\n"}, TimeoutSeconds: 3, GraceSeconds: 4,
	Files: []agent.File{{Path: "a/b", Mode: 0o644, Data: []byte{0, 255}}, {Path: "run", Mode: 0o755, Data: []byte("#!")}},
}

// everywhere runs the test twice: with the agent connected to the asked replica, and to another
// replica.
func everywhere(t *testing.T, test func(t *testing.T, asked, holds *replica)) {
	w := newWorld(t)
	for name, holds := range map[string]*replica{"here": w.first, "on another replica": w.replica("second")} {
		t.Run(name, func(t *testing.T) {
			defer func(outer *testing.T) { w.t = outer }(w.t)
			w.t = t
			w.eventually("the last test's agent is gone", func() bool { return w.status() != machine.AgentConnected && w.first.sessions.Connected() == 0 })
			test(t, w.first, holds)
		})
	}
}

func TestAMessageReachesTheAgentWhereverItIsConnected(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		w := asked.w
		for range 2 { // on one connection, and on the next
			c := holds.connect()
			c.hello()
			for range 2 {
				require.NoError(t, asked.sessions.Start(t.Context(), w.agent.ID, delivery(w.agent.ID)))
				m := c.next()
				var a agent.Attempt
				require.NoError(t, json.Unmarshal(m.body, &a))
				require.Equal(t, message{http.MethodPut, "/v1/attempts/att_1", m.body}, m)
				require.Equal(t, delivered, a)
				require.NoError(t, asked.sessions.Cancel(t.Context(), w.agent.ID, "att_1"))
				require.Equal(t, "/v1/attempts/att_1/cancel", c.next().path)
			}
			require.Empty(t, c.got)
		}
	})
}

// An agent that moves from one replica to another is found again.
func TestAMessageFollowsTheAgent(t *testing.T) {
	w := newWorld(t)
	second := w.replica("second")
	for _, holds := range []*replica{w.first, second, w.first} {
		c := holds.connect()
		c.hello()
		w.eventually("the old session ends", func() bool { return w.first.sessions.Connected()+second.sessions.Connected() == 1 })
		for _, asked := range []*replica{w.first, second} {
			require.NoError(t, asked.sessions.Cancel(t.Context(), w.agent.ID, "att_1"))
			c.next()
		}
	}
}

func TestWhatAnAgentRefusesIsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		c := holds.connectWith(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"the disk is full"}`, http.StatusInsufficientStorage)
		})
		c.hello()
		err := asked.sessions.Start(t.Context(), asked.w.agent.ID, delivery(asked.w.agent.ID))
		require.ErrorContains(t, err, "507")
		require.ErrorContains(t, err, "the disk is full")
		require.ErrorContains(t, err, string(asked.w.agent.ID))
	})
}

// The platform must not resend an attempt that the agent will never accept.
func TestWhatAnAgentRefusesForGoodIsInvalid(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
			c := holds.connectWith(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"error":"The command has a NUL."}`, status)
			})
			c.hello()
			err := asked.sessions.Start(t.Context(), asked.w.agent.ID, delivery(asked.w.agent.ID))
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
			require.ErrorContains(t, err, "The command has a NUL.")
		}
	})
}

func TestAnAgentThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		givenUp := make(chan struct{}, 1)
		c := holds.connectWith(func(_ http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			givenUp <- struct{}{}
			panic(http.ErrAbortHandler) // an answer could still arrive: a closed stream is readable until its other side closes it
		})
		c.hello()
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- asked.sessions.Start(ctx, asked.w.agent.ID, delivery(asked.w.agent.ID)) }()
		c.next()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		select {
		case <-givenUp:
		case <-time.After(waitLimit):
			t.Fatal("the agent does not learn that nobody waits any more")
		}
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, asked.sessions.Cancel(ctx, asked.w.agent.ID, "att_1"), context.DeadlineExceeded)
		c.beat() // the session still works
	})
}

func TestAnAgentThatDiesWithAMessageIsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		c := holds.connectWith(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		c.hello()
		result := make(chan error, 1)
		go func() { result <- asked.sessions.Cancel(t.Context(), asked.w.agent.ID, "att_1") }()
		c.next()
		require.NoError(t, c.link.Close())
		select {
		case err := <-result:
			require.Error(t, err)
		case <-time.After(waitLimit):
			t.Fatal("the message waits for an agent that is gone")
		}
	})
}

func TestAnAgentThatIsConnectedNowhere(t *testing.T) {
	w := newWorld(t)
	for _, away := range []struct {
		name string
		make func()
	}{
		{"it never was", func() {}},
		{"it went", func() {
			c := w.first.connect()
			c.hello()
			require.NoError(t, c.link.Close())
			w.eventually("it is gone", func() bool { return w.status() == machine.AgentDisconnected })
		}},
		{"this replica forgot it", func() { w.exec(`UPDATE agents SET session = 's', replica = 'first'`) }},
		{"its replica is unknown", func() { w.exec(`UPDATE agents SET session = 's', replica = 'ended'`) }},
		{"its replica fell silent", func() { w.exec(`UPDATE agents SET session = 's', replica = 'silent'`); w.silent() }},
		{"there is no agent any more", func() { w.exec(`DELETE FROM machines`); w.exec(`DELETE FROM agents`) }},
	} {
		away.make()
		err := w.first.sessions.Start(t.Context(), w.agent.ID, delivery(w.agent.ID))
		require.True(t, domain.IsCode(err, domain.CodeUnavailable), "%s: %v", away.name, err)
		require.ErrorContains(t, err, "The agent is not connected.", away.name)
	}
}

// silent adds a replica with a heartbeat of a minute ago.
func (w *world) silent() {
	require.NoError(w.t, w.first.db.System().SaveReplica(w.t.Context(), "silent", w.first.url, time.Now().Add(-time.Minute)))
}

func TestAReplicaThatDoesNotHaveTheAgentSaysSo(t *testing.T) {
	w := newWorld(t)
	w.replica("second")
	w.exec(`UPDATE agents SET session = 's', replica = 'second'`)
	err := w.first.sessions.Cancel(t.Context(), w.agent.ID, "att_1")
	require.ErrorContains(t, err, "503")
	require.ErrorContains(t, err, "The agent is not connected here.")
}

func TestAReplicaThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, w.first.db.System().SaveReplica(t.Context(), "mute", "http://"+l.Addr().String(), time.Now()))
	w.exec(`UPDATE agents SET session = 's', replica = 'mute'`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.first.sessions.Cancel(ctx, w.agent.ID, "att_1"), context.DeadlineExceeded)
	require.NoError(t, l.Close())
	require.Error(t, w.first.sessions.Cancel(t.Context(), w.agent.ID, "att_1"))
}

// foreignTokens returns the token of another instance's replicas.
type foreignTokens struct{ hub.Tokens }

// ReplicaToken implements hub.Tokens.
func (foreignTokens) ReplicaToken() string { return "0123456789abcdef.forged" }

func TestOnlyAReplicaIsGivenAStream(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	path := strings.Replace(hub.RelayPath, "{id}", string(w.agent.ID), 1)
	own := w.first.keys.ReplicaToken()
	key, _, _ := strings.Cut(own, ".")
	for name, token := range map[string]string{
		"none": "", "garbage": "x", "another key's": "0123456789abcdef.forged", "forged": key + ".forged", "without MAC": key + ".", "cut": own[:len(own)-1],
		"the agent's": w.token,
	} {
		status, body := w.first.get(path, token)
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Contains(t, body, "Only a replica of this instance", name)
	}
	other := hub.NewSessions(hub.Options{Replicas: w.first.db.System(), Tokens: foreignTokens{}, Replica: "other", Clock: domain.SystemClock{}})
	t.Cleanup(other.Close)
	err := other.Start(t.Context(), w.agent.ID, delivery(w.agent.ID))
	require.ErrorContains(t, err, "401")
	require.ErrorContains(t, err, "Only a replica of this instance opens this connection.")
	require.Empty(t, c.got)
}

// A replica that ends closes its relayed streams, and their users get an error.
func TestAReplicaThatEndsEndsItsStreams(t *testing.T) {
	w := newWorld(t)
	second := w.replica("second")
	c := second.connectWith(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	c.hello()
	result := make(chan error, 1)
	go func() { result <- w.first.sessions.Cancel(t.Context(), w.agent.ID, "att_1") }()
	c.next()
	second.sessions.Close()
	select {
	case err := <-result:
		require.Error(t, err)
	case <-time.After(waitLimit):
		t.Fatal("the stream outlives its replica")
	}
}

// TestAStartThatFailedIsSentAgain at a later heartbeat of the agent, which does not have the
// attempt.
func TestAStartThatFailedIsSentAgain(t *testing.T) {
	w := newWorld(t)
	var refused atomic.Bool
	c := w.first.connectWith(func(rw http.ResponseWriter, _ *http.Request) {
		if refused.CompareAndSwap(false, true) {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
	})
	c.hello()
	a := c.attempt(w.first)
	require.Empty(t, c.beat().Attempts)
	require.Empty(t, c.got, "it may still be on its way")
	w.exec(`UPDATE attempts SET created_at = created_at - interval '6 seconds'`)
	require.Empty(t, c.beat().Attempts)
	again := c.next()
	require.Equal(t, "/v1/attempts/"+a.ID, again.path)
	require.Contains(t, string(again.body), `"command":"true"`)
}
