package fault_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// victim is a process that is killed with SIGKILL, alone.
type victim struct {
	name     string
	replicas int
	kill     func(p *harness.Platform, attempt string) // attempt is the running one; empty without one
	shim     bool                                      // only the death of a shim fails the attempt
}

func victims() []victim {
	first := func(p *harness.Platform, _ string) { p.Servers[0].Restart() }
	second := func(p *harness.Platform, _ string) { p.Servers[1].Restart() }
	agent := func(p *harness.Platform, _ string) { killAndAwait(p, "the agent", p.AgentPID) }
	postgres := func(p *harness.Platform, _ string) { killAndAwait(p, "PostgreSQL", p.Postmaster) }
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

// killAndAwait kills the running process and waits until the server has started another.
func killAndAwait(p *harness.Platform, what string, running func() int) {
	p.T.Helper()
	was := running()
	harness.Kill9(p.T, was)
	harness.Await(p.T, what+" runs again", func() bool { return running() > 0 && running() != was })
}

// killShim kills the attempt's shim, or those that wait for an attempt.
func killShim(p *harness.Platform, attempt string) {
	if attempt != "" {
		_, shim := harness.ProcessesOf(attempt)
		harness.Kill9(p.T, shim)
		return
	}
	for _, pr := range harness.AllProcesses() {
		if pr.Parent == p.AgentPID() && strings.Contains(pr.Command, "shim") {
			harness.Kill9(p.T, pr.PID)
		}
	}
}

// TestKill9 kills each process alone in each state of a run. Afterwards the run ends correctly, and
// no attempt ran twice or beside another of its task. A constant reader and a late reader get the
// log as it was written.
func TestKill9(t *testing.T) {
	t.Parallel()
	for _, v := range victims() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlatform(t, harness.Options{Replicas: v.replicas, Args: []string{"--agent-slots", "1"}})
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
					break // the failure has left the platform in an unknown state
				}
				t.Run(s.name, func(t *testing.T) {
					p.Lend(t)
					s.test(&faults{T: t, Platform: p, victim: v, state: s.name})
				})
			}
		})
	}
}

// faults is one state of a run with one victim.
type faults struct {
	*testing.T
	*harness.Platform
	victim victim
	state  string
}

// steady writes a little continuously until its gate opens.
func (f *faults) steady(name string) harness.Work {
	name = f.state + "-" + name
	return harness.Work{Arena: f.Arena, Name: name, Gate: name + ".gate", Bytes: 64 << 10, Block: 4 << 10, Pause: 10 * time.Millisecond}
}

func (f *faults) started(w harness.Work) string { return f.Platform.StartRun(f.CreateJob(w.Spec(3))) }

// succeed waits for the run's success and compares all its logs. lost is how many attempts the
// victim has cost.
func (f *faults) succeed(w harness.Work, run string, lost int) {
	f.Helper()
	attempts := f.RequireTrueEnd(run, "success")
	require.Len(f, attempts, lost+1, "%+v", attempts)
	w.RequireOneAtATime(f)
	for i, a := range attempts {
		c := f.ReadLog(run, a.Number, harness.NewCheck(w.Stream, w.Name))
		for _, e := range w.Events(f, "end") {
			if e.Attempt == a.ID {
				require.Equal(f, e.Bytes, c.N)
				require.Equal(f, e.SHA256, c.SHA256())
			}
		}
		if i < lost {
			require.Equal(f, "failed", a.Status)
			require.Contains(f, a.Message, "shim")
			require.GreaterOrEqual(f, c.N, w.Written(a.Number), "the process had written so much")
			continue
		}
		require.Equal(f, "success", a.Status)
	}
	require.Equal(f, attempts[lost].ID, w.Events(f, "end")[len(w.Events(f, "end"))-1].Attempt)
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
	a := f.AwaitAttempt(held, 1, "running")
	run := f.started(waiting)
	harness.Await(f.T, "the second run waits for the slot", func() bool {
		return f.RunRow(run).Status == "pending" && strings.Contains(f.RunRow(run).Message, "slot")
	})
	f.victim.kill(f.Platform, a.ID)
	holder.Release(f)
	waiting.Release(f)
	f.succeed(holder, held, f.cost())
	f.succeed(waiting, run, 0)
}

// starting stops the agent before it can start the attempt: assigned, perhaps delivered, without a
// process.
func (f *faults) starting() {
	w := f.steady("work")
	agent := f.AgentPID()
	harness.Stop(f, agent)
	run := f.started(w)
	f.AwaitAttempt(run, 1, "starting")
	f.victim.kill(f.Platform, "")
	_ = syscall.Kill(agent, syscall.SIGCONT) // the agent may be the dead victim
	f.AwaitAttempt(run, 1, "running")
	w.Release(f)
	f.succeed(w, run, 0)
}

func (f *faults) running() {
	w := f.steady("work")
	run := f.started(w)
	a := f.AwaitAttempt(run, 1, "running")
	reader := f.Follow(run, 1, harness.NewCheck(w.Stream, w.Name))
	reader.AwaitRead(f, 40<<10)
	f.victim.kill(f.Platform, a.ID)
	if f.victim.shim {
		reader.End(f)
		f.AwaitAttempt(run, 2, "running")
	} else {
		reader.AwaitRead(f, reader.BytesRead.Load()+100<<10)
	}
	w.Release(f)
	f.succeed(w, run, f.cost())
	got := reader.End(f)
	again := f.ReadLog(run, 1, harness.NewCheck(w.Stream, w.Name))
	require.Equal(f, again.N, got.N)
	require.Equal(f, again.SHA256(), got.SHA256())
}

// ending stops the agent, so that only the shim knows of the process's end. If the shim is the
// victim, it stops the shim.
func (f *faults) ending() {
	w := f.steady("work")
	run := f.started(w)
	a := f.AwaitAttempt(run, 1, "running")
	reader := f.Follow(run, 1, harness.NewCheck(w.Stream, w.Name))
	reader.AwaitRead(f, 40<<10)
	stopped := f.AgentPID()
	if f.victim.shim {
		_, stopped = harness.ProcessesOf(a.ID)
	}
	harness.Stop(f, stopped)
	unread := w.Written(1) + 40<<10 // fits into a pipe
	harness.Await(f.T, "the process has written on", func() bool { return w.Written(1) >= unread })
	w.Release(f)
	harness.Await(f.T, "the process has ended", func() bool {
		pids, _ := harness.ProcessesOf(a.ID)
		return len(pids) == 0
	})
	if f.victim.shim {
		harness.Kill9(f, stopped)
	} else {
		f.victim.kill(f.Platform, a.ID)
		_ = syscall.Kill(stopped, syscall.SIGCONT)
	}
	f.succeed(w, run, f.cost())
	reader.End(f)
}

// cancelling asks the process to end, which ignores it.
func (f *faults) cancelling() {
	w := f.steady("work")
	w.Stay = true
	run := f.started(w)
	a := f.AwaitAttempt(run, 1, "running")
	reader := f.Follow(run, 1, harness.NewCheck(w.Stream, w.Name))
	reader.AwaitRead(f, 8<<10)
	f.Must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
	harness.Await(f.T, "the process has been asked to end", func() bool { return len(w.Events(f, "term")) > 0 })
	f.victim.kill(f.Platform, a.ID)
	attempts := f.RequireTrueEnd(run, "cancelled")
	require.Len(f, attempts, 1)
	pids, _ := harness.ProcessesOf(a.ID)
	require.Empty(f, pids, "the process outlives its run")
	w.RequireOneAtATime(f)
	got := reader.End(f)
	require.GreaterOrEqual(f, got.N, w.Written(1))
	require.Equal(f, got.SHA256(), f.ReadLog(run, 1, harness.NewCheck(w.Stream, w.Name)).SHA256())
}
