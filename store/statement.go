package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/statement"
)

type statementRow struct {
	ID            domain.StatementID `db:"id"`
	Warehouse     domain.MachineID   `db:"warehouse_id"`
	Query         string             `db:"query"`
	Parameters    []byte             `db:"parameters"`
	Database      string             `db:"database_name"`
	Schema        string             `db:"schema_name"`
	Requested     string             `db:"requested_engine"`
	RowLimit      int64              `db:"row_limit"`
	ByteLimit     int64              `db:"byte_limit"`
	TimeoutMS     int64              `db:"timeout_ms"`
	ByKind        domain.ActorKind   `db:"created_by_kind"`
	ByID          string             `db:"created_by_id"`
	ByName        string             `db:"created_by_name"`
	Role          domain.Role        `db:"role"`
	RunID         domain.RunID       `db:"run_id"`
	TaskKey       string             `db:"task_key"`
	Purpose       statement.Purpose  `db:"purpose"`
	TableID       domain.TableID     `db:"table_id"`
	NotBefore     sql.NullTime       `db:"not_before"`
	CreatedAt     time.Time          `db:"created_at"`
	State         statement.State    `db:"state"`
	Message       string             `db:"message"`
	Progress      float64            `db:"progress"`
	Kind          string             `db:"kind"`
	Write         bool               `db:"write"`
	Engine        string             `db:"engine"`
	RoutingReason string             `db:"routing_reason"`
	Fault         statement.Fault    `db:"fault"`
	Failure       string             `db:"failure"`
	FailureLine   int                `db:"failure_line"`
	FailureColumn int                `db:"failure_column"`
	Schemata      []byte             `db:"schema_message"`
	Rows          int64              `db:"rows"`
	Bytes         int64              `db:"bytes"`
	Scanned       int64              `db:"scanned"`
	Truncated     bool               `db:"truncated"`
	Chunks        []byte             `db:"chunks"`
	ResultUntil   sql.NullTime       `db:"result_until"`
	StartedAt     sql.NullTime       `db:"started_at"`
	FinishedAt    sql.NullTime       `db:"finished_at"`
	CancelledAt   sql.NullTime       `db:"cancel_requested_at"`
	Changed       domain.Change      `db:"changed"`
	Resolution    lineage.Resolution `db:"lineage"`
	Replica       string             `db:"replica"`
	Key           string             `db:"idempotency_key"`
	Detached      bool               `db:"detached"`
	Sent          bool               `db:"sent"`
	Committed     bool               `db:"committed"`
}

const statementColumns = `id, warehouse_id, query, parameters, database_name, schema_name, requested_engine, row_limit, byte_limit, timeout_ms, created_by_kind,
	created_by_id, created_by_name, role, run_id, task_key, purpose, table_id, not_before, created_at, state, message, progress, kind, write, engine, routing_reason, fault, failure, failure_line,
	failure_column, schema_message, rows, bytes, scanned, truncated, chunks, result_until, started_at, finished_at, cancel_requested_at, changed, lineage, replica, idempotency_key, detached, sent, committed`

func (r statementRow) toDomain() (statement.Statement, error) {
	st := statement.Statement{
		ID: r.ID, Warehouse: r.Warehouse, Query: r.Query, Database: r.Database, Schema: r.Schema, Requested: r.Requested, RowLimit: r.RowLimit, ByteLimit: r.ByteLimit,
		Timeout: time.Duration(r.TimeoutMS) * time.Millisecond, CreatedBy: domain.Actor{Kind: r.ByKind, ID: r.ByID, Name: r.ByName}, Role: r.Role,
		RunID: r.RunID, TaskKey: r.TaskKey, Purpose: r.Purpose, TableID: r.TableID, NotBefore: timePtr(r.NotBefore), CreatedAt: r.CreatedAt.UTC(), State: r.State, Message: r.Message, Progress: r.Progress, Kind: r.Kind, Write: r.Write,
		Engine: r.Engine, RoutingReason: r.RoutingReason, Schemata: r.Schemata, Rows: r.Rows, Bytes: r.Bytes, Scanned: r.Scanned, Truncated: r.Truncated,
		ResultUntil: timePtr(r.ResultUntil), StartedAt: timePtr(r.StartedAt), FinishedAt: timePtr(r.FinishedAt), CancelRequestedAt: timePtr(r.CancelledAt),
		Resolution: r.Resolution, Replica: r.Replica, Key: r.Key, Detached: r.Detached, Sent: r.Sent, Committed: r.Committed, Changed: r.Changed,
	}
	if r.Fault != "" {
		st.Failure = &statement.Failure{Fault: r.Fault, Message: r.Failure, Line: r.FailureLine, Column: r.FailureColumn}
	}
	err := json.Unmarshal(r.Parameters, &st.Parameters)
	if err != nil {
		return st, err
	}
	st.Chunks, err = decodeEach(r.Chunks, storedChunk.toDomain)
	return st, err
}

// storedChunk is the format of an element of the column chunks.
type storedChunk struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

func storeChunk(c statement.ResultChunk) storedChunk { return storedChunk(c) }

func (c storedChunk) toDomain() statement.ResultChunk { return statement.ResultChunk(c) }

// InsertStatement implements statement.Tx.
func (t *Tx) InsertStatement(ctx context.Context, st statement.Statement) error {
	parameters, err := json.Marshal(st.Parameters)
	if err != nil {
		return err
	}
	if st.Parameters == nil {
		parameters = []byte("[]")
	}
	return t.insert(prepared(ctx), "statements", statementValues(st, string(parameters)))
}

// statementValues are the columns of a new statement.
func statementValues(st statement.Statement, parameters any) values {
	return values{
		"id": st.ID, "warehouse_id": st.Warehouse, "query": st.Query, "parameters": parameters, "database_name": st.Database, "schema_name": st.Schema,
		"requested_engine": st.Requested, "row_limit": st.RowLimit, "byte_limit": st.ByteLimit, "timeout_ms": st.Timeout.Milliseconds(), "role": st.Role,
		"run_id": st.RunID, "task_key": st.TaskKey, "purpose": st.Purpose, "table_id": st.TableID, "not_before": st.NotBefore, "created_at": st.CreatedAt,
		"state": st.State, "message": st.Message, "replica": st.Replica, "idempotency_key": st.Key, "detached": st.Detached, "sent": st.Sent, "committed": false,
	}.actor("created_by", st.CreatedBy)
}

// Statement implements statement.Tx.
func (t *Tx) Statement(ctx context.Context, id domain.StatementID) (statement.Statement, error) {
	return t.statement(ctx, id, "")
}

// LockStatement implements statement.Tx.
func (t *Tx) LockStatement(ctx context.Context, id domain.StatementID) (statement.Statement, error) {
	return t.statement(ctx, id, " FOR NO KEY UPDATE")
}

func (t *Tx) statement(ctx context.Context, id domain.StatementID, lock string) (statement.Statement, error) {
	var r statementRow
	err := t.get(prepared(ctx), &r, `SELECT `+statementColumns+` FROM statements WHERE workspace_id = $1 AND id = $2`+lock, t.workspace, id)
	if err != nil {
		return statement.Statement{}, orMissing(err, domain.NotFound("statement", id))
	}
	return r.toDomain()
}

// UpdateStatement implements statement.Tx.
func (t *Tx) UpdateStatement(ctx context.Context, st statement.Statement, result []byte) error {
	chunks, err := json.Marshal(each(st.Chunks, storeChunk))
	if err != nil {
		return err
	}
	if st.Chunks == nil {
		chunks = []byte("[]")
	}
	var f statement.Failure
	if st.Failure != nil {
		f = *st.Failure
	}
	row := values{
		"state": st.State, "message": st.Message, "progress": st.Progress, "kind": st.Kind, "write": st.Write, "engine": st.Engine, "routing_reason": st.RoutingReason,
		"fault": f.Fault, "failure": f.Message, "failure_line": f.Line, "failure_column": f.Column, "schema_message": st.Schemata, "rows": st.Rows, "bytes": st.Bytes,
		"scanned": st.Scanned, "truncated": st.Truncated, "chunks": string(chunks), "result_until": st.ResultUntil, "started_at": st.StartedAt,
		"finished_at": st.FinishedAt, "cancel_requested_at": st.CancelRequestedAt, "lineage": st.Resolution, "replica": st.Replica, "detached": st.Detached, "sent": st.Sent,
	}
	switch {
	case len(result) > 0:
		row["result"] = result
	case result != nil:
		row["result"] = nil
	}
	return t.update(prepared(ctx), domain.NotFound("statement", st.ID), "statements", string(st.ID), row)
}

// UpdateHeld implements statement.Tx.
func (t *Tx) UpdateHeld(ctx context.Context, st statement.Statement) error {
	return t.execOne(ctx, domain.NotFound("held statement", st.ID), `UPDATE statements SET query = $3, warehouse_id = $4, message = $5, not_before = $6
		WHERE workspace_id = $1 AND id = $2 AND state = 'queued' AND warehouse_id = ''`, t.workspace, st.ID, st.Query, st.Warehouse, st.Message, st.NotBefore)
}

// StatementResult implements statement.Tx.
func (t *Tx) StatementResult(ctx context.Context, id domain.StatementID) (result []byte, err error) {
	err = t.get(ctx, &result, `SELECT result FROM statements WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
	return result, orMissing(err, domain.NotFound("statement", id))
}

// Statements implements statement.Tx. An index of the purpose, the warehouse or the run finds the
// page.
func (t *Tx) Statements(ctx context.Context, f statement.Filter, before domain.StatementID, limit, bytes int) ([]statement.Statement, bool, error) {
	where, args := `workspace_id = $1`, []any{t.workspace, limit}
	if before != "" {
		args = append(args, before)
		where += ` AND id < ` + placeholder(len(args))
	}
	if len(f.States) > 0 {
		args = append(args, texts(f.States))
		where += ` AND state = ANY(` + placeholder(len(args)) + `)`
	}
	where, args = statementsOf(f, where, args)
	return t.statementPage(ctx, where, `id DESC`, `$2`, bytes, args)
}

// ChangedStatements implements statement.Tx.
func (t *Tx) ChangedStatements(ctx context.Context, f statement.Filter, p domain.Position, bytes int) ([]statement.Statement, bool, error) {
	where, args := t.changedSince(p)
	where, args = t.firstRound(where, args, p, "statements", `state IN ('queued', 'running') AND warehouse_id <> ''`) // held ones are many
	where, args = statementsOf(f, where, args)
	page, cut, err := t.statementPage(ctx, where, `changed, id`, `$4`, bytes, args)
	return page, len(page) == domain.MaxLimit || cut, err
}

// statementsOf adds the conditions of the filter that a statement meets always or never.
func statementsOf(f statement.Filter, where string, args []any) (string, []any) {
	and := func(given bool, condition string, arg any) {
		if given {
			args = append(args, arg)
			where += fmt.Sprintf(" AND "+condition, len(args))
		}
	}
	and(true, "purpose = $%d", f.Purpose)
	and(f.Warehouse != "", "warehouse_id = $%d", f.Warehouse)
	and(f.Run != "", "run_id = $%d", f.Run)
	and(f.Mine != "", "created_by_id = $%d", f.Mine)
	and(f.Text != "", "position($%d in lower(query)) > 0", strings.ToLower(f.Text))
	return where, args
}

// statementPage reads only the texts in the page: at least one statement, and otherwise those that
// begin within so many bytes. cut reports whether the bytes have left some out.
func (t *Tx) statementPage(ctx context.Context, where, order, limit string, bytes int, args []any) (page []statement.Statement, cut bool, err error) {
	type row struct {
		statementRow
		Found int `db:"found"`
	}
	found := 0
	translate := func(r row) (statement.Statement, error) {
		found = r.Found
		return r.toDomain()
	}
	args = append(args, bytes)
	page, err = rows(ctx, t.conn, translate, `WITH page AS (
		SELECT id, sum(size) OVER (ORDER BY `+order+` ROWS UNBOUNDED PRECEDING) - size AS before
		FROM (SELECT id, changed, octet_length(query) + octet_length(parameters::text) AS size FROM statements WHERE `+where+` ORDER BY `+order+` LIMIT `+limit+`) AS sized)
		SELECT `+statementColumns+`, (SELECT count(*) FROM page) AS found FROM statements JOIN page USING (id)
		WHERE workspace_id = $1 AND page.before <= `+placeholder(len(args))+` ORDER BY `+order, args...)
	return page, len(page) < found, err
}

// LostStatements implements statement.System. Its index has no held statements.
func (s *System) LostStatements(ctx context.Context, now time.Time, replica string, live []domain.StatementID, limit int) ([]statement.Ref, error) {
	return s.statementRefs(ctx, `state IN ('queued', 'running') AND warehouse_id <> ''
		AND (replica = '' OR created_at < $1 AND (replica = $3 AND id <> ALL($4)
			OR replica <> $3 AND NOT EXISTS (SELECT FROM replicas r WHERE r.id = replica AND r.seen_at > $1)))`, now.Add(-replicaSilence), limit, replica, pq.Array(live))
}

// ExpiredResults implements statement.System.
func (s *System) ExpiredResults(ctx context.Context, now time.Time, limit int) ([]statement.Ref, error) {
	return s.statementRefs(ctx, `chunks <> '[]' AND result_until <= $1`, now, limit)
}

func (s *System) statementRefs(ctx context.Context, where string, at time.Time, limit int, more ...any) ([]statement.Ref, error) {
	type row struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Statement domain.StatementID `db:"id"`
		Chunks    int                `db:"chunks"`
		Replica   string             `db:"replica"`
	}
	translate := func(r row) (statement.Ref, error) { return statement.Ref(r), nil }
	all, err := rows(ctx, s.db, translate, `SELECT workspace_id, id, jsonb_array_length(chunks) AS chunks, replica FROM statements WHERE `+where+` LIMIT $2`, append([]any{at, limit}, more...)...)
	return all, mapError(err)
}

// LiveStatement implements auth.Store.
func (s *System) LiveStatement(ctx context.Context, id domain.StatementID) (ws domain.WorkspaceID, role domain.Role, name string, err error) {
	var r struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Role      domain.Role        `db:"role"`
		Name      string             `db:"created_by_name"`
	}
	err = s.db.GetContext(prepared(ctx), &r, `SELECT workspace_id, role, created_by_name FROM statements WHERE id = $1 AND state IN ('queued', 'running')`, id)
	return r.Workspace, r.Role, r.Name, mapError(orMissing(err, errUnknown))
}
