package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
)

// bothUsers runs a test twice: tasks run as their own users, and as the agent's user.
func bothUsers(t *testing.T, test func(t *testing.T, c *control, o Options)) {
	for _, oneUser := range []bool{false, true} {
		t.Run(fmt.Sprintf("one user %t", oneUser), func(t *testing.T) {
			if !oneUser && os.Geteuid() != 0 {
				t.Skip("only root can give tasks users of their own")
			}
			c := newControl(t)
			o := c.options()
			o.OneUser = oneUser
			test(t, c, o)
		})
	}
}

// pids reads the pids that a script printed, one a line.
func (c *control) pids(id string, n int) []int {
	c.t.Helper()
	c.until(fmt.Sprintf("%d lines of %s", n, id), waitLimit, func() bool {
		return strings.Count(string(c.attempts[id].head), "\n") >= n
	})
	var pids []int
	for _, line := range lines(c.record(id).head)[:n] {
		pid, err := strconv.Atoi(line)
		require.NoError(c.t, err)
		pids = append(pids, pid)
	}
	return pids
}

func gone(pid int) bool {
	p, ok := proc.Read(pid)
	return !ok || p.Zombie
}

// requireGone requires that processes have ended, or are in the kernel's exit.
func requireGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return gone(pid) }, time.Minute, time.Millisecond, "process %d still runs", pid)
	}
}

// detached starts processes that left the process group, the session and their parent, and prints
// their ids.
const detached = `setsid sh -c 'echo $$; exec sleep 1000' </dev/null &
(setsid sh -c 'env -i sh -c "echo \$\$; exec sleep 1001" & exit' &)
(trap "" TERM HUP; sh -c 'echo $$; exec sleep 1002' >/dev/stdout 2>/dev/null &)
`

func TestCancelReachesEveryDescendant(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003", GraceSeconds: 1})
		pids := c.pids("att_1", 3)
		c.cancel("att_1")
		s := c.exited("att_1")
		require.Equal(t, agent.ReasonCancelled, s.Reason)
		require.Equal(t, "SIGTERM", s.Signal)
		requireGone(t, pids...)
	})
}

func TestDescendantsDieWithTheProcess(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		begun := time.Now()
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 0.5; exit 5"})
		s := c.exited("att_1")
		require.Equal(t, 5, *s.ExitCode)
		require.Empty(t, s.Reason)
		requireGone(t, c.pids("att_1", 3)...)
		require.Less(t, time.Since(begun), 20*time.Second, "a child that holds the pipe has held up the end")
	})
}

func TestDescendantsDieWithTheShim(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		if o.OneUser && findCgroup() == "" {
			t.Skip("without users or control groups, a process that has left everything behind is not found")
		}
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003"})
		pids := c.pids("att_1", 3)
		killShim(t, filepath.Join(o.Dir, "attempts", "att_1"))
		require.Equal(t, agent.ReasonSupervisor, c.exited("att_1").Reason)
		requireGone(t, pids...)
	})
}

func TestControlGroupsAreFoundAndRemoved(t *testing.T) {
	mounts := "35 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	require.Equal(t, "/sys/fs/cgroup/unified/user/app", cgroupDir("3:cpu:/x\n0::/user/app\n", mounts))
	require.Equal(t, "/sys/fs/cgroup/unified", cgroupDir("0::/\n", mounts))
	require.Equal(t, "/sys/fs/cgroup", cgroupDir("0::/docker/1\n", "1 2 0:1 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n"))
	require.Empty(t, cgroupDir("3:cpu:/x\n", mounts))
	require.Empty(t, cgroupDir("0::/\n", "1 2 0:1 / /sys rw - sysfs sysfs rw\n"))
	base := findCgroup()
	if base == "" {
		t.Skip("this machine lets us make no control groups")
	}
	c := newControl(t)
	o := c.options()
	o.OneUser = true
	c.agent(o)
	c.start(agent.Attempt{ID: "att_cgroup", Command: "cat /proc/self/cgroup"})
	c.exited("att_cgroup")
	group := cgroupOf(base, o.Dir, "att_cgroup")
	require.Contains(t, string(c.record("att_cgroup").head), filepath.Base(group))
	waitFor(t, func() bool { return !fileExists(group) })
}

func TestTasksStandBack(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: `until [ "$(nice)" = 10 ]; do sleep 0.01; done
			until group=$(cat /proc/self/autogroup 2>/dev/null); case "$group" in ""|*"nice 10") true;; *) false;; esac; do sleep 0.01; done; echo "$group"`})
		require.Zero(t, *c.exited("att_1").ExitCode)
		if group := c.record("att_1").head; len(group) > 0 { // the kernel schedules by session
			require.Regexp(t, "nice 10$", strings.TrimSpace(string(group)))
		}
	})
}

func TestGrace(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: `trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done`, GraceSeconds: 60})
	c.start(agent.Attempt{ID: "att_2", Command: `trap '' TERM; echo ready; while :; do sleep 0.05; done`, GraceSeconds: 1})
	c.start(agent.Attempt{ID: "att_3", Command: `trap '' TERM; echo ready; while :; do sleep 0.05; done`})
	for _, id := range []string{"att_1", "att_2", "att_3"} {
		c.contains(id, "ready")
		c.cancel(id)
		c.cancel(id)
	}
	one, two, three := c.exited("att_1"), c.exited("att_2"), c.exited("att_3")
	require.Equal(t, 4, *one.ExitCode)
	require.True(t, strings.HasSuffix(string(c.record("att_1").head), "bye\n"))
	require.Equal(t, "SIGKILL", two.Signal)
	require.GreaterOrEqual(t, two.FinishedAt.Sub(*two.StartedAt), time.Second)
	require.Equal(t, "SIGKILL", three.Signal)
	for _, s := range []agent.Status{one, two, three} {
		require.Equal(t, agent.ReasonCancelled, s.Reason)
	}
}

func TestTimeout(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: `trap '' TERM; while :; do sleep 0.05; done`, TimeoutSeconds: 1, GraceSeconds: 1})
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonTimeout, s.Reason)
	require.Equal(t, "SIGKILL", s.Signal)
	took := s.FinishedAt.Sub(*s.StartedAt)
	require.GreaterOrEqual(t, took, 2*time.Second)
	require.Less(t, took, 6*time.Second)
}

func TestAStoppedProcessIsCancelled(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: `echo $$; kill -STOP $$`, GraceSeconds: 100})
	c.pids("att_1", 1)
	c.cancel("att_1")
	require.Equal(t, "SIGTERM", c.exited("att_1").Signal)
}

func TestTheLeaseKillsInTime(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.lease, c.beat = 4*time.Second, 200*time.Millisecond
		o.Shim = []string{testBinary(t), "shim"}
		k := c.child(o)
		c.start(agent.Attempt{ID: "att_1", Command: detached + "sleep 1003"})
		c.start(agent.Attempt{ID: "att_2", Command: "sleep 1004"})
		pids := c.pids("att_1", 3)
		// While heartbeats are answered, processes live on beyond the first lease.
		until := time.Now().Add(c.lease)
		waitFor(t, func() bool { return time.Now().After(until) })
		for _, pid := range pids {
			require.False(t, gone(pid))
		}
		c.silent.Store(true)
		c.refuse.Store(503)
		begun := time.Now()
		c.cut()
		waitFor(t, func() bool { return gone(pids[0]) && gone(pids[1]) && gone(pids[2]) })
		require.Less(t, time.Since(begun), c.lease)
		// The agent reconnects and reports.
		k.kill()
		c.silent.Store(false)
		c.refuse.Store(0)
		c.child(o)
		for _, id := range []string{"att_1", "att_2"} {
			s := c.exited(id)
			require.Equal(t, agent.ReasonLease, s.Reason)
			require.Equal(t, "SIGKILL", s.Signal)
		}
	})
}

func TestTheLeaseKillsWithoutAnAgent(t *testing.T) {
	c := newControl(t)
	c.lease, c.beat = 3*time.Second, 200*time.Millisecond
	o := c.options()
	k := c.child(o)
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; exec sleep 1000"})
	pid := c.pids("att_1", 1)[0]
	begun := time.Now()
	k.kill()
	waitFor(t, func() bool { return gone(pid) })
	require.Less(t, time.Since(begun), c.lease)
	require.Greater(t, time.Since(begun), c.lease/3)
	c.child(o)
	require.Equal(t, agent.ReasonLease, c.exited("att_1").Reason)
}

func TestAnEndWithoutAnAgentIsTold(t *testing.T) {
	c := newControl(t)
	o := c.options()
	k := c.child(o)
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; sleep 1; echo end; exit 9"})
	pid := c.pids("att_1", 1)[0]
	k.kill()
	waitFor(t, func() bool { return gone(pid) })
	c.child(o)
	s := c.exited("att_1")
	require.Equal(t, 9, *s.ExitCode)
	require.Contains(t, string(c.record("att_1").head), "end\n")
}

func TestAnAgentThatStopsLeavesItsAttemptsRunning(t *testing.T) {
	c := newControl(t)
	o := c.options()
	stop := c.agent(o)
	e := emission{seed: 5, total: 4 << 20, most: 5000, pause: time.Millisecond}
	c.start(agent.Attempt{ID: "att_1", Command: e.command(t)})
	c.reached("att_1", 100_000)
	stop()
	c.cut()
	c.agent(o)
	sameBytes(t, c, "att_1", e)
}

func TestKillingAgentAndShimTogether(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		k := c.child(o)
		c.start(agent.Attempt{ID: "att_1", Command: "echo $$; (setsid sleep 1001 &) ; exec sleep 1000"})
		pid := c.pids("att_1", 1)[0]
		shimPid := shimOf(t, filepath.Join(o.Dir, "attempts", "att_1"))
		require.NoError(t, syscall.Kill(k.cmd.Process.Pid, syscall.SIGSTOP))
		require.NoError(t, syscall.Kill(shimPid, syscall.SIGKILL))
		k.kill()
		c.child(o)
		require.Equal(t, agent.ReasonSupervisor, c.exited("att_1").Reason)
		requireGone(t, pid)
		require.Empty(t, strays("att_1", "", 0))
	})
}

func TestAShimThatDiesIdleCostsNothing(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	for i := range 6 {
		waitFor(t, func() bool { return len(idleShims()) > 0 }) // the pool is filled when one is taken, and may then count dying shims
		for _, pid := range idleShims() {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		id := fmt.Sprint("att_", i)
		c.start(agent.Attempt{ID: id, Command: "exit 6"})
		require.Equal(t, 6, *c.exited(id).ExitCode)
	}
}

// idleShims lists this process's shims without a child.
func idleShims() []int {
	var found []int
	for _, pid := range proc.Descendants(os.Getpid()) {
		if isShim(pid) && len(proc.Descendants(pid)) == 0 {
			found = append(found, pid)
		}
	}
	return found
}

func TestAShimAskedToEndEndsItsProcess(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	c.start(agent.Attempt{ID: "att_1", Command: "trap 'echo bye; exit 2' TERM; echo ready; while :; do sleep 0.05; done", GraceSeconds: 60})
	c.contains("att_1", "ready")
	require.NoError(t, syscall.Kill(shimOf(t, filepath.Join(o.Dir, "attempts", "att_1")), syscall.SIGTERM))
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonSupervisor, s.Reason)
	require.Equal(t, 2, *s.ExitCode)
	require.Contains(t, string(c.record("att_1").head), "bye")
}

func TestASignalsNameIsTold(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "kill -SEGV $$"})
	s := c.exited("att_1")
	require.Equal(t, "SIGSEGV", s.Signal)
	require.Nil(t, s.ExitCode)
	require.Empty(t, s.Reason)
}

func TestIdleShimsGoWithTheirAgent(t *testing.T) {
	c := newControl(t)
	o := c.options()
	k := c.child(o)
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; exec sleep 1000"})
	pid := c.pids("att_1", 1)[0]
	waitFor(t, func() bool { return len(shimsIn(o.Dir)) > 1 })
	k.kill()
	waitFor(t, func() bool { return len(shimsIn(o.Dir)) == 1 })
	require.False(t, gone(pid))
	c.cut()
	c.child(o)
	c.cancel("att_1")
	c.exited("att_1")
	require.True(t, gone(pid))
}

// shimsIn lists the shims of agents on a directory.
func shimsIn(dir string) []int {
	var found []int
	for _, p := range proc.All() {
		target, err := os.Readlink(proc.Path(p.Pid, "fd/2"))
		if err == nil && target == filepath.Join(dir, "shim.log") && isShim(p.Pid) {
			found = append(found, p.Pid)
		}
	}
	return found
}

func TestAShimThatCannotRunIsNamed(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.Shim = []string{"/bin/sh", "-c", "head -c 1 <&3"} // reads one byte of an order, and ends
	c.agent(o)
	c.start(agent.Attempt{ID: "att_1", Command: "true"})
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonStart, s.Reason)
	require.Contains(t, s.Message, "shim")
}

func TestAShimWithoutItsDirectoryEnds(t *testing.T) {
	c := newControl(t)
	c.lease, c.beat = 2*time.Second, 100*time.Millisecond
	o := c.options()
	k := c.child(o)
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; exec sleep 1000"})
	pid := c.pids("att_1", 1)[0]
	k.kill()
	require.NoError(t, removeTree(filepath.Join(o.Dir, "attempts")))
	waitFor(t, func() bool { return gone(pid) && len(shimsIn(o.Dir)) == 0 })
}
