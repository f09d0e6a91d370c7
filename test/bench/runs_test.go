package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const runRepeats = 20

// taskTimes is a task as the API shows it.
type taskTimes struct {
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// BenchmarkRuns measures runs of empty tasks: ten in a chain, and fifty in parallel. It measures
// the time from the request to the recorded end, and until a client that polls every 2 ms knows. It
// also measures the time between one task's end and the next one's start. The reference is the time
// to start the same processes without a platform, one after the other or two at a time.
func BenchmarkRuns(b *testing.B) {
	b.Run("chain=10", func(b *testing.B) {
		measureRuns(b, 10, func(i int) []string {
			if i == 0 {
				return nil
			}
			return []string{taskKey(i - 1)}
		})
	})
	b.Run("parallel=50", func(b *testing.B) { measureRuns(b, 50, func(int) []string { return nil }) })
}

func measureRuns(b *testing.B, tasks int, after func(i int) []string) {
	p := newPlatform(b, 64)
	var specs []map[string]any
	for i := range tasks {
		specs = append(specs, map[string]any{"key": taskKey(i), "command": "true", "depends_on": after(i)})
	}
	job := p.createJob(map[string]any{"name": "no-op", "tasks": specs})
	var ended, known, gaps sample
	for range runRepeats {
		asked := time.Now()
		run := p.startRun(job)
		state, at := p.awaitRun(run, 2*time.Millisecond)
		ended, known = append(ended, state.FinishedAt.Sub(asked)), append(known, at.Sub(asked))
		gaps = append(gaps, p.gaps(run)...)
	}
	bare := bareProcesses(b, tasks)
	b.ReportMetric(ended.median().Seconds(), "end-s")
	b.ReportMetric(known.median().Seconds(), "known-s")
	b.ReportMetric(known.at(0.95).Seconds(), "known-p95-s")
	if after(1) != nil {
		b.ReportMetric(ms(gaps.median()), "gap-ms")
		b.ReportMetric(ms(gaps.at(0.95)), "gap-p95-ms")
	}
	b.ReportMetric(bare.Seconds(), "reference-s")
	b.ReportMetric(float64(known.median())/float64(bare), "ratio")
	quiet(b)
}

// gaps are the times between one task's end and the next task's start.
func (p *platform) gaps(run string) (gaps sample) {
	p.b.Helper()
	var tasks []taskTimes
	require.NoError(p.b, p.do(http.MethodGet, "/runs/"+run+"/tasks", nil, &tasks))
	slices.SortFunc(tasks, func(x, y taskTimes) int { return x.StartedAt.Compare(y.StartedAt) })
	for i := 1; i < len(tasks); i++ {
		gaps = append(gaps, tasks[i].StartedAt.Sub(tasks[i-1].FinishedAt))
	}
	return gaps
}

// BenchmarkLogLine measures the latency of the only line of a task that writes and ends. It counts
// from before the write until a client that follows the log has the line.
func BenchmarkLogLine(b *testing.B) {
	p := newPlatform(b, 8)
	reference := p.roundTrips(referenceRuns)
	var times sample
	for range runRepeats {
		j := p.newJob(1, writing{kind: "lines", count: 1, every: time.Millisecond, size: lineBytes})
		run := p.startRun(j.id)
		p.awaitProcesses(run, 1)
		l := newLines()
		read, err := p.follow(context.Background(), run, taskKey(0), l.take)
		require.NoError(b, err)
		require.NoError(b, j.open())
		require.NoError(b, read())
		times = append(times, l.times...)
	}
	require.Len(b, times, runRepeats)
	times.report(b, "line")
	b.ReportMetric(ms(reference.median()), "reference-p50-ms")
	b.ReportMetric(float64(times.median())/float64(reference.median()), "ratio")
	quiet(b)
}

// bareProcesses is the time to run n processes without a platform, two at a time if n is more than
// ten.
func bareProcesses(b *testing.B, n int) time.Duration {
	b.Helper()
	script := fmt.Sprintf("for i in $(seq %d); do sh -c true; done", n)
	if n > 10 {
		script = fmt.Sprintf("seq %d | xargs -P 2 -n 1 sh -c true", n)
	}
	var all sample
	for range 5 {
		start := time.Now()
		shell(b, script)
		all = append(all, time.Since(start))
	}
	return all.median()
}
