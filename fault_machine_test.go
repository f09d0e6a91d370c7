package main_test

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
)

// machineAgent is the process of the machine's agent; 0 without one.
func (p *platform) machineAgent(id string) int {
	for _, pr := range allProcesses() {
		if strings.Contains(pr.command, "\x00agent\x00") && strings.Contains(pr.command, p.machineDir(id)+"/data\x00") && !strings.Contains(pr.command, "--clear") {
			return pr.pid
		}
	}
	return 0
}

// machineOf finds whose a process is.
var machineOf = regexp.MustCompile(`/machines/((?:cmp|wh)_[a-z0-9]+)/`)

// requireShown holds what runs to what is shown: a machine that is stopped, or failed, has no process left, one that runs has an agent, and no process
// belongs to a machine that is neither, or none.
func (p *platform) requireShown() {
	p.t.Helper()
	shown := map[string]bool{}
	for _, path := range []string{"/compute", "/sql/warehouses"} {
		var all page[machineRow]
		p.must(http.MethodGet, path, nil, &all)
		for _, m := range all.Data {
			switch m.Status + m.State {
			case "stopped":
				require.Empty(p.t, p.machineProcesses(m.ID), m.Name)
			case "failed":
				await(p.t, "nothing is left of a failed machine", func() bool { return len(p.machineProcesses(m.ID)) == 0 })
			case "running":
				await(p.t, "a running machine has its agent", func() bool { return p.machineAgent(m.ID) > 0 })
				shown[m.ID] = true
			default:
				shown[m.ID] = true
			}
		}
	}
	for _, pr := range allProcesses() {
		found := machineOf.FindStringSubmatch(pr.command)
		if found != nil && strings.Contains(pr.command, p.dir+"/") && !strings.Contains(pr.command, "--clear") {
			require.True(p.t, shown[found[1]], "%d runs, and %s is not shown to: %q", pr.pid, found[1], pr.command)
		}
	}
}

func (p *platform) post(path string) error {
	return p.do(p.t.Context(), http.MethodPost, path, nil, nil)
}

// on puts the job onto a compute instance.
func on(spec map[string]any, compute string) map[string]any {
	spec["compute"] = compute
	return spec
}

// TestMachineIsKilledInEachTransition kills the machine's agent, the server, or both, while a machine starts, runs and stops. It comes to where it was to
// come, and a task that runs on it goes on as if nothing had been.
func TestMachineIsKilledInEachTransition(t *testing.T) {
	t.Parallel()
	for _, victim := range []struct {
		name          string
		agent, server bool
	}{{"agent", true, false}, {"server", false, true}, {"both", true, true}} {
		t.Run(victim.name, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t, options{})
			id := p.compute("m")
			strike := func() {
				if victim.server {
					p.servers[0].signal(syscall.SIGKILL)
				}
				if pid := p.machineAgent(id); victim.agent && pid > 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by itself
				}
				if victim.server {
					p.servers[0].start()
				}
			}
			agentIs := func(there bool) func() {
				return func() { await(t, "the agent's process", func() bool { return (p.machineAgent(id) > 0) == there }) }
			}
			// starting: at once, as soon as there is an agent, and when it was connected; stopping: when the agent is there, and when it has just gone.
			for _, when := range []struct{ starting, stopping func() }{
				{func() {}, func() {}},
				{agentIs(true), agentIs(false)},
				{func() { p.awaitCompute(id, "running") }, func() {}},
			} {
				require.NoError(t, p.post("/compute/"+id+"/start"))
				when.starting()
				strike()
				p.awaitCompute(id, "running")
				p.requireShown()
				require.NoError(t, p.post("/compute/"+id+"/stop"))
				when.stopping()
				strike()
				p.awaitCompute(id, "stopped")
				p.requireShown()
			}
			require.NoError(t, p.post("/compute/"+id+"/start"))
			p.awaitCompute(id, "running")
			// running, with a task
			w := work{arena: p.arena, name: "steady", gate: "steady.gate", bytes: 64 << 10, block: 4 << 10, pause: 10 * time.Millisecond}
			run := p.run(p.job(on(w.spec(0), id)))
			p.awaitAttempt(run, 1, "running")
			was := p.machineAgent(id)
			strike()
			if victim.agent {
				await(t, "another agent", func() bool { now := p.machineAgent(id); return now > 0 && now != was })
			}
			p.awaitCompute(id, "running")
			p.release(filepath.Join(p.arena, w.gate))
			require.Len(t, p.requireTrueEnd(run, "success"), 1, "the task went on under its shim")
			p.requireShown()
			// work after it
			require.Equal(t, "success", p.awaitRun(p.run(p.job(map[string]any{"command": "true", "compute": id}))).Status)
			require.NoError(t, p.post("/compute/"+id+"/stop"))
			p.awaitCompute(id, "stopped")
			p.must(http.MethodDelete, "/compute/"+id, nil, nil)
			await(t, "nothing of it is kept", func() bool { return len(p.machineProcesses(id)) == 0 })
		})
	}
}

// TestMachineThatNeverConnects fails with a reason, leaves nothing running, and can be started again.
func TestMachineThatNeverConnects(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{noAgent: true, args: []string{"--public-url", "http://127.0.0.1:1", "--machine-start", "2s"}})
	id := p.compute("deaf")
	run := p.run(p.job(map[string]any{"command": "true", "compute": "deaf"}))
	r := p.awaitRun(run)
	require.Equal(t, "failed", r.Status)
	require.Contains(t, r.Message, "The compute instance deaf failed. Its agent did not connect within 2s.")
	var m machineRow
	await(t, "it failed", func() bool { return p.get("/compute/"+id, &m) && m.Status == "failed" })
	require.Contains(t, m.Message, "did not connect")
	p.requireShown()
	await(t, "it can be started again", func() bool { return p.post("/compute/"+id+"/start") == nil })
	await(t, "it failed again", func() bool { return p.get("/compute/"+id, &m) && m.Status == "failed" })
	p.requireShown()
}

// TestMachineIsStartedOnce however many ask at once, and is not deleted while it starts.
func TestMachineIsStartedOnce(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{replicas: 2})
	p.client = &client{url: p.servers[0].url, key: p.key} // the other one makes no machines
	id := p.compute("m")
	var started atomic.Int64
	var group sync.WaitGroup
	for i := range 12 {
		c := client{url: p.servers[i%2].url, key: p.key}
		group.Go(func() {
			if c.do(t.Context(), http.MethodPost, "/compute/"+id+"/start", nil, nil) == nil {
				started.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, started.Load())
	require.ErrorContains(t, p.do(t.Context(), http.MethodDelete, "/compute/"+id, nil, nil), "409")
	p.awaitCompute(id, "running")
	require.ErrorContains(t, p.do(t.Context(), http.MethodDelete, "/compute/"+id, nil, nil), "409")
	await(t, "there is one agent", func() bool { // what it forks has its command line for a moment
		agents := 0
		for _, pr := range allProcesses() {
			if strings.Contains(pr.command, "\x00agent\x00") && strings.Contains(pr.command, p.machineDir(id)) {
				agents++
			}
		}
		return agents == 1
	})
	p.requireShown()
}

// TestStopWhileTasksRun: they are cancelled and told why; one without retries has failed, one that may fall back goes on with the workspace's agent, and
// one that may not waits until the machine is started again.
func TestStopWhileTasksRun(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	id := p.compute("m")
	start := func(name string, retries int, fallback bool) string {
		w := work{arena: p.arena, name: name, gate: "gate", bytes: 8 << 10, block: 4 << 10, pause: 10 * time.Millisecond}
		spec := on(w.spec(retries), "m")
		spec["compute_fallback"] = fallback
		return p.run(p.job(spec))
	}
	fails, falls, waits := start("fails", 0, false), start("falls", 1, true), start("waits", 1, false)
	for _, run := range []string{fails, falls, waits} {
		p.awaitAttempt(run, 1, "running")
	}
	require.NoError(t, p.post("/compute/"+id+"/stop"))
	require.Equal(t, "failed", p.awaitRun(fails).Status)
	require.Contains(t, p.taskRow(fails, "work").Message, "The compute instance m was stopped while this ran. Stopped by tests.")
	require.Equal(t, "cancelled", p.attempts(fails)[0].Status)
	p.awaitCompute(id, "stopped")
	p.awaitAttempt(falls, 2, "running")
	await(t, "the third waits", func() bool {
		return strings.Contains(p.taskRow(waits, "work").Message, "which was stopped. Start it, or cancel the run.")
	})
	require.Equal(t, "queued", p.taskRow(waits, "work").Status)
	p.requireShown()
	require.NoError(t, p.post("/compute/"+id+"/start"))
	p.awaitAttempt(waits, 2, "running")
	p.release(filepath.Join(p.arena, "gate"))
	require.Len(t, p.requireTrueEnd(falls, "success"), 2)
	require.Len(t, p.requireTrueEnd(waits, "success"), 2)
}

// TestStoppedMachineIsStartedForATask, which is queued meanwhile, with the reason.
func TestStoppedMachineIsStartedForATask(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	id := p.compute("m")
	run := p.run(p.job(map[string]any{"compute": "m", "tasks": []any{
		map[string]any{"key": "here", "command": "true", "compute": ""},
		map[string]any{"key": "there", "command": "pwd"},
	}}))
	reasons := map[string]bool{}
	await(t, "the run is over", func() bool {
		task := p.taskRow(run, "there")
		if task.Status == "queued" && task.Message != "" {
			reasons[task.Message] = true
		}
		return p.runRow(run).over()
	})
	p.requireTrueEnd(run, "success")
	require.NotEmpty(t, reasons)
	for reason := range reasons {
		require.Contains(t, reason, "Waits for the compute instance m, which is")
	}
	require.Contains(t, p.text(run, "there"), p.machineDir(id))
	p.awaitCompute(id, "running")
}

// TestNoMoreThanTheHost: the local provider refuses what does not fit beside what runs.
func TestNoMoreThanTheHost(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	var flavors page[struct {
		Name      string
		Cores     int
		Available bool
	}]
	p.must(http.MethodGet, "/flavors", nil, &flavors)
	largest := flavors.Data[len(flavors.Data)-1]
	require.True(t, largest.Available)
	var whole, more machineRow
	p.must(http.MethodPost, "/compute", map[string]string{"name": "whole", "flavor": largest.Name}, &whole)
	p.must(http.MethodPost, "/compute", map[string]string{"name": "more", "flavor": "cpu.1"}, &more)
	require.NoError(t, p.post("/compute/"+whole.ID+"/start"))
	p.awaitCompute(whole.ID, "running")
	require.ErrorContains(t, p.post("/compute/"+more.ID+"/start"), "409")
	run := p.run(p.job(map[string]any{"command": "true", "compute": "more"}))
	await(t, "the run waits for room, and says so", func() bool { return strings.Contains(p.runRow(run).Message, "cores are taken") })
	require.NoError(t, p.post("/compute/"+whole.ID+"/stop"))
	require.Equal(t, "success", p.awaitRun(run).Status)
	p.awaitCompute(whole.ID, "stopped")
	p.requireShown()
}
