package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	followers    = 10_000
	fanoutLines  = 20
	fanoutEvery  = time.Second
	fanoutLine   = 1000 // bytes
	openAtOnce   = 16
	sparedFiles  = 1000 // descriptors for everything else
	metricPerKiB = 1 << 10
)

// BenchmarkLogFanOut lets 10,000 subscribers follow one attempt's log: by REST on one connection
// each, and by GraphQL with 100 subscriptions on a WebSocket. No byte may be lost. The reference of
// the memory is that of 10,000 idle connections to the same server.
func BenchmarkLogFanOut(b *testing.B) {
	b.Run("idle", idleConnections)
	b.Run("rest", func(b *testing.B) { logFanOut(b, followREST) })
	b.Run("graphql", func(b *testing.B) { logFanOut(b, followGraphQL) })
}

// needFiles raises the limit of open files of this process and of the server, which inherits it.
func needFiles(b *testing.B) {
	b.Helper()
	var limit unix.Rlimit
	require.NoError(b, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Max < followers+sparedFiles {
		b.Skipf("this machine allows %d open files and this needs %d; raise it with ulimit -Hn", limit.Max, followers+sparedFiles)
	}
	limit.Cur = limit.Max
	require.NoError(b, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}

func idleConnections(b *testing.B) {
	needFiles(b)
	p := newPlatform(b, 0)
	before := rss(b, p.serverPID())
	address := p.url[len("http://"):]
	open := make([]net.Conn, followers)
	defer func() {
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for i := range open {
		group.Go(func() (err error) {
			if open[i], err = net.Dial("tcp", address); err != nil {
				return err
			}
			if _, err = fmt.Fprintf(open[i], "GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"); err == nil {
				_, err = open[i].Read(make([]byte, 512))
			}
			return err
		})
	}
	require.NoError(b, group.Wait())
	b.ReportMetric(float64(rss(b, p.serverPID())-before)/followers/metricPerKiB, "KiB/connection")
	quiet(b)
}

// followAll opens all subscriptions and returns functions that read them to their end.
type followAll func(p *platform, run, attempt string, takers []receiver) (read []func() error)

func followREST(p *platform, run, _ string, takers []receiver) []func() error {
	p.b.Helper()
	read := make([]func() error, len(takers))
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	for i, take := range takers {
		group.Go(func() (err error) {
			read[i], err = p.follow(context.Background(), run, taskKey(0), take)
			return err
		})
	}
	require.NoError(p.b, group.Wait())
	return read
}

func followGraphQL(p *platform, _, attempt string, takers []receiver) (read []func() error) {
	p.b.Helper()
	for first := 0; first < len(takers); first += socketMost {
		s, err := p.dial()
		require.NoError(p.b, err)
		for _, take := range takers[first:min(first+socketMost, len(takers))] {
			require.NoError(p.b, s.subscribe(attempt, take))
		}
		read = append(read, s.read)
	}
	return read
}

func logFanOut(b *testing.B, follow followAll) {
	needFiles(b)
	p := newPlatform(b, 8)
	j := p.newJob(1, writing{kind: "lines", count: fanoutLines, every: fanoutEvery, size: fanoutLine, greet: true})
	run := p.startRun(j.id)
	attempt := p.awaitProcesses(run, 1)[taskKey(0)]
	before := rss(b, p.serverPID())
	all := make([]*follower, followers)
	takers := make([]receiver, followers)
	opened := &atomic.Int64{}
	for i := range all {
		all[i] = &follower{digest: sha256.New(), opened: opened}
		takers[i] = all[i].take
	}
	opening := time.Now()
	var group errgroup.Group
	for _, read := range follow(p, run, attempt, takers) {
		group.Go(read)
	}
	await(b, "every subscriber has the first line", 20*time.Millisecond, func() bool { return opened.Load() == followers })
	took := time.Since(opening)
	runtime.GC() // so that no garbage collection of the clients disturbs the measurement
	memory := watchMemory(b, map[string]int{"server": p.serverPID()})
	cpu := p.cpu()
	require.NoError(b, j.open())
	require.NoError(b, group.Wait())
	used := p.cpu().since(cpu)
	memory.end()
	p.awaitRun(run, 100*time.Millisecond)

	stored := sha256.Sum256([]byte(p.log(run, taskKey(0))))
	for i, f := range all {
		require.Equal(b, (1+fanoutLines)*fanoutLine, f.bytes, "follower %d has every byte", i)
		require.Equal(b, stored[:], f.digest.Sum(nil), "follower %d has the bytes as they are stored", i)
	}
	b.ReportMetric(float64(peak(memory.samples["server"])-before)/followers/metricPerKiB, "KiB/subscriber")
	b.ReportMetric(float64(memory.samples["server"][0]-before)/followers/metricPerKiB, "opened-KiB/subscriber")
	b.ReportMetric(took.Seconds(), "opening-s")
	latencies(all).report(b, "line")
	for _, part := range []string{"server", "clients"} {
		b.ReportMetric(float64(used[part].Microseconds())/(followers*fanoutLines), part+"-µs/line")
	}
	quiet(b)
}

// follower is one subscriber to a log.
type follower struct {
	opened *atomic.Int64 // how many followers have the first line
	bytes  int
	digest hash.Hash
	times  sample
}

func (f *follower) take(data []byte, at int64) error {
	switch {
	case f.bytes < fanoutLine && f.bytes+len(data) >= fanoutLine:
		f.opened.Add(1)
	case f.bytes%fanoutLine == 0 && len(data) >= stampBytes:
		written, err := stampOf(data)
		if err != nil {
			return err
		}
		f.times = append(f.times, time.Duration(at-written))
	}
	f.bytes += len(data)
	_, _ = f.digest.Write(data) // never fails
	return nil
}

func latencies(all []*follower) (times sample) {
	for _, f := range all {
		times = append(times, f.times...)
	}
	return times
}
