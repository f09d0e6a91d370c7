package main_test

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lease is short, and still longer than what a loaded machine may keep an agent waiting.
const lease = 6 * time.Second

func steady(p *platform, name string) work {
	return work{arena: p.arena, name: name, gate: name + ".gate", bytes: 64 << 10, block: 4 << 10, pause: 10 * time.Millisecond}
}

// TestServerDownLongerThanTheLease: the processes are gone before the lease ends, so that nothing runs which the platform may have given up. What
// they wrote is there afterwards, and the task is tried again if it may be.
func TestServerDownLongerThanTheLease(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--lease", lease.String()}})
	again, once := steady(p, "again"), steady(p, "once")
	runs := map[string]string{}
	attempts := map[string]attemptRow{}
	readers := map[string]*follower{}
	for _, w := range []work{again, once} {
		retries := 0
		if w.name == "again" {
			retries = 5
		}
		runs[w.name] = p.run(p.job(w.spec(retries)))
		attempts[w.name] = p.awaitAttempt(runs[w.name], 1, "running")
		readers[w.name] = p.follow(runs[w.name], 1, newCheck("", w.name))
		readers[w.name].awaitRead(t, 20<<10)
	}

	down := time.Now()
	p.servers[0].signal(syscall.SIGKILL)
	for _, a := range attempts {
		await(t, "the shim kills what nobody has renewed the lease of", func() bool {
			pids, _ := ofAttempt(a.ID)
			return len(pids) == 0
		})
	}
	require.Less(t, time.Since(down), lease, "the processes outlived the lease")
	p.servers[0].start()

	p.awaitAttempt(runs["again"], 2, "running")
	again.release(t)
	tried := p.requireTrueEnd(runs["again"], "success")
	require.Equal(t, "lost", tried[0].Status)
	require.Contains(t, tried[0].Message, "longer than its lease")
	single := p.requireTrueEnd(runs["once"], "failed")
	require.Len(t, single, 1)
	require.Equal(t, "lost", single[0].Status)
	for _, w := range []work{again, once} {
		w.requireOneAtATime(t)
		got := readers[w.name].end(t)
		require.GreaterOrEqual(t, got.n, w.written(1), "what the process wrote while the server was down is lost")
		require.Equal(t, got.SHA256(), p.readLog(runs[w.name], 1, newCheck("", w.name)).SHA256())
	}
}

// TestAgentGone: an agent that does not come back loses its attempts when its lease ends, and not before. From then on their processes are gone and
// their tokens are nothing. When the agent comes back, the task runs again.
func TestAgentGone(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{noAgent: true, args: []string{"--lease", lease.String()}})
	kill := p.agentByHand(p.url)
	w := steady(p, "gone")
	run := p.run(p.job(w.spec(5)))
	a := p.awaitAttempt(run, 1, "running")
	reader := p.follow(run, 1, newCheck("", w.name))
	reader.awaitRead(t, 20<<10)
	process := &client{url: p.url, key: w.token(t, 1)}
	require.NoError(t, process.do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil), "a live attempt's token is good")

	died := time.Now()
	kill()
	p.awaitAgent("disconnected")
	require.NoError(t, process.do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil), "the lease still runs")
	p.awaitAttempt(run, 1, "lost")
	require.Greater(t, time.Since(died), lease/2)
	pids, shim := ofAttempt(a.ID)
	require.Empty(t, pids, "the attempt is lost and its process is alive, under the shim %d", shim)
	require.Equal(t, http.StatusUnauthorized, status(process.do(t.Context(), http.MethodGet, "/runs/"+run, nil, nil)))
	p.awaitAgent("lost")
	reader.end(t)

	p.agentByHand(p.url)
	p.awaitAttempt(run, 2, "running")
	w.release(t)
	attempts := p.requireTrueEnd(run, "success")
	require.Len(t, attempts, 2)
	w.requireOneAtATime(t)
	require.Equal(t, w.events(t, "end")[0].SHA256, p.readLog(run, 2, newCheck("", w.name)).SHA256())
}
