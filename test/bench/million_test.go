//go:build duckdb_arrow

package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"
)

// BenchmarkMillionRows transfers a million rows of eight columns to the client, as Arrow and as
// JSON. The reference is DuckDB in this process, which writes the same rows to a file.
func BenchmarkMillionRows(b *testing.B) {
	w := newWarehouse(b)
	w.answer(`CREATE TABLE million AS SELECT range AS a, range * 2 AS b, range::DOUBLE / 3 AS c, 'row ' || range AS d, (range % 7)::INT AS e,
		DATE '2020-01-01' + (range % 1000)::INT AS f, range % 2 = 0 AS g, (range % 1000)::DECIMAL(18, 2) AS h FROM range(1000000)`)
	w.over("public", "million")
	dir := newDir(b)
	for name, way := range map[string]struct {
		accept string
		write  func(path string) error
	}{
		"json": {"application/json", func(path string) error {
			_, err := w.raw.Exec("COPY (FROM million) TO '" + path + "' (FORMAT json, ARRAY true)")
			return err
		}},
		"arrow": {"application/vnd.apache.arrow.stream", func(path string) error { return writeArrow(w.raw, "FROM million", path) }},
	} {
		b.Run(name, func(b *testing.B) {
			var got, raw sample
			var size int64
			for i := range 6 {
				path := filepath.Join(dir, fmt.Sprint(name, i))
				raw = append(raw, timed(b, func() error { return way.write(path) }))
				require.NoError(b, os.Remove(path))
				got = append(got, timed(b, func() (err error) { size, err = w.drain("FROM million", way.accept); return err }))
			}
			got, raw = got[1:], raw[1:]
			b.ReportMetric(ms(got.median()), "answer-ms")
			b.ReportMetric(ms(raw.median()), "duckdb-ms")
			b.ReportMetric(float64(got.median())/float64(raw.median()), "ratio")
			b.ReportMetric(float64(size)/(1<<20), "answer-MiB")
			b.ReportMetric(inMiB(rss(b, w.servers[0].cmd.Process.Pid)), "server-MiB")
			quiet(b)
		})
	}
}

// writeArrow writes a query's rows to a file as an Arrow stream.
func writeArrow(db *sql.DB, query, path string) (err error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(of any) error {
		from, err := duckdb.NewArrowFromConn(of.(driver.Conn))
		if err != nil {
			return err
		}
		rows, err := from.QueryContext(context.Background(), query)
		if err != nil {
			return err
		}
		defer rows.Release()
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		out := ipc.NewWriter(file, ipc.WithSchema(rows.Schema()))
		for rows.Next() {
			if err := out.Write(rows.RecordBatch()); err != nil {
				return err
			}
		}
		return errors.Join(rows.Err(), out.Close(), file.Close())
	})
}
