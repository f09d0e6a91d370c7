package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/worker"
)

func parseAgent(t *testing.T, args ...string) *agentCommand {
	var c commands
	parser, err := kong.New(&c, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.DefaultEnvars("MILLPOND"))
	require.NoError(t, err)
	_, err = parser.Parse(append([]string{"agent"}, args...))
	require.NoError(t, err)
	return &c.Agent
}

// MILLPOND_TOKEN is what a task and a caller of the API have; an agent's token is another thing, and has another name.
func TestTheAgentsTokenHasANameOfItsOwn(t *testing.T) {
	t.Setenv("MILLPOND_TOKEN", "an-api-key")
	_, err := parseAgent(t).options()
	require.ErrorContains(t, err, "MILLPOND_AGENT_TOKEN")
	t.Setenv("MILLPOND_AGENT_TOKEN", "from-the-environment")
	o, err := parseAgent(t).options()
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", o.Token)
	o, err = parseAgent(t, "--token-file", "/somewhere/token").options()
	require.NoError(t, err, "the agent beside a server is started with a file whatever is in the server's environment")
	require.Equal(t, "/somewhere/token", o.TokenFile)
	t.Setenv("MILLPOND_AGENT_TOKEN", "")
	t.Setenv("MILLPOND_AGENT_TOKEN_FILE", "/elsewhere/token")
	o, err = parseAgent(t).options()
	require.NoError(t, err)
	require.Equal(t, "/elsewhere/token", o.TokenFile)
}

func TestWhatAProviderSaysReachesTheAgent(t *testing.T) {
	o, err := parseAgent(t, "--token-file", "token", "--bootstrap-file", "boot", "--metrics", "own", "--cores", "2", "--memory", "4294967296").options()
	require.NoError(t, err)
	require.Equal(t, []any{"token", "boot", worker.MetricsOwn, 2.0, int64(4 << 30)}, []any{o.TokenFile, o.BootstrapFile, o.Metrics, o.Cores, o.Memory})
	t.Setenv("MILLPOND_AGENT_BOOTSTRAP_FILE", "from-the-environment")
	t.Setenv("MILLPOND_AGENT_GROUP", "1879048193")
	require.Equal(t, uint32(1879048193), parseAgent(t, "--token-file", "token").Group)
	t.Setenv("MILLPOND_METRICS", "host") // the server's, should it ever have one
	o, err = parseAgent(t, "--token-file", "token").options()
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", o.BootstrapFile)
	require.Equal(t, worker.MetricsNone, o.Metrics)
}

func TestClearingNeedsADirectoryAndNoToken(t *testing.T) {
	t.Setenv("MILLPOND_CLEAR", "true") // no agent is to turn into this by a word in its environment
	require.False(t, parseAgent(t).Clear)
	require.ErrorContains(t, parseAgent(t, "--clear").Run(t.Context()), "--data-dir")
	missing := filepath.Join(t.TempDir(), "missing")
	require.NoError(t, parseAgent(t, "--clear", "--data-dir", missing).Run(t.Context()))
	_, err := os.Stat(missing)
	require.ErrorIs(t, err, os.ErrNotExist, "it was made")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, parseAgent(t, "--clear", "--data-dir", t.TempDir()).Run(ctx), "nothing is left there")
}
