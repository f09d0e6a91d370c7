package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/install"
)

func parseEngine(t *testing.T, args ...string) (c commands) {
	parser, err := kong.New(&c, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.DefaultEnvars("MILLPOND"))
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return c
}

// The server finds what the command installs: both have one rule for where that is.
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
		e := parseEngine(t, append([]string{"engine", "install", "trino"}, flags...)...).Engine.Install
		dir, err := enginesDir(e.EnginesDir, e.DataDir)
		require.NoError(t, err)
		require.Equal(t, c.want, dir)
		s := parseEngine(t, append([]string{"serve"}, flags...)...).Serve
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
