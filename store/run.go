package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

type runRow struct {
	ID                domain.RunID     `db:"id"`
	JobID             domain.JobID     `db:"job_id"`
	JobName           string           `db:"job_name"`
	SpecSize          int              `db:"spec_size"`
	ParametersSize    int              `db:"parameters_size"`
	TaskCount         int              `db:"task_count"`
	MaxConcurrentRuns int              `db:"max_concurrent_runs"`
	Status            job.RunStatus    `db:"status"`
	Trigger           job.Trigger      `db:"run_trigger"`
	StartedByKind     domain.ActorKind `db:"started_by_kind"`
	StartedByID       string           `db:"started_by_id"`
	StartedByName     string           `db:"started_by_name"`
	Message           string           `db:"message"`
	Admitted          bool             `db:"admitted"`
	CreatedAt         time.Time        `db:"created_at"`
	StartedAt         sql.NullTime     `db:"started_at"`
	FinishedAt        sql.NullTime     `db:"finished_at"`
	CancelRequestedAt sql.NullTime     `db:"cancel_requested_at"`
	Changed           domain.Change    `db:"changed"`
}

// runColumns are a run's columns without spec and parameters, which may have megabytes.
const runColumns = `id, job_id, job_name, spec_size, parameters_size, task_count, max_concurrent_runs, status, run_trigger,
	started_by_kind, started_by_id, started_by_name, message, admitted, created_at, started_at, finished_at, cancel_requested_at, changed`

func (r runRow) toDomain() (job.Run, error) {
	return job.Run{
		ID: r.ID, JobID: r.JobID, JobName: r.JobName, Status: r.Status, Trigger: r.Trigger, Message: r.Message, Admitted: r.Admitted,
		SpecSize: r.SpecSize, ParametersSize: r.ParametersSize, TaskCount: r.TaskCount, MaxConcurrentRuns: r.MaxConcurrentRuns,
		StartedBy: domain.Actor{Kind: r.StartedByKind, ID: r.StartedByID, Name: r.StartedByName}, CreatedAt: r.CreatedAt.UTC(),
		StartedAt: timePtr(r.StartedAt), FinishedAt: timePtr(r.FinishedAt), CancelRequestedAt: timePtr(r.CancelRequestedAt),
		Changed: r.Changed,
	}, nil
}

// wholeRunRow is a run's row with spec and parameters.
type wholeRunRow struct {
	runRow
	Spec       []byte `db:"spec"`
	Parameters []byte `db:"parameters"`
}

func (t *Tx) run(ctx context.Context, id domain.RunID, lock string) (job.Run, error) {
	var row wholeRunRow
	err := t.get(ctx, &row, `SELECT `+runColumns+`, spec, parameters FROM runs WHERE workspace_id = $1 AND id = $2`+lock, t.workspace, id)
	if err != nil {
		return job.Run{}, orMissing(err, domain.NotFound("run", id))
	}
	run, err := row.toDomain()
	if err != nil {
		return run, err
	}
	if run.Spec, err = decode(row.Spec, storedSpec.toDomain); err != nil {
		return run, err
	}
	run.Parameters, err = decodeEach(row.Parameters, storedVariable.toDomain)
	return run, err
}

// Run implements job.Tx.
func (t *Tx) Run(ctx context.Context, id domain.RunID) (job.Run, error) { return t.run(ctx, id, "") }

// RunsByID implements job.Tx.
func (t *Tx) RunsByID(ctx context.Context, ids []domain.RunID) ([]job.Run, error) {
	return rows(ctx, t.conn, runRow.toDomain, `SELECT `+runColumns+` FROM runs WHERE workspace_id = $1 AND id = ANY($2)`, t.workspace, texts(ids))
}

// RunSpecs implements job.Tx.
func (t *Tx) RunSpecs(ctx context.Context, ids []domain.RunID) (map[domain.RunID]job.Spec, error) {
	return documents(ctx, t, `SELECT id, spec AS document FROM runs WHERE workspace_id = $1 AND id = ANY($2)`, ids, storedSpec.toDomain)
}

// RunParameters implements job.Tx.
func (t *Tx) RunParameters(ctx context.Context, ids []domain.RunID) (map[domain.RunID][]job.Variable, error) {
	translate := func(all []storedVariable) []job.Variable { return each(all, storedVariable.toDomain) }
	return documents(ctx, t, `SELECT id, parameters AS document FROM runs WHERE workspace_id = $1 AND id = ANY($2)`, ids, translate)
}

// Runs implements job.Tx. Each combination of filters has an index in the order of the list,
// and several states read it once per state. So a page costs the same at any depth.
func (t *Tx) Runs(ctx context.Context, f job.RunFilter, before domain.RunID, limit int) ([]job.Run, error) {
	where, args := `workspace_id = $1`, []any{t.workspace, limit}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where += ` AND ` + condition + placeholder(len(args))
	}
	if before != "" {
		add(`id < `, before)
	}
	if f.JobID != "" {
		add(`job_id = `, f.JobID)
	}
	if len(f.Status) == 0 {
		return rows(ctx, t.conn, runRow.toDomain, `SELECT `+runColumns+` FROM runs WHERE `+where+` ORDER BY id DESC LIMIT $2`, args...)
	}
	args = append(args, texts(f.Status))
	return rows(ctx, t.conn, runRow.toDomain, `SELECT r.* FROM (SELECT DISTINCT unnest(`+placeholder(len(args))+`::text[]) AS s) wanted
		CROSS JOIN LATERAL (SELECT `+runColumns+` FROM runs WHERE `+where+` AND status = wanted.s ORDER BY id DESC LIMIT $2) r
		ORDER BY r.id DESC LIMIT $2`, args...)
}

// ChangedRuns implements job.Tx.
func (t *Tx) ChangedRuns(ctx context.Context, p domain.Position) ([]job.Run, bool, error) {
	where, args := t.changedSince(p)
	where, args = t.firstRound(where, args, p, "runs", "status IN ('pending', 'running')")
	runs, err := rows(ctx, t.conn, runRow.toDomain, `SELECT `+runColumns+` FROM runs WHERE `+where+` ORDER BY changed, id LIMIT $4`, args...)
	return runs, len(runs) == domain.MaxLimit, err
}

func placeholder(n int) string { return fmt.Sprintf("$%d", n) }

// LatestRuns implements job.Tx.
func (t *Tx) LatestRuns(ctx context.Context, jobs []domain.JobID) ([]job.Run, error) {
	return rows(ctx, t.conn, runRow.toDomain, `SELECT r.* FROM unnest($2::text[]) AS wanted (job)
		CROSS JOIN LATERAL (SELECT `+runColumns+` FROM runs WHERE workspace_id = $1 AND job_id = wanted.job ORDER BY id DESC LIMIT 1) r`,
		t.workspace, texts(jobs))
}

// RecentRuns implements job.Tx. It is Runs for many jobs in one statement.
func (t *Tx) RecentRuns(ctx context.Context, jobs []domain.JobID, status []job.RunStatus, limit int) ([]job.Run, error) {
	if len(status) == 0 {
		return rows(ctx, t.conn, runRow.toDomain, `SELECT r.* FROM unnest($2::text[]) AS wanted (job) CROSS JOIN LATERAL (
				SELECT `+runColumns+` FROM runs WHERE workspace_id = $1 AND job_id = wanted.job ORDER BY id DESC LIMIT $3) r
			ORDER BY r.id DESC`, t.workspace, texts(jobs), limit)
	}
	return rows(ctx, t.conn, runRow.toDomain, `SELECT r.* FROM unnest($2::text[]) AS wanted (job) CROSS JOIN LATERAL (
			SELECT q.* FROM (SELECT DISTINCT unnest($4::text[]) AS s) states CROSS JOIN LATERAL (SELECT `+runColumns+` FROM runs
				WHERE workspace_id = $1 AND job_id = wanted.job AND status = states.s ORDER BY id DESC LIMIT $3) q
			ORDER BY q.id DESC LIMIT $3) r
		ORDER BY r.id DESC`, t.workspace, texts(jobs), limit, texts(status))
}

// ActiveRuns implements job.Tx.
func (t *Tx) ActiveRuns(ctx context.Context, j domain.JobID) ([]job.Run, error) {
	return rows(ctx, t.conn, runRow.toDomain, `SELECT `+runColumns+` FROM runs
		WHERE workspace_id = $1 AND job_id = $2 AND status IN ('pending', 'running') ORDER BY id`, t.workspace, j)
}

// WaitingRuns implements job.Tx.
func (t *Tx) WaitingRuns(ctx context.Context, machine domain.MachineID) (runs []domain.RunID, err error) {
	err = t.sel(ctx, &runs, `SELECT DISTINCT run_id FROM tasks WHERE workspace_id = $1 AND machine_id = $2 AND machine_id <> '' AND status = 'queued'
		AND current IS NULL ORDER BY run_id`, t.workspace, machine)
	return runs, err
}

// OtherReadyRuns implements job.Tx.
func (t *Tx) OtherReadyRuns(ctx context.Context, run domain.RunID, machine domain.MachineID, now time.Time) (ready bool, err error) {
	err = t.get(ctx, &ready, `SELECT EXISTS (SELECT FROM tasks WHERE workspace_id = $1 AND run_id <> $2 AND status = 'queued' AND current IS NULL
		AND machine_id = $4 AND (not_before IS NULL OR not_before <= $3))`, t.workspace, run, now, machine)
	return ready, err
}

// InsertRun implements job.Tx.
func (t *Tx) InsertRun(ctx context.Context, r *job.Run) error {
	spec, err := json.Marshal(storeSpec(r.Spec))
	if err != nil {
		return err
	}
	parameters, err := json.Marshal(each(r.Parameters, storeVariable))
	if err != nil {
		return err
	}
	row := runValues(*r).actor("started_by", r.StartedBy)
	row["id"], row["job_id"], row["job_name"], row["run_trigger"], row["created_at"] = r.ID, r.JobID, r.JobName, r.Trigger, r.CreatedAt
	row["spec"], row["parameters"] = string(spec), string(parameters)
	err = t.insert(ctx, "runs", row)
	if err != nil {
		return err
	}
	return t.insertTasks(ctx, r)
}

func (t *Tx) insertTasks(ctx context.Context, r *job.Run) error {
	n := len(r.Tasks)
	keys, positions, statuses, machines := make([]string, n), make([]int64, n), make([]string, n), make([]string, n)
	for i, task := range r.Tasks {
		keys[i], positions[i], statuses[i] = task.Key, int64(task.Position), string(task.Status)
		machines[i] = string(task.Compute)
	}
	return t.exec(ctx, `INSERT INTO tasks (workspace_id, run_id, key, position, status, machine_id)
		SELECT $1, $2, k, p, s, m FROM unnest($3::text[], $4::int[], $5::text[], $6::text[]) AS t (k, p, s, m)`,
		t.workspace, r.ID, pq.Array(keys), pq.Array(positions), pq.Array(statuses), pq.Array(machines))
}

// UpdateRun implements job.Tx.
func (t *Tx) UpdateRun(ctx context.Context, id domain.RunID, fn func(*job.Run) error) (*job.Run, error) {
	r, err := t.run(ctx, id, " FOR NO KEY UPDATE")
	if err != nil {
		return nil, err
	}
	if r.Tasks, err = t.Tasks(ctx, []domain.RunID{id}); err != nil {
		return nil, err
	}
	before := r
	before.Tasks = append([]job.Task(nil), r.Tasks...)
	if err := fn(&r); err != nil {
		return nil, err
	}
	if err := t.writeRun(ctx, &before, &r); err != nil {
		return nil, err
	}
	return &r, t.writeTasks(ctx, before.Tasks, r.Tasks)
}

func (t *Tx) writeRun(ctx context.Context, before, r *job.Run) error {
	same := before.Status == r.Status && before.Message == r.Message && before.Admitted == r.Admitted && reflect.DeepEqual(before.StartedAt, r.StartedAt) &&
		reflect.DeepEqual(before.FinishedAt, r.FinishedAt) && reflect.DeepEqual(before.CancelRequestedAt, r.CancelRequestedAt)
	if same {
		return nil
	}
	return t.update(ctx, nil, "runs", string(r.ID), runValues(*r))
}

// runValues are the columns of a run that change.
func runValues(r job.Run) values {
	return values{
		"status": r.Status, "message": r.Message, "admitted": r.Admitted, "started_at": r.StartedAt, "finished_at": r.FinishedAt, "cancel_requested_at": r.CancelRequestedAt,
	}
}
