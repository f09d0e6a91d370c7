package rest

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/rows"
)

// ExecuteStatement is one SQL statement and where it is to run.
type ExecuteStatement struct {
	Query          string            `json:"query" example:"SELECT species, count(*) FROM lake.samples.penguins GROUP BY ALL" doc:"One SQL statement, of 1 MiB at most."`
	WarehouseID    string            `json:"warehouse_id" example:"wh_01k2v9d3h2f5s8wq6z1y7b4c0e" doc:"The warehouse's id, or its name. It is started where it is stopped."`
	Parameters     []json.RawMessage `json:"parameters,omitempty" nullable:"true" doc:"Values for $1, $2 and so on, or for each ? in turn: null, a boolean, a number or a string. They are bound, never pasted into the text."`
	Database       string            `json:"database,omitempty" default:"lake" doc:"Where names without a database resolve."`
	Schema         string            `json:"schema,omitempty" default:"public" doc:"Where names without a schema resolve; levels joined by dots."`
	Engine         string            `json:"engine,omitempty" enum:"duckdb,trino" doc:"The engine that must serve it. Left out, reads go to duckdb and writes to the warehouse's write engine."`
	RowLimit       int64             `json:"row_limit,omitempty" minimum:"0" doc:"Rows of the result at most; truncated tells when there were more. No limit when it is left out, or 0."`
	ByteLimit      int64             `json:"byte_limit,omitempty" minimum:"0" doc:"Bytes of the result in Arrow at most; truncated tells when there were more. 8 GiB when it is left out."`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long it may run, without the time that it waits. 0 for no limit."`
	WaitTimeout    string            `json:"wait_timeout,omitempty" example:"10s" doc:"How long the answer may take, such as 10s, 500ms or 0s. What is not over by then goes on, and the answer is 202. Left out, the answer comes at the end."`
}

func (e ExecuteStatement) domain() (n domain.NewStatement, wait *time.Duration, err error) {
	n = domain.NewStatement{
		Query: e.Query, Warehouse: e.WarehouseID, Parameters: e.Parameters, Database: e.Database, Schema: e.Schema, Engine: e.Engine,
		RowLimit: e.RowLimit, ByteLimit: e.ByteLimit, Timeout: time.Duration(e.TimeoutSeconds) * time.Second,
	}
	if e.WaitTimeout == "" {
		return n, nil, nil
	}
	d, err := time.ParseDuration(e.WaitTimeout)
	if err != nil || d < 0 {
		return n, nil, domain.Invalid("wait_timeout", "wait_timeout is %q; write a duration such as 10s, 500ms or 0s.", e.WaitTimeout)
	}
	return n, &d, nil
}

// SQLResult is the result of a statement, from the specification, and what else is known of it.
type SQLResult struct {
	Columns       []string            `json:"columns" doc:"The names of the columns."`
	Rows          [][]json.RawMessage `json:"rows" doc:"One array per row, values in the order of the columns: numbers with all their digits; NaN and infinities as strings; dates, times and timestamps in ISO 8601, with Z where they have a zone; binary in base64; lists and structures as JSON; maps with text keys as objects, other maps as lists of pairs."`
	RowsAffected  *int64              `json:"rows_affected,omitempty" doc:"Of INSERT, UPDATE, DELETE, MERGE and CREATE TABLE: the rows that it inserted, changed or deleted."`
	Engine        string              `json:"engine" example:"duckdb" doc:"The engine that served it."`
	ElapsedMS     int64               `json:"elapsed_ms" doc:"From its arrival to its end, waiting included."`
	Lineage       TablesOf            `json:"lineage"`
	StatementID   string              `json:"statement_id"`
	RoutingReason string              `json:"routing_reason" doc:"Why that engine served it."`
	Truncated     bool                `json:"truncated" doc:"There are more rows than these: in further chunks where there is a next_chunk, else a limit cut them off."`
	NextChunk     *int                `json:"next_chunk,omitempty" doc:"The next piece of the result, at /sql/statements/{statement_id}/chunks/{next_chunk}. Absent when this is all."`
}

// TablesOf are tables that were read and written.
type TablesOf struct {
	Read    []string `json:"read" example:"[\"lake.samples.penguins\"]" doc:"Fully qualified: database.schema.table."`
	Written []string `json:"written" doc:"Fully qualified: database.schema.table."`
}

func showTables(l domain.Lineage) TablesOf {
	return TablesOf{Read: tableNames(l.Read), Written: tableNames(l.Written)}
}

func tableNames(entries []domain.LineageEntry) []string {
	names, seen := make([]string, 0, len(entries)), map[string]bool{}
	for _, e := range entries {
		name := e.Database + "." + e.Schema + "." + e.Name
		if !seen[name] {
			names = append(names, name)
		}
		seen[name] = true
	}
	return names
}

// Statement is what is known of a statement.
type Statement struct {
	StatementID       string            `json:"statement_id"`
	Query             string            `json:"query"`
	Parameters        []json.RawMessage `json:"parameters"`
	WarehouseID       string            `json:"warehouse_id"`
	Database          string            `json:"database"`
	Schema            string            `json:"schema"`
	State             string            `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	Message           string            `json:"message" doc:"What it waits for; else empty."`
	Progress          *float64          `json:"progress" nullable:"true" doc:"From 0 to 1; null where the engine cannot tell."`
	Kind              string            `json:"kind" example:"SELECT" doc:"Empty until an engine has read it."`
	Write             bool              `json:"write"`
	Engine            string            `json:"engine"`
	RoutingReason     string            `json:"routing_reason"`
	Error             *StatementError   `json:"error,omitempty" doc:"Of one that failed."`
	Columns           []ResultColumn    `json:"columns"`
	RowCount          *int64            `json:"row_count" nullable:"true" doc:"Rows of the result; of a write, those it inserted, changed or deleted. Null where it committed, and its engine or its server was lost before it told how many."`
	ResultBytes       int64             `json:"result_bytes" doc:"Of the result in Arrow."`
	BytesScanned      int64             `json:"bytes_scanned" doc:"Read from storage, where the engine tells."`
	Truncated         bool              `json:"truncated" doc:"A limit cut the result."`
	Chunks            []ResultChunk     `json:"chunks" doc:"The pieces of the result, at /sql/statements/{id}/chunks/0 and on."`
	ResultUntil       *Time             `json:"result_until" nullable:"true" doc:"When the result is thrown away."`
	CreatedBy         Actor             `json:"created_by"`
	RunID             *string           `json:"run_id" nullable:"true" doc:"The run whose task sent it."`
	TaskKey           *string           `json:"task_key" nullable:"true"`
	CreatedAt         Time              `json:"created_at"`
	StartedAt         *Time             `json:"started_at" nullable:"true"`
	FinishedAt        *Time             `json:"finished_at" nullable:"true"`
	QueuedMS          *int64            `json:"queued_ms" nullable:"true" doc:"From its arrival to its start, or to now while it waits."`
	RunMS             *int64            `json:"run_ms" nullable:"true" doc:"From its start to its end, or to now while it runs."`
	CancelRequestedAt *Time             `json:"cancel_requested_at" nullable:"true"`
}

// StatementError says why a statement failed.
type StatementError struct {
	Message string `json:"message"`
	Fault   string `json:"fault" enum:"query,forbidden,conflict,timeout,cancelled,resources,engine" doc:"Whose matter it is."`
	Line    *int   `json:"line" nullable:"true" doc:"Position in the text, from 1."`
	Column  *int   `json:"column" nullable:"true" doc:"In characters, from 1."`
}

// ResultColumn is a column of a result.
type ResultColumn struct {
	Name string `json:"name"`
	Type string `json:"type" example:"decimal(38, 2)" doc:"An Iceberg type name."`
}

// ResultChunk is a piece of a result.
type ResultChunk struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes" doc:"In Arrow."`
}

func (a *api) showStatement(st domain.Statement) Statement {
	shown := Statement{
		StatementID: string(st.ID), Query: st.Query, Parameters: st.Parameters, WarehouseID: string(st.Warehouse), Database: st.Database, Schema: st.Schema,
		State: string(st.State), Message: st.Message, Kind: st.Kind, Write: st.Write, Engine: st.Engine, RoutingReason: st.RoutingReason,
		Columns: showColumns(st.Schemata), RowCount: known(st.Rows), ResultBytes: st.Bytes, BytesScanned: st.Scanned, Truncated: st.Truncated,
		Chunks: each(st.Chunks, func(c domain.ResultChunk) ResultChunk { return ResultChunk(c) }), ResultUntil: optionalTime(st.ResultUntil),
		CreatedBy: showActor(st.CreatedBy), CreatedAt: Time(st.CreatedAt), StartedAt: optionalTime(st.StartedAt), FinishedAt: optionalTime(st.FinishedAt),
		RunMS: a.duration(st.StartedAt, st.FinishedAt), CancelRequestedAt: optionalTime(st.CancelRequestedAt),
	}
	if st.Parameters == nil {
		shown.Parameters = []json.RawMessage{}
	}
	if st.Progress >= 0 {
		shown.Progress = &st.Progress
	}
	if st.RunID != "" {
		shown.RunID, shown.TaskKey = new(string(st.RunID)), new(st.TaskKey)
	}
	began := st.StartedAt
	if began == nil {
		began = st.FinishedAt
	}
	shown.QueuedMS = a.duration(&st.CreatedAt, began)
	if f := st.Failure; f != nil {
		shown.Error = &StatementError{Message: f.Message, Fault: string(f.Fault)}
		if f.Line > 0 {
			shown.Error.Line, shown.Error.Column = new(f.Line), new(f.Column)
		}
	}
	return shown
}

// showColumns is empty where there is no result, or none that can be read.
func showColumns(schema []byte) []ResultColumn {
	columns, err := rows.Columns(schema)
	if err != nil {
		return []ResultColumn{}
	}
	return each(columns, func(c rows.Column) ResultColumn { return ResultColumn(c) })
}

// StatementPath is the path of what concerns one statement.
type StatementPath struct {
	ID string `path:"id" doc:"The statement's id." example:"stm_01k2v9d3h2f5s8wq6z1y7b4c0e"`
}

func (p StatementPath) id() domain.StatementID { return domain.StatementID(p.ID) }

// StatementQuery narrows a list of statements.
type StatementQuery struct {
	PageQuery
	State       []string `query:"state,explode" doc:"Any of queued, running, succeeded, failed, cancelled: repeated, or separated by commas."`
	WarehouseID string   `query:"warehouse_id" doc:"Of this warehouse only."`
	RunID       string   `query:"run_id" doc:"Of this run's tasks only."`
	Mine        bool     `query:"mine" doc:"One's own only."`
	Search      string   `query:"search" doc:"With this text in them, in any case."`
}

func (q StatementQuery) filter() domain.StatementFilter {
	f := domain.StatementFilter{Warehouse: domain.MachineID(q.WarehouseID), Run: domain.RunID(q.RunID), Text: q.Search}
	if q.Mine {
		f.Mine = "me"
	}
	for _, given := range q.State {
		for one := range strings.SplitSeq(given, ",") {
			f.States = append(f.States, domain.StatementState(one))
		}
	}
	return f
}

func (a *api) statementRoutes() {
	const tag = "SQL"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/sql/execute", OperationID: "execute-statement", Tags: []string{tag}, Summary: "Run a SQL statement",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests}, Responses: a.resultResponses(true),
		Description: "Reads are served by DuckDB, writes by the warehouse's write engine. A viewer may run reads; a statement that writes is 403 for them. A statement that is wrong, or refused, is 400 " +
			"with its line and column in the message.\n\n" +
			"Decided here: the answer is whole up to 16 MiB of Arrow, or a million rows. What is more is kept for a day in the workspace's storage: truncated is true then, and next_chunk leads on. " +
			"By Accept, the answer is JSON, a stream of Arrow IPC (application/vnd.apache.arrow.stream) or CSV (text/csv); the latter two tell the rest in Millpond-* headers. " +
			"A stopped warehouse is started, and waited for. With wait_timeout the answer may be 202 with the statement's id and state: it is fetched by its chunks, or cancelled. " +
			"A client that goes away cancels a read; a write goes on to its end, and is found by its id. With an Idempotency-Key, the same request again answers with the same statement.",
	}, a.executeStatement)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements", OperationID: "list-statements", Tags: []string{tag}, Summary: "List statements, newest first",
		Description: "Everybody's, with their texts. A page ends before its texts have more than 4 MiB.",
	}, a.listStatements)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements/{id}", OperationID: "get-statement", Tags: []string{tag}, Summary: "Get a statement",
	}, a.getStatement)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements/{id}/chunks/{n}", OperationID: "get-statement-chunk", Tags: []string{tag}, Summary: "Get a piece of a statement's result",
		Responses: a.resultResponses(false), Errors: []int{http.StatusConflict},
		Description: "By Accept in JSON, Arrow IPC or CSV, as POST /sql/execute. A piece that is still to come is waited for, for some seconds (503 then: ask again). A result is kept for a day; after it this is 404. " +
			"A statement that failed answers with its error.",
	}, a.getChunk)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/sql/statements/{id}/cancel", OperationID: "cancel-statement", Tags: []string{tag}, Summary: "Cancel a statement", Errors: []int{http.StatusConflict},
		Description: "One's own, or as an editor anybody's. One that is over, or is being cancelled already, is 409.\n\n" +
			"Decided here: the answer is 200 with the statement, which is cancelled when its engine has ended it. A write that had committed before has succeeded.",
	}, a.cancelStatement)
}

// The content types of results.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
	typeCSV   = "text/csv"
)

// resultResponses describe results, and where they are executed the answer to those that go on.
func (a *api) resultResponses(execute bool) map[string]*huma.Response {
	schemas := a.OpenAPI().Components.Schemas
	body := reflect.TypeFor[ChunkResult]()
	if execute {
		body = reflect.TypeFor[SQLResult]()
	}
	all := map[string]*huma.Response{"200": {Description: "The result.", Content: map[string]*huma.MediaType{
		typeJSON:  {Schema: schemas.Schema(body, true, "")},
		typeArrow: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		typeCSV:   {Schema: &huma.Schema{Type: huma.TypeString}},
	}}}
	if execute {
		all["202"] = &huma.Response{Description: "It goes on.", Content: map[string]*huma.MediaType{
			typeJSON: {Schema: schemas.Schema(reflect.TypeFor[PendingStatement](), true, "")},
		}}
	}
	return all
}

// PendingStatement is a statement that was not waited for.
type PendingStatement struct {
	StatementID string `json:"statement_id"`
	State       string `json:"state" enum:"queued,running"`
	Message     string `json:"message" doc:"What it waits for; else empty."`
}

// ChunkResult is a piece of a result.
type ChunkResult struct {
	Columns   []string            `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows" doc:"As those of POST /sql/execute."`
	NextChunk *int                `json:"next_chunk,omitempty" doc:"Absent at the end."`
}

// resultAnswer is an answer that was written already.
type resultAnswer struct {
	Status      int
	ContentType string `header:"Content-Type"`
	StatementID string `header:"Millpond-Statement-Id"`
	Engine      string `header:"Millpond-Engine"`
	NextChunk   string `header:"Millpond-Next-Chunk"`
	Truncated   string `header:"Millpond-Truncated"`
	Body        []byte
}

// wanted is the content type that the Accept header prefers; JSON where it asks for nothing in particular.
func wanted(accept string) (string, error) {
	if strings.TrimSpace(accept) == "" {
		return typeJSON, nil
	}
	best, most := "", 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, quality := served(part)
		if quality > most {
			best, most = kind, quality
		}
	}
	if best == "" {
		return "", domain.Invalid("Accept", "Accept is %q; results come as %s, %s or %s.", shorten(accept), typeJSON, typeArrow, typeCSV)
	}
	return best, nil
}

// served is the content type that serves one part of an Accept header, and how much it is preferred: 0 where it is not served.
func served(part string) (kind string, quality float64) {
	asked, params, err := mime.ParseMediaType(part)
	if err != nil {
		return "", 0
	}
	quality = 1
	if q, weighed := params["q"]; weighed {
		if quality, err = strconv.ParseFloat(q, 64); err != nil || quality > 1 {
			return "", 0
		}
	}
	switch asked {
	case typeArrow, typeCSV, typeJSON:
		return asked, quality
	case "*/*", "application/*":
		return typeJSON, quality
	case "text/*":
		return typeCSV, quality
	}
	return "", 0
}

func (a *api) executeStatement(ctx context.Context, s domain.Scope, in *struct {
	Once
	Accept string           `header:"Accept" doc:"application/json, application/vnd.apache.arrow.stream or text/csv."`
	Body   ExecuteStatement `example:"{\"query\":\"SELECT 1 AS one\",\"warehouse_id\":\"wh_01k2v9d3h2f5s8wq6z1y7b4c0e\"}"`
},
) (*resultAnswer, error) {
	kind, err := wanted(in.Accept)
	if err != nil {
		return nil, err
	}
	n, wait, err := in.Body.domain()
	if err != nil {
		return nil, err
	}
	r, err := a.Statements.Execute(ctx, s, n, in.Once.domain(), wait)
	if err != nil {
		return nil, err
	}
	if !r.Statement.State.Final() && r.Chunk == nil {
		body, err := json.Marshal(PendingStatement{StatementID: string(r.Statement.ID), State: string(r.Statement.State), Message: r.Statement.Message})
		return &resultAnswer{Status: http.StatusAccepted, ContentType: typeJSON, StatementID: string(r.Statement.ID), Body: body}, err
	}
	return a.showResult(r, kind)
}

func (a *api) showResult(r domain.StatementResult, kind string) (*resultAnswer, error) {
	out := &resultAnswer{Status: http.StatusOK, ContentType: kind, StatementID: string(r.Statement.ID), Engine: r.Statement.Engine}
	truncated := r.Next > 0 || r.Statement.Truncated
	if r.Next > 0 {
		out.NextChunk = strconv.Itoa(r.Next)
	}
	out.Truncated = strconv.FormatBool(truncated)
	if kind != typeJSON {
		body, err := encodeChunk(r.Chunk, kind)
		out.Body = body
		return out, err
	}
	out.NextChunk, out.Truncated, out.Engine, out.StatementID = "", "", "", "" // in the body
	envelope, err := json.Marshal(struct {
		RowsAffected  *int64   `json:"rows_affected,omitempty"`
		Engine        string   `json:"engine"`
		ElapsedMS     int64    `json:"elapsed_ms"`
		Lineage       TablesOf `json:"lineage"`
		StatementID   string   `json:"statement_id"`
		RoutingReason string   `json:"routing_reason"`
		Truncated     bool     `json:"truncated"`
		NextChunk     int      `json:"next_chunk,omitempty"`
	}{
		affected(r.Statement), r.Statement.Engine, *a.duration(&r.Statement.CreatedAt, r.Statement.FinishedAt), showTables(r.Lineage), string(r.Statement.ID), r.Statement.RoutingReason, truncated, r.Next,
	})
	if err != nil {
		return nil, err
	}
	out.Body, err = appendRows(r.Statement.Schemata, r.Chunk, envelope[1:])
	return out, err
}

// affected is nil for what writes no rows.
func affected(st domain.Statement) *int64 {
	if !st.ChangesRows() && st.Kind != "CREATE TABLE" {
		return nil
	}
	return known(st.Rows)
}

// known is a number that is -1 where it is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// appendRows is a JSON object with the columns, the rows, and the rest of an object.
func appendRows(schema, chunk, rest []byte) ([]byte, error) {
	columns, err := rows.Columns(schema)
	if err != nil {
		return nil, err
	}
	names := each(columns, func(c rows.Column) string { return c.Name })
	head, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	body := append(make([]byte, 0, len(head)+2*len(chunk)+len(rest)+32), `{"columns":`...)
	body = append(append(body, head...), `,"rows":`...)
	if chunk == nil {
		body = append(body, '[', ']')
	} else if body, err = rows.AppendJSON(body, chunk); err != nil {
		return nil, err
	}
	if len(rest) > 1 {
		body = append(body, ',')
	}
	return append(body, rest...), nil
}

// encodeChunk is a chunk in Arrow or CSV.
func encodeChunk(chunk []byte, kind string) ([]byte, error) {
	if kind == typeArrow || chunk == nil {
		return chunk, nil
	}
	return rows.AppendCSV(nil, chunk, true)
}

func (a *api) listStatements(ctx context.Context, s domain.Scope, in *StatementQuery) (*answer[List[Statement]], error) {
	all, err := a.Statements.List(ctx, s, in.filter(), in.page())
	if err != nil {
		return nil, err
	}
	return list(all, a.showStatement), nil
}

func (a *api) getStatement(ctx context.Context, s domain.Scope, in *StatementPath) (*answer[Statement], error) {
	return answered(a.showStatement)(a.Statements.Get(ctx, s, in.id()))
}

func (a *api) cancelStatement(ctx context.Context, s domain.Scope, in *StatementPath) (*answer[Statement], error) {
	return answered(a.showStatement)(a.Statements.Cancel(ctx, s, in.id()))
}

func (a *api) getChunk(ctx context.Context, s domain.Scope, in *struct {
	StatementPath
	N      int    `path:"n" doc:"From 0." example:"1"`
	Accept string `header:"Accept" doc:"application/json, application/vnd.apache.arrow.stream or text/csv."`
},
) (*resultAnswer, error) {
	kind, err := wanted(in.Accept)
	if err != nil {
		return nil, err
	}
	st, chunk, next, err := a.Statements.Chunk(ctx, s, in.id(), in.N)
	if err != nil {
		return nil, err
	}
	out := &resultAnswer{Status: http.StatusOK, ContentType: kind}
	rest := "}"
	if next {
		out.NextChunk = strconv.Itoa(in.N + 1)
		rest = `"next_chunk":` + out.NextChunk + "}"
	}
	if kind != typeJSON {
		out.StatementID = in.ID
		out.Body, err = encodeChunk(chunk, kind)
		return out, err
	}
	out.NextChunk = ""
	out.Body, err = appendRows(st.Schemata, chunk, []byte(rest))
	return out, err
}
