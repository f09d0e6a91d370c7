package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/maintenance"
)

type maintenanceHolderRow struct {
	Database   domain.DatabaseID `db:"database_id"`
	Table      domain.TableID    `db:"table_id"`
	Policy     []byte            `db:"policy"`
	NextAt     sql.NullTime      `db:"next_at"`
	SweepAfter domain.TableID    `db:"sweep_after"`
}

const maintenanceHolderColumns = `COALESCE(database_id, '') AS database_id, COALESCE(table_id, '') AS table_id, policy, next_at, sweep_after`

func (r maintenanceHolderRow) toDomain() (maintenance.Holder, error) {
	policy, err := decode(r.Policy, storedPolicy.toDomain)
	return maintenance.Holder{Database: r.Database, Table: r.Table, Policy: policy, NextAt: timePtr(r.NextAt), SweepAfter: r.SweepAfter}, err
}

// SharedMaintenance implements maintenance.Tx.
func (t *Tx) SharedMaintenance(ctx context.Context) ([]maintenance.Holder, error) {
	return rows(ctx, t.conn, maintenanceHolderRow.toDomain, `SELECT `+maintenanceHolderColumns+` FROM maintenance_policies WHERE workspace_id = $1 AND subject_id = ''
		UNION ALL SELECT `+maintenanceHolderColumns+` FROM maintenance_policies WHERE workspace_id = $1 AND database_id IS NOT NULL`, t.workspace)
}

// LockMaintenance implements maintenance.Tx.
func (t *Tx) LockMaintenance(ctx context.Context, h maintenance.Holder) (maintenance.Holder, error) {
	err := t.exec(ctx, `INSERT INTO maintenance_policies (workspace_id, subject_id, database_id, table_id) VALUES ($1, $2, nullif($3, ''), nullif($4, ''))
		ON CONFLICT DO NOTHING`, t.workspace, h.Subject(), h.Database, h.Table)
	if err != nil {
		return h, err
	}
	var row maintenanceHolderRow
	err = t.get(ctx, &row, `SELECT `+maintenanceHolderColumns+` FROM maintenance_policies WHERE workspace_id = $1 AND subject_id = $2 FOR UPDATE`, t.workspace, h.Subject())
	if err != nil {
		return h, err
	}
	return row.toDomain()
}

// UpdateMaintenance implements maintenance.Tx.
func (t *Tx) UpdateMaintenance(ctx context.Context, h maintenance.Holder) error {
	policy, err := json.Marshal(storePolicy(h.Policy))
	if err != nil {
		return err
	}
	return t.execOne(ctx, domain.NotFound("policy of maintenance", h.Subject()), `UPDATE maintenance_policies SET policy = $3, next_at = $4, sweep_after = $5
		WHERE workspace_id = $1 AND subject_id = $2`, t.workspace, h.Subject(), string(policy), h.NextAt, h.SweepAfter)
}

type maintainedRow struct {
	lakeTableRow
	Policy           []byte        `db:"policy"`
	NextAt           sql.NullTime  `db:"next_at"`
	CompactedAt      sql.NullTime  `db:"compacted_at"`
	CompactedFiles   sql.NullInt64 `db:"compacted_files"`
	CompactedDeletes sql.NullInt64 `db:"compacted_deletes"`
	ExpiredAt        sql.NullTime  `db:"expired_at"`
	ExpiredSnapshots sql.NullInt64 `db:"expired_snapshots"`
	CleanedAt        sql.NullTime  `db:"cleaned_at"`
	CleanedVersion   sql.NullInt64 `db:"cleaned_version"`
	Open             bool          `db:"open"`
}

func (r maintainedRow) toDomain() (maintenance.MaintainedTable, error) {
	table, err := r.lakeTableRow.toDomain()
	if err != nil {
		return maintenance.MaintainedTable{}, err
	}
	m := maintenance.MaintainedTable{Table: table, NextAt: timePtr(r.NextAt), Open: r.Open, Done: maintenance.Maintained{
		CompactedAt: timePtr(r.CompactedAt), CompactedFiles: r.CompactedFiles.Int64, CompactedDeletes: r.CompactedDeletes.Int64, ExpiredAt: timePtr(r.ExpiredAt), ExpiredSnapshots: r.ExpiredSnapshots.Int64,
		CleanedAt: timePtr(r.CleanedAt), CleanedVersion: int(r.CleanedVersion.Int64),
	}}
	if r.Policy == nil {
		return m, nil
	}
	m.Policy, err = decode(r.Policy, storedPolicy.toDomain)
	return m, err
}

// maintained reads the live tables of the condition with the facts that decide about their
// maintenance, by id.
func (t *Tx) maintained(ctx context.Context, where string, args ...any) ([]maintenance.MaintainedTable, error) {
	return rows(ctx, t.conn, maintainedRow.toDomain, `WITH found AS (`+selectLakeTables+`t.kind = 'table' AND t.dropped_at IS NULL AND `+where+`)
		SELECT f.*, p.policy, p.next_at, m.compacted_at, m.compacted_files, m.compacted_deletes, m.expired_at, m.expired_snapshots, m.cleaned_at, m.cleaned_version,
			EXISTS (SELECT FROM maintenance_runs r WHERE r.workspace_id = $1 AND r.table_id = f.id AND r.state IN ('queued', 'running')) AS open
		FROM found f LEFT JOIN maintenance_policies p ON p.workspace_id = $1 AND p.subject_id = f.id
		LEFT JOIN maintenance_tables m ON m.workspace_id = $1 AND m.table_id = f.id ORDER BY f.id`, append([]any{t.workspace}, args...)...)
}

// MaintainedTables implements maintenance.Tx.
func (t *Tx) MaintainedTables(ctx context.Context, h maintenance.Holder, all bool, after domain.TableID, limit int) ([]maintenance.MaintainedTable, error) {
	const nearer = ` AND NOT EXISTS (SELECT FROM maintenance_policies o WHERE o.workspace_id = $1 AND o.next_at IS NOT NULL AND o.subject_id = `
	args := []any{after, limit}
	where := `t.id > $2`
	also := func(column string, value any) {
		args = append(args, value)
		where += ` AND t.` + column + ` = $` + strconv.Itoa(len(args)+1)
	}
	if h.Database != "" {
		also("database_id", h.Database)
	}
	if h.Table != "" {
		also("id", h.Table)
	}
	if !all && h.Table == "" {
		where += nearer + `t.id)`
	}
	if !all && h.Subject() == "" {
		where += nearer + `t.database_id)`
	}
	return t.maintained(ctx, where+` ORDER BY t.id LIMIT $3`, args...)
}

// MaintainedByID implements maintenance.Tx.
func (t *Tx) MaintainedByID(ctx context.Context, ids []domain.TableID) ([]maintenance.MaintainedTable, error) {
	return t.maintained(ctx, `t.id = ANY($2)`, texts(ids))
}

// SetMaintained implements maintenance.Tx.
func (t *Tx) SetMaintained(ctx context.Context, id domain.TableID, m maintenance.Maintained) error {
	return t.save(ctx, "maintenance_tables", "workspace_id, table_id", values{
		"table_id": id, "compacted_at": m.CompactedAt, "compacted_files": m.CompactedFiles, "compacted_deletes": m.CompactedDeletes, "expired_at": m.ExpiredAt,
		"cleaned_at": m.CleanedAt, "cleaned_version": m.CleanedVersion, "expired_snapshots": m.ExpiredSnapshots,
	})
}

// BeingWritten implements maintenance.Tx. It reads the few open statements, and the tables
// that each opened.
func (t *Tx) BeingWritten(ctx context.Context, id domain.TableID) (busy bool, err error) {
	err = t.get(ctx, &busy, `SELECT EXISTS (SELECT FROM statements s JOIN lineage l ON l.workspace_id = s.workspace_id AND l.actor_kind = 'statement' AND l.actor_id = s.id
		WHERE s.workspace_id = $1 AND s.warehouse_id > '' AND s.state IN ('queued', 'running') AND s.write AND l.table_id = $2)`, t.workspace, id)
	return busy, err
}

type maintenanceRunRow struct {
	ID            domain.MaintenanceRunID `db:"id"`
	TableID       domain.TableID          `db:"table_id"`
	DatabaseID    domain.DatabaseID       `db:"database_id"`
	Database      string                  `db:"database"`
	Schema        string                  `db:"schema"`
	Name          string                  `db:"name"`
	Trigger       job.Trigger             `db:"run_trigger"`
	CreatedByKind domain.ActorKind        `db:"created_by_kind"`
	CreatedByID   string                  `db:"created_by_id"`
	CreatedByName string                  `db:"created_by_name"`
	CreatedAt     time.Time               `db:"created_at"`
	DueAt         time.Time               `db:"due_at"`
	State         maintenance.State       `db:"state"`
	Message       string                  `db:"message"`
	Operations    []byte                  `db:"operations"`
	FinishedAt    sql.NullTime            `db:"finished_at"`
	Changed       domain.Change           `db:"changed"`
}

const maintenanceRunColumns = `id, table_id, database_id, database, schema, name, run_trigger, created_by_kind, created_by_id, created_by_name, created_at, due_at, state,
	message, operations, finished_at, changed`

func (r maintenanceRunRow) toDomain() (maintenance.Run, error) {
	run := maintenance.Run{
		ID: r.ID, TableID: r.TableID, DatabaseID: r.DatabaseID, Database: r.Database, Schema: r.Schema, Table: r.Name, Trigger: r.Trigger,
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName}, CreatedAt: r.CreatedAt.UTC(), DueAt: r.DueAt.UTC(), State: r.State,
		Message: r.Message, FinishedAt: timePtr(r.FinishedAt), Changed: r.Changed,
	}
	var err error
	run.Operations, err = decodeEach(r.Operations, storedOperation.toDomain)
	return run, err
}

// InsertMaintenanceRuns implements maintenance.Tx, with one statement for all runs and one for their
// operations.
func (t *Tx) InsertMaintenanceRuns(ctx context.Context, runs []maintenance.Run) (int, error) {
	all := make([]values, len(runs))
	for i, r := range runs {
		all[i] = values{
			"id": r.ID, "table_id": r.TableID, "database_id": r.DatabaseID, "database": r.Database, "schema": r.Schema, "name": r.Table, "run_trigger": r.Trigger,
			"created_at": r.CreatedAt, "due_at": r.DueAt, "state": r.State, "message": r.Message, "operations": each(r.Operations, storeOperation),
		}.actor("created_by", r.CreatedBy)
	}
	made, err := t.insertAll(ctx, "maintenance_runs", all, "ON CONFLICT DO NOTHING")
	if err != nil {
		return 0, err
	}
	var held []values
	for _, r := range runs {
		if !slices.Contains(made, string(r.ID)) {
			continue
		}
		for _, o := range r.Operations {
			held = append(held, statementValues(o.Statement, []any{}))
		}
	}
	_, err = t.insertAll(ctx, "statements", held)
	return len(made), err
}

// MaintenanceRun implements maintenance.Tx.
func (t *Tx) MaintenanceRun(ctx context.Context, id domain.MaintenanceRunID) (maintenance.Run, error) {
	return t.maintenanceRun(ctx, id, "")
}

// LockMaintenanceRun implements maintenance.Tx.
func (t *Tx) LockMaintenanceRun(ctx context.Context, id domain.MaintenanceRunID) (maintenance.Run, error) {
	return t.maintenanceRun(ctx, id, " FOR UPDATE")
}

func (t *Tx) maintenanceRun(ctx context.Context, id domain.MaintenanceRunID, lock string) (maintenance.Run, error) {
	found, err := t.maintenanceRuns(ctx, `workspace_id = $1 AND id = $2`+lock, t.workspace, id)
	if err == nil && len(found) == 0 {
		err = domain.NotFound("run of maintenance", id)
	}
	if err != nil {
		return maintenance.Run{}, err
	}
	return found[0], nil
}

// UpdateMaintenanceRun implements maintenance.Tx.
func (t *Tx) UpdateMaintenanceRun(ctx context.Context, r maintenance.Run) error {
	operations, err := json.Marshal(each(r.Operations, storeOperation))
	if err != nil {
		return err
	}
	if r.Operations == nil {
		operations = []byte("[]")
	}
	return t.update(ctx, domain.NotFound("run of maintenance", r.ID), "maintenance_runs", string(r.ID), values{
		"run_trigger": r.Trigger, "due_at": r.DueAt, "state": r.State, "message": r.Message, "operations": string(operations), "finished_at": r.FinishedAt,
	}.actor("created_by", r.CreatedBy))
}

// MaintenanceRuns implements maintenance.Tx. Each filter has an index in the order of the
// list.
func (t *Tx) MaintenanceRuns(ctx context.Context, f maintenance.Filter, before domain.MaintenanceRunID, limit int) ([]maintenance.Run, error) {
	where, args := `workspace_id = $1`, []any{t.workspace, limit}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where += ` AND ` + condition + placeholder(len(args))
	}
	if before != "" {
		add(`id < `, before)
	}
	if f.Table != "" {
		add(`table_id = `, f.Table)
	}
	if f.Database != "" {
		add(`database_id = `, f.Database)
	}
	if len(f.States) > 0 {
		args = append(args, texts(f.States))
		where += ` AND state = ANY(` + placeholder(len(args)) + `)`
	}
	return t.maintenanceRuns(ctx, where+` ORDER BY id DESC LIMIT $2`, args...)
}

// ChangedMaintenanceRuns implements maintenance.Tx.
func (t *Tx) ChangedMaintenanceRuns(ctx context.Context, p domain.Position) ([]maintenance.Run, bool, error) {
	where, args := t.changedSince(p)
	where, args = t.firstRound(where, args, p, "maintenance_runs", "state IN ('queued', 'running')")
	runs, err := t.maintenanceRuns(ctx, where+` ORDER BY changed, id LIMIT $4`, args...)
	return runs, len(runs) == domain.MaxLimit, err
}

// maintenanceRuns reads the runs of the condition, with their statements.
func (t *Tx) maintenanceRuns(ctx context.Context, where string, args ...any) ([]maintenance.Run, error) {
	found, err := rows(ctx, t.conn, maintenanceRunRow.toDomain, `SELECT `+maintenanceRunColumns+` FROM maintenance_runs WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	operations := map[domain.StatementID]*maintenance.Operation{}
	for _, r := range found {
		for i := range r.Operations {
			operations[r.Operations[i].Statement.ID] = &r.Operations[i]
		}
	}
	all, err := rows(ctx, t.conn, statementRow.toDomain, `SELECT `+statementColumns+` FROM statements WHERE workspace_id = $1 AND id = ANY($2)`,
		t.workspace, texts(slices.Collect(maps.Keys(operations))))
	for _, st := range all {
		operations[st.ID].Statement = st
	}
	return found, err
}

// RunningMaintenance implements maintenance.Tx.
func (t *Tx) RunningMaintenance(ctx context.Context) ([]maintenance.Run, error) {
	return t.maintenanceRuns(ctx, `workspace_id = $1 AND state = 'running' ORDER BY id FOR UPDATE`, t.workspace)
}

// WaitingMaintenance implements maintenance.Tx. The index of held statements has the cancelled ones
// first, and then the others in the order of their earliest start.
func (t *Tx) WaitingMaintenance(ctx context.Context, now time.Time, limit int) ([]maintenance.Run, error) {
	const held = `SELECT table_id, not_before, id FROM statements WHERE workspace_id = $1 AND state = 'queued' AND warehouse_id = '' AND cancel_requested_at `
	return t.maintenanceRuns(ctx, `workspace_id = $1 AND state IN ('queued', 'running') AND table_id IN (
		(SELECT table_id FROM (`+held+`IS NOT NULL LIMIT $3) c) UNION ALL (SELECT table_id FROM (`+held+`IS NULL AND not_before <= $2 ORDER BY not_before, id LIMIT $3) n))
		ORDER BY created_at, id FOR UPDATE`, t.workspace, now, limit)
}

// HurryHeld implements machine.Tx. It locks like a pass of maintenance: the workspace, and each run
// before its statements.
func (t *Tx) HurryHeld(ctx context.Context, now time.Time) error {
	if _, err := t.LockMaintenance(ctx, maintenance.Holder{}); err != nil {
		return err
	}
	return t.exec(ctx, `WITH waiting AS MATERIALIZED (SELECT table_id FROM maintenance_runs WHERE workspace_id = $1 AND state = 'queued' FOR UPDATE)
		UPDATE statements SET not_before = $2 WHERE workspace_id = $1 AND state = 'queued' AND warehouse_id = '' AND cancel_requested_at IS NULL AND not_before > $2
			AND table_id IN (SELECT table_id FROM waiting)`, t.workspace, now)
}

// CrowdedTables implements maintenance.System. It reads all tables: an index on the number of
// snapshots would slow each commit down.
func (s *System) CrowdedTables(ctx context.Context, snapshots int, after lake.TableRef, limit int) ([]lake.TableRef, error) {
	return refs(ctx, s, refRow.table, `SELECT workspace_id, id FROM lake_tables WHERE kind = 'table' AND dropped_at IS NULL AND snapshots > $1
		AND (workspace_id, id) > ($2, $3) ORDER BY workspace_id, id LIMIT $4`, snapshots, after.Workspace, after.Table, limit)
}

// DueMaintenance implements maintenance.System. It returns holders with a schedule, new workspaces,
// and workspaces whose runs can continue. Those have a statement that ended, or room for another
// run.
func (s *System) DueMaintenance(ctx context.Context, now time.Time, limit int) ([]maintenance.Due, error) {
	type row struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Runs      bool               `db:"runs"`
		Database  domain.DatabaseID  `db:"database_id"`
		Table     domain.TableID     `db:"table_id"`
		At        time.Time          `db:"at"`
	}
	translate := func(r row) (maintenance.Due, error) {
		r.At = r.At.UTC()
		return maintenance.Due(r), nil
	}
	all, err := rows(ctx, s.db, translate, `SELECT workspace_id, runs, database_id, table_id, at FROM (
		(SELECT workspace_id, false AS runs, COALESCE(database_id, '') AS database_id, COALESCE(table_id, '') AS table_id, next_at AS at FROM maintenance_policies
			WHERE next_at IS NOT NULL ORDER BY next_at LIMIT $2)
		UNION ALL
		SELECT workspace_id, false, '', '', $1 FROM workspaces w WHERE NOT EXISTS (
			SELECT FROM maintenance_policies p WHERE p.workspace_id = w.workspace_id AND p.subject_id = '' AND p.next_at IS NOT NULL)
		UNION ALL
		SELECT r.workspace_id, true, '', '', min(r.created_at) FROM maintenance_runs r WHERE r.state = 'running' AND NOT EXISTS (SELECT FROM statements s
			WHERE s.workspace_id = r.workspace_id AND s.warehouse_id > '' AND s.state IN ('queued', 'running') AND s.table_id = r.table_id) GROUP BY r.workspace_id
		UNION ALL
		SELECT w.workspace_id, true, '', '', CASE WHEN h.cancel_requested_at IS NULL THEN h.not_before ELSE h.cancel_requested_at END FROM workspaces w
			CROSS JOIN LATERAL (SELECT cancel_requested_at, not_before FROM statements WHERE workspace_id = w.workspace_id AND state = 'queued' AND warehouse_id = ''
				ORDER BY cancel_requested_at, not_before LIMIT 1) h
			WHERE h.cancel_requested_at IS NOT NULL OR h.not_before IS NOT NULL
				AND (SELECT count(*) FROM maintenance_runs b WHERE b.workspace_id = w.workspace_id AND b.state = 'running') < $3
		) due ORDER BY at LIMIT $2`, now, limit, maintenance.AtOnce)
	return all, mapError(err)
}
