package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
)

// outsideTemp moves the agent's directory out of the shared temporary directories.
func (c *control) outsideTemp(o Options) Options {
	dir, err := os.MkdirTemp("/var/lib", "millpond-test-")
	require.NoError(c.t, err)
	require.NoError(c.t, os.Chmod(dir, 0o711))
	c.t.Cleanup(func() { require.NoError(c.t, removeTree(dir)) })
	o.Dir = filepath.Join(dir, "agent")
	return o
}

func requireNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives tasks temporary directories of their own")
	}
	if places, err := privateDirs("/"); len(places) == 0 {
		t.Skip("this machine gives none: ", err)
	}
}

func TestAnAttemptHasItsTemporaryDirectoriesForItself(t *testing.T) {
	requireNamespaces(t)
	marks := map[string]string{}
	for _, place := range worldWritable {
		f, err := os.CreateTemp(place, "millpond-test-")
		require.NoError(t, err)
		require.NoError(t, f.Chmod(0o644))
		require.NoError(t, f.Close())
		t.Cleanup(func() { require.NoError(t, os.Remove(f.Name())) })
		marks[place] = f.Name()
	}
	left := fmt.Sprint("left-by-every-attempt-", os.Getpid())
	c := newControl(t)
	o := c.outsideTemp(c.options())
	c.agent(o)
	for i, id := range []string{"att_1", "att_2"} { // the second one reuses the first one's shim
		var script strings.Builder
		for _, place := range worldWritable {
			fmt.Fprintf(&script, "ls -A %s; echo mine > %s/mine-of-%s; cat %s/mine-of-%s\n", place, place, id, place, id)
			fmt.Fprintf(&script, "rm %s/mine-of-%s; echo mine > %s/%s || echo cannot write\n", place, id, place, left)
			if place == "/tmp" {
				fmt.Fprintf(&script, "cat $TMPDIR/%[1]s; rm $TMPDIR/%[1]s\n", left)
			}
		}
		c.start(agent.Attempt{ID: id, Command: script.String()})
		require.Zero(t, *c.exited(id).ExitCode, "attempt %d", i)
		require.Equal(t, "mine\nmine\nmine\nmine\n", string(c.record(id).head))
	}
	for place, mark := range marks {
		require.FileExists(t, mark, "hidden, not touched")
		require.NoFileExists(t, filepath.Join(place, left))
	}
	log, err := os.ReadFile(filepath.Join(o.Dir, "shim.log"))
	require.NoError(t, err)
	require.Empty(t, string(log))
}

// Tasks see mounts of the machine, and the shim stays in the machine's namespace.
func TestTheShimIsNotMovedWithItsTask(t *testing.T) {
	requireNamespaces(t)
	c := newControl(t)
	o := c.options()
	c.agent(o)
	c.start(agent.Attempt{ID: "att_1", Command: "readlink /proc/self/ns/mnt; exec sleep 1000"})
	c.contains("att_1", "mnt:")
	own, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	require.NotEqual(t, own, lines(c.record("att_1").head)[0])
	shimPid := shimOf(t, filepath.Join(o.Dir, "attempts", "att_1"))
	threads, err := os.ReadDir(proc.Path(shimPid, "task"))
	require.NoError(t, err)
	for _, thread := range threads {
		where, err := os.Readlink(filepath.Join(proc.Path(shimPid, "task"), thread.Name(), "ns/mnt"))
		require.NoError(t, err)
		require.Equal(t, own, where)
	}
	c.cancel("att_1")
	c.exited("att_1")
}

func TestAnAgentsDirectoryIsNeverHiddenFromItsTasks(t *testing.T) {
	requireNamespaces(t)
	dir, err := os.MkdirTemp("/tmp", "millpond-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	places, why := privateDirs(dir)
	require.ErrorContains(t, why, "lies in")
	tmp, err := filepath.EvalSymlinks("/tmp")
	require.NoError(t, err)
	require.False(t, slices.Contains(places, tmp))
	require.NotEmpty(t, places)
	link := filepath.Join("/var/lib", filepath.Base(dir))
	require.NoError(t, os.Symlink(dir, link))
	t.Cleanup(func() { require.NoError(t, os.Remove(link)) })
	behind, _ := privateDirs(link)
	require.Equal(t, places, behind)
}

// The data directories of these agents lie in /tmp, so their tasks share it.
func TestWhatATaskLeavesIsNotForAnotherAgentsTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives tasks users of their own")
	}
	shared, err := os.MkdirTemp("/tmp", "millpond-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(shared, 0o1777))
	t.Cleanup(func() { require.NoError(t, removeTree(shared)) })
	r := ownUsers(t, 10)
	run := func(id, command string) record {
		c := newControl(t)
		o := c.options()
		o.Users = r
		c.agent(o)
		c.start(agent.Attempt{ID: id, Command: command})
		c.exited(id)
		return c.record(id)
	}
	left := run("att_1", "umask 077; echo SECRET > "+shared+"/left-$(id -u)")
	require.Zero(t, *left.final().ExitCode)
	read := run("att_2", "cat "+shared+"/* 2>&1")
	require.NotZero(t, *read.final().ExitCode)
	require.NotContains(t, string(read.head), "SECRET")
}
