package worker

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// copyOf copies an agent's directory, as a person does who clones a server.
func copyOf(t *testing.T, o Options) Options {
	t.Helper()
	dir := o.Dir
	o.Dir += "-copy"
	require.NoError(t, exec.Command("cp", "-a", dir, o.Dir).Run())
	return o
}

func TestAnAgentOnACopyLeavesTheOriginalsTasksAlone(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003"})
		pids := c.pids("att_1", 3)

		other := newControl(t)
		copied := copyOf(t, o)
		log := &said{}
		copied.Server, copied.Log = other.web.URL, slog.New(slog.NewTextHandler(log, nil))
		other.agent(copied)
		require.Empty(t, other.last.Attempts, "it holds none of the original's")
		require.NotEqual(t, c.last.Instance, other.last.Instance)
		require.Contains(t, log.String(), copied.Dir+" is a copy of "+o.Dir)
		other.start(agent.Attempt{ID: "att_1", Command: "exec sleep 1004"})
		other.cancel("att_1")
		other.exited("att_1")
		requireNotGone(t, pids...)
	})
}

func TestClearOfACopyLeavesTheOriginalsTasksAlone(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003"})
		pids := c.pids("att_1", 3)
		copied := copyOf(t, o)
		require.NoError(t, Clear(t.Context(), copied))
		requireCleared(t, copied)
		requireNotGone(t, pids...)
	})
}

func requireNotGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.False(t, gone(pid), "process %d was ended", pid)
	}
}

// TestACopyReportsWhatHadEnded: copying a server to another disk loses no final status and no byte
// of a log.
func TestACopyReportsWhatHadEnded(t *testing.T) {
	c := newControl(t)
	c.failing.Store(1 << 30) // the agent is killed before it sends the log
	o := c.options()
	k := c.child(o)
	c.start(agent.Attempt{ID: "att_1", Command: "echo said; exit 3"})
	waitFor(t, func() bool { return fileExists(filepath.Join(o.Dir, "attempts", "att_1", shim.ExitFile)) })
	k.kill()
	c.cut()
	c.failing.Store(0)
	copied := copyOf(t, o)
	c.agent(copied)
	require.Equal(t, 3, *c.exited("att_1").ExitCode)
	require.Equal(t, "said\n", string(c.record("att_1").head))
}

// TestNothingOutlivesTheAgentsDirectory: neither the agent nor its shims and tasks do, even without
// a control plane.
func TestNothingOutlivesTheAgentsDirectory(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.lease = 10 * waitLimit
		k := c.child(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003"})
		pids := c.pids("att_1", 3)
		shimPid := shimOf(t, filepath.Join(o.Dir, "attempts", "att_1"))
		c.refuse.Store(503)
		c.cut()
		require.NoError(t, os.Rename(o.Dir, o.Dir+".aside"))
		require.NoError(t, os.Mkdir(o.Dir, 0o711))
		requireGone(t, append(pids, k.cmd.Process.Pid, shimPid)...)
		require.NoDirExists(t, filepath.Join(o.Dir, "attempts"), "a new directory in its place is left alone")
	})
}
