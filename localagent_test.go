package main

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/embedded"
	"github.com/millpond/millpond/store/storetest"
)

// TestTheAgentsTokenIsMadeGood: beside the embedded database, a token that is missing or not the agent's is replaced; not, while the agent runs elsewhere.
func TestTheAgentsTokenIsMadeGood(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	opened, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock := domain.SystemClock{}
	s := &server{
		config: &serveCommand{DataDir: t.TempDir()}, log: slog.New(slog.DiscardHandler), store: opened, database: &embedded.Server{},
		services: &domain.Services{
			Instance: &domain.Instance{Store: opened.System(), Clock: clock},
			Agents:   &domain.Agents{Store: opened, System: opened.System(), Topics: opened.Topics(), Clock: clock, Lease: domain.DefaultLease},
		},
	}
	_, agent, credentials, err := s.services.Instance.CreateFirstWorkspace(t.Context(), "one", false)
	require.NoError(t, err)
	read := func() string {
		b, err := os.ReadFile(s.path(agentTokenFile))
		require.NoError(t, err)
		return string(b)
	}
	opens := func(token string) bool {
		ref, _, err := opened.System().Agent(t.Context(), domain.HashSecret(token))
		return err == nil && ref.Agent == agent.ID
	}

	require.NoError(t, s.ownAgentToken(t.Context()), "the first start was cut off before it kept the token")
	fresh := read()
	require.True(t, opens(fresh))
	require.False(t, opens(credentials.AgentToken))
	require.NoError(t, s.ownAgentToken(t.Context()))
	require.Equal(t, fresh, read(), "what is good stays")

	all, err := s.services.Instance.Workspaces(t.Context())
	require.NoError(t, err)
	_, elsewhere, err := s.services.Agents.RotateToken(t.Context(), domain.SystemScope(all[0].ID, "test"), agent.ID)
	require.NoError(t, err)
	_, err = db.Exec(`UPDATE agents SET session = 'x', hostname = 'far.example.com'`)
	require.NoError(t, err)
	require.ErrorContains(t, s.ownAgentToken(t.Context()), "far.example.com")
	require.True(t, opens(elsewhere), "nobody's agent is cut off")
	_, err = db.Exec(`UPDATE agents SET session = ''`)
	require.NoError(t, err)
	require.NoError(t, s.ownAgentToken(t.Context()))
	require.True(t, opens(read()))

	s.database = nil
	require.NoError(t, os.WriteFile(s.path(agentTokenFile), []byte("mp_agt_unknown"), 0o600))
	require.ErrorContains(t, s.ownAgentToken(t.Context()), "does not hold an agent's token", "with a database of its own the platform has agents of its own")
	require.Equal(t, "mp_agt_unknown", read())
}

// pauses is a log's handler that keeps the pauses before restarts.
type pauses struct {
	slog.Handler
	all chan time.Duration
}

// Handle implements slog.Handler.
func (p pauses) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "pause" {
			p.all <- a.Value.Duration()
		}
		return true
	})
	return nil
}

// Enabled implements slog.Handler.
func (pauses) Enabled(context.Context, slog.Level) bool { return true }

// TestAnAgentThatEndsAtOnceIsStartedLessAndLessOften, and its log is put aside when it has grown.
func TestAnAgentThatEndsAtOnceIsStartedLessAndLessOften(t *testing.T) {
	log := pauses{slog.DiscardHandler, make(chan time.Duration)}
	s := &server{config: &serveCommand{DataDir: t.TempDir()}, log: slog.New(log)}
	require.NoError(t, os.Mkdir(s.path(agentTokenFile), 0o700), "it can be no token")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keepAgent(ctx)
	}()
	for _, want := range []time.Duration{minRestartPause, 2 * minRestartPause, 4 * minRestartPause} {
		require.Equal(t, want, <-log.all)
	}
	stop()
	<-done

	require.NoError(t, os.WriteFile(s.path(agentLogFile), nil, 0o600))
	require.NoError(t, os.Truncate(s.path(agentLogFile), local.LogLimit+1))
	agent, err := s.startAgent(agentRecord{Args: []string{"echo", "hello"}})
	require.NoError(t, err)
	require.NoError(t, <-agent.ended)
	b, err := os.ReadFile(s.path(agentLogFile))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(b))
	aside, err := os.Stat(s.path(agentLogFile + ".1"))
	require.NoError(t, err)
	require.EqualValues(t, local.LogLimit+1, aside.Size())
}
