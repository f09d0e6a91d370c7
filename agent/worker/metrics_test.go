package worker

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
)

// measuring makes the control plane accept metrics, and returns a channel of them.
func (c *control) measuring(status int) <-chan agent.Metrics {
	taken := make(chan agent.Metrics, 1)
	f := func(w http.ResponseWriter, m agent.Metrics) {
		select {
		case taken <- m:
		default: // the test does not read metrics now
		}
		if status != http.StatusNoContent {
			answer(w, status, "for the test")
			return
		}
		w.WriteHeader(status)
	}
	c.metrics.Store(&f)
	return taken
}

func nextMetrics(t testing.TB, taken <-chan agent.Metrics, wanted func(agent.Metrics) bool) agent.Metrics {
	t.Helper()
	deadline := time.After(waitLimit)
	for {
		select {
		case m := <-taken:
			if wanted(m) {
				return m
			}
		case <-deadline:
			t.Fatal("no such metrics came")
		}
	}
}

// burn runs two processes that use memory and as much CPU time as they get. One is below the task;
// only its shim knows the other one. Both print their pids.
const burn = `(setsid env -i sh -c 'echo $$; x=$(head -c 50000000 /dev/zero | tr "\0" x); while :; do :; done' &)
sh -c 'echo $$; x=$(head -c 50000000 /dev/zero | tr "\0" x); while :; do :; done' & wait`

// usage returns a function. Each call returns how many cores the processes have used since the
// previous call, by the kernel's count.
func usage(t testing.TB, pids []int) func() float64 {
	ticks := func() (n int64) {
		for _, pid := range pids {
			stat, err := os.ReadFile(proc.Path(pid, "stat"))
			require.NoError(t, err)
			p, ok := parseTimes(pid, stat)
			require.True(t, ok)
			n += p.own
		}
		return n
	}
	before, at := ticks(), time.Now()
	return func() float64 {
		now, seconds := ticks(), time.Since(at).Seconds()
		used := float64(now-before) / ticksPerSecond / seconds
		before, at = now, time.Now()
		return used
	}
}

func TestMetricsOfAnAgentAreOfAllThatItRuns(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		taken := c.measuring(http.StatusNoContent)
		o.Metrics, o.metricsEvery, o.Cores, o.Memory = MetricsOwn, 300*time.Millisecond, 1.5, 3<<30
		stop := c.agent(o)
		quiet := nextMetrics(t, taken, func(m agent.Metrics) bool { return m.CPU < 0.5 })
		require.Equal(t, 1.5, quiet.Cores)
		require.Equal(t, int64(3<<30), quiet.MemoryTotal)
		require.Positive(t, quiet.Memory)
		require.Positive(t, quiet.Disk)
		require.Greater(t, quiet.DiskTotal, quiet.Disk)
		require.Empty(t, quiet.GPUs)

		c.start(agent.Attempt{ID: "att_1", Command: burn})
		pids := c.pids("att_1", 2)
		for _, pid := range pids { // a nice process may get no time beside other tests; only root may raise it
			_ = unix.Setpriority(unix.PRIO_PROCESS, pid, 0)
			_ = os.WriteFile(proc.Path(pid, "autogroup"), []byte("0"), 0)
		}
		used := usage(t, pids)
		busy := func(m agent.Metrics) bool { // more than one of the two processes alone
			cpu := used()
			return cpu > 0.1 && m.CPU > 0.75*cpu && m.Memory > quiet.Memory+80_000_000
		}
		nextMetrics(t, taken, busy)
		stop()
		c.cut()
		c.agent(o)
		nextMetrics(t, taken, busy) // of processes that the agent has adopted
		c.cancel("att_1")
		c.exited("att_1")
		nextMetrics(t, taken, func(m agent.Metrics) bool { return m.CPU < 0.5 && m.Memory < quiet.Memory+50_000_000 })
	})
}

func TestMetricsOfTheHost(t *testing.T) {
	c := newControl(t)
	taken := c.measuring(http.StatusNoContent)
	o := c.options()
	o.Metrics, o.metricsEvery, o.Cores = MetricsHost, 100*time.Millisecond, 1000
	c.agent(o)
	total, _, err := hostMemory()
	require.NoError(t, err)
	m := nextMetrics(t, taken, func(m agent.Metrics) bool { return m.CPU > 0 })
	require.GreaterOrEqual(t, m.Cores, float64(runtime.NumCPU()))
	require.Less(t, m.Cores, 1000.0)
	require.LessOrEqual(t, m.CPU, m.Cores*1.2) // the two clocks are read one after the other
	require.Equal(t, total, m.MemoryTotal)
	require.Positive(t, m.Memory)
	require.Less(t, m.Memory, total)
}

func TestMetricsThatAreNotTakenEndNothing(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusUnauthorized, http.StatusConflict} {
		c := newControl(t)
		taken := c.measuring(status)
		o := c.options()
		o.Metrics, o.metricsEvery = MetricsHost, 10*time.Millisecond
		c.agent(o)
		for range 3 {
			nextMetrics(t, taken, func(agent.Metrics) bool { return true })
		}
		require.Equal(t, 1, c.hellos)
		c.killAll(o)
	}
}

func TestAnOlderControlPlaneIsAskedOnceInASession(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	var asked atomic.Int32
	f := func(w http.ResponseWriter, _ agent.Metrics) {
		asked.Add(1)
		answer(w, http.StatusNotFound, "no such page")
	}
	c.metrics.Store(&f)
	o := c.options()
	o.Metrics, o.metricsEvery = MetricsOwn, time.Millisecond
	c.agent(o)
	waitFor(t, func() bool { return asked.Load() > 0 })
	c.until("heartbeats", waitLimit, func() bool { return c.beats >= 5 })
	require.Equal(t, int32(1), asked.Load())
	require.Equal(t, 1, c.hellos)
	c.cut()
	waitFor(t, func() bool { return asked.Load() == 2 }) // asked once more: it may have been upgraded
}

func TestNoMetricsAreSentUnlessWanted(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	taken := c.measuring(http.StatusNoContent)
	o := c.options()
	o.metricsEvery = time.Millisecond
	c.agent(o)
	c.until("heartbeats", waitLimit, func() bool { return c.beats >= 3 })
	require.Empty(t, taken)
	o.Metrics = "all"
	require.ErrorContains(t, Run(t.Context(), o), "none, own or host")
	o.Metrics, o.Cores = MetricsOwn, -1
	require.ErrorContains(t, Run(t.Context(), o), "negative")
}

func TestTicksBetweenTwoLooks(t *testing.T) {
	id := func(pid int) processID { return processID{pid: pid, start: int64(pid)} }
	for name, c := range map[string]struct {
		before, now map[processID]times
		want        int64
	}{
		"nothing": {nil, nil, 0},
		"a process goes on": {
			map[processID]times{id(1): {own: 10, children: 5}}, map[processID]times{id(1): {own: 13, children: 6}}, 4,
		},
		"a new one":                    {nil, map[processID]times{id(100): {own: 7, children: 2}}, 9},
		"one that was somebody else's": {nil, map[processID]times{id(10): {own: 7, children: 2}}, 0},
		"one that came and went": {
			map[processID]times{id(1): {own: 10}}, map[processID]times{id(1): {own: 10, children: 30}}, 30,
		},
		"one that ended": {
			map[processID]times{id(1): {own: 10}, id(2): {parent: 1, own: 20, children: 1}}, map[processID]times{id(1): {own: 10, children: 26}}, 5,
		},
		"a whole tree that ended": {
			map[processID]times{id(1): {}, id(2): {parent: 1, own: 20}, id(3): {parent: 2, own: 30}}, map[processID]times{id(1): {children: 57}}, 7,
		},
		"one nobody waited for": {
			map[processID]times{id(1): {own: 10}, id(2): {parent: 1, own: 20}}, map[processID]times{id(1): {own: 14}}, 4,
		},
		"an adopted shim that ended": {
			map[processID]times{id(1): {own: 10}, id(2): {parent: 99, own: 20}, id(3): {parent: 2, own: 400}},
			map[processID]times{id(1): {own: 14, children: 3}},
			7,
		},
		"a pid that came again": {
			map[processID]times{id(1): {}, {pid: 2, start: 2}: {parent: 1, own: 20}},
			map[processID]times{id(1): {children: 21}, {pid: 2, start: 300}: {parent: 1, own: 5}},
			6,
		},
	} {
		require.Equal(t, c.want, ticksBetween(c.before, c.now, 50), name)
	}
}

func TestTheProcessesOfAnAgent(t *testing.T) {
	p := func(pid, parent int) processTime { return processTime{processID{pid: pid}, times{parent: parent}} }
	all := []processTime{
		p(1, 0), p(50, 1) /* the server */, p(51, 50) /* its database */, p(60, 50), /* the agent */
		p(61, 60) /* a shim */, p(62, 61) /* its task */, p(63, 61), /* what left the task */
		p(70, 1) /* a shim that was adopted */, p(71, 70), p(72, 70),
		p(80, 1), /* a task whose shim is dead */
		p(90, 1), p(91, 90),
	}
	var found []int
	for id := range members(all, 60, []int{62, 71, 80, 1234}) {
		found = append(found, id.pid)
	}
	require.ElementsMatch(t, []int{60, 61, 62, 63, 70, 71, 72, 80}, found)
	own := members(all, 60, []int{71})
	group := map[int]bool{60: true, 61: true, 62: true, 63: true, 70: true, 71: true, 72: true, 4711: true /* has ended since */}
	require.True(t, isOwn(all, own, group, group))
	require.False(t, isOwn(all, members(all, 60, nil), group, group), "somebody else is in it")
	delete(group, 70)
	require.False(t, isOwn(all, own, group, group), "one is outside")
	require.True(t, isOwn(all, own, group, map[int]bool{70: true}), "one that has come since")
}

func TestTheTimesOfAProcessAreRead(t *testing.T) {
	p, ok := parseTimes(7, []byte("7 (a) S 2) S 3 7 7 0 -1 4194560 1 2 3 4 11 12 13 14 30 10 5 0 6543 1 2"))
	require.True(t, ok)
	require.Equal(t, processTime{processID{7, 6543}, times{parent: 3, own: 23, children: 27}}, p)
	_, ok = parseTimes(7, []byte("7 (a) S 3"))
	require.False(t, ok)
}

func TestAControlGroupIsMeasured(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("cpu.stat", "usage_usec 5000000\nuser_usec 1\n")
	write("memory.current", "300000000\n")
	write("memory.stat", "anon 1\ninactive_file 100000000\nfile 2\n")
	m := &meter{of: MetricsOwn, dir: dir, group: dir, cores: 2, memory: 1 << 30}
	require.NoError(t, m.use(&agent.Metrics{}, nil))
	m.at -= 2e9
	write("cpu.stat", "usage_usec 8000000\nuser_usec 1\n")
	var u agent.Metrics
	require.NoError(t, m.use(&u, nil))
	require.InDelta(t, 1.5, u.CPU, 0.1)
	require.Equal(t, int64(200_000_000), u.Memory)
	require.Equal(t, 2.0, u.Cores)
	require.NoError(t, os.Remove(filepath.Join(dir, "memory.current")))
	require.Error(t, m.use(&u, nil))
}

func TestTheTimesOfAHostAreRead(t *testing.T) {
	busy, cores, err := parseHostTimes([]byte("cpu  10 20 30 1000 500 6 7 800 9 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5\n"))
	require.NoError(t, err)
	require.Equal(t, int64(73), busy)
	require.Equal(t, 2, cores)
	_, _, err = parseHostTimes([]byte("intr 5\n"))
	require.Error(t, err)
}

func TestGPUsAreMeasured(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	tool := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, gpuTool), []byte("#!/bin/sh\n"+script), 0o755))
	}
	tool(`[ "$3" = "--id=0,2" ] || [ -z "$3" ] || exit 1
echo 'NVIDIA A10G, 37, 1024, 23028'
echo '"Tesla, T4", [N/A], 0, 15360'`)
	o := must(Options{Dir: bin, Metrics: MetricsOwn}.withDefaults())
	want := []agent.GPUMetrics{{Name: "NVIDIA A10G", Load: 0.37, Memory: 1 << 30, MemoryTotal: 23028 << 20}, {Name: "Tesla, T4", MemoryTotal: 15 << 30}}
	require.Equal(t, want, findGPUs(o).measure(t.Context()))
	t.Setenv("CUDA_VISIBLE_DEVICES", "0, 2,-1,3")
	require.Equal(t, want, findGPUs(o).measure(t.Context()))
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	require.Nil(t, findGPUs(o), "none is for this machine")
	o.Metrics = MetricsHost
	require.Len(t, findGPUs(o).measure(t.Context()), 2)
	require.Equal(t, "GPU-1b2,MIG-3", visibleGPUs("GPU-1b2,MIG-3,--x"))

	tool("echo nonsense")
	g := findGPUs(o)
	require.Nil(t, g.measure(t.Context()))
	tool("echo 'NVIDIA A10G, 37, 1024, 23028'")
	require.Nil(t, g.measure(t.Context()), "it rests")
	g.failed = g.failed.Add(-gpuRest)
	require.Len(t, g.measure(t.Context()), 1)
	tool("exec sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Nil(t, g.measure(ctx))
	o.Metrics = MetricsNone
	require.Nil(t, findGPUs(o).measure(t.Context()))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkMetrics measures one measurement of an agent with 200 processes. An agent makes one
// every five seconds.
func BenchmarkMetrics(b *testing.B) {
	for range 200 {
		cmd := exec.Command("sleep", "1000")
		require.NoError(b, cmd.Start())
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			var ended *exec.ExitError
			require.True(b, errors.As(cmd.Wait(), &ended))
		})
	}
	for _, of := range []MetricsOf{MetricsOwn, MetricsHost} {
		b.Run(string(of), func(b *testing.B) {
			m := newMeter(must(Options{Dir: b.TempDir(), Metrics: of}.withDefaults()), nil)
			m.begin(nil)
			begun := cpuTime(os.Getpid())
			for b.Loop() {
				_, err := m.measure(b.Context(), nil)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(cpuTime(os.Getpid())-begun)/1e6/float64(b.N), "cpu-ms/op")
		})
	}
}
