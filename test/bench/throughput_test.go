package bench

import (
	"context"
	"crypto/sha256"
	"hash"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

const (
	floodLines = 2_500_000
	floodBytes = floodLines * lineBytes
)

// BenchmarkLogThroughput measures the throughput of one attempt's log to a subscriber, from the
// first write to the subscriber's last byte. The attempt writes as fast as it can. It also measures
// the memory of the server and the agent. The reference inserts the same bytes, in chunks and
// batches of the same size, into an equal table.
func BenchmarkLogThroughput(b *testing.B) {
	p := newPlatform(b, 8)
	j := p.newJob(1, writing{kind: "flood", count: floodLines, size: lineBytes})
	run := p.startRun(j.id)
	p.awaitProcesses(run, 1)
	got := flooded{digest: sha256.New()}
	read, err := p.follow(context.Background(), run, taskKey(0), got.take)
	require.NoError(b, err)
	memory := watchMemory(b, map[string]int{"server": p.serverPID(), "agent": p.agentPID()})
	require.NoError(b, j.open())
	require.NoError(b, read())
	memory.end()
	p.awaitRun(run, 100*time.Millisecond)

	require.EqualValues(b, floodBytes, got.bytes, "every byte has arrived")
	require.Equal(b, floodDigest(got.start), got.digest.Sum(nil), "and as it was written")
	rate := mibPerSecond(time.Duration(got.end - got.start))
	reference := mibPerSecond(p.plainInserts())
	b.ReportMetric(rate, "MiB/s")
	b.ReportMetric(reference, "reference-MiB/s")
	b.ReportMetric(rate/reference, "ratio")
	memory.report(b)
	quiet(b)
}

func mibPerSecond(d time.Duration) float64 { return floodBytes / mib / d.Seconds() }

// flooded is the part of a flood that a subscriber has received.
type flooded struct {
	bytes      int
	start, end int64
	first      []byte // the beginning of the first line
	digest     hash.Hash
}

func (f *flooded) take(data []byte, at int64) (err error) {
	if f.start == 0 {
		f.first = append(f.first, data...)
		if len(f.first) >= stampBytes {
			f.start, err = stampOf(f.first)
		}
	}
	f.bytes += len(data)
	f.end = at
	_, _ = f.digest.Write(data) // never fails
	return err
}

// floodDigest is the hash of a flood that started at the given time.
func floodDigest(start int64) []byte {
	digest := sha256.New()
	var line []byte
	for i := range floodLines {
		line = appendLine(line[:0], start, i, lineBytes)
		_, _ = digest.Write(line)
	}
	return digest.Sum(nil)
}

const (
	referenceChunk = 64 << 10
	referenceBatch = 1 << 20
)

// plainInserts is the reference: it inserts the bytes of a flood into a table like the platform's.
// The batches are serial. Each is one durable transaction, with one statement that inserts all of
// its chunks.
func (p *platform) plainInserts() time.Duration {
	p.b.Helper()
	db := p.openDatabase()
	_, err := db.Exec(`CREATE SCHEMA IF NOT EXISTS bench; CREATE TABLE bench.log_chunks (LIKE log_chunks INCLUDING ALL)`)
	require.NoError(p.b, err)
	chunk := []byte(strings.Repeat(string(appendLine(nil, now(), 0, lineBytes)), referenceChunk/lineBytes+1))[:referenceChunk]
	start := time.Now()
	for offset := 0; offset < floodBytes; offset += referenceBatch {
		var starts []int64
		var data [][]byte
		for at := offset; at < min(offset+referenceBatch, floodBytes); at += len(chunk) {
			starts, data = append(starts, int64(at)), append(data, chunk[:min(len(chunk), floodBytes-at)])
		}
		_, err := db.Exec(`INSERT INTO bench.log_chunks (workspace_id, attempt_id, start, stream, first_line, next_line, emitted_at, data)
			SELECT 'ws', 'att', start, 1, 1, 1, now(), data FROM unnest($1::bigint[], $2::bytea[]) AS c (start, data)`, pq.Array(starts), pq.Array(data))
		require.NoError(p.b, err)
	}
	took := time.Since(start)
	var stored string
	require.NoError(p.b, db.QueryRow(`SELECT sum(length(data)) FROM bench.log_chunks`).Scan(&stored))
	require.Equal(p.b, strconv.Itoa(floodBytes), stored)
	_, err = db.Exec(`DROP TABLE bench.log_chunks`)
	require.NoError(p.b, err)
	return took
}

// memoryWatch samples the memory of processes.
type memoryWatch struct {
	once    sync.Once
	stop    chan struct{}
	stopped sync.WaitGroup
	samples map[string][]int64
}

// watchMemory samples until end is called or the benchmark fails.
func watchMemory(b *testing.B, pids map[string]int) *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{}), samples: map[string][]int64{}}
	b.Cleanup(w.end)
	w.stopped.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for name, pid := range pids {
				w.samples[name] = append(w.samples[name], rss(b, pid))
			}
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *memoryWatch) end() {
	w.once.Do(func() { close(w.stop) })
	w.stopped.Wait()
}

// report reports each process's initial memory, and its peaks in the first and in the last half.
// The peaks are equal if the memory does not grow.
func (w *memoryWatch) report(b *testing.B) {
	for name, all := range w.samples {
		half := len(all) / 2
		b.ReportMetric(inMiB(all[0]), name+"-before-MiB")
		b.ReportMetric(inMiB(peak(all[:half])), name+"-first-half-MiB")
		b.ReportMetric(inMiB(peak(all[half:])), name+"-last-half-MiB")
	}
}

func peak(all []int64) (most int64) {
	for _, n := range all {
		most = max(most, n)
	}
	return most
}
