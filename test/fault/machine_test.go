package fault_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// machineOf matches the machine's id in a command line.
var machineOf = regexp.MustCompile(`/machines/((?:cmp|wh)_[a-z0-9]+)/`)

// requireShown compares processes with the API. A stopped or failed machine has no process, a
// running machine has an agent, and no process belongs to an unknown machine.
func requireShown(p *harness.Platform) {
	p.T.Helper()
	shown := map[string]bool{}
	for _, path := range []string{"/compute", "/sql/warehouses"} {
		var all harness.Page[harness.MachineRow]
		p.Must(http.MethodGet, path, nil, &all)
		for _, m := range all.Data {
			switch m.Status + m.State {
			case "stopped":
				require.Empty(p.T, p.MachineProcesses(m.ID), m.Name)
			case "failed":
				harness.Await(p.T, "nothing is left of a failed machine", func() bool { return len(p.MachineProcesses(m.ID)) == 0 })
			case "running":
				harness.Await(p.T, "a running machine has its agent", func() bool { return p.MachineAgent(m.ID) > 0 })
				shown[m.ID] = true
			default:
				shown[m.ID] = true
			}
		}
	}
	for _, pr := range harness.AllProcesses() {
		found := machineOf.FindStringSubmatch(pr.Command)
		if found != nil && strings.Contains(pr.Command, p.Dir+"/") && !strings.Contains(pr.Command, "--clear") {
			require.True(p.T, shown[found[1]], "%d runs, and %s is not shown to: %q", pr.PID, found[1], pr.Command)
		}
	}
}

// on assigns the job to a compute instance.
func on(spec map[string]any, compute string) map[string]any {
	spec["compute"] = compute
	return spec
}

// TestMachineIsKilledInEachTransition kills the machine's agent, the server, or both, while a
// machine starts, runs and stops. The machine reaches its desired state, and its task is not
// affected.
func TestMachineIsKilledInEachTransition(t *testing.T) {
	t.Parallel()
	for _, victim := range []struct {
		name          string
		agent, server bool
	}{{"agent", true, false}, {"server", false, true}, {"both", true, true}} {
		t.Run(victim.name, func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlatform(t, harness.Options{})
			id := p.CreateCompute("m")
			strike := func() {
				if victim.server {
					p.Servers[0].Signal(syscall.SIGKILL)
				}
				if pid := p.MachineAgent(id); victim.agent && pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
				}
				if victim.server {
					p.Servers[0].Start()
				}
			}
			agentIs := func(there bool) func() {
				return func() {
					harness.Await(t, "the agent's process", func() bool { return (p.MachineAgent(id) > 0) == there })
				}
			}
			// starting: at once, with the agent's process, and once it is connected. stopping:
			// while the agent runs, and right after its end.
			for _, when := range []struct{ starting, stopping func() }{
				{func() {}, func() {}},
				{agentIs(true), agentIs(false)},
				{func() { p.AwaitCompute(id, "running") }, func() {}},
			} {
				require.NoError(t, p.Post("/compute/"+id+"/start"))
				when.starting()
				strike()
				p.AwaitCompute(id, "running")
				requireShown(p)
				require.NoError(t, p.Post("/compute/"+id+"/stop"))
				when.stopping()
				strike()
				p.AwaitCompute(id, "stopped")
				requireShown(p)
			}
			require.NoError(t, p.Post("/compute/"+id+"/start"))
			p.AwaitCompute(id, "running")
			// running, with a task
			w := harness.Work{Arena: p.Arena, Name: "steady", Gate: "steady.gate", Bytes: 64 << 10, Block: 4 << 10, Pause: 10 * time.Millisecond}
			run := p.StartRun(p.CreateJob(on(w.Spec(0), id)))
			p.AwaitAttempt(run, 1, "running")
			was := p.MachineAgent(id)
			strike()
			if victim.agent {
				harness.Await(t, "another agent", func() bool { now := p.MachineAgent(id); return now > 0 && now != was })
			}
			p.AwaitCompute(id, "running")
			p.Release(filepath.Join(p.Arena, w.Gate))
			require.Len(t, p.RequireTrueEnd(run, "success"), 1, "the task went on under its shim")
			requireShown(p)
			// work after it
			require.Equal(t, "success", p.AwaitRun(p.StartRun(p.CreateJob(map[string]any{"command": "true", "compute": id}))).Status)
			require.NoError(t, p.Post("/compute/"+id+"/stop"))
			p.AwaitCompute(id, "stopped")
			p.Must(http.MethodDelete, "/compute/"+id, nil, nil)
			harness.Await(t, "its processes have ended", func() bool { return len(p.MachineProcesses(id)) == 0 })
		})
	}
}

// TestMachineThatNeverConnects: it fails with a reason, leaves no process, and can be started
// again.
func TestMachineThatNeverConnects(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--public-url", "http://127.0.0.1:1", "--machine-start", "2s"}})
	id := p.CreateCompute("deaf")
	run := p.StartRun(p.CreateJob(map[string]any{"command": "true", "compute": "deaf"}))
	r := p.AwaitRun(run)
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Message, "The compute instance deaf failed. Its agent did not connect within 2s.")
	var m harness.MachineRow
	harness.Await(t, "it failed", func() bool { return p.Get("/compute/"+id, &m) && m.Status == "failed" })
	require.Contains(t, m.Message, "did not connect")
	requireShown(p)
	harness.Await(t, "it can be started again", func() bool { return p.Post("/compute/"+id+"/start") == nil })
	harness.Await(t, "it failed again", func() bool { return p.Get("/compute/"+id, &m) && m.Status == "failed" })
	requireShown(p)
}

// TestMachineIsStartedOnce, however many requests start it at once. It cannot be deleted while it
// starts.
func TestMachineIsStartedOnce(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Replicas: 2})
	p.Client = &harness.Client{URL: p.Servers[0].URL, Key: p.Key} // only the first server runs machines
	id := p.CreateCompute("m")
	var started atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		c := harness.Client{URL: p.Servers[i%2].URL, Key: p.Key}
		group.Go(func() {
			if c.Do(t.Context(), http.MethodPost, "/compute/"+id+"/start", nil, nil) == nil {
				started.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, started.Load())
	require.ErrorContains(t, p.Do(t.Context(), http.MethodDelete, "/compute/"+id, nil, nil), "409")
	p.AwaitCompute(id, "running")
	require.ErrorContains(t, p.Do(t.Context(), http.MethodDelete, "/compute/"+id, nil, nil), "409")
	harness.Await(t, "there is one agent", func() bool { // a forked child has its command line for a moment
		agents := 0
		for _, pr := range harness.AllProcesses() {
			if strings.Contains(pr.Command, "\x00agent\x00") && strings.Contains(pr.Command, p.MachineDir(id)) {
				agents++
			}
		}
		return agents == 1
	})
	requireShown(p)
}

// TestStopWhileTasksRun: the tasks are cancelled with the reason. A task without retries fails. One
// with a fallback goes on with the workspace's agent; one without waits until the machine starts
// again.
func TestStopWhileTasksRun(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	id := p.CreateCompute("m")
	start := func(name string, retries int, fallback bool) string {
		w := harness.Work{Arena: p.Arena, Name: name, Gate: "gate", Bytes: 8 << 10, Block: 4 << 10, Pause: 10 * time.Millisecond}
		spec := on(w.Spec(retries), "m")
		spec["compute_fallback"] = fallback
		return p.StartRun(p.CreateJob(spec))
	}
	fails, falls, waits := start("fails", 0, false), start("falls", 1, true), start("waits", 1, false)
	for _, run := range []string{fails, falls, waits} {
		p.AwaitAttempt(run, 1, "running")
	}
	require.NoError(t, p.Post("/compute/"+id+"/stop"))
	require.Equal(t, "failed", p.AwaitRun(fails).Status)
	require.Contains(t, p.TaskRow(fails, "work").Message, "The compute instance m was stopped while this ran. Stopped by tests.")
	require.Equal(t, "cancelled", p.Attempts(fails)[0].Status)
	p.AwaitCompute(id, "stopped")
	p.AwaitAttempt(falls, 2, "running")
	harness.Await(t, "the third waits", func() bool {
		return strings.Contains(p.TaskRow(waits, "work").Message, "which was stopped. Start it, or cancel the run.")
	})
	require.Equal(t, "queued", p.TaskRow(waits, "work").Status)
	requireShown(p)
	require.NoError(t, p.Post("/compute/"+id+"/start"))
	p.AwaitAttempt(waits, 2, "running")
	p.Release(filepath.Join(p.Arena, "gate"))
	require.Len(t, p.RequireTrueEnd(falls, "success"), 2)
	require.Len(t, p.RequireTrueEnd(waits, "success"), 2)
}

// TestStoppedMachineIsStartedForATask. The task is queued meanwhile, with the reason.
func TestStoppedMachineIsStartedForATask(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	id := p.CreateCompute("m")
	run := p.StartRun(p.CreateJob(map[string]any{"compute": "m", "tasks": []any{
		map[string]any{"key": "here", "command": "true", "compute": ""},
		map[string]any{"key": "there", "command": "pwd"},
	}}))
	reasons := map[string]bool{}
	harness.Await(t, "the run is over", func() bool {
		task := p.TaskRow(run, "there")
		if task.Status == "queued" && task.Message != "" {
			reasons[task.Message] = true
		}
		return p.RunRow(run).Over()
	})
	p.RequireTrueEnd(run, "success")
	require.NotEmpty(t, reasons)
	for reason := range reasons {
		require.Contains(t, reason, "Waits for the compute instance m, which is")
	}
	require.Contains(t, p.LogText(run, "there"), p.MachineDir(id))
	p.AwaitCompute(id, "running")
}

// TestNoMoreThanTheHost: the local provider refuses machines that exceed the host's free cores.
func TestNoMoreThanTheHost(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	var flavors harness.Page[struct {
		Name      string
		Cores     int
		Available bool
	}]
	p.Must(http.MethodGet, "/flavors", nil, &flavors)
	largest := flavors.Data[len(flavors.Data)-1]
	require.True(t, largest.Available)
	var whole, more harness.MachineRow
	p.Must(http.MethodPost, "/compute", map[string]string{"name": "whole", "flavor": largest.Name}, &whole)
	p.Must(http.MethodPost, "/compute", map[string]string{"name": "more", "flavor": "cpu.1"}, &more)
	require.NoError(t, p.Post("/compute/"+whole.ID+"/start"))
	p.AwaitCompute(whole.ID, "running")
	require.ErrorContains(t, p.Post("/compute/"+more.ID+"/start"), "409")
	run := p.StartRun(p.CreateJob(map[string]any{"command": "true", "compute": "more"}))
	harness.Await(t, "the run waits for room, and says so", func() bool { return strings.Contains(p.RunRow(run).Message, "cores are taken") })
	require.NoError(t, p.Post("/compute/"+whole.ID+"/stop"))
	require.Equal(t, "success", p.AwaitRun(run).Status)
	p.AwaitCompute(whole.ID, "stopped")
	requireShown(p)
}
