package main_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStop: SIGTERM ends the server, its agent and its PostgreSQL. What runs goes on until the lease ends, for a server that comes back in time,
// and then nothing is left.
func TestStop(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--lease", lease.String()}})
	w := steady(p, "left")
	run := p.run(p.job(w.spec(0)))
	a := p.awaitAttempt(run, 1, "running")
	agent, postmaster := p.agentPID(), p.postmaster()
	require.Positive(t, agent)
	require.Positive(t, postmaster)
	shims := childrenOf(agent)
	require.NotEmpty(t, shims)
	_, shim := ofAttempt(a.ID)
	require.Contains(t, shims, shim)

	asked := time.Now()
	p.servers[0].signal(syscall.SIGTERM)
	require.Zero(t, p.servers[0].cmd.ProcessState.ExitCode(), p.servers[0].out.String())
	require.Less(t, time.Since(asked), 20*time.Second)
	require.False(t, alive(agent), "the agent is left")
	require.False(t, alive(postmaster), "PostgreSQL is left")
	require.NoFileExists(t, filepath.Join(p.dir, "postgres", "postmaster.pid"), "PostgreSQL had to be killed")
	await(t, "the lease's end leaves nothing", func() bool {
		left := false
		for _, pid := range shims {
			left = left || alive(pid)
		}
		return !left && len(p.processes()) == 0
	})
	require.Less(t, time.Since(asked), 25*time.Second+lease)

	p.servers[0].start()
	attempts := p.requireTrueEnd(run, "failed")
	require.Equal(t, "lost", attempts[0].Status)
	require.GreaterOrEqual(t, p.readLog(run, 1, newCheck("", w.name)).n, w.written(1))
}

// TestUpgrade: a server that is stopped and started again within the lease costs no task anything.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	w := steady(p, "kept")
	run := p.run(p.job(w.spec(0)))
	a := p.awaitAttempt(run, 1, "running")
	reader := p.follow(run, 1, newCheck("", w.name))
	reader.awaitRead(t, 20<<10)
	pids, _ := ofAttempt(a.ID)
	p.servers[0].signal(syscall.SIGTERM)
	p.servers[0].start()
	reader.awaitRead(t, reader.read.Load()+100<<10)
	now, _ := ofAttempt(a.ID)
	require.Equal(t, pids, now)
	w.release(t)
	require.Len(t, p.requireTrueEnd(run, "success"), 1)
	require.Equal(t, w.events(t, "end")[0].SHA256, reader.end(t).SHA256())
}

// TestAgentIsAdopted: a server that was killed finds its agent and its PostgreSQL at work, and leaves them so.
func TestAgentIsAdopted(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	w := steady(p, "adopted")
	run := p.run(p.job(w.spec(0)))
	a := p.awaitAttempt(run, 1, "running")
	pids, _ := ofAttempt(a.ID)
	agent, postmaster := p.agentPID(), p.postmaster()
	p.servers[0].restart()
	p.awaitAgent("connected")
	w.release(t)
	require.Len(t, p.requireTrueEnd(run, "success"), 1)
	require.Equal(t, agent, p.agentPID())
	require.Equal(t, postmaster, p.postmaster())
	require.Len(t, w.events(t, "start"), 1)
	require.NotEmpty(t, pids)
}

// TestSecondServerIsRefused: one data directory has one server.
func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{noAgent: true})
	second := newServer(t, p.dir, "--no-local-agent")
	second.launch()
	await(t, "the second server ends", second.over)
	require.Equal(t, 1, second.cmd.ProcessState.ExitCode())
	require.Contains(t, second.out.String(), p.dir)
	require.Contains(t, second.out.String(), "another")
	require.True(t, p.servers[0].ready(), "the first one serves on")
}

func alive(pid int) bool {
	for _, pr := range allProcesses() {
		if pr.pid == pid {
			return true
		}
	}
	return false
}

func childrenOf(pid int) (children []int) {
	for _, pr := range allProcesses() {
		if pr.parent == pid {
			children = append(children, pr.pid)
		}
	}
	return children
}
