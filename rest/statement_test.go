package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/statement"
)

// runs starts the tenant's first warehouse.
func (w *world) runs(t tenant) {
	w.t.Helper()
	id := w.warehouse(t)
	w.call(t.editor, "POST", "/sql/warehouses/"+id+"/start", nil).object(200)
	w.arrives()
}

func (w *world) warehouse(t tenant) string {
	w.t.Helper()
	first, _ := w.call(t.viewer, "GET", "/sql/warehouses", nil).data(200)[0].(map[string]any)
	id, _ := first["id"].(string)
	return id
}

// sqlWorld is a world with a running default warehouse.
func sqlWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.runs(w.ours)
	return w
}

// execute sends a statement to the default warehouse.
func (w *world) execute(token, query string, more map[string]any, headers ...string) reply {
	w.t.Helper()
	body := map[string]any{"query": query, "warehouse_id": "default"}
	for k, v := range more {
		body[k] = v
	}
	return w.call(token, "POST", "/sql/execute", body, headers...)
}

func (w *world) executed(token, query string, more map[string]any) map[string]any {
	w.t.Helper()
	return w.execute(token, query, more).object(200)
}

// begun sends a statement that keeps running.
func (w *world) begun(token, query string) string {
	w.t.Helper()
	id, _ := w.execute(token, query, map[string]any{"wait_timeout": "0s"}).object(202)["statement_id"].(string)
	return id
}

func (w *world) statement(id string) map[string]any {
	w.t.Helper()
	return w.call(w.ours.viewer, "GET", "/sql/statements/"+id, nil).object(200)
}

// becomes waits until the statement has that state.
func (w *world) becomes(id, state string) (st map[string]any) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		st = w.statement(id)
		return st["state"] == state
	}, testTimeout, 20*time.Millisecond, "%v", st)
	return st
}

// The answer has the specification's fields and further ones.
func TestTheResultOfAStatement(t *testing.T) {
	w := sqlWorld(t)
	r := w.execute(w.ours.viewer, "SELECT 2", nil)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	for _, name := range []string{"Millpond-Statement-Id", "Millpond-Engine", "Millpond-Truncated", "Millpond-Next-Chunk"} {
		require.Empty(t, r.header.Get(name), "it is in the body")
	}
	got := r.object(200)
	id, _ := got["statement_id"].(string)
	require.Regexp(t, "^stm_", id)
	elapsed := regexp.MustCompile(`"elapsed_ms":\d+,`)
	require.Regexp(t, elapsed, r.body)
	require.Equal(t, `{"columns":["n","price","text"],"rows":[[9007199254740993,`+wide+`,"row"],[9007199254740994,`+wide+`,"row"]],`+
		`"engine":"duckdb",`+`"lineage":{"read":[],"written":[]},"statement_id":"`+id+`","routing_reason":"It is so.","truncated":false}`, elapsed.ReplaceAllString(r.body, ""))

	limited := w.executed(w.ours.viewer, "LIMITED", map[string]any{"row_limit": 1, "byte_limit": 1 << 20, "timeout_seconds": 60, "engine": "duckdb", "database": "lake", "schema": "samples"})
	require.Equal(t, true, limited["truncated"])
	require.NotContains(t, limited, "next_chunk")
	sent := w.engines.last()
	require.Equal(t, []any{int64(1), int64(1 << 20), time.Minute, "duckdb", "samples"}, []any{sent.RowLimit, sent.ByteLimit, sent.Timeout, sent.Requested, sent.Schema})

	empty := w.executed(w.ours.editor, "EMPTY", nil)
	require.Equal(t, []any{[]any{}, []any{}}, []any{empty["columns"], empty["rows"]})
	require.NotContains(t, empty, "rows_affected", "it changes no rows")
	none := w.executed(w.ours.viewer, "SELECT 0", nil)
	require.Equal(t, []any{[]any{"n", "price", "text"}, []any{}}, []any{none["columns"], none["rows"]})
	require.NotContains(t, none, "rows_affected")
}

func TestAWriteTellsWhatItDid(t *testing.T) {
	w := sqlWorld(t)
	w.table(w.ours, "one", false)
	w.table(w.ours, "two", false)
	got := w.executed(w.ours.editor, "COPY one two", nil)
	require.Equal(t, 2.0, got["rows_affected"])
	require.Equal(t, map[string]any{"read": []any{"lake.public.one"}, "written": []any{"lake.public.two"}}, got["lineage"])
	require.Contains(t, w.execute(w.ours.viewer, "COPY one two", nil).refused(403), "It writes.")
	table := w.call(w.ours.viewer, "GET", "/databases/lake/schemas/public/tables/two", nil).object(200)
	require.Equal(t, 2.0, table["row_count"])
	by, _ := table["updated_by"].(map[string]any)
	require.Equal(t, []any{"statement", got["statement_id"]}, []any{by["kind"], by["id"]})

	lost := w.executed(w.ours.editor, "LOST one two", nil)
	require.NotContains(t, lost, "rows_affected", "the count was lost with the engine")
	require.Contains(t, lost["routing_reason"], "It committed before it was ended")
	shown := w.statement(fmt.Sprint(lost["statement_id"]))
	require.Equal(t, []any{"succeeded", true, nil}, []any{shown["state"], shown["write"], shown["row_count"]})
	require.Equal(t, 4.0, w.call(w.ours.viewer, "GET", "/databases/lake/schemas/public/tables/two", nil).object(200)["row_count"])
}

func TestResultsComeAsAccepted(t *testing.T) {
	w := sqlWorld(t)
	first := w.executed(w.ours.viewer, "SELECT 1", nil)
	chunk := "/sql/statements/" + fmt.Sprint(first["statement_id"]) + "/chunks/0"
	for accept, want := range map[string]string{
		"": typeJSON, "*/*": typeJSON, "application/*": typeJSON, "APPLICATION/JSON": typeJSON, "text/csv": typeCSV, "text/*": typeCSV, "text/csv; charset=utf-8": typeCSV,
		typeArrow: typeArrow, "text/html, text/csv": typeCSV, "text/csv, application/json": typeCSV, "text/csv;q=0.5, application/json": typeJSON,
		"text/csv;q=0.9, " + typeArrow + ";q=1.0, */*;q=0.1": typeArrow, "*/*;q=0.1, text/csv": typeCSV, "text/csv;q=0, */*": typeJSON, "nonsense, text/csv": typeCSV,
	} {
		for _, r := range []reply{w.execute(w.ours.viewer, "SELECT 1", nil, "Accept", accept), w.call(w.ours.viewer, "GET", chunk, nil, "Accept", accept)} {
			require.Equal(t, 200, r.status, r.body)
			require.Equal(t, want, r.header.Get("Content-Type"), accept)
			if want != typeJSON {
				require.Regexp(t, "^stm_", r.header.Get("Millpond-Statement-Id"))
				require.Empty(t, r.header.Get("Millpond-Next-Chunk"))
			}
			switch want {
			case typeCSV:
				require.Equal(t, "n,price,text\r\n9007199254740993,"+wide+",row\r\n", r.body)
			case typeArrow:
				require.Equal(t, string(arrowStream(things))+string(thingRows(1, "row").Batch.Data)+arrowEnd, r.body)
			}
		}
	}
	r := w.execute(w.ours.viewer, "LIMITED", nil, "Accept", typeCSV)
	require.Equal(t, []string{"duckdb", "true"}, []string{r.header.Get("Millpond-Engine"), r.header.Get("Millpond-Truncated")})
	ran := len(w.engines.all())
	for _, accept := range []string{"text/html", "image/*", "text/csv;q=0", "*/*;q=0", "text/csv;q=2", "text/csv;q=x", "csv", ";;", strings.Repeat("x", 3000)} {
		require.Contains(t, w.execute(w.ours.viewer, "SELECT 1", nil, "Accept", accept).refused(400), "results come as application/json", accept)
		w.call(w.ours.viewer, "GET", chunk, nil, "Accept", accept).refused(400)
	}
	require.Len(t, w.engines.all(), ran, "nothing was run")
	w.execute(w.ours.viewer, "WRONG", nil, "Accept", typeCSV).refused(400)
}

func TestAWrongStatementSaysWhere(t *testing.T) {
	w := sqlWorld(t)
	require.Equal(t, "Line 2, column 8: There is no table penguinz.", w.execute(w.ours.viewer, "WRONG", nil).refused(400))
	st, _ := w.call(w.ours.viewer, "GET", "/sql/statements", nil).data(200)[0].(map[string]any)
	require.Equal(t, "failed", st["state"])
	require.Equal(t, map[string]any{"message": "There is no table penguinz.", "fault": "query", "line": 2.0, "column": 8.0}, st["error"])
	require.Nil(t, st["progress"])
	require.Equal(t, "Line 2, column 8: There is no table penguinz.", w.call(w.ours.viewer, "GET", fmt.Sprint("/sql/statements/", st["statement_id"], "/chunks/0"), nil).refused(400))
}

func TestWhatIsKnownOfAStatement(t *testing.T) {
	w := sqlWorld(t)
	id := fmt.Sprint(w.executed(w.ours.viewer, "SELECT 3", map[string]any{"parameters": []any{nil, true, json.Number("12345678901234567890123456789012345678"), "x"}})["statement_id"])
	r := w.call(w.ours.viewer, "GET", "/sql/statements/"+id, nil)
	require.Contains(t, r.body, `"parameters":[null,true,12345678901234567890123456789012345678,"x"]`)
	require.Equal(t, []json.RawMessage{json.RawMessage("null"), json.RawMessage("true"), json.RawMessage("12345678901234567890123456789012345678"), json.RawMessage(`"x"`)}, w.engines.last().Parameters)
	st := r.object(200)
	for field, want := range map[string]any{
		"statement_id": id, "query": "SELECT 3", "warehouse_id": w.warehouse(w.ours), "database": "lake", "schema": "public", "state": "succeeded", "message": "", "progress": 1.0,
		"kind": "SELECT", "write": false, "engine": "duckdb", "routing_reason": "It is so.", "row_count": 3.0, "result_bytes": 30.0, "bytes_scanned": 100.0, "truncated": false,
		"run_id": nil, "task_key": nil, "cancel_requested_at": nil, "columns": []any{
			map[string]any{"name": "n", "type": "long"}, map[string]any{"name": "price", "type": "decimal(38, 2)"}, map[string]any{"name": "text", "type": "string"},
		},
	} {
		require.Equal(t, want, st[field], field)
	}
	require.NotContains(t, st, "error")
	for _, field := range []string{"created_at", "started_at", "finished_at", "result_until", "queued_ms", "run_ms"} {
		require.NotNil(t, st[field], field)
	}
	require.Len(t, st["chunks"], 1)
	by, _ := st["created_by"].(map[string]any)
	require.Equal(t, "viewer@"+string(w.ours.id)+".example", by["name"])
}

// An impossible statement is refused before anything is stored.
func TestStatementsThatAreRefused(t *testing.T) {
	w := sqlWorld(t)
	before := w.snapshot()
	for name, c := range map[string]struct {
		more   map[string]any
		status int
		says   string
	}{
		"empty":                {map[string]any{"query": " \n"}, 400, "The query is empty"},
		"too long":             {map[string]any{"query": strings.Repeat("x", 2<<20)}, 413, "larger than"},
		"NUL":                  {map[string]any{"query": "SELECT 1\x00"}, 400, ""},
		"no warehouse":         {map[string]any{"warehouse_id": ""}, 400, "warehouse_id is missing"},
		"unknown warehouse":    {map[string]any{"warehouse_id": "none"}, 404, "none"},
		"their warehouse":      {map[string]any{"warehouse_id": w.warehouse(w.theirs)}, 404, "wh_"},
		"object as parameter":  {map[string]any{"parameters": []any{1, map[string]any{"a": 1}}}, 400, "Parameter 2 is not null"},
		"list as parameter":    {map[string]any{"parameters": []any{[]any{1}}}, 400, "Parameter 1 is not null"},
		"too many parameters":  {map[string]any{"parameters": make([]any, statement.MaxParameters+1)}, 400, "use at most 1000"},
		"row limit":            {map[string]any{"row_limit": -1}, 400, "row_limit"},
		"byte limit":           {map[string]any{"byte_limit": -1}, 400, "byte_limit"},
		"row limit, broken":    {map[string]any{"row_limit": 1.5}, 400, "row_limit"},
		"negative time-out":    {map[string]any{"timeout_seconds": -1}, 400, "timeout_seconds"},
		"endless time-out":     {map[string]any{"timeout_seconds": 604801}, 400, "timeout_seconds"},
		"engine":               {map[string]any{"engine": "spark"}, 400, "engine"},
		"wait as a number":     {map[string]any{"wait_timeout": 10}, 400, "wait_timeout"},
		"wait without a unit":  {map[string]any{"wait_timeout": "10"}, 400, "write a duration such as 10s"},
		"wait before it began": {map[string]any{"wait_timeout": "-1s"}, 400, "write a duration such as 10s"},
		"unknown field":        {map[string]any{"sql": "SELECT 1"}, 400, "sql"},
	} {
		require.Contains(t, w.execute(w.ours.admin, "SELECT 1", c.more).refused(c.status), c.says, name)
	}
	require.Equal(t, before, w.snapshot())
	require.Empty(t, w.engines.all())
}

func TestAStatementThatIsNotWaitedFor(t *testing.T) {
	w := sqlWorld(t)
	r := w.execute(w.ours.viewer, "QUIET", map[string]any{"wait_timeout": "1ms"}, "Accept", typeCSV)
	pending := r.object(202)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	id, _ := pending["statement_id"].(string)
	require.Contains(t, []any{"queued", "running"}, pending["state"])
	require.Len(t, pending, 3)
	running := w.becomes(id, "running") // although its engine reports nothing after its start
	require.Equal(t, []any{"SELECT", "duckdb", nil}, []any{running["kind"], running["engine"], running["finished_at"]})
	require.NotNil(t, running["started_at"])
	w.engines.finish()
	require.Equal(t, running["started_at"], w.becomes(id, "succeeded")["started_at"])
	require.Equal(t, `{"columns":[],"rows":[]}`, func() string {
		got := w.executed(w.ours.viewer, "QUIET", map[string]any{"wait_timeout": "1h"})
		return fmt.Sprintf(`{"columns":%v,"rows":%v}`, got["columns"], got["rows"])
	}(), "one that is over in time is answered whole")
}

func TestAStoppedWarehouseIsStarted(t *testing.T) {
	w := newWorld(t)
	id := w.begun(w.ours.viewer, "SELECT 1")
	require.Eventually(t, func() bool { return w.state(warehouseNoun, w.warehouse(w.ours)) == "starting" }, testTimeout, 10*time.Millisecond)
	st := w.statement(id)
	require.Equal(t, "queued", st["state"])
	require.Contains(t, st["message"], "Waits for the warehouse default")
	w.arrives()
	require.Equal(t, "", w.becomes(id, "succeeded")["message"])
	r := w.call(w.ours.viewer, "GET", "/sql/statements/"+id+"/chunks/0", nil)
	require.Equal(t, `{"columns":["n","price","text"],"rows":[[9007199254740993,`+wide+`,"row"]]}`, r.body)
}

func TestAStatementIsCancelled(t *testing.T) {
	w := sqlWorld(t)
	cancel := func(token, id string) reply {
		return w.call(token, "POST", "/sql/statements/"+id+"/cancel", nil)
	}
	mine, others := w.begun(w.ours.viewer, "QUIET"), w.begun(w.ours.editor, "WRITE")
	w.becomes(mine, "running")
	w.becomes(others, "running")
	require.Contains(t, cancel(w.ours.viewer, others).refused(403), "only your own")
	require.Nil(t, w.statement(others)["cancel_requested_at"])
	require.NotNil(t, cancel(w.ours.viewer, mine).object(200)["cancel_requested_at"])
	over := w.becomes(mine, "cancelled")
	require.Equal(t, map[string]any{"message": "The statement was cancelled.", "fault": "cancelled", "line": nil, "column": nil}, over["error"])
	require.Contains(t, cancel(w.ours.viewer, mine).refused(409), "over already")
	require.Contains(t, w.call(w.ours.viewer, "GET", "/sql/statements/"+mine+"/chunks/0", nil).refused(409), "was cancelled")
	cancel(w.ours.admin, others).object(200)
	w.becomes(others, "cancelled")
	cancel(w.theirs.admin, mine).refused(404)
	cancel(w.ours.admin, "stm_none").refused(404)
	cancel(w.ours.admin, "x").refused(404)
}

// TestAnEndThatWasNotRecordedIsSwept by the running server that ran the statement. Running
// statements are left alone.
func TestAnEndThatWasNotRecordedIsSwept(t *testing.T) {
	w := sqlWorld(t)
	runs := w.begun(w.ours.viewer, "PARTS")
	w.becomes(runs, "running")
	left := w.services.Statements
	st := statement.Statement{
		ID: "stm_left", Query: "SELECT 1", Warehouse: domain.MachineID(w.warehouse(w.ours)), State: statement.Queued, CreatedBy: w.ours.scope.Actor(), Role: domain.RoleViewer,
		CreatedAt: w.clock.Now(), Replica: left.Replica, Sent: true, Progress: -1,
	}
	require.NoError(t, left.Store.In(t.Context(), w.ours.scope, func(tx statement.Tx) error { return tx.InsertStatement(t.Context(), st) }))
	w.clock.advance(time.Minute)
	system, ok := left.System.(interface {
		SaveReplica(ctx context.Context, id, url string, at time.Time) error
	})
	require.True(t, ok)
	require.NoError(t, system.SaveReplica(t.Context(), left.Replica, "http://here", w.clock.Now()))
	require.NoError(t, left.Sweep(t.Context()))
	require.Equal(t, "failed", w.statement("stm_left")["state"])
	require.Equal(t, "running", w.statement(runs)["state"])
	w.engines.finish()
	w.becomes(runs, "succeeded")
}

func TestAStatementThatWaitsIsCancelled(t *testing.T) {
	w := newWorld(t)
	id := w.begun(w.ours.viewer, "SELECT 1")
	w.call(w.ours.viewer, "POST", "/sql/statements/"+id+"/cancel", nil).object(200)
	w.becomes(id, "cancelled")
	require.Empty(t, w.engines.all())
}

// A client that goes away ends a read; a write goes on.
func TestAClientThatGoesAway(t *testing.T) {
	w := sqlWorld(t)
	for _, c := range []struct{ query, state string }{{"QUIET", "cancelled"}, {"WRITE", "succeeded"}} { // in this order: WRITE lets the engine finish
		query, state := c.query, c.state
		ctx, leave := context.WithCancel(t.Context())
		r := w.request(ctx, w.ours.editor, "POST", "/sql/execute", map[string]any{"query": query, "warehouse_id": "default"})
		gone := make(chan error, 1)
		go func() {
			res, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = res.Body.Close()
			}
			gone <- err
		}()
		var id string
		require.Eventually(t, func() bool {
			for _, st := range w.engines.all() {
				if st.Query == query {
					id = string(st.ID)
				}
			}
			return id != ""
		}, testTimeout, 10*time.Millisecond)
		w.becomes(id, "running")
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)
		if query == "WRITE" {
			w.engines.finish()
		}
		w.becomes(id, state)
	}
}

func TestAnIdempotentStatementRunsOnce(t *testing.T) {
	w := sqlWorld(t)
	first := w.execute(w.ours.editor, "SELECT 2", nil, "Idempotency-Key", "k")
	again := w.execute(w.ours.editor, "SELECT 2", nil, "Idempotency-Key", "k")
	require.Equal(t, first.object(200), again.object(200))
	w.execute(w.ours.editor, "SELECT 3", nil, "Idempotency-Key", "k").refused(409)
	require.Len(t, w.engines.all(), 1)
	w.executed(w.ours.viewer, "SELECT 2", nil)
	w.execute(w.ours.viewer, "SELECT 2", nil, "Idempotency-Key", "k").object(200)
	require.Len(t, w.engines.all(), 3, "a key is its actor's")
	w.execute(w.ours.editor, "WRONG", nil, "Idempotency-Key", "w").refused(400)
	w.execute(w.ours.editor, "WRONG", nil, "Idempotency-Key", "w").refused(400)
	require.Len(t, w.engines.all(), 4)
}

func TestStatementsAreListedAndNarrowed(t *testing.T) {
	w := sqlWorld(t)
	w.executed(w.ours.viewer, "SELECT 1 -- needle", nil)
	w.executed(w.ours.editor, "SELECT 2", nil)
	w.execute(w.ours.editor, "WRONG", nil).refused(400)
	list := func(token, query string) (texts []any) {
		for _, item := range w.call(token, "GET", "/sql/statements"+query, nil).data(200) {
			texts = append(texts, item.(map[string]any)["query"])
		}
		return texts
	}
	me := w.ours.viewer
	require.Equal(t, []any{"WRONG", "SELECT 2", "SELECT 1 -- needle"}, list(me, ""), "newest first, everybody's")
	require.Equal(t, []any{"WRONG"}, list(me, "?state=failed,running"))
	require.Equal(t, []any{"WRONG"}, list(me, "?state=failed&state=running"))
	require.Equal(t, []any{"SELECT 1 -- needle"}, list(me, "?mine=true"))
	require.Equal(t, []any{"SELECT 1 -- needle"}, list(me, "?search=NEEDLE"))
	require.Empty(t, list(me, "?search=%25"))
	require.Len(t, list(me, "?warehouse_id="+w.warehouse(w.ours)), 3)
	require.Empty(t, list(me, "?warehouse_id=wh_none"))
	require.Empty(t, list(me, "?run_id=run_none"))
	require.Empty(t, list(w.theirs.admin, ""))
	page := w.call(me, "GET", "/sql/statements?limit=2", nil).object(200)
	cursor := fmt.Sprint(page["next_cursor"])
	require.Equal(t, []any{"SELECT 1 -- needle"}, list(me, "?limit=2&cursor="+cursor))
	w.call(me, "GET", "/sql/statements?mine=true&cursor="+cursor, nil).refused(400)
	for _, query := range []string{"?state=done", "?limit=0", "?limit=201", "?cursor=x", "?mine=perhaps", "?user=x"} {
		w.call(me, "GET", "/sql/statements"+query, nil).refused(400)
	}
}
