package bench

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// sample is a set of measured times.
type sample []time.Duration

// at returns the quantile q of the sample.
func (s sample) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (s sample) median() time.Duration { return s.at(0.5) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// report reports the sample's quantiles, in milliseconds.
func (s sample) report(b *testing.B, name string) {
	b.ReportMetric(ms(s.at(0.5)), name+"-p50-ms")
	b.ReportMetric(ms(s.at(0.95)), name+"-p95-ms")
	b.ReportMetric(ms(s.at(0.99)), name+"-p99-ms")
}

// quiet removes the time of the whole benchmark, which is meaningless, from the report.
func quiet(b *testing.B) { b.ReportMetric(0, "ns/op") }

// openDatabase connects to the platform's database as its owner.
func (p *platform) openDatabase() *sql.DB {
	p.b.Helper()
	db, err := sql.Open("postgres", p.database)
	require.NoError(p.b, err)
	p.b.Cleanup(func() { require.NoError(p.b, db.Close()) })
	return db
}

// roundTrips is the reference of the latencies. A line is inserted and notified in one durable
// transaction with one round trip. The notification is received on a second connection, and the
// line is read on a third. Nothing else runs.
func (p *platform) roundTrips(n int) sample {
	p.b.Helper()
	db := p.openDatabase()
	_, err := db.Exec(`CREATE SCHEMA IF NOT EXISTS bench; CREATE TABLE IF NOT EXISTS bench.lines (id bigint PRIMARY KEY, line bytea NOT NULL); TRUNCATE bench.lines`)
	require.NoError(p.b, err)
	listener := pq.NewListener(p.database, time.Second, time.Second, nil)
	defer func() { require.NoError(p.b, listener.Close()) }()
	require.NoError(p.b, listener.Listen("bench"))
	line := appendLine(nil, now(), 0, lineBytes)
	all := make(sample, 0, n)
	for i := range n + n/10 {
		start := time.Now()
		_, err := db.Exec(fmt.Sprintf(`INSERT INTO bench.lines VALUES (%d, '\x%x'); NOTIFY bench`, i, line))
		require.NoError(p.b, err)
		<-listener.Notify
		var read []byte
		require.NoError(p.b, db.QueryRow(`SELECT line FROM bench.lines WHERE id = $1`, i).Scan(&read))
		if i >= n/10 { // the first ones warm up
			all = append(all, time.Since(start))
		}
	}
	return all
}

// rss is a process's resident memory in bytes.
func rss(b *testing.B, pid int) int64 {
	b.Helper()
	return memory(b, fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
}

// pss is a process's proportional memory (PSS) in bytes.
func pss(b *testing.B, pid int) int64 {
	b.Helper()
	return memory(b, fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
}

func memory(b *testing.B, file, field string) int64 {
	text, err := os.ReadFile(file)
	require.NoError(b, err)
	_, rest, found := strings.Cut(string(text), "\n"+field)
	require.True(b, found, "%s has no %s", file, field)
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(b, err)
	return kib << 10
}

const mib = 1 << 20

func inMiB(bytes int64) float64 { return float64(bytes) / mib }

// agentPID is the pid of the agent beside the first server.
func (p *platform) agentPID() int {
	p.b.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "agent.json"))
	require.NoError(p.b, err)
	var record struct{ PID int }
	require.NoError(p.b, json.Unmarshal(text, &record))
	return record.PID
}

// serverPID is the pid of the first server.
func (p *platform) serverPID() int { return p.servers[0].cmd.Process.Pid }

// postgresPIDs are the pids of the platform's PostgreSQL.
func (p *platform) postgresPIDs() []int {
	p.b.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "postgres", "postmaster.pid"))
	require.NoError(p.b, err)
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	require.NoError(p.b, err)
	return descendants(p.b, postmaster)
}

// descendants are a process and the processes below it.
func descendants(b *testing.B, pid int) []int {
	b.Helper()
	pids := []int{pid}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(b, err)
	for _, file := range tasks {
		children, err := os.ReadFile(file)
		require.NoError(b, err)
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			require.NoError(b, err)
			pids = append(pids, descendants(b, child)...)
		}
	}
	return pids
}
