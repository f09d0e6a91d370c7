package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

func TestTasksFindThisProgramLast(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: "command -v millpond; millpond connect 127.0.0.1:1 > /dev/null; echo $?"})
		program := filepath.Join(o.Dir, "bin", "millpond")
		require.Equal(t, 0, *c.exited("att_1").ExitCode)
		require.Equal(t, []string{program, "1"}, lines(c.record("att_1").head), "it runs, and finds nobody at that address")
		own := t.TempDir()
		require.NoError(t, os.Chmod(own, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(own, "millpond"), []byte("#!/bin/sh\necho own\n"), 0o755))
		require.NoError(t, os.Chmod(filepath.Dir(own), 0o755))
		c.start(agent.Attempt{ID: "att_2", Command: "millpond; echo $PATH", Env: map[string]string{"PATH": own + ":/usr/bin:/bin"}})
		require.Equal(t, 0, *c.exited("att_2").ExitCode)
		require.Equal(t, []string{"own", own + ":/usr/bin:/bin:" + filepath.Dir(program)}, lines(c.record("att_2").head))
	})
}

func TestTheProgramIsLaidOnceForEachBinary(t *testing.T) {
	const other = "/dev/shm" // another file system, so that there can be no link
	for name, from := range map[string]string{"a link": t.TempDir(), "a copy": other} {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp(from, "program-")
			if err != nil {
				t.Skip("no directory for the source: ", err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(base) })
			source, dir := filepath.Join(base, "source"), filepath.Join(t.TempDir(), "bin")
			laid := filepath.Join(dir, "millpond")
			lay := func(content string) os.FileInfo {
				if content != "" {
					require.NoError(t, os.RemoveAll(source))
					require.NoError(t, os.WriteFile(source, []byte(content), 0o700))
					require.NoError(t, os.Chmod(source, 0o755))
				}
				require.NoError(t, layProgram(source, dir))
				info, err := os.Stat(laid)
				require.NoError(t, err)
				return info
			}
			first := lay("one")
			require.True(t, os.SameFile(first, lay("")), "nothing to do")
			require.False(t, os.SameFile(first, lay("two")))
			got, err := os.ReadFile(laid)
			require.NoError(t, err)
			require.Equal(t, "two", string(got))
		})
	}
}

// A developer's program may be executable for its owner only. The agent must not change its mode.
func TestAProgramOfItsOwnerAloneIsCopied(t *testing.T) {
	source, dir := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.WriteFile(source, []byte("one"), 0o700))
	defer unix.Umask(unix.Umask(0o077))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "millpond.part"), []byte("half"), 0o600), "of an agent that was killed")
	for range 2 {
		require.NoError(t, layProgram(source, dir))
		for path, mode := range map[string]os.FileMode{source: 0o700, dir: 0o755 | os.ModeDir, filepath.Join(dir, "millpond"): 0o755} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode(), path)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(source, old, old))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "millpond"), []byte("two"), 0o755), "somebody's, of the same size")
	require.NoError(t, layProgram(source, dir))
	got, err := os.ReadFile(filepath.Join(dir, "millpond"))
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
}

// After an upgrade has removed its file, a program is reachable only through its process.
func TestAProgramIsLaidThoughItsFileIsGone(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o755))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(path))
	require.NoError(t, layProgram(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), dir))
	got, err := os.ReadFile(filepath.Join(dir, programName))
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
}
