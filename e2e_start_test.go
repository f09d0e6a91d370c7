package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// TestStartCutOff: a server that was killed when it had made its workspace and nothing else leaves nothing undone. With --database an agent runs
// beside it only where that is asked for.
func TestStartCutOff(t *testing.T) {
	t.Parallel()
	dsn := storetest.Database(t, store.Migrate)
	made, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	_, _, credentials, err := (&domain.Instance{Store: made.System(), Clock: domain.SystemClock{}}).CreateFirstWorkspace(t.Context(), "default", true)
	require.NoError(t, err)
	require.NoError(t, made.Close())

	p := &platform{t: t, dir: newDir(t)}
	t.Cleanup(p.end)
	p.servers = []*server{newServer(t, p.dir, "--database", dsn)}
	s := p.servers[0]
	s.start()
	key, err := administrator(s)
	require.NoError(t, err)
	p.client = &client{url: s.url, key: key}
	var runs page[runRow]
	p.must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1, "the sample")
	require.Equal(t, "sample", runs.Data[0].Trigger)
	s.signal(syscall.SIGTERM)
	require.NoFileExists(t, filepath.Join(p.dir, "agent.json"), "an agent ran beside a server with --database")

	s.args = append(s.args, "--local-agent")
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "agent.token"), []byte(credentials.AgentToken), 0o600))
	s.start()
	require.Equal(t, "success", p.awaitRun(runs.Data[0].ID).Status)
	p.must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1, "a second start makes no second sample")
}

// TestReplacedToken: the agent beside the server goes on when somebody has replaced its token, or lost it.
func TestReplacedToken(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	var agents page[agentRow]
	p.must(http.MethodGet, "/settings/agents", nil, &agents)
	p.must(http.MethodPost, "/settings/agents/"+agents.Data[0].ID+"/rotate-token", nil, nil)
	p.awaitAgent("connected")

	p.servers[0].signal(syscall.SIGTERM)
	require.NoError(t, os.Remove(filepath.Join(p.dir, "agent.token")))
	p.servers[0].start()
	p.awaitAgent("connected")
}
