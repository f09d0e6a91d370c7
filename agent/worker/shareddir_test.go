package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// succeeds runs a command to its end, and returns its output lines.
func (c *control) succeeds(id, command string) []string {
	c.t.Helper()
	c.start(agent.Attempt{ID: id, Command: command})
	require.Zero(c.t, *c.exited(id).ExitCode, "%s", c.record(id).head)
	return lines(c.record(id).head)
}

func TestTasksShareADirectory(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.welcomes(thisGroup)
		c.agent(o)
		one := c.succeeds("att_1", `umask 077; id -u; cd "$MILLPOND_SHARED" && pwd && mkdir -p deep/er && echo one > deep/er/file`)
		two := c.succeeds("att_2", `id -u; cd "$MILLPOND_SHARED/deep/er" && cat file && echo two >> file && echo new > other && rm other`)
		three := c.succeeds("att_3", `umask 077; cat "$MILLPOND_SHARED/deep/er/file"; id -g`)
		require.Equal(t, []string{"one", "two"}, three[:2])
		require.Equal(t, o.OneUser, one[0] == two[0], "users are the attempts' own")
		require.Equal(t, filepath.Join(o.Dir, "shared", fmt.Sprint(thisGroup)), one[1])
		info, err := os.Stat(one[1])
		require.NoError(t, err)
		if o.OneUser {
			require.Equal(t, os.FileMode(0o700)|os.ModeDir, info.Mode())
			return
		}
		require.NotEqual(t, fmt.Sprint(thisGroup), three[2], "and primary groups")
		require.Equal(t, os.FileMode(0o770)|os.ModeDir|os.ModeSetgid, info.Mode())
	})
}

func TestTheSharedDirectoryIsTheWorkspaces(t *testing.T) {
	other := ofGroup(t, thatGroup)
	c := newControl(t)
	c.welcomes(thisGroup)
	o := c.options()
	stop := c.agent(o)
	path := c.succeeds("att_1", `echo secret > "$MILLPOND_SHARED/file"; echo "$MILLPOND_SHARED"`)[0]
	stop()
	c.cut()
	c.welcomes(thatGroup)
	c.agent(o)
	c.succeeds("att_2", fmt.Sprintf(`set -e; touch %s/mine; ! ls %[2]s; ! cat %[2]s/file; ! touch %[2]s/file; test -d "$MILLPOND_SHARED"; test -z "$(ls "$MILLPOND_SHARED")"`, other, path))
}

func TestWithoutAGroupTasksShareNothing(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	require.Equal(t, []string{"none"}, c.succeeds("att_1", `echo "${MILLPOND_SHARED-none}"`))
}

// TestASharedDirectoryThatIsFull: a full directory keeps tasks from starting until files are
// removed, which a task may do.
func TestASharedDirectoryThatIsFull(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		o.SharedLimit = 1 << 20
		c.welcomes(thisGroup)
		c.agent(o)
		c.succeeds("att_1", `head -c 2000000 /dev/zero > "$MILLPOND_SHARED/large"`)
		refused := func(id string) bool {
			a := agent.Attempt{ID: id, Command: "true"}
			c.want(a)
			return c.put(id, a) == 400
		}
		n := 1
		waitFor(t, func() bool { n++; return refused(fmt.Sprint("att_full_", n)) })
		c.start(agent.Attempt{ID: "att_clean", Command: `rm "$MILLPOND_SHARED/large"`, Env: map[string]string{"CLEAN_MILLPOND_SHARED": "true"}})
		require.Zero(t, *c.exited("att_clean").ExitCode)
		c.succeeds("att_2", "true")
	})
}
