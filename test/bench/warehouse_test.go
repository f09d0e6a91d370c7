package bench

import (
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"
)

// warehouse is a platform with one warehouse. It also has a DuckDB in this process, as a client of
// the catalog and as the reference.
type warehouse struct {
	*platform
	id     string
	schema string  // default schema of statements
	raw    *sql.DB // reads files directly, with as many threads as a statement on the warehouse
}

// The size of the measured warehouses, and the number of threads of a statement on them.
const (
	warehouseSize    = "cpu.1"
	warehouseThreads = 1
)

func newWarehouse(b *testing.B, extra ...string) *warehouse {
	b.Helper()
	w := &warehouse{platform: newPlatform(b, 0, extra...), schema: "public"}
	var made struct{ ID string }
	require.NoError(b, w.do(http.MethodPost, "/sql/warehouses", map[string]string{"name": "bench", "size": warehouseSize, "auto_stop": "never"}, &made))
	w.id = made.ID
	b.Cleanup(func() { w.machineUntil("/sql/warehouses/"+w.id, "stop", "stopped") }) // it would outlive the server
	var err error
	w.raw, err = sql.Open("duckdb", fmt.Sprintf("?threads=%d", warehouseThreads))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, w.raw.Close()) })
	dir := newDir(b)
	for _, name := range []string{"avro", "httpfs", "iceberg"} {
		w.load(unpackExtension(b, dir, name))
	}
	w.load(tpchExtension(b))
	w.exec(fmt.Sprintf("ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '%s/api/v1/iceberg', TOKEN '%s')", w.url, w.key))
	w.answer("SELECT 1")
	return w
}

func (w *warehouse) load(extension string) { w.exec("LOAD '" + extension + "'") }

// unpackExtension unpacks one of the engine's embedded extensions into dir.
func unpackExtension(b *testing.B, dir, name string) string {
	b.Helper()
	packed, err := os.Open(filepath.Join("../../agent/engine/extensions", runtime.GOOS+"_"+runtime.GOARCH, name+".duckdb_extension.gz"))
	require.NoError(b, err)
	defer func() { _ = packed.Close() }()
	z, err := gzip.NewReader(packed)
	require.NoError(b, err)
	out, err := os.Create(filepath.Join(dir, name+".duckdb_extension"))
	require.NoError(b, err)
	_, err = io.Copy(out, z)
	require.NoError(b, err)
	require.NoError(b, out.Close())
	return out.Name()
}

func tpchExtension(b *testing.B) string {
	b.Helper()
	out, err := exec.Command("../../scripts/tpch.sh").Output()
	require.NoError(b, err)
	return strings.TrimSpace(string(out))
}

// exec runs statements in this process's DuckDB.
func (w *warehouse) exec(statements ...string) {
	w.b.Helper()
	for _, s := range statements {
		_, err := w.raw.Exec(s)
		require.NoError(w.b, err, s)
	}
}

// over creates a view in this process's DuckDB over the data files of a table of the lake. The
// table must not have delete files.
func (w *warehouse) over(schema, table string) {
	w.b.Helper()
	var files []string
	base := fmt.Sprintf("/databases/lake/schemas/%s/tables/%s/files?limit=200", schema, table)
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				Path    string
				Content string
			}
			NextCursor *string `json:"next_cursor"`
		}
		require.NoError(w.b, w.do(http.MethodGet, base+cursor, nil, &page))
		for _, f := range page.Data {
			require.Equal(w.b, "data", f.Content)
			files = append(files, "'"+strings.TrimPrefix(f.Path, "file://")+"'")
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
	require.NotEmpty(w.b, files)
	w.exec(fmt.Sprintf("CREATE OR REPLACE VIEW memory.main.%s AS FROM read_parquet([%s])", table, strings.Join(files, ", ")))
}

type statementAnswer struct {
	Rows        [][]any
	StatementID string `json:"statement_id"`
	Truncated   bool
	NextChunk   *int `json:"next_chunk"`
}

// execute sends a statement and returns the response. The caller must close its body.
func (w *warehouse) execute(query, accept string) (*http.Response, error) {
	return w.executeIn("", query, accept)
}

// executeIn is execute by the named engine; if the name is empty, the statement's kind decides.
func (w *warehouse) executeIn(engine, query, accept string) (*http.Response, error) {
	asked := map[string]string{"query": query, "warehouse_id": w.id, "database": "lake", "schema": w.schema}
	if engine != "" {
		asked["engine"] = engine
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	return w.ask(http.MethodPost, "/sql/execute", string(text), accept)
}

func (w *warehouse) ask(method, path, body, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, w.url+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	res, err := sqlWeb.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s %s answered %d: %s", method, path, res.StatusCode, said)
	}
	return res, err
}

var sqlWeb = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// drain reads all chunks of a statement's result, and returns their size in bytes.
func (w *warehouse) drain(query, accept string) (int64, error) {
	res, err := w.execute(query, accept)
	var total int64
	var id string
	for err == nil {
		ends := &endsOf{}
		var n int64
		n, err = io.Copy(ends, res.Body)
		_ = res.Body.Close()
		total += n
		next := res.Header.Get("Millpond-Next-Chunk")
		if found := nextChunk.FindSubmatch(ends.bytes()); found != nil {
			next = string(found[1])
		}
		if next == "" || err != nil {
			break
		}
		if id == "" {
			id = statementID.FindString(res.Header.Get("Millpond-Statement-Id") + string(ends.bytes()))
		}
		res, err = w.ask(http.MethodGet, "/sql/statements/"+id+"/chunks/"+next, "", accept)
	}
	return total, err
}

var (
	nextChunk   = regexp.MustCompile(`"next_chunk":(\d+)`)
	statementID = regexp.MustCompile(`stm_\w+`)
)

// endsOf keeps the beginning and the end of the written bytes, where an answer in JSON has its
// metadata.
type endsOf struct{ first, last []byte }

func (e *endsOf) Write(b []byte) (int, error) {
	const most = 2 << 10
	e.first = append(e.first, b[:min(len(b), most-len(e.first))]...)
	e.last = append(e.last, b[max(0, len(b)-most):]...)
	e.last = append(e.last[:0], e.last[max(0, len(e.last)-most):]...)
	return len(b), nil
}

func (e *endsOf) bytes() []byte { return append(e.first[:len(e.first):len(e.first)], e.last...) }

// answer runs a statement and returns its rows decoded from JSON.
func (w *warehouse) answer(query string) [][]any {
	w.b.Helper()
	res, err := w.execute(query, "application/json")
	require.NoError(w.b, err, query)
	defer func() { _ = res.Body.Close() }()
	var a statementAnswer
	require.NoError(w.b, json.NewDecoder(res.Body).Decode(&a))
	require.False(w.b, a.Truncated)
	return a.Rows
}

// rawRows runs a query in this process's DuckDB, and returns the number of its rows.
func (w *warehouse) rawRows(query string) (n int, err error) {
	rows, err := w.raw.Query(query)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

// timed returns the duration of work.
func timed(b *testing.B, work func() error) time.Duration {
	b.Helper()
	start := time.Now()
	require.NoError(b, work())
	return time.Since(start)
}
