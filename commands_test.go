package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/worker"
)

func parse(t *testing.T, args ...string) (c commands) {
	t.Helper()
	parser, err := kong.New(&c, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.DefaultEnvars("MILLPOND"))
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return c
}

func parseAgent(t *testing.T, args ...string) *agentCommand {
	t.Helper()
	c := parse(t, append([]string{"agent"}, args...)...)
	return &c.Agent
}

// TestTheAgentsTokenHasANameOfItsOwn: MILLPOND_TOKEN belongs to tasks and callers of the API; an
// agent's token has another variable.
func TestTheAgentsTokenHasANameOfItsOwn(t *testing.T) {
	t.Setenv("MILLPOND_TOKEN", "an-api-key")
	_, err := parseAgent(t).options()
	require.ErrorContains(t, err, "MILLPOND_AGENT_TOKEN")
	t.Setenv("MILLPOND_AGENT_TOKEN", "from-the-environment")
	o, err := parseAgent(t).options()
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", o.Token)
	o, err = parseAgent(t, "--token-file", "/somewhere/token").options()
	require.NoError(t, err, "the agent beside a server starts with a token file, whatever the server's environment holds")
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
	t.Setenv("MILLPOND_METRICS", "host") // it could belong to the server
	o, err = parseAgent(t, "--token-file", "token").options()
	require.NoError(t, err)
	require.Equal(t, "from-the-environment", o.BootstrapFile)
	require.Equal(t, worker.MetricsNone, o.Metrics)
}

func TestClearingNeedsADirectoryAndNoToken(t *testing.T) {
	t.Setenv("MILLPOND_CLEAR", "true") // the environment must not set --clear
	require.False(t, parseAgent(t).Clear)
	require.ErrorContains(t, parseAgent(t, "--clear").Run(t.Context()), "--data-dir")
	missing := filepath.Join(t.TempDir(), "missing")
	require.NoError(t, parseAgent(t, "--clear", "--data-dir", missing).Run(t.Context()))
	_, err := os.Stat(missing)
	require.ErrorIs(t, err, os.ErrNotExist, "it was made")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, parseAgent(t, "--clear", "--data-dir", t.TempDir()).Run(ctx), "the directory is empty")
}

// TestEnginesLieInTheDataDirectoryOrWhereItIsSaid: the server and the command resolve the same
// directory.
func TestEnginesLieInTheDataDirectoryOrWhereItIsSaid(t *testing.T) {
	t.Setenv("MILLPOND_ENGINES_DIR", "")
	t.Setenv("MILLPOND_DATA_DIR", "")
	standard, err := dataDir("millpond")
	require.NoError(t, err)
	given := t.TempDir()
	for _, c := range []struct {
		env, flag, want string
	}{
		{want: filepath.Join(standard, "engines")},
		{flag: "--data-dir=" + given, want: filepath.Join(given, "engines")},
		{env: "/srv/engines", flag: "--data-dir=" + given, want: "/srv/engines"},
		{env: "/srv/engines", flag: "--engines-dir=" + given, want: given},
	} {
		t.Setenv("MILLPOND_ENGINES_DIR", c.env)
		var flags []string
		if c.flag != "" {
			flags = append(flags, c.flag)
		}
		e := parse(t, append([]string{"engine", "install", "trino"}, flags...)...).Engine.Install
		dir, err := enginesDir(e.EnginesDir, e.DataDir)
		require.NoError(t, err)
		require.Equal(t, c.want, dir)
		s := parse(t, append([]string{"serve"}, flags...)...).Serve
		require.NoError(t, s.complete())
		require.Equal(t, c.want, s.EnginesDir)
	}
}

func TestEnginesForATerminal(t *testing.T) {
	duckdb := install.Installed{Engine: "duckdb", Version: "v1.5.5"}
	var out bytes.Buffer
	_, missing := install.FindTrino("/srv/engines")
	require.NoError(t, printEngines(&out, []install.Installed{duckdb}, missing))
	require.Equal(t, "ENGINE  VERSION  WHERE     JAVA  SIZE\nduckdb  v1.5.5   built in  -     -\n\n"+
		"Trino 476 is not installed in /srv/engines; run `millpond engine install trino --engines-dir /srv/engines`.\n", out.String())
	out.Reset()
	trino := install.Installed{Engine: "trino", Version: "476", Dir: "/srv/engines/trino-476", Java: "/opt/java", JavaVersion: "25.0.2", Bytes: 624_999_999}
	require.NoError(t, printEngines(&out, []install.Installed{duckdb, trino}, nil))
	require.Equal(t, "ENGINE  VERSION  WHERE                   JAVA                 SIZE\n"+
		"duckdb  v1.5.5   built in                -                    -\n"+
		"trino   476      /srv/engines/trino-476  25.0.2 at /opt/java  624 MB\n", out.String())
}

func TestTheNamesOfColumnsAreLeftOutOfFurtherChunks(t *testing.T) {
	var out bytes.Buffer
	_, err := io.Copy(lineFrom(&out, true), iotest.OneByteReader(bytes.NewReader([]byte("\"a\n\"\"b\",c\n1,2\n\"x\ny\",3\n"))))
	require.NoError(t, err)
	require.Equal(t, "1,2\n\"x\ny\",3\n", out.String())
}

func TestJSONIsOneDocument(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/api/v1/sql/statements/stm_1/chunks/%d", &n)
		next := fmt.Sprintf(`,"next_chunk":%d`, n+1)
		if n == 2 {
			next = ""
		}
		_, _ = fmt.Fprintf(w, `{"statement_id":"stm_1","columns":["a"],"rows":[[%d],["x"]],"truncated":true%s}`, n, next)
	}))
	defer server.Close()
	c := &sqlCommand{URL: server.URL}
	res, err := http.Get(server.URL + "/api/v1/sql/execute")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, c.printJSON(t.Context(), &out, res))
	var got struct {
		Columns []string
		Rows    [][]any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got), out.String())
	require.Equal(t, [][]any{{0.0}, {"x"}, {1.0}, {"x"}, {2.0}, {"x"}}, got.Rows)
	require.Equal(t, []string{"a"}, got.Columns)
}

func TestAResultForATerminal(t *testing.T) {
	for answer, want := range map[string]string{
		`{"columns":["n","text"],"rows":[[1,"a\tb\n\u001b[2J"],[null,"null"]]}`: "n     text\n1     a b  [2J\nnull  null\n",
		`{"columns":["n"],"rows":[],"truncated":true}`:                          "n\n… there are more rows; --format csv prints them all\n",
		`{"columns":[],"rows":[],"rows_affected":2}`:                            "Rows changed: 2\n",
		`{"columns":[],"rows":[]}`:                                              "Done.\n",
	} {
		var out bytes.Buffer
		require.NoError(t, printTable(&out, strings.NewReader(answer)))
		require.Equal(t, want, out.String())
	}
}

// TestADataDirectoryIsNoModule: serve refuses the directory of a Go module, and writes nothing
// there.
func TestADataDirectoryIsNoModule(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, "go.mod")
	require.NoError(t, os.WriteFile(module, []byte("module example.com/m\n"), 0o600))
	c := parse(t, "serve", "--data-dir", dir).Serve
	stopped, stop := context.WithCancel(t.Context()) // if it is not refused, it must end
	stop()
	require.EqualError(t, c.Run(stopped), dir+" is the directory of a Go module; choose another data directory with --data-dir")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, os.Remove(module))
	require.NoError(t, c.complete())
}
