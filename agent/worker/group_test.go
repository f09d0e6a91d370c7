package worker

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// Groups of two workspaces.
const (
	thisGroup = agent.FirstGroup + 1
	thatGroup = agent.LastGroup
)

// ofGroup creates a directory like those of a workspace's tables: only root and the group have
// access.
func ofGroup(t *testing.T, group int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give tasks groups")
	}
	base, err := os.MkdirTemp("", "tables-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chmod(base, 0o711))
	dir := filepath.Join(base, "workspace")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, 0, group))
	require.NoError(t, os.Chmod(dir, 0o770|os.ModeSetgid))
	return dir
}

func (c *control) welcomes(group uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.group = group
}

func TestTasksHaveTheirWorkspacesGroupAndNoOther(t *testing.T) {
	own, other := ofGroup(t, thisGroup), ofGroup(t, thatGroup)
	c := newControl(t)
	c.welcomes(thisGroup)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: fmt.Sprintf("set -e; id -u; id -G; cd %[1]s; mkdir dir; echo x > dir/file; mv dir/file dir/moved; rm dir/moved; rmdir dir; echo kept > file; "+
		"! ls %[2]s; ! cat %[2]s/file; ! touch %[2]s/file", own, other)})
	require.Equal(t, 0, *c.exited("att_1").ExitCode, "%s", c.record("att_1").head)
	said := lines(c.record("att_1").head)
	require.Equal(t, fmt.Sprint(said[0], " ", thisGroup), said[1])
	// Another user, the same group.
	c.start(agent.Attempt{ID: "att_2", Command: "id -u; cat " + own + "/file"})
	require.Equal(t, 0, *c.exited("att_2").ExitCode, "%s", c.record("att_2").head)
	require.NotEqual(t, said[0], lines(c.record("att_2").head)[0])
}

// TestATaskKeepsItsGroupThroughAgents: whatever group the next agent gets.
func TestATaskKeepsItsGroupThroughAgents(t *testing.T) {
	own := ofGroup(t, thisGroup)
	c := newControl(t)
	c.welcomes(thisGroup)
	o := c.options()
	stop := c.agent(o)
	c.start(agent.Attempt{ID: "att_1", Command: "set -e; echo begun; while ls " + own + " > seen; ! grep go seen; do sleep 0.1; done; echo x > " + own + "/file; id -G"})
	c.contains("att_1", "begun")
	stop()
	c.cut()
	c.welcomes(0)
	c.agent(o)
	require.NoError(t, os.WriteFile(own+"/go", nil, 0o600))
	require.Equal(t, 0, *c.exited("att_1").ExitCode, "%s", c.record("att_1").head)
	require.Contains(t, string(c.record("att_1").head), fmt.Sprint(" ", thisGroup))
	require.FileExists(t, own+"/file")
	c.start(agent.Attempt{ID: "att_2", Command: "id -G"})
	require.Equal(t, 0, *c.exited("att_2").ExitCode)
	require.NotContains(t, string(c.record("att_2").head), " ", "a control plane that says none gives none")
}

// TestNoTaskGetsAGroupOfTheHost: whatever group the control plane sends, such as docker's or the
// group of /etc/shadow.
func TestNoTaskGetsAGroupOfTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tasks groups")
	}
	for _, group := range []uint32{1, 42, 999, 61184, agent.FirstGroup - 1, agent.LastGroup + 1, 1<<32 - 1} {
		groups, err := Groups(group)
		require.ErrorContains(t, err, "does not belong to a workspace")
		require.Empty(t, groups)
	}
	for _, group := range []uint32{agent.FirstGroup, agent.LastGroup} {
		groups, err := Groups(group)
		require.NoError(t, err)
		require.True(t, slices.Equal([]uint32{group}, groups))
	}
	c := newControl(t)
	c.welcomes(42)
	o, log := c.options(), &said{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	c.agent(o)
	c.start(agent.Attempt{ID: "att_1", Command: "id -G"})
	require.Equal(t, 0, *c.exited("att_1").ExitCode)
	require.NotContains(t, string(c.record("att_1").head), " ")
	require.Contains(t, log.String(), "tasks do not get the workspace's group")
}
