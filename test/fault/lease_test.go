package fault_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// lease is the shortest one with the same safety margin of a shim as the default. A loaded machine
// may delay a shim for seconds.
const lease = 20 * time.Second

func steady(p *harness.Platform, name string) harness.Work {
	return harness.Work{Arena: p.Arena, Name: name, Gate: name + ".gate", Bytes: 64 << 10, Block: 4 << 10, Pause: 10 * time.Millisecond}
}

// TestServerDownLongerThanTheLease: the shims end their processes before the lease ends, without an
// order, so that no process outlives an attempt that is declared lost. Their output is stored
// afterwards, and the task is retried if allowed. The shim reports when a process ended, since this
// test may notice it late.
func TestServerDownLongerThanTheLease(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--lease", lease.String()}})
	again, once := steady(p, "again"), steady(p, "once")
	runs := map[string]string{}
	attempts := map[string]harness.AttemptRow{}
	readers := map[string]*harness.Follower{}
	for _, w := range []harness.Work{again, once} {
		retries := 0
		if w.Name == "again" {
			retries = 5
		}
		runs[w.Name] = p.StartRun(p.CreateJob(w.Spec(retries)))
		attempts[w.Name] = p.AwaitAttempt(runs[w.Name], 1, "running")
		readers[w.Name] = p.Follow(runs[w.Name], 1, harness.NewCheck("", w.Name))
		readers[w.Name].AwaitRead(t, 20<<10)
	}

	down := time.Now()
	p.Servers[0].Signal(syscall.SIGKILL)
	for _, a := range attempts {
		harness.Await(t, "the shim kills a process without a renewed lease", func() bool {
			pids, _ := harness.ProcessesOf(a.ID)
			return len(pids) == 0
		})
	}
	p.Servers[0].Start()

	p.AwaitAttempt(runs["again"], 2, "running")
	again.Release(t)
	tried := p.RequireTrueEnd(runs["again"], "success")
	require.Equal(t, "lost", tried[0].Status)
	require.Contains(t, tried[0].Message, "longer than its lease")
	single := p.RequireTrueEnd(runs["once"], "failed")
	require.Len(t, single, 1)
	require.Equal(t, "lost", single[0].Status)
	for _, lost := range []harness.AttemptRow{tried[0], single[0]} {
		require.Less(t, lost.FinishedAt.Sub(down), lease, "the process outlived the lease")
	}
	for _, w := range []harness.Work{again, once} {
		w.RequireOneAtATime(t)
		got := readers[w.Name].End(t)
		require.GreaterOrEqual(t, got.N, w.Written(1), "output from while the server was down is lost")
		require.Equal(t, got.SHA256(), p.ReadLog(runs[w.Name], 1, harness.NewCheck("", w.Name)).SHA256())
	}
}

// TestAgentGone: an agent that stays away loses its attempts when its lease ends, and not before.
// Their processes have ended by then, and their tokens are invalid. When the agent returns, the
// task runs again.
func TestAgentGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--lease", lease.String()}})
	kill := p.AgentByHand(p.URL)
	w := steady(p, "gone")
	run := p.StartRun(p.CreateJob(w.Spec(5)))
	a := p.AwaitAttempt(run, 1, "running")
	reader := p.Follow(run, 1, harness.NewCheck("", w.Name))
	reader.AwaitRead(t, 20<<10)
	process := &harness.Client{URL: p.URL, Key: w.Token(t, 1)}
	require.NoError(t, process.Do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil), "a live attempt's token is good")

	died := time.Now()
	kill()
	p.AwaitAgent("disconnected")
	require.NoError(t, process.Do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil), "the lease still runs")
	p.AwaitAttempt(run, 1, "lost")
	require.Greater(t, time.Since(died), lease/2)
	pids, shim := harness.ProcessesOf(a.ID)
	require.Empty(t, pids, "the attempt is lost and its process is alive, under the shim %d", shim)
	require.Equal(t, http.StatusUnauthorized, harness.Status(process.Do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil)))
	p.AwaitAgent("lost")
	reader.End(t)

	p.AgentByHand(p.URL)
	p.AwaitAttempt(run, 2, "running")
	w.Release(t)
	attempts := p.RequireTrueEnd(run, "success")
	require.Len(t, attempts, 2)
	w.RequireOneAtATime(t)
	require.Equal(t, w.Events(t, "end")[0].SHA256, p.ReadLog(run, 2, harness.NewCheck("", w.Name)).SHA256())
}
