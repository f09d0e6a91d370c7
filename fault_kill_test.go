package main_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// victim is a process that is killed with SIGKILL, alone.
type victim struct {
	name     string
	replicas int
	kill     func(p *platform, attempt string) // attempt is the one under whose shim the run is; empty when there is none
	shim     bool                              // costs the attempt, and no other does
}

func victims() []victim {
	first := func(p *platform, _ string) { p.servers[0].restart() }
	second := func(p *platform, _ string) { p.servers[1].restart() }
	agent := func(p *platform, _ string) { p.killAndAwait("the agent", p.agentPID) }
	postgres := func(p *platform, _ string) { p.killAndAwait("PostgreSQL", p.postmaster) }
	return []victim{
		{"server", 1, first, false},
		{"agent", 1, agent, false},
		{"shim", 1, killShim, true},
		{"postgres", 1, postgres, false},
		{"two replicas/the one with the agent", 2, first, false},
		{"two replicas/the one without", 2, second, false},
		{"two replicas/agent", 2, agent, false},
		{"two replicas/shim", 2, killShim, true},
		{"two replicas/postgres", 2, postgres, false},
	}
}

// killAndAwait kills what runs and waits until the server has started another one.
func (p *platform) killAndAwait(what string, running func() int) {
	p.t.Helper()
	was := running()
	kill9(p.t, was)
	await(p.t, what+" is there again", func() bool { return running() > 0 && running() != was })
}

// killShim kills the shim of the attempt, or those that wait for one.
func killShim(p *platform, attempt string) {
	if attempt != "" {
		_, shim := ofAttempt(attempt)
		kill9(p.t, shim)
		return
	}
	for _, pr := range allProcesses() {
		if pr.parent == p.agentPID() && strings.Contains(pr.command, "shim") {
			kill9(p.t, pr.pid)
		}
	}
}

// TestKill9 kills each process alone in each state of a run. Afterwards the run reaches a true end, no attempt ran twice or beside another one
// of its task, and what was read of its log, by a reader that was there all the time and by one that comes later, is what was written.
func TestKill9(t *testing.T) {
	t.Parallel()
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t, options{replicas: v.replicas, args: []string{"--agent-slots", "1"}})
			for _, s := range []struct {
				name string
				test func(*faults)
			}{
				{"queued", (*faults).queued},
				{"starting", (*faults).starting},
				{"running", (*faults).running},
				{"ending", (*faults).ending},
				{"cancelling", (*faults).cancelling},
			} {
				if t.Failed() {
					break // the platform is in the state that the failure has left
				}
				t.Run(s.name, func(t *testing.T) {
					p.lend(t)
					s.test(&faults{T: t, platform: p, victim: v, state: s.name})
				})
			}
		})
	}
}

// faults is one state of a run under one victim's fall.
type faults struct {
	*testing.T
	*platform
	victim victim
	state  string
}

// steady writes a little all the time, until its gate opens.
func (f *faults) steady(name string) work {
	name = f.state + "-" + name
	return work{arena: f.arena, name: name, gate: name + ".gate", bytes: 64 << 10, block: 4 << 10, pause: 10 * time.Millisecond}
}

func (f *faults) started(w work) string { return f.platform.run(f.job(w.spec(3))) }

// succeed waits for the success of the run and compares every log that it wrote to its end. lost is how many attempts the victim has cost.
func (f *faults) succeed(w work, run string, lost int) {
	f.Helper()
	attempts := f.requireTrueEnd(run, "success")
	require.Len(f, attempts, lost+1, "%+v", attempts)
	w.requireOneAtATime(f)
	for i, a := range attempts {
		c := f.readLog(run, a.Number, newCheck(w.stream, w.name))
		for _, e := range w.events(f, "end") {
			if e.Attempt == a.ID {
				require.Equal(f, e.Bytes, c.n)
				require.Equal(f, e.SHA256, c.SHA256())
			}
		}
		if i < lost {
			require.Equal(f, "failed", a.Status)
			require.Contains(f, a.Message, "shim")
			require.GreaterOrEqual(f, c.n, w.written(a.Number), "the process had written so much")
			continue
		}
		require.Equal(f, "success", a.Status)
	}
	require.Equal(f, attempts[lost].ID, w.events(f, "end")[len(w.events(f, "end"))-1].Attempt)
}

func (f *faults) cost() int {
	if f.victim.shim {
		return 1
	}
	return 0
}

func (f *faults) queued() {
	holder, waiting := f.steady("holder"), f.steady("waiting")
	held := f.started(holder)
	a := f.awaitAttempt(held, 1, "running")
	run := f.started(waiting)
	await(f.T, "the second run waits for the slot", func() bool {
		return f.runRow(run).Status == "pending" && strings.Contains(f.runRow(run).Message, "slot")
	})
	f.victim.kill(f.platform, a.ID)
	holder.release(f)
	waiting.release(f)
	f.succeed(holder, held, f.cost())
	f.succeed(waiting, run, 0)
}

// starting stops the agent before it can take the attempt: assigned, perhaps delivered, without a process.
func (f *faults) starting() {
	w := f.steady("work")
	agent := f.agentPID()
	require.NoError(f, syscall.Kill(agent, syscall.SIGSTOP))
	run := f.started(w)
	f.awaitAttempt(run, 1, "starting")
	f.victim.kill(f.platform, "")
	_ = syscall.Kill(agent, syscall.SIGCONT) // it may be the one that is dead
	f.awaitAttempt(run, 1, "running")
	w.release(f)
	f.succeed(w, run, 0)
}

func (f *faults) running() {
	w := f.steady("work")
	run := f.started(w)
	a := f.awaitAttempt(run, 1, "running")
	reader := f.follow(run, 1, newCheck(w.stream, w.name))
	reader.awaitRead(f, 40<<10)
	f.victim.kill(f.platform, a.ID)
	if f.victim.shim {
		reader.end(f)
		f.awaitAttempt(run, 2, "running")
	} else {
		reader.awaitRead(f, reader.read.Load()+100<<10)
	}
	w.release(f)
	f.succeed(w, run, f.cost())
	got := reader.end(f)
	again := f.readLog(run, 1, newCheck(w.stream, w.name))
	require.Equal(f, again.n, got.n)
	require.Equal(f, again.SHA256(), got.SHA256())
}

// ending stops the agent, so that the process's end is known to nobody but its shim; where the shim is the victim, the shim itself.
func (f *faults) ending() {
	w := f.steady("work")
	run := f.started(w)
	a := f.awaitAttempt(run, 1, "running")
	reader := f.follow(run, 1, newCheck(w.stream, w.name))
	reader.awaitRead(f, 40<<10)
	stopped := f.agentPID()
	if f.victim.shim {
		_, stopped = ofAttempt(a.ID)
	}
	require.NoError(f, syscall.Kill(stopped, syscall.SIGSTOP))
	unread := w.written(1) + 40<<10 // which a pipe holds
	await(f.T, "the process has written on", func() bool { return w.written(1) >= unread })
	w.release(f)
	await(f.T, "the process has ended", func() bool {
		pids, _ := ofAttempt(a.ID)
		return len(pids) == 0
	})
	if f.victim.shim {
		kill9(f, stopped)
	} else {
		f.victim.kill(f.platform, a.ID)
		_ = syscall.Kill(stopped, syscall.SIGCONT)
	}
	f.succeed(w, run, f.cost())
	reader.end(f)
}

// cancelling has asked the process to end, which it will not.
func (f *faults) cancelling() {
	w := f.steady("work")
	w.stay = true
	run := f.started(w)
	a := f.awaitAttempt(run, 1, "running")
	reader := f.follow(run, 1, newCheck(w.stream, w.name))
	reader.awaitRead(f, 8<<10)
	f.must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
	await(f.T, "the process has been asked to end", func() bool { return len(w.events(f, "term")) > 0 })
	f.victim.kill(f.platform, a.ID)
	attempts := f.requireTrueEnd(run, "cancelled")
	require.Len(f, attempts, 1)
	pids, _ := ofAttempt(a.ID)
	require.Empty(f, pids, "the process outlives its run")
	w.requireOneAtATime(f)
	got := reader.end(f)
	require.GreaterOrEqual(f, got.n, w.written(1))
	require.Equal(f, got.SHA256(), f.readLog(run, 1, newCheck(w.stream, w.name)).SHA256())
}
