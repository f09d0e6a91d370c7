package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	trackingClients = 20
	trackingTime    = 5 * time.Second // of one measurement; a request that began in it is counted
	historyPoints   = 100_000
	historyPage     = 25_000 // as the MLflow client asks
	batchLimit      = 1000   // of metrics, by the protocol
)

// trackingServers, an environment variable, restricts BenchmarkTracking to one server: "millpond"
// or "mlflow".
const trackingServers = "BENCH_TRACKING_SERVERS"

// BenchmarkTracking drives the platform and an MLflow server through MLflow's REST protocol, on the
// same PostgreSQL. It reports points or reads a second, latencies, and the platform's ratios to
// MLflow. Each measurement begins with the platform. The client acknowledges each packet at once:
// MLflow's server sends a small answer as two packets, and a delayed acknowledgement would add 40
// ms.
func BenchmarkTracking(b *testing.B) {
	p := newPlatform(b, 0)
	all := []*tracker{
		{b: b, name: "millpond", url: p.url + "/api/v1/mlflow", key: p.key, pid: p.serverPID(), http: acknowledging(trackingClients), searched: map[int]string{}},
		{b: b, name: "mlflow", http: acknowledging(trackingClients), searched: map[int]string{}},
	}
	if only := os.Getenv(trackingServers); only != "" {
		all = slices.DeleteFunc(all, func(t *tracker) bool { return t.name != only })
	}
	for _, t := range all {
		if t.name == "mlflow" {
			t.url, t.pid = p.startMLflow()
		}
		t.addClients()
	}
	workloads := []workload{{"log-metric", 1, (*tracker).logMetric}}
	for _, size := range []int{10, 100, 500, 1000} {
		workloads = append(workloads, workload{fmt.Sprintf("log-batch-%d", size), size, func(t *tracker, c *trackingClient) error { return t.logBatch(c, size) }})
	}
	workloads = append(workloads,
		workload{"search-1000-runs", 1, func(t *tracker, _ *trackingClient) error { return t.search(1000) }},
		workload{"search-10000-runs", 1, func(t *tracker, _ *trackingClient) error { return t.search(10_000) }},
		workload{"history-100000-points", 1, func(t *tracker, _ *trackingClient) error { return t.history() }},
	)
	for _, w := range workloads {
		for _, clients := range []int{1, trackingClients} {
			b.Run(fmt.Sprintf("%s/clients=%d", w.name, clients), func(b *testing.B) { w.compare(b, all, clients) })
		}
	}
	b.Run("memory", func(b *testing.B) {
		for _, t := range all {
			var bytes int64
			for _, pid := range descendants(b, t.pid) {
				bytes += pss(b, pid)
			}
			b.ReportMetric(inMiB(bytes), t.name+"-MiB")
		}
		quiet(b)
	})
}

// workload is an operation that clients repeat. Each call writes a number of points, or is one
// read.
type workload struct {
	name   string
	points int
	do     func(*tracker, *trackingClient) error
}

// compare reports each server's throughput and latencies, and the ratios of the first server to the
// second.
func (w workload) compare(b *testing.B, all []*tracker, clients int) {
	var rates []float64
	var tails []time.Duration
	for _, t := range all {
		rate, times := w.measure(b, t, clients)
		b.ReportMetric(rate, t.name+"/s")
		b.ReportMetric(ms(times.median()), t.name+"-p50-ms")
		b.ReportMetric(ms(times.at(0.95)), t.name+"-p95-ms")
		rates, tails = append(rates, rate), append(tails, times.at(0.95))
	}
	if len(all) == 2 {
		b.ReportMetric(rates[0]/rates[1], "throughput-ratio")
		b.ReportMetric(float64(tails[0])/float64(tails[1]), "p95-ratio")
	}
	quiet(b)
}

// measure lets clients repeat the operation for some time, after one that warms up. It returns
// points a second and the latencies of the operations.
func (w workload) measure(b *testing.B, t *tracker, clients int) (float64, sample) {
	b.Helper()
	require.NoError(b, w.do(t, t.clients[0]))
	var mu sync.Mutex
	var all sample
	var group sync.WaitGroup
	errs := make(chan error, clients)
	start := time.Now()
	for i := range clients {
		group.Go(func() {
			times, err := w.repeat(t, t.clients[i], start.Add(trackingTime))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			if err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	select {
	case err := <-errs:
		b.Fatalf("%s at %s: %v", w.name, t.name, err)
	default:
	}
	return float64(w.points*len(all)) / took.Seconds(), all
}

func (w workload) repeat(t *tracker, c *trackingClient, until time.Time) (times sample, err error) {
	for start := time.Now(); err == nil && start.Before(until); start = time.Now() {
		err = w.do(t, c)
		times = append(times, time.Since(start))
	}
	return times, err
}

// tracker is a server that speaks MLflow's protocol, with what is stored in it.
type tracker struct {
	b         *testing.B
	name, url string
	key       string
	pid       int
	http      *http.Client

	clients  []*trackingClient
	searched map[int]string // experiments by their number of runs
	long     string         // a run with a long history
}

// trackingClient writes to a run of its own.
type trackingClient struct {
	run  string
	step int64
}

// trackingMetric is a point as the protocol has it.
type trackingMetric struct {
	Key       string  `json:"key"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Step      int64   `json:"step"`
}

type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// addClients creates a run for each client.
func (t *tracker) addClients() {
	t.b.Helper()
	experiment := t.experiment("writing")
	for range trackingClients {
		run, err := t.createRun(experiment, 0)
		require.NoError(t.b, err)
		t.clients = append(t.clients, &trackingClient{run: run})
	}
}

func (t *tracker) experiment(name string) string {
	t.b.Helper()
	var made struct {
		ID string `json:"experiment_id"`
	}
	require.NoError(t.b, t.post("experiments/create", map[string]any{"name": name}, &made))
	return made.ID
}

// runs creates an experiment with a number of runs, each with five metrics and five parameters.
func (t *tracker) runs(name string, count int) string {
	t.b.Helper()
	experiment := t.experiment(name)
	numbers := make(chan int)
	errs := make(chan error, trackingClients)
	var group sync.WaitGroup
	for range trackingClients {
		group.Go(func() {
			var failed error
			for i := range numbers {
				if failed == nil {
					failed = t.describedRun(experiment, i)
				}
			}
			errs <- failed
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	for range trackingClients {
		require.NoError(t.b, <-errs)
	}
	return experiment
}

func (t *tracker) describedRun(experiment string, i int) error {
	run, err := t.createRun(experiment, i)
	if err != nil {
		return err
	}
	var metrics []trackingMetric
	var params []pair
	for k := range 5 {
		metrics = append(metrics, trackingMetric{Key: fmt.Sprint("m", k), Value: float64(i*7919%10_007) / 10_007, Timestamp: int64(i), Step: 1})
		params = append(params, pair{Key: fmt.Sprint("p", k), Value: fmt.Sprint(i % (k + 2))})
	}
	return t.post("runs/log-batch", map[string]any{"run_id": run, "metrics": metrics, "params": params}, nil)
}

func (t *tracker) createRun(experiment string, i int) (string, error) {
	var made struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			}
		}
	}
	err := t.post("runs/create", map[string]any{
		"experiment_id": experiment, "start_time": 1_700_000_000_000 + i, "run_name": fmt.Sprint("run ", i),
		"tags": []pair{{"kind", fmt.Sprint(i % 3)}, {"team", "bench"}},
	}, &made)
	return made.Run.Info.ID, err
}

// next is the client's next point.
func (c *trackingClient) next(key string) trackingMetric {
	c.step++
	return trackingMetric{Key: key, Value: float64(c.step) / 3, Timestamp: 1_700_000_000_000 + c.step, Step: c.step}
}

func (t *tracker) logMetric(c *trackingClient) error {
	m := c.next("loss")
	return t.post("runs/log-metric", struct {
		Run string `json:"run_id"`
		trackingMetric
	}{c.run, m}, nil)
}

// logBatch logs points of ten metrics.
func (t *tracker) logBatch(c *trackingClient, size int) error {
	points := make([]trackingMetric, size)
	for i := range points {
		points[i] = c.next(fmt.Sprint("batch/", i%10))
	}
	return t.post("runs/log-batch", map[string]any{"run_id": c.run, "metrics": points}, nil)
}

// search reads the first hundred runs, by a metric, of an experiment with a number of runs. The
// first call creates the experiment.
func (t *tracker) search(count int) error {
	experiment := t.searched[count]
	if experiment == "" {
		experiment = t.runs(fmt.Sprint("runs ", count), count)
		t.searched[count] = experiment
	}
	var found struct{ Runs []json.RawMessage }
	err := t.post("runs/search", map[string]any{"experiment_ids": []string{experiment}, "order_by": []string{"metrics.m1 DESC"}, "max_results": 100}, &found)
	if err == nil && len(found.Runs) != 100 {
		err = fmt.Errorf("found %d runs", len(found.Runs))
	}
	return err
}

// nextPage finds the token at the end of an answer.
var nextPage = regexp.MustCompile(`"next_page_token": ?"([^"]+)"`)

// history reads all points of a metric, in the pages that the MLflow client reads. It counts the
// points and does not decode them, which would take the servers' processors. The first call stores
// them.
func (t *tracker) history() error {
	if t.long == "" {
		if err := t.storeHistory(); err != nil {
			return err
		}
	}
	query := url.Values{"run_id": {t.long}, "metric_key": {"long"}, "max_results": {fmt.Sprint(historyPage)}}
	points := 0
	for {
		page, err := t.ask(http.MethodGet, "metrics/get-history?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		points += bytes.Count(page, []byte(`"step"`))
		token := nextPage.FindSubmatch(page[len(page)-min(len(page), 1000):])
		if token == nil {
			break
		}
		query.Set("page_token", string(token[1]))
	}
	if points != historyPoints {
		return fmt.Errorf("read %d points", points)
	}
	return nil
}

func (t *tracker) storeHistory() error {
	c := t.clients[0]
	for range historyPoints / batchLimit {
		points := make([]trackingMetric, batchLimit)
		for i := range points {
			points[i] = c.next("long")
		}
		if err := t.post("runs/log-batch", map[string]any{"run_id": c.run, "metrics": points}, nil); err != nil {
			return err
		}
	}
	t.long = c.run
	return nil
}

func (t *tracker) post(path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return t.call(http.MethodPost, path, text, into)
}

// call makes a request of the protocol, and decodes the answer.
func (t *tracker) call(method, path string, body []byte, into any) error {
	answer, err := t.ask(method, path, body)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// ask makes a request of the protocol, and returns the answer.
func (t *tracker) ask(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, t.url+"/api/2.0/mlflow/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.key)
	res, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s answered %d: %.500s", method, path, res.StatusCode, answer)
	}
	return answer, err
}
