package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

const (
	executeMutation = `mutation($input: ExecuteStatementInput!) { it: executeStatement(input: $input) { chunk { rows next } statement { ` + statementFields + ` } } }`
	statementFields = `id query parameters warehouseId database schema state message progress kind write engine routingReason error { fault message line column }
		columns { name type } rowCount resultBytes bytesScanned truncated chunks { rows bytes } resultUntil createdBy runId taskKey purpose tableId table { name } createdAt notBefore startedAt finishedAt
		cancelRequestedAt queuedMs runMs warehouse { name } run { id jobName } `
)

// executes runs a statement on the workspace's warehouse.
func (n *tenant) executes(who header, query string, more map[string]any) answer {
	n.w.t.Helper()
	input := map[string]any{"query": query, "warehouse": n.warehouse().Name}
	for k, v := range more {
		input[k] = v
	}
	return n.w.query(who, executeMutation, map[string]any{"input": input})
}

func (n *tenant) executed(who header, query string, more map[string]any) any {
	n.w.t.Helper()
	a := n.executes(who, query, more)
	require.Empty(n.w.t, a.Errors, "%s", a.Body)
	return a.Data["it"]
}

// sqlWorld is a world with running warehouses.
func sqlWorld(t *testing.T) (*world, *tenant) {
	w := newWorld(t, quick)
	n := w.tenant("acme")
	w.reconcile()
	return w, n
}

func TestAStatementFromItsSendingToItsRows(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.viewer.token)
	res := a.executes(me, "SELECT 3", map[string]any{"parameters": []any{nil, true, json.Number("12345678901234567890.12"), "x"}, "database": "lake", "rowLimit": "5"})
	require.Empty(t, res.Errors, "%s", res.Body)
	// Rows are in the domain's form: with all digits.
	require.Contains(t, res.Body, `[[9007199254740993,123456789012345678901234567890123456.78,"row"],[9007199254740994,`)
	got := at(res.Data, "it", "statement")
	for field, want := range map[string]any{
		"query": "SELECT 3", "state": "SUCCEEDED", "message": nil, "progress": 1.0, "kind": "SELECT", "write": false, "engine": "duckdb", "routingReason": "It reads.",
		"error": nil, "rowCount": "3", "resultBytes": "30", "bytesScanned": "100", "truncated": false, "database": "lake", "schema": "public",
		"createdBy": "acme-viewer@example.com", "runId": nil, "taskKey": nil, "run": nil, "purpose": nil, "tableId": nil, "table": nil, "notBefore": nil, "cancelRequestedAt": nil,
	} {
		require.Equal(t, want, at(got, field), field)
	}
	require.Contains(t, res.Body, `[null,true,12345678901234567890.12,"x"]`)
	require.Equal(t, []json.RawMessage{json.RawMessage("null"), json.RawMessage("true"), json.RawMessage("12345678901234567890.12"), json.RawMessage(`"x"`)}, w.engines.last().Parameters)
	require.Equal(t, int64(5), w.engines.last().RowLimit)
	require.Equal(t, a.warehouse().Name, at(got, "warehouse", "name"))
	require.Equal(t, map[string]any{"name": "price", "type": "decimal(38, 2)"}, at(got, "columns", 1))
	require.Len(t, at(got, "chunks"), 1)
	require.Equal(t, "3", at(got, "chunks", 0, "rows"))
	require.NotNil(t, at(got, "resultUntil"))

	again := w.query(me, `query($id: ID!) { statement(id: $id) { chunk(n: 0) { rows next } lineage { read { fullName } written { fullName } } } }`, map[string]any{"id": at(got, "id")})
	require.Empty(t, again.Errors, "%s", again.Body)
	require.Equal(t, at(res.Data, "it", "chunk"), at(again.Data, "statement", "chunk"))
	require.Equal(t, map[string]any{"read": []any{}, "written": []any{}}, at(again.Data, "statement", "lineage"))
	beyond := w.query(me, `query($id: ID!) { statement(id: $id) { chunk(n: 1) { rows } } }`, map[string]any{"id": at(got, "id")})
	require.Equal(t, "NOT_FOUND", beyond.code())
}

func TestAWrongStatementSaysWhere(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.viewer.token)
	res := a.executes(me, "WRONG", nil)
	require.Equal(t, http.StatusOK, res.Status)
	require.Equal(t, "INVALID", res.code())
	ext := res.Errors[0].Extensions
	require.Equal(t, []any{2.0, 8.0}, []any{ext["line"], ext["column"]})
	require.Contains(t, res.Errors[0].Message, "There is no table penguinz.")
	id := ext["statementId"]
	shown := w.ok(me, `query($id: ID!) { statement(id: $id) { state progress error { fault message line column } columns { name } runMs } }`, map[string]any{"id": id})
	require.Equal(t, map[string]any{"fault": "QUERY", "message": "There is no table penguinz.", "line": 2.0, "column": 8.0}, at(shown, "statement", "error"))
	require.Equal(t, []any{"FAILED", nil, []any{}, nil}, []any{at(shown, "statement", "state"), at(shown, "statement", "progress"), at(shown, "statement", "columns"), at(shown, "statement", "runMs")})
	chunk := w.query(me, `query($id: ID!) { statement(id: $id) { chunk(n: 0) { rows } } }`, map[string]any{"id": id})
	require.Equal(t, "INVALID", chunk.code())
	require.Equal(t, 2.0, chunk.Errors[0].Extensions["line"])

	for name, input := range map[string]map[string]any{
		"engine": {"engine": "spark"}, "waitMs": {"waitMs": -1}, "timeoutSeconds": {"timeoutSeconds": 604801}, "parameters": {"parameters": []any{[]any{1}}},
		"rowLimit": {"rowLimit": "-1"}, "warehouse": {"warehouse": ""}, "query": {"query": " "},
	} {
		res := a.executes(me, "SELECT 1", input)
		require.Equal(t, "INVALID", res.code(), "%s: %s", name, res.Body)
		require.Equal(t, name, res.Errors[0].Extensions["field"], "%s", res.Body)
	}
	require.Equal(t, "NOT_FOUND", a.executes(me, "SELECT 1", map[string]any{"warehouse": "none"}).code())
}

func TestAStatementIsFollowedToItsEnd(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.viewer.token)
	sent := time.Now()
	st := a.executed(me, "SLOW", map[string]any{"waitMs": 0})
	require.Less(t, time.Since(sent), testTimeout)
	require.Equal(t, "QUEUED", at(st, "statement", "state"))
	require.Nil(t, at(st, "chunk"))
	id := at(st, "statement", "id")
	require.Nil(t, at(w.ok(me, `query($id: ID!) { statement(id: $id) { chunk(n: 0) { rows } } }`, map[string]any{"id": id}), "statement", "chunk"), "the chunk is not ready")
	c := w.open(me, nil)
	one := c.subscribe(`subscription($id: ID!) { it: statementUpdated(id: $id) { id state progress message kind chunks { rows } } }`, map[string]any{"id": id})
	half := c.until(one, func(d map[string]any) bool { return at(d, "it", "state") == "RUNNING" })
	require.Equal(t, []any{0.5, "SELECT", nil}, []any{at(half, "it", "progress"), at(half, "it", "kind"), at(half, "it", "message")})
	w.engines.finish()
	over := c.until(one, func(d map[string]any) bool { return at(d, "it", "state") == "SUCCEEDED" })
	require.Equal(t, 1.0, at(over, "it", "progress"))
	m := c.read()
	require.Equal(t, []string{"complete", one}, []string{m.Type, m.ID}, "it ends after the final state")

	late := c.subscribe(`subscription($id: ID!) { it: statementUpdated(id: $id) { state } }`, map[string]any{"id": id})
	require.Equal(t, "SUCCEEDED", at(c.event(late), "it", "state"))
	require.Equal(t, "complete", c.read().Type)
	none := c.subscribe(`subscription { it: statementUpdated(id: "stm_none") { state } }`, nil)
	require.Equal(t, "NOT_FOUND", c.failure(none))
}

func TestAStatementIsCancelled(t *testing.T) {
	w, a := sqlWorld(t)
	viewer, editor := bearer(a.viewer.token), bearer(a.editor.token)
	cancel := func(who header, id any) answer {
		return w.query(who, `mutation($id: ID!) { cancelStatement(input: {id: $id}) { statement { id cancelRequestedAt } } }`, map[string]any{"id": id})
	}
	mine := at(a.executed(editor, "SLOW", map[string]any{"waitMs": 0}), "statement", "id")
	require.Equal(t, "FORBIDDEN", cancel(viewer, mine).code(), "it is the editor's")
	c := w.open(viewer, nil)
	events := c.subscribe(`subscription($id: ID!) { it: statementUpdated(id: $id) { state error { fault line } } }`, map[string]any{"id": mine})
	c.until(events, func(d map[string]any) bool { return at(d, "it", "state") == "RUNNING" })
	res := cancel(editor, mine)
	require.Empty(t, res.Errors, "%s", res.Body)
	require.NotNil(t, at(res.Data, "cancelStatement", "statement", "cancelRequestedAt"))
	over := c.until(events, func(d map[string]any) bool { return at(d, "it", "state") == "CANCELLED" })
	require.Equal(t, map[string]any{"fault": "CANCELLED", "line": nil}, at(over, "it", "error"))
	require.Equal(t, "CONFLICT", cancel(editor, mine).code())
	require.Equal(t, "NOT_FOUND", cancel(editor, "stm_none").code())
}

func TestALargeResultComesInPieces(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.viewer.token)
	first := a.executed(me, "LARGE 4", nil)
	require.Equal(t, 1.0, at(first, "chunk", "next"))
	require.Len(t, at(first, "chunk", "rows"), 3, "18 MiB")
	id := at(first, "statement", "id")
	read := func(n int) answer {
		return w.query(me, `query($id: ID!, $n: Int!) { statement(id: $id) { state chunk(n: $n) { rows next } } }`, map[string]any{"id": id, "n": n})
	}
	rest := read(1)
	require.Empty(t, rest.Errors, "%s", rest.Errors)
	require.Len(t, at(rest.Data, "statement", "chunk", "rows"), 1)
	require.Nil(t, at(rest.Data, "statement", "chunk", "next"))
	require.Equal(t, at(first, "chunk"), at(read(0).Data, "statement", "chunk"))
	require.Equal(t, "NOT_FOUND", read(2).code())
	require.Equal(t, "NOT_FOUND", read(-1).code())

	many := "query($id: ID!) { statement(id: $id) {"
	for i := range 5 {
		many += fmt.Sprintf(" c%d: chunk(n: 0) { next }", i)
	}
	require.Equal(t, "TOO_LARGE", w.query(me, many+" } }", map[string]any{"id": id}).code(), "one answer has few pieces")
}

func TestValuesOfOneAnswerAreBounded(t *testing.T) {
	ctx := withBudget(t.Context())
	require.NoError(t, affordCells(ctx, maxCells/2))
	require.NoError(t, affordCells(ctx, maxCells/2))
	require.True(t, domain.IsCode(affordCells(ctx, 1), domain.CodeTooLarge))
}

func TestAnIdempotentStatementRunsOnce(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.editor.token)
	first := a.executed(me, "SELECT 2", map[string]any{"idempotencyKey": "k"})
	again := a.executed(me, "SELECT 2", map[string]any{"idempotencyKey": "k"})
	require.Equal(t, at(first, "statement", "id"), at(again, "statement", "id"))
	require.Equal(t, at(first, "chunk"), at(again, "chunk"))
	require.Equal(t, "CONFLICT", a.executes(me, "SELECT 4", map[string]any{"idempotencyKey": "k"}).code())
	require.Len(t, w.engines.ran, 1)
}

func TestStatementsAreListedAndNarrowed(t *testing.T) {
	w, a := sqlWorld(t)
	b := w.tenant("beta")
	a.executed(bearer(a.viewer.token), "SELECT 1 -- needle", nil)
	a.executed(bearer(a.editor.token), "SELECT 2", nil)
	a.executes(bearer(a.editor.token), "WRONG", nil)
	list := func(who header, filter map[string]any) []string {
		data := w.ok(who, `query($f: StatementFilter) { statements(filter: $f) { edges { node { query warehouse { name } } } } }`, map[string]any{"f": filter})
		var texts []string
		for _, e := range at(data, "statements", "edges").([]any) {
			texts = append(texts, at(e, "node", "query").(string))
		}
		return texts
	}
	me := bearer(a.viewer.token)
	require.Equal(t, []string{"WRONG", "SELECT 2", "SELECT 1 -- needle"}, list(me, nil), "newest first, everybody's")
	require.Equal(t, []string{"WRONG"}, list(me, map[string]any{"states": []string{"FAILED", "RUNNING"}}))
	require.Equal(t, []string{"SELECT 1 -- needle"}, list(me, map[string]any{"mine": true}))
	require.Equal(t, []string{"SELECT 1 -- needle"}, list(me, map[string]any{"search": "NEEDLE"}))
	require.Len(t, list(me, map[string]any{"warehouseId": a.warehouse().ID, "mine": false, "states": nil}), 3)
	require.Empty(t, list(me, map[string]any{"warehouseId": "wh_none"}))
	require.Empty(t, list(me, map[string]any{"runId": "run_none"}))
	require.Empty(t, list(bearer(b.admin.token), nil))

	page := w.ok(me, `{ statements(first: 2) { edges { node { id } } pageInfo { hasNextPage endCursor } } }`, nil)
	rest := w.ok(me, `query($after: String) { statements(first: 2, after: $after) { edges { node { query } } pageInfo { hasNextPage } } }`, map[string]any{"after": at(page, "statements", "pageInfo", "endCursor")})
	require.Equal(t, "SELECT 1 -- needle", at(rest, "statements", "edges", 0, "node", "query"))
	require.Equal(t, false, at(rest, "statements", "pageInfo", "hasNextPage"))
	require.Equal(t, "INVALID", w.query(me, `{ statements(after: "x") { edges { node { id } } } }`, nil).code())
}

func TestAPageOfStatementsCostsAConstantNumberOfReads(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.editor.token)
	a.table("one")
	a.table("two")
	for range 6 {
		a.executed(me, "COPY one two", nil)
	}
	reads := func(n int) int64 {
		return w.fewestReads(func() {
			data := w.ok(me, `query($n: Int!) { statements(first: $n) { edges { node { warehouse { name agent { name } } run { id } lineage { read { table { name } } written { fullName table { name } } } } } } }`, map[string]any{"n": n})
			require.Equal(t, "one", at(data, "statements", "edges", n-1, "node", "lineage", "read", 0, "table", "name"))
			require.Equal(t, "lake.public.two", at(data, "statements", "edges", n-1, "node", "lineage", "written", 0, "fullName"))
		})
	}
	require.Equal(t, reads(2), reads(6))
	require.LessOrEqual(t, reads(6), int64(5), "statements, warehouses, agents, lineage, tables")
}

func TestStatementsAreToldAsTheyComeAndChange(t *testing.T) {
	w, a := sqlWorld(t)
	me := bearer(a.editor.token)
	a.executed(me, "SELECT 1", nil)
	c := w.open(bearer(a.viewer.token), nil)
	all := c.subscribe(`subscription { it: statementsUpdated { query state } }`, nil)
	require.Equal(t, "SELECT 1", at(c.event(all), "it", "query"), "what ended a moment ago comes first")
	a.executed(me, "SLOW", map[string]any{"waitMs": 0})
	c.until(all, func(d map[string]any) bool {
		return at(d, "it", "query") == "SLOW" && at(d, "it", "state") == "RUNNING"
	})
	live := w.open(bearer(a.viewer.token), nil)
	running := live.subscribe(`subscription { it: statementsUpdated(filter: {states: [RUNNING]}) { query state } }`, nil)
	require.Equal(t, map[string]any{"query": "SLOW", "state": "RUNNING"}, live.event(running)["it"])
	w.engines.finish()
	require.Equal(t, "SUCCEEDED", at(live.event(running), "it", "state"), "a statement that stops matching is sent too")
	c.until(all, func(d map[string]any) bool {
		return at(d, "it", "query") == "SLOW" && at(d, "it", "state") == "SUCCEEDED"
	})
}

func TestAStatementOfATaskIsItsRuns(t *testing.T) {
	w, a := sqlWorld(t)
	a.connect(4)
	a.table("one")
	a.table("two")
	run := a.run(a.job(job.Spec{Command: "true"}))
	attempt := a.attempt(run.ID)
	a.begin(attempt.ID)
	st := a.executed(bearer(w.keys.RunToken(a.workspace.ID, attempt.ID)), "COPY one two", nil)
	require.Equal(t, string(run.ID), at(st, "statement", "runId"))
	require.Equal(t, run.JobName, at(st, "statement", "run", "jobName"))
	me := bearer(a.viewer.token)
	data := w.ok(me, `query($id: ID!) { run(id: $id) { lineage { read { fullName statementId table { name } } written { fullName } unresolved truncated } } }`, map[string]any{"id": run.ID})
	lineage := at(data, "run", "lineage")
	require.Equal(t, "lake.public.one", at(lineage, "read", 0, "fullName"), "%s", data)
	require.Equal(t, at(st, "statement", "id"), at(lineage, "read", 0, "statementId"))
	require.Equal(t, "one", at(lineage, "read", 0, "table", "name"))
	require.True(t, strings.HasSuffix(at(lineage, "written", 0, "fullName").(string), "two"))
}
