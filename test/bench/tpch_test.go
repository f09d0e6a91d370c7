package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// tpchTables are the tables of TPC-H.
var tpchTables = []string{"region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"}

// tpchPairs is how often a query runs on each side. The median counts.
const tpchPairs = 5

// BenchmarkTPCH runs the 22 queries of TPC-H at scale factor 1 through /sql/execute. It alternates
// with DuckDB in this process, which reads the same Parquet files with as many threads. Both must
// return the same number of rows.
func BenchmarkTPCH(b *testing.B) {
	w := newWarehouse(b)
	w.tpch("1")
	queries := w.tpchQueries()
	var sum, rawSum, logs float64
	worst, over := 0.0, 0.0
	for i, q := range queries {
		var got, raw sample
		var rows int
		for range tpchPairs + 1 {
			raw = append(raw, timed(b, func() (err error) {
				rows, err = w.rawRows(q)
				return err
			}))
			got = append(got, timed(b, func() error { _, err := w.drain(q, "application/json"); return err }))
		}
		require.Len(b, w.answer(q), rows, "query %d", i+1)
		got, raw = got[1:], raw[1:] // the first run of each is cold
		mine, bare := ms(got.median()), ms(raw.median())
		sum, rawSum, logs = sum+mine, rawSum+bare, logs+math.Log(mine/bare)
		worst, over = max(worst, mine/bare), max(over, mine-1.5*bare)
		b.Logf("query %2d: %7.1f ms, DuckDB %7.1f ms, %.2f ×", i+1, mine, bare, mine/bare)
	}
	b.ReportMetric(sum, "sum-ms")
	b.ReportMetric(rawSum, "duckdb-sum-ms")
	b.ReportMetric(sum/rawSum, "sum-ratio")
	b.ReportMetric(math.Exp(logs/float64(len(queries))), "geometric-mean-ratio")
	b.ReportMetric(worst, "worst-ratio")
	b.ReportMetric(over, "worst-ms-above-1.5") // at most 20 are allowed
	b.ReportMetric(inMiB(rss(b, w.servers[0].cmd.Process.Pid)), "server-MiB")
	quiet(b)
}

// tpch creates the tables in the lake, and views with the same names over their files.
func (w *warehouse) tpch(scale string) {
	w.b.Helper()
	w.exec("CREATE SCHEMA lake.tpch", "CREATE SCHEMA made", "CALL dbgen(sf = "+scale+", schema = 'made')")
	for _, t := range tpchTables {
		w.exec(fmt.Sprintf("CREATE TABLE lake.tpch.%[1]s AS FROM made.%[1]s", t))
		w.over("tpch", t)
	}
	w.exec("DROP SCHEMA made CASCADE")
	w.schema = "tpch"
}

// tpchQueries are the queries. They run unchanged on the lake and in this process.
func (w *warehouse) tpchQueries() (all []string) {
	w.b.Helper()
	rows, err := w.raw.Query("SELECT query FROM tpch_queries() ORDER BY query_nr")
	require.NoError(w.b, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var q string
		require.NoError(w.b, rows.Scan(&q))
		all = append(all, q)
	}
	require.NoError(w.b, rows.Err())
	require.Len(w.b, slices.Compact(all), 22)
	return all
}
