package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
	"github.com/millpond/millpond/test/harness"
)

// TestStartCutOff: a server is killed right after it created its workspace. The next start
// completes the rest. With --database an agent runs beside the server only on request.
func TestStartCutOff(t *testing.T) {
	t.Parallel()
	dsn := storetest.Database(t, store.Migrate)
	made, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	_, _, credentials, err := (&setup.Instance{Store: made.System(), Clock: domain.SystemClock{}}).CreateFirstWorkspace(t.Context(), "default", true)
	require.NoError(t, err)
	require.NoError(t, made.Close())

	p := &harness.Platform{T: t, Dir: harness.NewDir(t)}
	t.Cleanup(p.End)
	p.Servers = []*harness.Server{harness.NewServer(t, p.Dir, "--database", dsn)}
	s := p.Servers[0]
	s.Start()
	key, err := harness.Administrator(s)
	require.NoError(t, err)
	p.Client = &harness.Client{URL: s.URL, Key: key}
	var runs harness.Page[harness.RunRow]
	p.Must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1, "the sample")
	require.Equal(t, "sample", runs.Data[0].Trigger)
	s.Signal(syscall.SIGTERM)
	require.NoFileExists(t, filepath.Join(p.Dir, "agent.json"), "an agent ran beside a server with --database")

	s.Args = append(s.Args, "--local-agent")
	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "agent.token"), []byte(credentials.AgentToken), 0o600))
	s.Start()
	require.Equal(t, "success", p.AwaitRun(runs.Data[0].ID).Status)
	p.Must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1, "a second start makes no second sample")
}

// TestReplacedToken: the agent beside the server goes on after its token was replaced or lost.
func TestReplacedToken(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	var agents harness.Page[harness.AgentRow]
	p.Must(http.MethodGet, "/settings/agents", nil, &agents)
	p.Must(http.MethodPost, "/settings/agents/"+agents.Data[0].ID+"/rotate-token", nil, nil)
	p.AwaitAgent("connected")

	p.Servers[0].Signal(syscall.SIGTERM)
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "agent.token")))
	p.Servers[0].Start()
	p.AwaitAgent("connected")
}

// TestChildrenBeginAtOnce: an agent's child processes do not initialize the server's packages.
func TestChildrenBeginAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"shim", "engine-child"} {
		child := exec.CommandContext(t.Context(), harness.Binary(t), name) // it ends because it has no pipes
		child.Env = []string{"GODEBUG=inittrace=1"}
		out, _ := child.CombinedOutput()
		require.Contains(t, string(out), "init os ", name)
		require.NotContains(t, string(out), "substrait ", name)
		require.NotContains(t, string(out), "init github.com/millpond/millpond/graph", name)
	}
}
