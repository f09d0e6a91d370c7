package main_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// result is what a statement answers.
type result struct {
	status       int
	header       http.Header
	raw          []byte
	Columns      []string
	Rows         [][]any
	Engine       string
	RowsAffected *int64 `json:"rows_affected"`
	Lineage      struct{ Read, Written []string }
	StatementID  string `json:"statement_id"`
	State        string
	Truncated    bool
	NextChunk    *int `json:"next_chunk"`
	Error        string
}

// sql runs a statement on the workspace's warehouse. More are fields of the request; its key "Accept" is the header's.
func (p *platform) sql(query string, more ...any) result {
	p.t.Helper()
	r, err := p.trySQL(p.t.Context(), query, more...)
	require.NoError(p.t, err)
	return r
}

func (p *platform) trySQL(ctx context.Context, query string, more ...any) (r result, err error) {
	body := map[string]any{"query": query, "warehouse_id": "default"}
	header := http.Header{}
	for i := 0; i < len(more); i += 2 {
		if more[i] == "Accept" || more[i] == "Idempotency-Key" {
			header.Set(more[i].(string), more[i+1].(string))
			continue
		}
		body[more[i].(string)] = more[i+1]
	}
	res, err := p.send(ctx, http.MethodPost, "/sql/execute", body, header)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	if r.raw, err = io.ReadAll(res.Body); err != nil {
		return r, err
	}
	r.status, r.header = res.StatusCode, res.Header
	if res.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(r.raw, &r)
	}
	return r, err
}

// ok is the result of a statement that has to succeed.
func (p *platform) ok(query string, more ...any) result {
	p.t.Helper()
	r := p.sql(query, more...)
	require.Equal(p.t, http.StatusOK, r.status, "%s: %s", query, r.raw)
	return r
}

// statementRow is a statement as it is listed.
type statementRow struct {
	StatementID string `json:"statement_id"`
	Query       string
	State       string
	Message     string
	Error       *struct {
		Message, Fault string
		Line, Column   int
	}
	Write    bool
	RowCount *int64 `json:"row_count"`
	Columns  []struct{ Name, Type string }
	Chunks   []struct{ Rows, Bytes int64 }
}

func (p *platform) statement(id string) (st statementRow) {
	p.t.Helper()
	p.must(http.MethodGet, "/sql/statements/"+id, nil, &st)
	return st
}

// awaitStatement waits until the statement is in one of the states.
func (p *platform) awaitStatement(id string, states ...string) (st statementRow) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%s is %v", id, states), func() bool {
		st = statementRow{}
		if !p.get("/sql/statements/"+id, &st) {
			return false
		}
		reached := slices.Contains(states, st.State)
		require.False(p.t, !reached && domain.StatementState(st.State).Final(), "%s is to be %v, and is %s: %+v", id, states, st.State, st.Error)
		return reached
	})
	return st
}

// TestSQL is a workspace's first statements, from a warehouse that is stopped to what is left of them in its history.
func TestSQL(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})

	one := p.ok("SELECT 1 AS n, 'x' AS s, NULL AS nothing, 1.10 AS d, DATE '2026-02-28' AS day")
	require.Equal(t, []string{"n", "s", "nothing", "d", "day"}, one.Columns)
	require.Contains(t, string(one.raw), `"rows":[[1,"x",null,1.10,"2026-02-28"]]`)
	require.Equal(t, "duckdb", one.Engine)

	p.ok("CREATE TABLE lake.public.t (id BIGINT, name VARCHAR, amount DECIMAL(38, 2))")
	made := p.ok("INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', 123456789012345678901234567890123456.78)")
	require.Equal(t, int64(2), *made.RowsAffected)
	require.Equal(t, []string{"lake.public.t"}, made.Lineage.Written)
	for _, name := range []string{"lake.public.t", "public.t", "t", "LAKE.PUBLIC.T"} {
		got := p.ok("SELECT * FROM " + name + " ORDER BY id")
		require.Contains(t, string(got.raw), `[[1,"one",1.50],[2,"two",123456789012345678901234567890123456.78]]`, name)
		require.Equal(t, []string{"lake.public.t"}, got.Lineage.Read, name)
	}
	require.Equal(t, int64(1), *p.ok("UPDATE t SET name = 'uno' WHERE id = 1").RowsAffected)
	require.Equal(t, int64(1), *p.ok("DELETE FROM t WHERE id = 2").RowsAffected)
	p.ok("MERGE INTO t USING (SELECT 1 AS id, 'eins' AS name) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name")
	p.ok("ALTER TABLE t ADD COLUMN note VARCHAR")
	view := p.ok("CREATE VIEW named AS SELECT name FROM t").Lineage
	require.Equal(t, []string{"lake.public.t"}, view.Read)
	require.Equal(t, []string{"lake.public.named"}, view.Written)
	require.Equal(t, [][]any{{"eins"}}, p.ok("SELECT * FROM named").Rows)
	for _, rows := range []int64{1, 0} {
		require.Equal(t, rows, *p.ok("CREATE TABLE IF NOT EXISTS copied AS SELECT * FROM t").RowsAffected)
	}
	p.ok("CREATE SCHEMA other")
	p.ok("CREATE TABLE other.t AS SELECT 42 AS answer")
	require.Equal(t, [][]any{{42.0}}, p.ok("SELECT answer FROM t", "schema", "other").Rows)
	for query, name := range map[string]string{"DROP TABLE other.t": "lake.other.t", "DROP VIEW named": "lake.public.named"} {
		dropped := p.ok(query).Lineage
		require.Empty(t, dropped.Read, query)
		require.Equal(t, []string{name}, dropped.Written, query)
	}

	t.Run("parameters are bound", func(t *testing.T) {
		p.lend(t)
		got := p.ok("SELECT $1::BIGINT + 1, $2, $3::BOOLEAN, $4::VARCHAR", "parameters", []any{41, "'; DROP TABLE t; --", true, nil})
		require.Equal(t, [][]any{{42.0, "'; DROP TABLE t; --", true, nil}}, got.Rows)
		require.Equal(t, 400, p.sql("SELECT $1, $2", "parameters", []any{1}).status)
		require.Equal(t, 400, p.sql("SELECT $1", "parameters", []any{[]int{1}}).status)
	})
	t.Run("errors say where", func(t *testing.T) {
		p.lend(t)
		bad := p.sql("SELECT 'ü',\n   nonsense FROM t")
		require.Equal(t, 400, bad.status)
		require.Contains(t, bad.Error, "Line 2, column 4: ")
		var all page[statementRow]
		p.must(http.MethodGet, "/sql/statements?limit=1", nil, &all)
		require.Equal(t, "failed", all.Data[0].State)
		require.Equal(t, []int{2, 4}, []int{all.Data[0].Error.Line, all.Data[0].Error.Column})
		for _, query := range []string{
			"SELECT 1; SELECT 2", "ATTACH 'x'", "COPY t TO '/tmp/x'", "SET threads = 1", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'",
			"INSTALL httpfs", "PRAGMA version", "CALL pragma_version()", "", " -- nothing",
		} {
			require.Equal(t, 400, p.sql(query).status, query)
		}
		require.Equal(t, 413, p.sql("SELECT '"+strings.Repeat("x", 2<<20)+"'").status)
	})
	t.Run("as it is asked for", func(t *testing.T) {
		p.lend(t)
		text := p.ok("SELECT range AS n, 'a,\"b' AS s FROM range(3)", "Accept", "text/csv")
		lines, err := csv.NewReader(bytes.NewReader(text.raw)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, [][]string{{"n", "s"}, {"0", "a,\"b"}, {"1", "a,\"b"}, {"2", "a,\"b"}}, lines)
		arrow := p.ok("SELECT range AS n FROM range(100000)", "Accept", "application/vnd.apache.arrow.stream")
		require.Equal(t, int64(100000), arrowRows(t, arrow.raw))
		require.Equal(t, 400, p.sql("SELECT 1", "Accept", "image/png").status)
	})
	t.Run("limits", func(t *testing.T) {
		p.lend(t)
		few := p.ok("SELECT * FROM range(1000000000)", "row_limit", 5)
		require.Len(t, few.Rows, 5)
		require.True(t, few.Truncated)
		require.Nil(t, few.NextChunk)
		require.Equal(t, 400, p.sql("SELECT count(*) FROM range(100000000000) a, range(1000) b", "timeout_seconds", 1).status)
	})
	t.Run("the same key is the same statement", func(t *testing.T) {
		p.lend(t)
		first := p.ok("INSERT INTO copied (id) VALUES (7)", "Idempotency-Key", "seven")
		again := p.ok("INSERT INTO copied (id) VALUES (7)", "Idempotency-Key", "seven")
		require.Equal(t, first.StatementID, again.StatementID)
		require.Equal(t, [][]any{{1.0}}, p.ok("SELECT count(*) FROM copied WHERE id = 7").Rows)
		require.Equal(t, 409, p.sql("INSERT INTO copied (id) VALUES (8)", "Idempotency-Key", "seven").status)
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

// TestLargeResult comes in pieces, of which each row is there once, in order, in every format.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})
	const rows = 3_000_000
	r := p.ok(fmt.Sprintf("SELECT range AS n, 'row ' || range AS s FROM range(%d) ORDER BY n", rows))
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
		var c result
		p.must(http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, *next), nil, &c)
		check(c.Rows)
		next = c.NextChunk
	}
	require.Equal(t, int64(rows), seen)
	st := p.awaitStatement(r.StatementID, "succeeded")
	require.Equal(t, int64(rows), *st.RowCount)
	require.Equal(t, "long", st.Columns[0].Type)
	total := int64(0)
	for n, chunk := range st.Chunks {
		res, err := p.send(t.Context(), http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, n), nil, http.Header{"Accept": {"application/vnd.apache.arrow.stream"}})
		require.NoError(t, err)
		raw, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, chunk.Rows, arrowRows(t, raw))
		total += chunk.Rows
	}
	require.Equal(t, int64(rows), total)
	var gone *statusError
	require.ErrorAs(t, p.do(t.Context(), http.MethodGet, fmt.Sprintf("/sql/statements/%s/chunks/%d", r.StatementID, len(st.Chunks)), nil, nil), &gone)
	require.Equal(t, 404, gone.status)
}

// slow is a read that ends only when it is ended.
const slow = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range * b.range = -1"

// TestStatementIsCancelled frees its warehouse, whoever asked: by its id, or by going away.
func TestStatementIsCancelled(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})
	p.ok("SELECT 1")
	pending := p.sql(slow, "wait_timeout", "0s")
	require.Equal(t, 202, pending.status)
	p.awaitStatement(pending.StatementID, "running")
	p.must(http.MethodPost, "/sql/statements/"+pending.StatementID+"/cancel", nil, nil)
	p.awaitStatement(pending.StatementID, "cancelled")
	require.Equal(t, 409, status(p.post("/sql/statements/"+pending.StatementID+"/cancel")))
	require.Equal(t, 409, status(p.do(t.Context(), http.MethodGet, "/sql/statements/"+pending.StatementID+"/chunks/0", nil, nil)))

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := p.trySQL(ctx, slow+" -- left")
		left <- err
	}()
	var id string
	await(t, "the statement runs", func() bool {
		var all page[statementRow]
		if p.get("/sql/statements?state=running&search=left", &all) && len(all.Data) == 1 {
			id = all.Data[0].StatementID
		}
		return id != ""
	})
	leave()
	require.Error(t, <-left)
	p.awaitStatement(id, "cancelled")
	require.Equal(t, [][]any{{1.0}}, p.ok("SELECT 1").Rows)
}

// TestWhoMayWrite: a viewer reads, and starts a warehouse for it; what writes is forbidden, and changes nothing.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--no-samples"}})
	p.ok("CREATE TABLE t AS SELECT 1 AS n")
	var in struct {
		Token string `json:"access_token"`
	}
	p.must(http.MethodPost, "/auth/login", login, &in)
	ada := &client{url: p.url, key: in.Token}
	var key struct{ Secret string }
	require.NoError(t, ada.do(t.Context(), http.MethodPost, "/settings/api-keys", map[string]any{"name": "viewer", "role": "viewer"}, &key))
	viewer := *p
	viewer.client = &client{url: p.url, key: key.Secret}
	require.Equal(t, [][]any{{1.0}}, viewer.ok("SELECT n FROM t").Rows)
	for _, query := range []string{
		"INSERT INTO t VALUES (2)", "CREATE TABLE u (n INT)", "DROP TABLE t", "DELETE FROM t", "UPDATE t SET n = 2", "CREATE SCHEMA s", "CREATE VIEW v AS SELECT 1",
	} {
		require.Equal(t, 403, viewer.sql(query).status, query)
	}
	db := p.database()
	defer db.Close()
	var denied int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM audit_events WHERE outcome = 'denied' AND action = 'catalog.write' AND actor_name = 'viewer'`).Scan(&denied))
	require.Equal(t, 7, denied, "each refusal leaves a row in the audit log")
	require.Equal(t, [][]any{{1.0}}, p.ok("SELECT n FROM t").Rows)
}
