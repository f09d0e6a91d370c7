package bench

import (
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const (
	latencyRate   = 10 * time.Millisecond // between two lines of a process
	latencyTime   = 12 * time.Second      // duration of the processes' writing
	latencyWarm   = 2 * time.Second       // not counted, at the beginning
	referenceRuns = 300
)

// BenchmarkLogLatency measures the latency of a line, from before its process's write until a
// subscriber has it. Each attempt writes 100 lines a second and has one subscriber, half of them by
// REST and half by GraphQL.
func BenchmarkLogLatency(b *testing.B) {
	for _, attempts := range []int{1, 40, 200} {
		for _, replica := range []string{"own", "other"} {
			b.Run(fmt.Sprintf("attempts=%d/replica=%s", attempts, replica), func(b *testing.B) { logLatency(b, attempts, replica) })
		}
	}
}

func logLatency(b *testing.B, attempts int, replica string) {
	p := newPlatform(b, 256)
	from := p.client
	if replica == "other" {
		from = p.addReplica()
	}
	reference := p.roundTrips(referenceRuns)
	j := p.newJob(attempts, writing{kind: "lines", count: int(latencyTime / latencyRate), every: latencyRate, size: lineBytes})
	run := p.startRun(j.id)
	running := p.awaitProcesses(run, attempts)
	rest, graphql := p.measureLines(from, j, run, running)
	p.awaitRun(run, 100*time.Millisecond)

	rest.report(b, "rest")
	graphql.report(b, "graphql")
	b.ReportMetric(ms(reference.median()), "reference-p50-ms")
	b.ReportMetric(ms(reference.at(0.99)), "reference-p99-ms")
	worst := max(rest.at(0.99), graphql.at(0.99))
	b.ReportMetric(float64(worst)/float64(reference.median()), "p99/reference-p50")
	b.ReportMetric(float64(worst)/float64(reference.at(0.99)), "p99/reference-p99")
	b.ReportMetric(bareCores(b, attempts), "bare-cores")
	quiet(b)
}

// bareCores is how many cores the same processes use without a platform, each with a cat at its
// pipe. The other cores are available to a platform.
func bareCores(b *testing.B, processes int) float64 {
	b.Helper()
	const lines = 300
	w := writing{kind: "lines", count: lines, every: latencyRate, size: lineBytes}
	var group errgroup.Group
	var used atomic.Int64
	for range processes {
		cmd := exec.Command("sh", "-c", taskProgram()+" | cat >/dev/null")
		for name, value := range w.environment() {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		require.NoError(b, cmd.Start())
		group.Go(func() error {
			err := cmd.Wait()
			used.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
			return err
		})
	}
	require.NoError(b, group.Wait())
	return float64(used.Load()) / float64(lines*latencyRate)
}

// measureLines follows every attempt, opens the gate, and returns the latencies of the lines. A
// single attempt is followed both ways.
func (p *platform) measureLines(from *client, j gatedJob, run string, attempts map[string]string) (rest, graphql sample) {
	p.b.Helper()
	var group errgroup.Group
	var byREST, byGraphQL []*lines
	var on *socket
	counted := &atomic.Int64{}
	add := func(to *[]*lines) *lines {
		l := newLines()
		l.from, l.mark = counted, int(latencyTime/latencyRate)/2
		*to = append(*to, l)
		return l
	}
	for i := range len(attempts) {
		if i%2 == 0 || len(attempts) == 1 {
			read, err := from.follow(context.Background(), run, taskKey(i), add(&byREST).take)
			require.NoError(p.b, err)
			group.Go(read)
		}
		if i%2 == 1 || len(attempts) == 1 {
			if on == nil {
				var err error
				on, err = from.dial()
				require.NoError(p.b, err)
			}
			require.NoError(p.b, on.subscribe(attempts[taskKey(i)], add(&byGraphQL).take))
		}
	}
	group.Go(on.read)
	counted.Store(now() + int64(latencyWarm))
	before, start := p.cpu(), time.Now()
	require.NoError(p.b, j.open())
	select {
	case <-byREST[0].marked: // half of the lines, because an ended process has no figures
	case <-time.After(waitLimit):
		p.b.Fatalf("after %s not half of the lines of an attempt have arrived", waitLimit)
	}
	p.cpu().shares(p.b, before, time.Since(start))
	require.NoError(p.b, group.Wait())
	for _, l := range byREST {
		require.Equal(p.b, int(latencyTime/latencyRate), l.seen, "every line has arrived")
		rest = append(rest, l.times...)
	}
	for _, l := range byGraphQL {
		require.Equal(p.b, int(latencyTime/latencyRate), l.seen, "every line has arrived")
		graphql = append(graphql, l.times...)
	}
	return rest, graphql
}
