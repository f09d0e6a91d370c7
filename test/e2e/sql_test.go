package e2e_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestSQL runs a workspace's first statements, from the start of its stopped warehouse to their
// history.
func TestSQL(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})

	one := p.OK("SELECT 1 AS n, 'x' AS s, NULL AS nothing, 1.10 AS d, DATE '2026-02-28' AS day")
	require.Equal(t, []string{"n", "s", "nothing", "d", "day"}, one.Columns)
	require.Contains(t, string(one.Raw), `"rows":[[1,"x",null,1.10,"2026-02-28"]]`)
	require.Equal(t, "duckdb", one.Engine)

	p.OK("CREATE TABLE lake.public.t (id BIGINT, name VARCHAR, amount DECIMAL(38, 2))")
	made := p.OK("INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', 123456789012345678901234567890123456.78)")
	require.Equal(t, int64(2), *made.RowsAffected)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Written)
	for _, name := range []string{"lake.public.t", "public.t", "t", "LAKE.PUBLIC.T"} {
		got := p.OK("SELECT * FROM " + name + " ORDER BY id")
		require.Contains(t, string(got.Raw), `[[1,"one",1.50],[2,"two",123456789012345678901234567890123456.78]]`, name)
		require.Equal(t, []string{"lake.public.t"}, got.Lineage.Read, name)
	}
	require.Equal(t, int64(1), *p.OK("UPDATE t SET name = 'uno' WHERE id = 1").RowsAffected)
	require.Equal(t, int64(1), *p.OK("DELETE FROM t WHERE id = 2").RowsAffected)
	p.OK("MERGE INTO t USING (SELECT 1 AS id, 'eins' AS name) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name")
	p.OK("ALTER TABLE t ADD COLUMN note VARCHAR")
	view := p.OK("CREATE VIEW named AS SELECT name FROM t").Lineage
	require.Equal(t, []string{"lake.public.t"}, view.Read)
	require.Equal(t, []string{"lake.public.named"}, view.Written)
	require.Equal(t, [][]any{{"eins"}}, p.OK("SELECT * FROM named").Rows)
	for _, rows := range []int64{1, 0} {
		require.Equal(t, rows, *p.OK("CREATE TABLE IF NOT EXISTS copied AS SELECT * FROM t").RowsAffected)
	}
	p.OK("CREATE SCHEMA other")
	p.OK("CREATE TABLE other.t AS SELECT 42 AS answer")
	require.Equal(t, [][]any{{42.0}}, p.OK("SELECT answer FROM t", "schema", "other").Rows)
	for query, name := range map[string]string{"DROP TABLE other.t": "lake.other.t", "DROP VIEW named": "lake.public.named"} {
		dropped := p.OK(query).Lineage
		require.Empty(t, dropped.Read, query)
		require.Equal(t, []string{name}, dropped.Written, query)
	}

	t.Run("parameters are bound", func(t *testing.T) {
		p.Lend(t)
		got := p.OK("SELECT $1::BIGINT + 1, $2, $3::BOOLEAN, $4::VARCHAR", "parameters", []any{41, "'; DROP TABLE t; --", true, nil})
		require.Equal(t, [][]any{{42.0, "'; DROP TABLE t; --", true, nil}}, got.Rows)
		require.Equal(t, 400, p.SQL("SELECT $1, $2", "parameters", []any{1}).Status)
		require.Equal(t, 400, p.SQL("SELECT $1", "parameters", []any{[]int{1}}).Status)
	})
	t.Run("errors say where", func(t *testing.T) {
		p.Lend(t)
		bad := p.SQL("SELECT 'ü',\n   nonsense FROM t")
		require.Equal(t, 400, bad.Status)
		require.Contains(t, bad.Error, "Line 2, column 4: ")
		var all harness.Page[harness.StatementRow]
		p.Must(http.MethodGet, "/sql/statements?limit=1", nil, &all)
		require.Equal(t, "failed", all.Data[0].State)
		require.Equal(t, []int{2, 4}, []int{all.Data[0].Error.Line, all.Data[0].Error.Column})
		for _, query := range []string{
			"SELECT 1; SELECT 2", "ATTACH 'x'", "COPY t TO '/tmp/x'", "SET threads = 1", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
			"INSTALL httpfs", "PRAGMA version", "CALL pragma_version()", "", " -- nothing",
		} {
			require.Equal(t, 400, p.SQL(query).Status, query)
		}
		require.Equal(t, 413, p.SQL("SELECT '"+strings.Repeat("x", 2<<20)+"'").Status)
	})
	t.Run("in the requested format", func(t *testing.T) {
		p.Lend(t)
		text := p.OK("SELECT range AS n, 'a,\"b' AS s FROM range(3)", "Accept", "text/csv")
		lines, err := csv.NewReader(bytes.NewReader(text.Raw)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, [][]string{{"n", "s"}, {"0", "a,\"b"}, {"1", "a,\"b"}, {"2", "a,\"b"}}, lines)
		arrow := p.OK("SELECT range AS n FROM range(100000)", "Accept", "application/vnd.apache.arrow.stream")
		require.Equal(t, int64(100000), arrowRows(t, arrow.Raw))
		require.Equal(t, 400, p.SQL("SELECT 1", "Accept", "image/png").Status)
	})
	t.Run("limits", func(t *testing.T) {
		p.Lend(t)
		few := p.OK("SELECT * FROM range(1000000000)", "row_limit", 5)
		require.Len(t, few.Rows, 5)
		require.True(t, few.Truncated)
		require.Nil(t, few.NextChunk)
		require.Equal(t, 400, p.SQL("SELECT count(*) FROM range(100000000000) a, range(1000) b", "timeout_seconds", 1).Status)
	})
	t.Run("the same key is the same statement", func(t *testing.T) {
		p.Lend(t)
		first := p.OK("INSERT INTO copied (id) VALUES (7)", "Idempotency-Key", "seven")
		again := p.OK("INSERT INTO copied (id) VALUES (7)", "Idempotency-Key", "seven")
		require.Equal(t, first.StatementID, again.StatementID)
		require.Equal(t, [][]any{{1.0}}, p.OK("SELECT count(*) FROM copied WHERE id = 7").Rows)
		require.Equal(t, 409, p.SQL("INSERT INTO copied (id) VALUES (8)", "Idempotency-Key", "seven").Status)
	})
}

func arrowRows(t *testing.T, stream []byte) (n int64) {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	require.NoError(t, err)
	defer r.Release()
	for r.Next() {
		n += r.RecordBatch().NumRows()
	}
	require.NoError(t, r.Err())
	return n
}

// TestLargeResult: a large result has chunks. Each row appears once and in order in every format.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	const rows = 1_000_000
	r := p.OK(fmt.Sprintf("SELECT range AS n, 'row ' || range AS s FROM range(%d) ORDER BY n", rows))
	require.True(t, r.Truncated)
	next, seen := r.NextChunk, int64(0)
	check := func(rows [][]any) {
		for _, row := range rows {
			if row[0] != float64(seen) {
				require.Equal(t, float64(seen), row[0])
			}
			seen++
		}
	}
	check(r.Rows)
	require.Equal(t, 1, *next)
	for next != nil {
		var c harness.Result
		p.Must(http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, *next), nil, &c)
		check(c.Rows)
		next = c.NextChunk
	}
	require.Equal(t, int64(rows), seen)
	st := p.AwaitStatement(r.StatementID, "succeeded")
	require.Equal(t, int64(rows), *st.RowCount)
	require.Equal(t, "long", st.Columns[0].Type)
	total := int64(0)
	for n, chunk := range st.Chunks {
		res, err := p.Send(t.Context(), http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, n), nil, http.Header{"Accept": {"application/vnd.apache.arrow.stream"}})
		require.NoError(t, err)
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, chunk.Rows, arrowRows(t, raw))
		total += chunk.Rows
	}
	require.Equal(t, int64(rows), total)
	var gone *harness.StatusError
	require.ErrorAs(t, p.Do(t.Context(), http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, len(st.Chunks)), nil, nil), &gone)
	require.Equal(t, 404, gone.Status)
}

// TestStatementIsCancelled: a cancelled statement frees its warehouse, whether it was cancelled by
// its id or by a lost client.
func TestStatementIsCancelled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	p.OK("SELECT 1")
	pending := p.SQL(harness.SlowQuery, "wait_timeout", "0s")
	require.Equal(t, 202, pending.Status)
	p.AwaitStatement(pending.StatementID, "running")
	p.Must(http.MethodPost, "/sql/statements/"+pending.StatementID+"/cancel", nil, nil)
	p.AwaitStatement(pending.StatementID, "cancelled")
	require.Equal(t, 409, harness.Status(p.Post("/sql/statements/"+pending.StatementID+"/cancel")))
	require.Equal(t, 409, harness.Status(p.Do(t.Context(), http.MethodGet, "/sql/statements/"+pending.StatementID+"/chunks/0", nil, nil)))

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := p.TrySQL(ctx, harness.SlowQuery+" -- left")
		left <- err
	}()
	var id string
	harness.Await(t, "the statement runs", func() bool {
		var all harness.Page[harness.StatementRow]
		if p.Get("/sql/statements?state=running&search=left", &all) && len(all.Data) == 1 {
			id = all.Data[0].StatementID
		}
		return id != ""
	})
	leave()
	require.Error(t, <-left)
	p.AwaitStatement(id, "cancelled")
	require.Equal(t, [][]any{{1.0}}, p.OK("SELECT 1").Rows)
}

// TestWhoMayWrite: a viewer reads and thereby starts a warehouse. Writes are forbidden and change
// nothing.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	p.OK("CREATE TABLE t AS SELECT 1 AS n")
	var in struct {
		Token string `json:"access_token"`
	}
	p.Must(http.MethodPost, "/auth/login", harness.Login, &in)
	ada := &harness.Client{URL: p.URL, Key: in.Token}
	var key struct{ Secret string }
	require.NoError(t, ada.Do(t.Context(), http.MethodPost, "/settings/api-keys", map[string]any{"name": "viewer", "role": "viewer"}, &key))
	viewer := *p
	viewer.Client = &harness.Client{URL: p.URL, Key: key.Secret}
	require.Equal(t, [][]any{{1.0}}, viewer.OK("SELECT n FROM t").Rows)
	for _, query := range []string{
		"INSERT INTO t VALUES (2)", "CREATE TABLE u (n INT)", "DROP TABLE t", "DELETE FROM t", "UPDATE t SET n = 2", "CREATE SCHEMA s", "CREATE VIEW v AS SELECT 1",
	} {
		require.Equal(t, 403, viewer.SQL(query).Status, query)
	}
	db := p.Database()
	defer db.Close()
	var denied int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM audit_events WHERE outcome = 'denied' AND action = 'catalog.write' AND actor_name = 'viewer'`).Scan(&denied))
	require.Equal(t, 7, denied, "each refusal leaves a row in the audit log")
	require.Equal(t, [][]any{{1.0}}, p.OK("SELECT n FROM t").Rows)
}
