package agent_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

func find(t *testing.T, path string) (d, was agent.Directory) {
	t.Helper()
	d, was, err := agent.FindDirectory(path, "")
	require.NoError(t, err)
	require.NoError(t, d.Keep(was))
	return d, was
}

func TestADirectoryKeepsItsIDWhenItIsMovedAndACopyGetsItsOwn(t *testing.T) {
	base := t.TempDir()
	here, there, copied := filepath.Join(base, "here"), filepath.Join(base, "there"), filepath.Join(base, "copied")
	require.NoError(t, os.Mkdir(here, 0o700))
	first, was := find(t, here)
	require.Zero(t, was)
	require.Empty(t, first.News(was))
	again, was := find(t, here)
	require.Equal(t, first, again)
	require.Empty(t, again.News(was))

	require.NoError(t, exec.Command("cp", "-a", here, copied).Run())
	other, was := find(t, copied)
	require.NotEqual(t, first.ID, other.ID)
	require.True(t, other.Copied(was))
	require.Contains(t, other.News(was), "is a copy of "+here)
	again, was = find(t, copied)
	require.Equal(t, other, again)
	require.Empty(t, again.News(was))

	require.NoError(t, os.Rename(here, there))
	moved, was := find(t, there)
	require.Equal(t, first.ID, moved.ID)
	require.False(t, moved.Copied(was))
	require.Contains(t, moved.News(was), "was moved here from "+here)
}

func TestADirectoryKeepsItsIDWhenItsDeviceHasAnotherNumber(t *testing.T) {
	base := t.TempDir()
	dir, original := filepath.Join(base, "dir"), filepath.Join(base, "original")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Mkdir(original, 0o700))
	first, was := find(t, dir)
	before := first
	before.Device++
	require.NoError(t, before.Keep(was))
	now, _ := find(t, dir)
	require.Equal(t, first, now, "it was attached again")
	before.Path = original
	require.NoError(t, before.Keep(was)) // the original has it
	b, err := json.Marshal(before)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "directory.json"), b, 0o600))
	now, _, err = agent.FindDirectory(dir, "")
	require.NoError(t, err)
	require.NotEqual(t, first.ID, now.ID, "it is a copy")
	require.NoError(t, os.RemoveAll(original))
	now, _ = find(t, dir)
	require.Equal(t, first, now, "it was attached elsewhere")
}

func TestADirectoryTakesTheIDThatAnEarlierVersionGave(t *testing.T) {
	d, _, err := agent.FindDirectory(t.TempDir(), "given")
	require.NoError(t, err)
	require.Equal(t, "given", d.ID)
}

func TestADirectoryIsGone(t *testing.T) {
	base := t.TempDir()
	for name, end := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".aside") },
		"replaced by its copy": func(dir string) error {
			return exec.Command("sh", "-c", `cp -a "$0" "$0.copy" && mv "$0" "$0.aside" && mv "$0.copy" "$0"`, dir).Run()
		},
		"recreated":      func(dir string) error { return exec.Command("sh", "-c", `rm -r "$0" && mkdir "$0"`, dir).Run() },
		"without its id": func(dir string) error { return os.Remove(filepath.Join(dir, "directory.json")) },
	} {
		dir := filepath.Join(base, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		d, _ := find(t, dir)
		require.False(t, d.Gone(), name)
		require.NoError(t, end(dir), name)
		require.True(t, d.Gone(), name)
	}
}
