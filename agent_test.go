package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// MILLPOND_TOKEN is what a task and a caller of the API have; an agent's token is another thing, and has another name.
func TestTheAgentsTokenHasANameOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("from-the-file\n"), 0o600))
	parse := func(args ...string) *agentCommand {
		var c commands
		parser, err := kong.New(&c, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.DefaultEnvars("MILLPOND"))
		require.NoError(t, err)
		_, err = parser.Parse(append([]string{"agent"}, args...))
		require.NoError(t, err)
		return &c.Agent
	}
	t.Setenv("MILLPOND_TOKEN", "an-api-key")
	_, err := parse().token()
	require.ErrorContains(t, err, "MILLPOND_AGENT_TOKEN")
	t.Setenv("MILLPOND_AGENT_TOKEN", "from-the-environment")
	token, err := parse().token()
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", token)
	token, err = parse("--token-file", file).token()
	require.NoError(t, err, "the agent beside a server is started with a file whatever is in the server's environment")
	require.Equal(t, "from-the-file", token)
	t.Setenv("MILLPOND_AGENT_TOKEN", "")
	t.Setenv("MILLPOND_AGENT_TOKEN_FILE", file)
	token, err = parse().token()
	require.NoError(t, err)
	require.Equal(t, "from-the-file", token)
}
