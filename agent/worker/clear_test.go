package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
	"github.com/millpond/millpond/agent/worker/shim"
)

// stubborn starts processes that ignore SIGTERM, that left their session and, if allowed, their
// control group, and that fork new ones. It prints five pids.
const stubborn = `trap "" TERM HUP INT
` + detached + `(setsid env -i sh -c '{ echo $$ >/sys/fs/cgroup/unified/cgroup.procs || echo $$ >/sys/fs/cgroup/cgroup.procs; } 2>/dev/null; echo $$; exec sleep 1000' </dev/null &)
(setsid sh -c 'trap "" TERM HUP INT; echo $$; i=0; while [ $i -lt 500 ]; do i=$((i+1)); setsid sleep 100 & sleep 0.02; done; exec sleep 1000' </dev/null &)
`

// requireCleared requires that an agent's directory has only the files that a new agent needs.
func requireCleared(t *testing.T, o Options, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.True(t, gone(pid), "process %d still runs", pid)
	}
	require.Empty(t, shimsIn(o.Dir))
	for _, dir := range []string{"attempts", "trash"} {
		entries, err := os.ReadDir(filepath.Join(o.Dir, dir))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	for _, p := range proc.All() {
		target, _ := os.Readlink(proc.Path(p.Pid, "cwd"))
		require.False(t, !p.Zombie && strings.HasPrefix(target, o.Dir+"/"), "process %d still works in %s", p.Pid, target)
	}
}

func clearID(n int) string { return fmt.Sprintf("att_clear_%d_%d", os.Getpid(), n) }

func TestClearEndsWhatAKilledAgentHasLeft(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		k := c.child(o)
		var pids []int
		for n := range 3 {
			c.start(agent.Attempt{ID: clearID(n), Command: stubborn + "mkdir -m 0 closed; exec sleep 1003", GraceSeconds: 1000})
			pids = append(pids, c.pids(clearID(n), 5)...)
		}
		c.start(agent.Attempt{ID: clearID(3), Command: "true"})
		c.exited(clearID(3))
		k.kill()
		log := &said{}
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		require.NoError(t, Clear(t.Context(), o))
		requireCleared(t, o, pids...)
		require.Contains(t, log.String(), "nothing runs in the agent's directory any more")
		require.NoError(t, Clear(t.Context(), o), "it is safe to repeat")

		c.mu.Lock()
		clear(c.attempts)
		c.mu.Unlock()
		c.cut()
		c.agent(o)
		require.Empty(t, c.last.Attempts)
		c.start(agent.Attempt{ID: clearID(4), Command: "echo again"})
		c.exited(clearID(4))
	})
}

func TestClearEndsWhatAKilledShimHasLeft(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		if o.OneUser && findCgroup() == "" {
			t.Skip("without users or control groups, a process that has left everything behind is not found")
		}
		k := c.child(o)
		c.start(agent.Attempt{ID: clearID(0), Command: detached + "exec sleep 1003"})
		pids := c.pids(clearID(0), 3)
		shimPid := shimOf(t, filepath.Join(o.Dir, "attempts", clearID(0)))
		require.NoError(t, syscall.Kill(k.cmd.Process.Pid, syscall.SIGSTOP))
		require.NoError(t, syscall.Kill(shimPid, syscall.SIGKILL))
		k.kill()
		require.NoError(t, Clear(t.Context(), o))
		requireCleared(t, o, pids...)
	})
}

func TestClearEndsShimsThatDoNotListen(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		k := c.child(o)
		c.start(agent.Attempt{ID: clearID(0), Command: stubborn + "exec sleep 1003"})
		pids := c.pids(clearID(0), 5)
		waitFor(t, func() bool { return len(shimsIn(o.Dir)) > 2 })
		for _, pid := range shimsIn(o.Dir) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			pids = append(pids, pid)
		}
		k.kill()
		require.NoError(t, Clear(t.Context(), o))
		requireCleared(t, o, pids...)
	})
}

// TestClearEndsAnAttemptThatIsStarting: its shim has not read the order yet, and would start it
// later.
func TestClearEndsAnAttemptThatIsStarting(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		k := c.child(o)
		c.session()
		waitFor(t, func() bool { return len(shimsIn(o.Dir)) == 4 })
		shims := shimsIn(o.Dir)
		for _, pid := range shims {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
		c.want(agent.Attempt{ID: clearID(0), Command: "sleep 1004"})
		require.Equal(t, http.StatusNoContent, c.put(clearID(0), c.record(clearID(0)).spec))
		dir := filepath.Join(o.Dir, "attempts", clearID(0))
		require.FileExists(t, filepath.Join(dir, shim.SpecFile))
		require.NoFileExists(t, filepath.Join(dir, shim.StartedFile))
		k.kill()
		require.NoError(t, Clear(t.Context(), o))
		requireCleared(t, o, shims...)
	})
}

func TestClearLeavesALivingAgentAlone(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	c.start(agent.Attempt{ID: clearID(0), Command: "echo $$; exec sleep 1000"})
	pid := c.pids(clearID(0), 1)[0]
	require.ErrorContains(t, Clear(t.Context(), o), fmt.Sprintf("another agent (process %d) works in %s: stop it before", os.Getpid(), o.Dir))
	require.False(t, gone(pid))
	c.cancel(clearID(0))
	require.Equal(t, agent.ReasonCancelled, c.exited(clearID(0)).Reason)
}

func TestClearEndsWithItsContextAndGoesOnLater(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		k := c.child(o)
		c.start(agent.Attempt{ID: clearID(0), Command: stubborn + "exec sleep 1003"})
		pids := c.pids(clearID(0), 5)
		k.kill()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := Clear(ctx, o)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, o.Dir)
		for _, pid := range shimsIn(o.Dir) {
			waitFor(t, func() bool { return gone(pid) || !stopped(pid) }) // so that an agent can adopt it
		}
		require.NoError(t, Clear(t.Context(), o))
		requireCleared(t, o, pids...)
	})
}

func TestClearDeletesWhatIsNoAttempt(t *testing.T) {
	c := newControl(t)
	o := c.options()
	require.NoError(t, Clear(t.Context(), o))
	require.NoDirExists(t, o.Dir)
	require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, "attempts", "half", shim.WorkDir), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, "attempts", "broken"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "attempts", "broken", shim.SpecFile), []byte("{"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(o.Dir, "trash", "old"), 0o755))
	require.NoError(t, Clear(t.Context(), o))
	requireCleared(t, o)
	require.ErrorContains(t, Clear(t.Context(), Options{}), "data directory")
}
