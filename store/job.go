package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

type jobRow struct {
	ID            domain.JobID     `db:"id"`
	Name          string           `db:"name"`
	Description   string           `db:"description"`
	SpecSize      int              `db:"spec_size"`
	Cron          sql.NullString   `db:"cron"`
	TimeZone      sql.NullString   `db:"time_zone"`
	Paused        bool             `db:"paused"`
	NextAt        sql.NullTime     `db:"next_at"`
	WaitingSince  sql.NullTime     `db:"waiting_since"`
	Missed        int              `db:"missed"`
	LastMissedAt  sql.NullTime     `db:"last_missed_at"`
	Sample        bool             `db:"sample"`
	CreatedByKind domain.ActorKind `db:"created_by_kind"`
	CreatedByID   string           `db:"created_by_id"`
	CreatedByName string           `db:"created_by_name"`
	CreatedAt     time.Time        `db:"created_at"`
	UpdatedAt     time.Time        `db:"updated_at"`
}

// jobColumns are a job's columns without its spec, which may have megabytes.
const jobColumns = `id, name, description, spec_size, cron, time_zone, paused, next_at, waiting_since, missed, last_missed_at, sample,
	created_by_kind, created_by_id, created_by_name, created_at, updated_at`

func (r jobRow) toDomain() (job.Job, error) {
	j := job.Job{
		ID: r.ID, Name: r.Name, Description: r.Description, Sample: r.Sample, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName}, SpecSize: r.SpecSize,
	}
	if r.Cron.Valid {
		j.Schedule = &job.Schedule{
			Cron: r.Cron.String, TimeZone: r.TimeZone.String, Paused: r.Paused, NextAt: timePtr(r.NextAt),
			WaitingSince: timePtr(r.WaitingSince), Missed: r.Missed, LastMissedAt: timePtr(r.LastMissedAt),
		}
	}
	return j, nil
}

// wholeJobRow is a job's row with its spec.
type wholeJobRow struct {
	jobRow
	Spec []byte `db:"spec"`
}

// storedSpec is the format of the column spec, of jobs and of runs.
type storedSpec struct {
	Command           string           `json:"command,omitempty"`
	Tasks             []storedTask     `json:"tasks,omitempty"`
	MaxRetries        int              `json:"max_retries,omitempty"`
	TimeoutSeconds    int              `json:"timeout_seconds,omitempty"`
	Environment       []storedVariable `json:"environment,omitempty"`
	Parameters        []storedVariable `json:"parameters,omitempty"`
	MaxConcurrentRuns int              `json:"max_concurrent_runs,omitempty"`
	Files             []storedFile     `json:"files,omitempty"`
	Compute           string           `json:"compute,omitempty"`
	ComputeFallback   bool             `json:"compute_fallback,omitempty"`
}

type storedTask struct {
	Key            string           `json:"key"`
	Command        string           `json:"command"`
	DependsOn      []string         `json:"depends_on,omitempty"`
	MaxRetries     int              `json:"max_retries,omitempty"`
	TimeoutSeconds int              `json:"timeout_seconds,omitempty"`
	Environment    []storedVariable `json:"environment,omitempty"`
	Compute        string           `json:"compute,omitempty"`
}

type storedVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// storedFile has no content, which is a row of its own.
type storedFile struct {
	Path       string `json:"path"`
	SHA256     string `json:"sha256"`
	Size       int    `json:"size"`
	Executable bool   `json:"executable,omitempty"`
}

func storeSpec(s job.Spec) storedSpec {
	return storedSpec{
		Command: s.Command, Tasks: each(s.Tasks, storeTask), MaxRetries: s.MaxRetries, TimeoutSeconds: s.TimeoutSeconds, Environment: each(s.Environment, storeVariable),
		Parameters: each(s.Parameters, storeVariable), MaxConcurrentRuns: s.MaxConcurrentRuns, Files: each(s.Files, storeFile), Compute: s.Compute,
		ComputeFallback: s.ComputeFallback,
	}
}

func (s storedSpec) toDomain() job.Spec {
	return job.Spec{
		Command: s.Command, Tasks: each(s.Tasks, storedTask.toDomain), MaxRetries: s.MaxRetries, TimeoutSeconds: s.TimeoutSeconds,
		Environment: each(s.Environment, storedVariable.toDomain), Parameters: each(s.Parameters, storedVariable.toDomain), MaxConcurrentRuns: s.MaxConcurrentRuns,
		Files: each(s.Files, storedFile.toDomain), Compute: s.Compute, ComputeFallback: s.ComputeFallback,
	}
}

func storeTask(t job.TaskSpec) storedTask {
	return storedTask{
		Key: t.Key, Command: t.Command, DependsOn: t.DependsOn, MaxRetries: t.MaxRetries, TimeoutSeconds: t.TimeoutSeconds,
		Environment: each(t.Environment, storeVariable), Compute: t.Compute,
	}
}

func (t storedTask) toDomain() job.TaskSpec {
	return job.TaskSpec{
		Key: t.Key, Command: t.Command, DependsOn: t.DependsOn, MaxRetries: t.MaxRetries, TimeoutSeconds: t.TimeoutSeconds,
		Environment: each(t.Environment, storedVariable.toDomain), Compute: t.Compute,
	}
}

func storeVariable(v job.Variable) storedVariable { return storedVariable(v) }

func (v storedVariable) toDomain() job.Variable { return job.Variable(v) }

func storeFile(f job.File) storedFile {
	return storedFile{Path: f.Path, SHA256: f.SHA256, Size: f.Size, Executable: f.Executable}
}

func (f storedFile) toDomain() job.File {
	return job.File{Path: f.Path, SHA256: f.SHA256, Size: f.Size, Executable: f.Executable}
}

// jobValues are the columns of a job that change. Without a schedule, its columns are null.
func jobValues(j job.Job) (values, error) {
	spec, err := json.Marshal(storeSpec(j.Spec))
	row := values{
		"name": j.Name, "description": j.Description, "spec": string(spec), "updated_at": j.UpdatedAt,
		"cron": nil, "time_zone": nil, "paused": false, "next_at": nil, "waiting_since": nil, "missed": 0, "last_missed_at": nil,
	}
	if s := j.Schedule; s != nil {
		row["cron"], row["time_zone"], row["paused"], row["next_at"] = s.Cron, s.TimeZone, s.Paused, s.NextAt
		row["waiting_since"], row["missed"], row["last_missed_at"] = s.WaitingSince, s.Missed, s.LastMissedAt
	}
	return row, err
}

func (t *Tx) job(ctx context.Context, id domain.JobID, lock string) (job.Job, error) {
	var row wholeJobRow
	if err := t.get(ctx, &row, `SELECT `+jobColumns+`, spec FROM jobs WHERE workspace_id = $1 AND id = $2`+lock, t.workspace, id); err != nil {
		return job.Job{}, orMissing(err, domain.NotFound("job", id))
	}
	j, err := row.toDomain()
	if err != nil {
		return j, err
	}
	j.Spec, err = decode(row.Spec, storedSpec.toDomain)
	return j, err
}

// Job implements job.Tx.
func (t *Tx) Job(ctx context.Context, id domain.JobID) (job.Job, error) { return t.job(ctx, id, "") }

// LockJob implements job.Tx.
func (t *Tx) LockJob(ctx context.Context, id domain.JobID) (job.Job, error) {
	return t.job(ctx, id, " FOR UPDATE")
}

// JobsByID implements job.Tx.
func (t *Tx) JobsByID(ctx context.Context, ids []domain.JobID) ([]job.Job, error) {
	return rows(ctx, t.conn, jobRow.toDomain, `SELECT `+jobColumns+` FROM jobs WHERE workspace_id = $1 AND id = ANY($2)`, t.workspace, texts(ids))
}

// JobSpecs implements job.Tx.
func (t *Tx) JobSpecs(ctx context.Context, ids []domain.JobID) (map[domain.JobID]job.Spec, error) {
	return documents(ctx, t, `SELECT id, spec AS document FROM jobs WHERE workspace_id = $1 AND id = ANY($2)`, ids, storedSpec.toDomain)
}

// Jobs implements job.Tx. A search reads the jobs in order until the page is full: a
// workspace has thousands of jobs, not millions.
func (t *Tx) Jobs(ctx context.Context, f job.Filter, before domain.JobID, limit int) ([]job.Job, error) {
	query := `SELECT ` + jobColumns + ` FROM jobs WHERE workspace_id = $1`
	args := []any{t.workspace, limit}
	if before != "" {
		args = append(args, before)
		query += ` AND id < $3`
	}
	if f.Search != "" {
		args = append(args, "%"+escapeLike(f.Search)+"%")
		query += ` AND name ILIKE ` + placeholder(len(args))
	}
	return rows(ctx, t.conn, jobRow.toDomain, query+` ORDER BY id DESC LIMIT $2`, args...)
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// InsertJob implements job.Tx.
func (t *Tx) InsertJob(ctx context.Context, j job.Job) error {
	row, err := jobValues(j)
	if err != nil {
		return err
	}
	row["id"], row["sample"], row["created_at"] = j.ID, j.Sample, j.CreatedAt
	return t.insert(ctx, "jobs", row.actor("created_by", j.CreatedBy))
}

// UpdateJob implements job.Tx.
func (t *Tx) UpdateJob(ctx context.Context, id domain.JobID, fn func(*job.Job) error) (job.Job, error) {
	j, err := t.LockJob(ctx, id)
	if err != nil {
		return job.Job{}, err
	}
	if err := fn(&j); err != nil {
		return job.Job{}, err
	}
	row, err := jobValues(j)
	if err != nil {
		return job.Job{}, err
	}
	return j, t.update(ctx, nil, "jobs", string(id), row)
}

// DeleteJob implements job.Tx.
func (t *Tx) DeleteJob(ctx context.Context, id domain.JobID) error {
	return t.execOne(ctx, domain.NotFound("job", id), `DELETE FROM jobs WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}

// SampleJobs implements job.Tx.
func (t *Tx) SampleJobs(ctx context.Context) (ids []domain.JobID, err error) {
	err = t.sel(ctx, &ids, `SELECT id FROM jobs WHERE workspace_id = $1 AND sample`, t.workspace)
	return ids, err
}
