package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

type attemptRow struct {
	ID                domain.AttemptID  `db:"id"`
	RunID             domain.RunID      `db:"run_id"`
	TaskKey           string            `db:"task_key"`
	Number            int               `db:"number"`
	AgentID           domain.AgentID    `db:"agent_id"`
	Status            job.AttemptStatus `db:"status"`
	ExitCode          *int              `db:"exit_code"`
	Signal            string            `db:"signal"`
	Message           string            `db:"message"`
	Held              string            `db:"held"`
	CreatedAt         time.Time         `db:"created_at"`
	StartedAt         sql.NullTime      `db:"started_at"`
	FinishedAt        sql.NullTime      `db:"finished_at"`
	CancelRequestedAt sql.NullTime      `db:"cancel_requested_at"`
	CancelReason      string            `db:"cancel_reason"`
	LogSize           int64             `db:"log_size"`
}

const attemptColumns = `id, run_id, task_key, number, agent_id, status, exit_code, signal, message, held, created_at, started_at, finished_at,
	cancel_requested_at, cancel_reason, log_size`

func (r attemptRow) toDomain() (job.Attempt, error) {
	return job.Attempt{
		ID: r.ID, RunID: r.RunID, TaskKey: r.TaskKey, Number: r.Number, AgentID: r.AgentID, Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal,
		Message: r.Message, Held: r.Held, CreatedAt: r.CreatedAt.UTC(), StartedAt: timePtr(r.StartedAt), FinishedAt: timePtr(r.FinishedAt),
		CancelRequestedAt: timePtr(r.CancelRequestedAt), CancelReason: r.CancelReason, LogSize: r.LogSize,
	}, nil
}

func (t *Tx) attempt(ctx context.Context, id domain.AttemptID, lock string) (job.Attempt, error) {
	var row attemptRow
	if err := t.get(ctx, &row, `SELECT `+attemptColumns+` FROM attempts WHERE workspace_id = $1 AND id = $2`+lock, t.workspace, id); err != nil {
		return job.Attempt{}, orMissing(err, domain.NotFound("attempt", id))
	}
	return row.toDomain()
}

// Attempt implements job.Tx.
func (t *Tx) Attempt(ctx context.Context, id domain.AttemptID) (job.Attempt, error) {
	return t.attempt(ctx, id, "")
}

// Attempts implements job.Tx.
func (t *Tx) Attempts(ctx context.Context, runs []domain.RunID) ([]job.Attempt, error) {
	return rows(ctx, t.conn, attemptRow.toDomain, `SELECT `+attemptColumns+` FROM attempts WHERE workspace_id = $1 AND run_id = ANY($2) ORDER BY id`,
		t.workspace, texts(runs))
}

// InsertAttempt implements job.Tx.
func (t *Tx) InsertAttempt(ctx context.Context, a job.Attempt) error {
	return t.insert(ctx, "attempts", values{
		"id": a.ID, "run_id": a.RunID, "task_key": a.TaskKey, "number": a.Number, "agent_id": a.AgentID, "status": a.Status, "created_at": a.CreatedAt,
	})
}

// UpdateAttempt implements job.Tx.
func (t *Tx) UpdateAttempt(ctx context.Context, id domain.AttemptID, fn func(*job.Attempt) error) (job.Attempt, error) {
	a, err := t.attempt(ctx, id, " FOR UPDATE")
	if err != nil {
		return job.Attempt{}, err
	}
	if err := fn(&a); err != nil {
		return job.Attempt{}, err
	}
	return a, t.update(ctx, nil, "attempts", string(id), values{
		"status": a.Status, "exit_code": a.ExitCode, "signal": a.Signal, "message": a.Message, "held": a.Held, "started_at": a.StartedAt, "finished_at": a.FinishedAt,
		"log_size": a.LogSize,
	})
}

// Evict implements job.Tx.
func (t *Tx) Evict(ctx context.Context, ids []domain.AttemptID, reason string, at time.Time) ([]job.Attempt, error) {
	return rows(ctx, t.conn, attemptRow.toDomain, `UPDATE attempts SET cancel_requested_at = COALESCE(cancel_requested_at, $3), cancel_reason = $4
		WHERE workspace_id = $1 AND id IN (SELECT id FROM attempts WHERE workspace_id = $1 AND id = ANY($2) AND status IN ('starting', 'running')
			ORDER BY id FOR UPDATE) RETURNING `+attemptColumns, t.workspace, texts(ids), at, reason)
}

// RequestCancel implements job.Tx.
func (t *Tx) RequestCancel(ctx context.Context, ids []domain.AttemptID, at time.Time) ([]job.Attempt, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return rows(ctx, t.conn, attemptRow.toDomain, `UPDATE attempts SET cancel_requested_at = $3 WHERE workspace_id = $1
		AND id IN (SELECT id FROM attempts WHERE workspace_id = $1 AND id = ANY($2) ORDER BY id FOR UPDATE) RETURNING `+attemptColumns,
		t.workspace, texts(ids), at)
}
