package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/rest/httpx"
)

// ExecuteStatement is one SQL statement, its warehouse and its limits.
type ExecuteStatement struct {
	Query          string            `json:"query" example:"SELECT species, count(*) FROM lake.samples.penguins GROUP BY ALL" doc:"One SQL statement, at most 1 MiB."`
	WarehouseID    string            `json:"warehouse_id" example:"wh_01k2v9d3h2f5s8wq6z1y7b4c0e" doc:"Id or name of the warehouse. A stopped warehouse is started."`
	Parameters     []json.RawMessage `json:"parameters,omitempty" nullable:"true" doc:"Values for $1, $2 and so on, or for each ? in order: null, a boolean, a number or a string. They are bound, never inserted into the text."`
	Database       string            `json:"database,omitempty" default:"lake" doc:"The database for names without a database."`
	Schema         string            `json:"schema,omitempty" default:"public" doc:"The schema for names without a schema; levels joined by dots."`
	Engine         string            `json:"engine,omitempty" enum:"duckdb,trino" doc:"The engine that must run it. By default, duckdb runs reads, and the warehouse's write engine runs writes."`
	RowLimit       int64             `json:"row_limit,omitempty" minimum:"0" doc:"Maximum number of rows of the result; truncated is true if there were more. 0 or absent means no limit."`
	ByteLimit      int64             `json:"byte_limit,omitempty" minimum:"0" doc:"Maximum size of the result in Arrow, in bytes; truncated is true if there was more. Defaults to 8 GiB."`
	TimeoutSeconds int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long it may run, without the time that it waits. 0 means no limit."`
	WaitTimeout    string            `json:"wait_timeout,omitempty" example:"10s" doc:"How long the answer may take, such as 10s, 500ms or 0s. A statement that is not over by then continues, and the answer is 202. By default, the answer comes at the end."`
}

func (e ExecuteStatement) domain() (n statement.NewStatement, wait *time.Duration, err error) {
	n = statement.NewStatement{
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

// SQLResult is the result of a statement: the specification's fields and further ones.
type SQLResult struct {
	Columns       []string            `json:"columns" doc:"The names of the columns."`
	Rows          [][]json.RawMessage `json:"rows" doc:"One array per row, values in the order of the columns. Numbers keep all their digits. NaN and infinities are strings. Dates, times and timestamps are in ISO 8601, with Z if they have a zone. Binary values are in base64. Lists and structures are JSON. Maps with text keys are objects, other maps lists of pairs."`
	RowsAffected  *int64              `json:"rows_affected,omitempty" doc:"For INSERT, UPDATE, DELETE, MERGE and CREATE TABLE: the rows that it inserted, changed or deleted."`
	Engine        string              `json:"engine" example:"duckdb" doc:"The engine that ran it."`
	ElapsedMS     int64               `json:"elapsed_ms" doc:"From its arrival to its end, waiting time included."`
	Lineage       TablesOf            `json:"lineage"`
	StatementID   string              `json:"statement_id"`
	RoutingReason string              `json:"routing_reason" doc:"Why that engine was chosen."`
	Truncated     bool                `json:"truncated" doc:"True if there are more rows than these: in further chunks if there is a next_chunk, else a limit cut them off."`
	NextChunk     *int                `json:"next_chunk,omitempty" doc:"Number of the next chunk, at /sql/statements/{statement_id}/chunks/{next_chunk}. Absent if this is the whole result."`
}

// TablesOf are the tables that a statement or a run read and wrote.
type TablesOf struct {
	Read    []string `json:"read" example:"[\"lake.samples.penguins\"]" doc:"Fully qualified: database.schema.table."`
	Written []string `json:"written" doc:"Fully qualified: database.schema.table."`
}

func showTables(l lake.Lineage) TablesOf {
	return TablesOf{Read: tableNames(l.Read), Written: tableNames(l.Written)}
}

func tableNames(entries []lake.LineageEntry) []string {
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

// Statement is a SQL statement and its state.
type Statement struct {
	StatementID       string            `json:"statement_id"`
	Query             string            `json:"query"`
	Parameters        []json.RawMessage `json:"parameters"`
	WarehouseID       string            `json:"warehouse_id" doc:"Empty while a statement of maintenance waits for its turn."`
	Database          string            `json:"database"`
	Schema            string            `json:"schema"`
	State             string            `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	Message           string            `json:"message" doc:"What it waits for; else empty."`
	Progress          *float64          `json:"progress" nullable:"true" doc:"From 0 to 1; null if the engine does not report it."`
	Kind              string            `json:"kind" example:"SELECT" doc:"Empty until an engine has read it."`
	Write             bool              `json:"write"`
	Engine            string            `json:"engine"`
	RoutingReason     string            `json:"routing_reason"`
	Error             *StatementError   `json:"error,omitempty" doc:"Why a failed statement failed."`
	Columns           []ResultColumn    `json:"columns"`
	RowCount          *int64            `json:"row_count" nullable:"true" doc:"Rows of the result. For a write, the rows that it inserted, changed or deleted. Null if it committed, but its engine or server was lost before it reported the count."`
	ResultBytes       int64             `json:"result_bytes" doc:"Size of the result in Arrow."`
	BytesScanned      int64             `json:"bytes_scanned" doc:"Bytes read from storage, if the engine reports them."`
	Truncated         bool              `json:"truncated" doc:"True if a limit cut the result."`
	Chunks            []ResultChunk     `json:"chunks" doc:"The chunks of the result so far, at /sql/statements/{id}/chunks/0 and on."`
	ResultUntil       *Time             `json:"result_until" nullable:"true" doc:"When the result is deleted."`
	CreatedBy         Actor             `json:"created_by"`
	RunID             *string           `json:"run_id" nullable:"true" doc:"The run whose task sent it."`
	TaskKey           *string           `json:"task_key" nullable:"true"`
	Purpose           *string           `json:"purpose" nullable:"true" enum:"maintenance" doc:"What the platform runs it for. Null for a statement of a person, a task or a client."`
	TableID           *string           `json:"table_id" nullable:"true" doc:"The table that it maintains."`
	CreatedAt         Time              `json:"created_at"`
	NotBefore         *Time             `json:"not_before" nullable:"true" doc:"The earliest time of its start, if one is set."`
	StartedAt         *Time             `json:"started_at" nullable:"true"`
	FinishedAt        *Time             `json:"finished_at" nullable:"true"`
	QueuedMS          *int64            `json:"queued_ms" nullable:"true" doc:"From its arrival to its start, or to now while it waits."`
	RunMS             *int64            `json:"run_ms" nullable:"true" doc:"From its start to its end, or to now while it runs."`
	CancelRequestedAt *Time             `json:"cancel_requested_at" nullable:"true"`
}

// StatementError says why a statement failed.
type StatementError struct {
	Message string `json:"message"`
	Fault   string `json:"fault" enum:"query,forbidden,conflict,timeout,cancelled,resources,engine" doc:"Cause of the failure."`
	Line    *int   `json:"line" nullable:"true" doc:"Line in the text, from 1."`
	Column  *int   `json:"column" nullable:"true" doc:"Column in characters, from 1."`
}

// ResultColumn is a column of a result.
type ResultColumn struct {
	Name string `json:"name"`
	Type string `json:"type" example:"decimal(38, 2)" doc:"An Iceberg type name."`
}

func (a *api) showStatement(st statement.Statement) Statement {
	shown := Statement{
		StatementID: string(st.ID), Query: st.Query, Parameters: st.Parameters, WarehouseID: string(st.Warehouse), Database: st.Database, Schema: st.Schema,
		State: string(st.State), Message: st.Message, Kind: st.Kind, Write: st.Write, Engine: st.Engine, RoutingReason: st.RoutingReason,
		Columns: showColumns(st.Schemata), RowCount: known(st.Rows), ResultBytes: st.Bytes, BytesScanned: st.Scanned, Truncated: st.Truncated,
		Chunks: each(st.Chunks, func(c statement.ResultChunk) ResultChunk { return ResultChunk(c) }), ResultUntil: optionalTime(st.ResultUntil),
		CreatedBy: showActor(st.CreatedBy), CreatedAt: Time(st.CreatedAt), NotBefore: optionalTime(st.NotBefore), StartedAt: optionalTime(st.StartedAt), FinishedAt: optionalTime(st.FinishedAt),
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
	if st.Purpose != "" {
		shown.Purpose, shown.TableID = new(string(st.Purpose)), new(string(st.TableID))
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

// showColumns returns no columns if there is no result, or its columns cannot be read.
func showColumns(schema []byte) []ResultColumn {
	columns, err := rows.Columns(schema)
	if err != nil {
		return []ResultColumn{}
	}
	return each(columns, func(c rows.Column) ResultColumn { return ResultColumn(c) })
}

// StatementPath is the path of operations on one statement.
type StatementPath struct {
	ID string `path:"id" doc:"The statement's id." example:"stm_01k2v9d3h2f5s8wq6z1y7b4c0e"`
}

func (p StatementPath) id() domain.StatementID { return domain.StatementID(p.ID) }

// StatementQuery is the query of a list of statements.
type StatementQuery struct {
	PageQuery
	State       []string `query:"state,explode" doc:"Any of queued, running, succeeded, failed, cancelled. Repeat the parameter, or separate values by commas."`
	WarehouseID string   `query:"warehouse_id" doc:"Only statements of this warehouse."`
	Purpose     string   `query:"purpose" enum:"maintenance" doc:"Only statements that the platform runs for this purpose. They are left out by default."`
	RunID       string   `query:"run_id" doc:"Only statements of this run's tasks."`
	Mine        bool     `query:"mine" doc:"Only one's own statements."`
	Search      string   `query:"search" doc:"Only statements that contain this text, in any case."`
}

func (q StatementQuery) filter() statement.Filter {
	f := statement.Filter{Purpose: statement.Purpose(q.Purpose), Warehouse: domain.MachineID(q.WarehouseID), Run: domain.RunID(q.RunID), Text: q.Search}
	if q.Mine {
		f.Mine = "me"
	}
	for _, given := range q.State {
		for one := range strings.SplitSeq(given, ",") {
			f.States = append(f.States, statement.State(one))
		}
	}
	return f
}

func (a *api) statementRoutes() {
	const tag = "SQL"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/sql/execute", OperationID: "execute-statement", Tags: []string{tag}, Summary: "Run a SQL statement",
		Errors: []int{http.StatusNotFound, http.StatusConflict}, Responses: a.resultResponses(true),
		Description: "DuckDB runs reads, the warehouse's write engine runs writes. A viewer may run reads; for a viewer, a statement that writes is 403. A statement that is wrong, or refused, is 400 " +
			"with its line and column in the message.\n\n" +
			"Decided here: the answer has the whole result up to 16 MiB, in Arrow and in JSON, or a million rows. A row with more than 16 MiB in JSON fails its statement with 400. A larger result is kept for a day in the workspace's storage: truncated is true, and next_chunk is the next chunk. A chunk has the same rows in every format. " +
			"Accept selects JSON, a stream of Arrow IPC (application/vnd.apache.arrow.stream) or CSV (text/csv). Arrow and CSV carry the other fields in Millpond-* headers. " +
			"A stopped warehouse is started, and the answer waits for it. With wait_timeout the answer may be 202 with the statement's id and state: fetch its chunks, or cancel it. " +
			"If the client disconnects, a read is cancelled; a write continues to its end, and is found by its id. With an Idempotency-Key, the same request returns the same statement. It runs again if the statement " +
			"failed with 503 and committed nothing.",
	}, a.executeStatement)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements", OperationID: "list-statements", Tags: []string{tag}, Summary: "List statements, newest first",
		Description: "Statements of all users, with their texts. Those of the platform are listed only with purpose. A page holds at most 4 MiB of texts, so it may be shorter than limit.",
	}, a.listStatements)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements/{id}", OperationID: "get-statement", Tags: []string{tag}, Summary: "Get a statement",
	}, a.getStatement)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/sql/statements/{id}/chunks/{n}", OperationID: "get-statement-chunk", Tags: []string{tag}, Summary: "Get a chunk of a statement's result",
		Responses: a.resultResponses(false), Errors: []int{http.StatusConflict},
		Description: "Accept selects JSON, Arrow IPC or CSV, as for POST /sql/execute. The operation waits up to 30 seconds for a chunk that is not ready. Then the answer is 202, with the statement and Retry-After: request it again. A result is kept for a day; after that this is 404. " +
			"A statement that failed answers with its error.",
	}, a.getChunk)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/sql/statements/{id}/cancel", OperationID: "cancel-statement", Tags: []string{tag}, Summary: "Cancel a statement", Errors: []int{http.StatusConflict},
		Description: "One's own statement, or as an editor anybody's. 409 if it is over, or is already being cancelled.\n\n" +
			"Decided here: the answer is 200 with the statement. It is cancelled once its engine has ended it. A write that had already committed has succeeded.",
	}, a.cancelStatement)
}

// The content types of results.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
	typeCSV   = "text/csv"
)

// resultResponses describes results and, for execute, the answer for a statement that continues.
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
	all["202"] = &huma.Response{
		Description: "The statement continues: request it again after Retry-After.", Headers: map[string]*huma.Header{"Retry-After": numberHeader("In seconds.")},
		Content: map[string]*huma.MediaType{typeJSON: {Schema: schemas.Schema(reflect.TypeFor[PendingStatement](), true, "")}},
	}
	return all
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
		return pending(r.Statement)
	}
	if r.Statement.Reads() { // a refused answer would look like a failed write
		if err := httpx.Hold(ctx, int64(len(r.Chunk))); err != nil {
			return nil, kept(err, r.Statement)
		}
	}
	return a.showResult(r, kind)
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
