package bench

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ours is a client of the platform's MLflow protocol, with its runs.
func (p *platform) ours(b *testing.B, key string) *tracker {
	b.Helper()
	t := &tracker{b: b, name: "millpond", url: p.url + "/api/v1/mlflow", key: key, pid: p.serverPID(), http: acknowledging(trackingClients), searched: map[int]string{}}
	t.addClients()
	return t
}

// another returns an administrator's client of another workspace.
func (p *platform) another(b *testing.B, name string) *client {
	b.Helper()
	link, err := exec.Command(binary(b), "workspace", "create", name, "--data-dir", p.dir).CombinedOutput()
	require.NoError(b, err, "%s", link)
	found := setUpLink.FindSubmatch(link)
	require.NotNil(b, found, "%s", link)
	c := &client{url: p.url}
	var in struct {
		AccessToken string `json:"access_token"`
	}
	setUp := map[string]string{"token": string(found[1]), "email": name + "@example.com", "name": name, "password": "correct horse battery"}
	require.NoError(b, c.do(http.MethodPost, "/auth/setup", setUp, &in))
	c.key = in.AccessToken
	return c
}

// BenchmarkTrackingFlood measures how one workspace's flood of points slows down another's.
func BenchmarkTrackingFlood(b *testing.B) {
	p := newPlatform(b, 0)
	noisy, still := p.ours(b, p.key), p.ours(b, p.another(b, "still").key)
	one := workload{"log-metric", 1, (*tracker).logMetric}
	alone, before := one.measure(b, still, 1)
	stop := make(chan struct{})
	var points atomic.Int64
	var flood sync.WaitGroup
	for _, c := range noisy.clients {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := noisy.logBatch(c, batchLimit); err != nil {
					b.Error(err)
					return
				}
				points.Add(batchLimit)
			}
		})
	}
	beside, during := one.measure(b, still, 1)
	close(stop)
	flood.Wait()
	b.ReportMetric(float64(points.Load())/trackingTime.Seconds(), "flood-points/s")
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(beside, "beside/s")
	before.report(b, "alone")
	during.report(b, "beside")
	b.ReportMetric(float64(during.at(0.99))/float64(before.at(0.99)), "p99-ratio")
	quiet(b)
}

// chartPoints is the length of a history that a chart is drawn of.
const chartPoints = 10_000_000

// BenchmarkTrackingChart measures the summaries of a long history, and reads it for a chart.
func BenchmarkTrackingChart(b *testing.B) {
	p := newPlatform(b, 0)
	t := p.ours(b, p.key)
	c := t.clients[0]
	require.NoError(b, t.logBatch(c, 10))
	db := p.openDatabase()
	for _, query := range []string{
		`INSERT INTO tracking_points SELECT m.workspace_id, m.run, m.key, 1700000000000 + n, n, sin(n::float8 / 1000) + random() FROM generate_series(11, $1::bigint) n,
			(SELECT * FROM tracking_metrics ORDER BY key LIMIT 1) m`,
		`UPDATE tracking_metrics SET points = points + $1::bigint WHERE key = (SELECT min(key) FROM tracking_metrics)`,
		`INSERT INTO tracking_unsummarized (workspace_id, run, key, due_at) SELECT workspace_id, run, key, now() FROM tracking_metrics WHERE points > $1::bigint / 2`,
	} {
		_, err := db.Exec(query, chartPoints)
		require.NoError(b, err)
	}
	path := fmt.Sprintf("/experiments/%s/runs/%s/metrics/batch%%2F0?max_points=2000", t.experimentOf(c.run), c.run)
	read := func() (took time.Duration, bytes int) {
		began := time.Now()
		res, err := p.request(b.Context(), http.MethodGet, path, nil)
		require.NoError(b, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(b, err)
		require.NoError(b, res.Body.Close())
		return time.Since(began), len(body)
	}
	sampled, _ := read()
	b.ReportMetric(ms(sampled), "unsummarized-ms")
	began := time.Now()
	await(b, "the history has summaries", 100*time.Millisecond, func() bool {
		n := 0
		return db.QueryRow(`SELECT count(*) FROM tracking_unsummarized`).Scan(&n) == nil && n == 0
	})
	b.ReportMetric(float64(chartPoints)/time.Since(began).Seconds(), "summarized-points/s")
	var times sample
	var size int
	memory := grown(b, p.serverPID(), func() {
		for range 50 {
			took, bytes := read()
			times, size = append(times, took), bytes
		}
	})
	times.report(b, "chart")
	b.ReportMetric(float64(size)/1024, "answer-KiB")
	b.ReportMetric(inMiB(memory), "more-MiB")
	quiet(b)
}

// experimentOf returns the experiment of the run.
func (t *tracker) experimentOf(run string) string {
	var got struct {
		Run struct {
			Info struct {
				Experiment string `json:"experiment_id"`
			}
		}
	}
	require.NoError(t.b, t.call(http.MethodGet, "runs/get?run_id="+run, nil, &got))
	return got.Run.Info.Experiment
}

// grown returns how much more memory the process has than before, at most, while the work goes on.
func grown(b *testing.B, pid int, work func()) int64 {
	b.Helper()
	before := pss(b, pid)
	most, done := before, make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return most - before
		case <-tick.C:
			most = max(most, pss(b, pid))
		}
	}
}

// BenchmarkTrackingReaders measures the server's memory while a hundred clients read histories of
// 100,000 points, in one answer each.
func BenchmarkTrackingReaders(b *testing.B) {
	p := newPlatform(b, 0)
	t := p.ours(b, p.key)
	require.NoError(b, t.history())
	path := fmt.Sprintf("/experiments/%s/runs/%s/metrics/long", t.experimentOf(t.long), t.long)
	for _, readers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			var bytes atomic.Int64
			began := time.Now()
			memory := grown(b, p.serverPID(), func() {
				var all sync.WaitGroup
				for range readers {
					all.Go(func() {
						res, err := p.request(b.Context(), http.MethodGet, path, nil)
						if err != nil {
							b.Error(err)
							return
						}
						n, err := io.Copy(io.Discard, res.Body)
						if err != nil || res.Body.Close() != nil {
							b.Error(err)
						}
						bytes.Add(n)
					})
				}
				all.Wait()
			})
			b.ReportMetric(float64(readers*historyPoints)/time.Since(began).Seconds(), "points/s")
			b.ReportMetric(inMiB(bytes.Load()), "answers-MiB")
			b.ReportMetric(inMiB(memory), "more-MiB")
			quiet(b)
		})
	}
}
