package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"reflect"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

type taskRow struct {
	RunID      domain.RunID     `db:"run_id"`
	Key        string           `db:"key"`
	Position   int              `db:"position"`
	Compute    domain.MachineID `db:"machine_id"`
	Status     job.TaskStatus   `db:"status"`
	RetryCount int              `db:"retry_count"`
	RetryBase  int              `db:"retry_base"`
	Attempts   int              `db:"attempts"`
	Current    sql.NullString   `db:"current"`
	Message    string           `db:"message"`
	NotBefore  sql.NullTime     `db:"not_before"`
	StartedAt  sql.NullTime     `db:"started_at"`
	FinishedAt sql.NullTime     `db:"finished_at"`
}

const taskColumns = `run_id, key, position, machine_id, status, retry_count, retry_base, attempts, current, message, not_before, started_at, finished_at`

func (r taskRow) toDomain() (job.Task, error) {
	return job.Task{
		RunID: r.RunID, Key: r.Key, Position: r.Position, Compute: r.Compute, Status: r.Status, RetryCount: r.RetryCount, RetryBase: r.RetryBase, Attempts: r.Attempts,
		Current: domain.AttemptID(r.Current.String), Message: r.Message, NotBefore: timePtr(r.NotBefore), StartedAt: timePtr(r.StartedAt),
		FinishedAt: timePtr(r.FinishedAt),
	}, nil
}

// Tasks implements job.Tx.
func (t *Tx) Tasks(ctx context.Context, runs []domain.RunID) ([]job.Task, error) {
	return rows(ctx, t.conn, taskRow.toDomain, `SELECT `+taskColumns+` FROM tasks WHERE workspace_id = $1 AND run_id = ANY($2) ORDER BY run_id, position`,
		t.workspace, texts(runs))
}

// AttemptCount implements job.Tx.
func (t *Tx) AttemptCount(ctx context.Context, runs []domain.RunID) (n int, err error) {
	err = t.get(ctx, &n, `SELECT COALESCE(sum(attempts), 0) FROM tasks WHERE workspace_id = $1 AND run_id = ANY($2)`, t.workspace, texts(runs))
	return n, err
}

// taskUpdate is a task's changed row in a JSON array: one statement updates any number of tasks.
type taskUpdate struct {
	Key        string            `json:"key"`
	Status     job.TaskStatus    `json:"status"`
	Compute    domain.MachineID  `json:"machine_id"`
	RetryCount int               `json:"retry_count"`
	RetryBase  int               `json:"retry_base"`
	Attempts   int               `json:"attempts"`
	Current    *domain.AttemptID `json:"current"`
	Message    string            `json:"message"`
	NotBefore  *time.Time        `json:"not_before"`
	StartedAt  *time.Time        `json:"started_at"`
	FinishedAt *time.Time        `json:"finished_at"`
}

func (t *Tx) writeTasks(ctx context.Context, before, after []job.Task) error {
	var changed []taskUpdate
	for i, task := range after {
		if reflect.DeepEqual(before[i], task) {
			continue
		}
		u := taskUpdate{
			Key: task.Key, Status: task.Status, Compute: task.Compute, RetryCount: task.RetryCount, RetryBase: task.RetryBase, Attempts: task.Attempts,
			Message: task.Message, NotBefore: task.NotBefore, StartedAt: task.StartedAt, FinishedAt: task.FinishedAt,
		}
		if task.Current != "" {
			u.Current = &task.Current
		}
		changed = append(changed, u)
	}
	if len(changed) == 0 {
		return nil
	}
	body, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	return t.exec(ctx, `UPDATE tasks t SET status = c.status, machine_id = c.machine_id, retry_count = c.retry_count, retry_base = c.retry_base, attempts = c.attempts,
		current = c.current, message = c.message, not_before = c.not_before, started_at = c.started_at, finished_at = c.finished_at
		FROM jsonb_to_recordset($3::jsonb) AS c (key text, status text, machine_id text, retry_count int, retry_base int, attempts int, current text, message text,
		not_before timestamptz, started_at timestamptz, finished_at timestamptz)
		WHERE t.workspace_id = $1 AND t.run_id = $2 AND t.key = c.key`, t.workspace, after[0].RunID, string(body))
}
