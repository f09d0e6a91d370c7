package fault_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestStop: SIGTERM ends the server, its agent and its PostgreSQL. Tasks run on until the lease
// ends, for a server that returns in time. Then nothing is left.
func TestStop(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--lease", lease.String()}})
	w := steady(p, "left")
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	a := p.AwaitAttempt(run, 1, "running")
	agent, postmaster := p.AgentPID(), p.Postmaster()
	require.Positive(t, agent)
	require.Positive(t, postmaster)
	shims := childrenOf(agent)
	require.NotEmpty(t, shims)
	_, shim := harness.ProcessesOf(a.ID)
	require.Contains(t, shims, shim)

	asked := time.Now()
	p.Servers[0].Signal(syscall.SIGTERM)
	require.Zero(t, p.Servers[0].Cmd.ProcessState.ExitCode(), p.Servers[0].Out.String())
	require.Less(t, time.Since(asked), 20*time.Second)
	require.False(t, alive(agent), "the agent still runs")
	require.False(t, alive(postmaster), "PostgreSQL is left")
	require.NoFileExists(t, filepath.Join(p.Dir, "postgres", "postmaster.pid"), "PostgreSQL had to be killed")
	harness.Await(t, "the lease's end leaves nothing", func() bool {
		left := false
		for _, pid := range shims {
			left = left || alive(pid)
		}
		return !left && len(p.Processes()) == 0
	})
	require.Less(t, time.Since(asked), 25*time.Second+lease)

	p.Servers[0].Start()
	attempts := p.RequireTrueEnd(run, "failed")
	require.Equal(t, "lost", attempts[0].Status)
	require.GreaterOrEqual(t, p.ReadLog(run, 1, harness.NewCheck("", w.Name)).N, w.Written(1))
}

// TestUpgrade: a server restart within the lease does not affect tasks.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	w := steady(p, "kept")
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	a := p.AwaitAttempt(run, 1, "running")
	reader := p.Follow(run, 1, harness.NewCheck("", w.Name))
	reader.AwaitRead(t, 20<<10)
	pids, _ := harness.ProcessesOf(a.ID)
	p.Servers[0].Signal(syscall.SIGTERM)
	p.Servers[0].Start()
	reader.AwaitRead(t, reader.BytesRead.Load()+100<<10)
	now, _ := harness.ProcessesOf(a.ID)
	require.Equal(t, pids, now)
	w.Release(t)
	require.Len(t, p.RequireTrueEnd(run, "success"), 1)
	require.Equal(t, w.Events(t, "end")[0].SHA256, reader.End(t).SHA256())
}

// TestAgentIsAdopted: after a kill, the next server adopts the running agent and PostgreSQL.
func TestAgentIsAdopted(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	w := steady(p, "adopted")
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	a := p.AwaitAttempt(run, 1, "running")
	pids, _ := harness.ProcessesOf(a.ID)
	agent, postmaster := p.AgentPID(), p.Postmaster()
	p.Servers[0].Restart()
	p.AwaitAgent("connected")
	w.Release(t)
	require.Len(t, p.RequireTrueEnd(run, "success"), 1)
	require.Equal(t, agent, p.AgentPID())
	require.Equal(t, postmaster, p.Postmaster())
	require.Len(t, w.Events(t, "start"), 1)
	require.NotEmpty(t, pids)
}

// TestSecondServerIsRefused: a data directory has one server.
func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true})
	second := harness.NewServer(t, p.Dir, "--no-local-agent")
	second.Launch()
	harness.Await(t, "the second server ends", second.Over)
	require.Equal(t, 1, second.Cmd.ProcessState.ExitCode())
	require.Contains(t, second.Out.String(), p.Dir)
	require.Contains(t, second.Out.String(), "another")
	require.True(t, p.Servers[0].Ready(), "the first server still serves")
}

func alive(pid int) bool {
	for _, pr := range harness.AllProcesses() {
		if pr.PID == pid {
			return true
		}
	}
	return false
}

func childrenOf(pid int) (children []int) {
	for _, pr := range harness.AllProcesses() {
		if pr.Parent == pid {
			children = append(children, pr.PID)
		}
	}
	return children
}
