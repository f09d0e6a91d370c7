package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSelect measures SELECT 1 and a point look-up by partition, in tables with more and more
// data files, over one reused connection. The reference is DuckDB in this process with its own
// Iceberg extension on the same catalog, which also queries the catalog and reads the manifests.
func BenchmarkSelect(b *testing.B) {
	w := newWarehouse(b)
	b.Run("one", func(b *testing.B) { w.compare(b, "SELECT 1", "SELECT 1") })
	for _, files := range []int{100, 10_000} {
		table := fmt.Sprintf("points%d", files)
		w.points(table, files)
		b.Run(fmt.Sprintf("point/files=%d", files), func(b *testing.B) {
			q := fmt.Sprintf(" WHERE part = %d AND id = %d", files/3, files/3*10+7)
			require.Len(b, w.answer("SELECT * FROM "+table+q), 1)
			w.compare(b, "SELECT * FROM "+table+q, "SELECT * FROM lake.public."+table+q)
		})
	}
}

const selectRepeats = 60

func (w *warehouse) compare(b *testing.B, query, bare string) {
	var got, raw sample
	for range selectRepeats {
		raw = append(raw, timed(b, func() error { _, err := w.rawRows(bare); return err }))
		got = append(got, timed(b, func() error { _, err := w.drain(query, "application/json"); return err }))
	}
	got.report(b, "answer")
	b.ReportMetric(ms(raw.median()), "duckdb-p50-ms")
	quiet(b)
}

// points creates a table with a number of partitions, each with ten rows in one file, in commits of
// a thousand files.
func (w *warehouse) points(table string, files int) {
	w.b.Helper()
	w.answer("CREATE TABLE " + table + " (id BIGINT, part INT, what VARCHAR) PARTITIONED BY (part)")
	for from := 0; from < files; from += 1000 {
		w.exec(fmt.Sprintf("INSERT INTO lake.public.%s SELECT range, (range // 10)::INT, 'what ' || range FROM range(%d, %d)", table, from*10, min(files, from+1000)*10))
	}
}

const (
	sqlClients    = 20
	sqlClientTime = 20 * time.Second
)

// BenchmarkClients lets twenty clients query at once. The reference is twenty connections to the
// DuckDB in this process.
func BenchmarkClients(b *testing.B) {
	w := newWarehouse(b)
	w.tpch("1")
	queries := w.tpchQueries()
	throughput := func(work func(q string) error) float64 {
		var done int
		var mu sync.Mutex
		var group sync.WaitGroup
		began := time.Now()
		for c := range sqlClients {
			group.Go(func() {
				for i := c; time.Since(began) < sqlClientTime; i++ {
					if err := work(queries[i%len(queries)]); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					done++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		return float64(done) / time.Since(began).Seconds()
	}
	bare := func(q string) error { _, err := w.rawRows(q); return err }
	before := throughput(bare)
	got := throughput(func(q string) error { _, err := w.drain(q, "application/json"); return err })
	after := throughput(bare)
	b.ReportMetric(got, "queries/s")
	b.ReportMetric((before+after)/2, "duckdb-queries/s")
	b.ReportMetric(2*got/(before+after), "ratio")
	quiet(b)
}
