package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
)

// System holds the operations outside of a workspace, under its own database role with narrow
// grants. They find work for schedulers, recognise credentials (auth.go), create workspaces
// (instance.go), and clean up.
type System struct {
	db     *sqlx.DB
	keys   *shared[string, auth.Key] // by the hash of their secret; see APIKey
	topics *Topics
}

var (
	_ machine.System     = (*System)(nil)
	_ job.System         = (*System)(nil)
	_ statement.System   = (*System)(nil)
	_ maintenance.System = (*System)(nil)
)

// DueRuns implements job.System. It returns runs with a ready task whose agent is connected and
// has a free slot. It also returns, of the pending runs blocked by their job's limit, the oldest
// that can start now. A stopped machine counts, since it can be started, unless a person stopped it
// after the run began.
func (s *System) DueRuns(ctx context.Context, now time.Time, limit int) ([]domain.RunRef, error) {
	return refs(ctx, s, refRow.run, `
		WITH RECURSIVE free AS MATERIALIZED (
			SELECT a.workspace_id, a.machine_id FROM agents a WHERE a.session <> '' AND a.slots > (SELECT count(*) FROM attempts r
				WHERE r.workspace_id = a.workspace_id AND r.agent_id = a.id AND r.status IN ('starting', 'running'))
		), waited AS ( -- one index step for each machine that tasks wait for, however many tasks there are
			(SELECT workspace_id, machine_id FROM tasks WHERE machine_id <> '' AND status = 'queued' AND current IS NULL ORDER BY workspace_id, machine_id LIMIT 1)
			UNION ALL
			SELECT n.workspace_id, n.machine_id FROM waited w CROSS JOIN LATERAL (SELECT workspace_id, machine_id FROM tasks
				WHERE machine_id <> '' AND status = 'queued' AND current IS NULL AND (workspace_id, machine_id) > (w.workspace_id, w.machine_id)
				ORDER BY workspace_id, machine_id LIMIT 1) n
		), wanted AS MATERIALIZED (
			SELECT w.workspace_id, w.machine_id FROM waited w LEFT JOIN machines m ON m.workspace_id = w.workspace_id AND m.id = w.machine_id
				WHERE m.id IS NULL OR m.released AND m.state IN ('stopped', 'failed')
		)
		SELECT workspace_id, run_id AS id FROM (
			SELECT DISTINCT t.workspace_id, t.run_id FROM free JOIN tasks t USING (workspace_id, machine_id) WHERE t.status = 'queued' AND t.current IS NULL
				AND (t.not_before IS NULL OR t.not_before <= $1)
			UNION
			SELECT t.workspace_id, t.run_id FROM wanted JOIN tasks t USING (workspace_id, machine_id)
				LEFT JOIN machines m ON m.workspace_id = t.workspace_id AND m.id = t.machine_id
				WHERE t.machine_id <> '' AND t.status = 'queued' AND t.current IS NULL AND (t.not_before IS NULL OR t.not_before <= $1)
				AND (m.held_at IS NULL OR EXISTS (SELECT FROM runs r WHERE r.workspace_id = t.workspace_id AND r.id = t.run_id AND r.created_at > m.held_at))
			UNION
			SELECT workspace_id, id FROM (SELECT h.workspace_id, h.id, h.max_concurrent_runs - row_number() OVER (PARTITION BY h.workspace_id, h.job_id ORDER BY h.id) AS rest,
					(SELECT count(*) FROM runs o WHERE o.workspace_id = h.workspace_id AND o.job_id = h.job_id AND o.status IN ('pending', 'running') AND o.admitted) AS admitted
				FROM runs h WHERE h.status = 'pending' AND NOT h.admitted) held WHERE admitted <= rest
		) due ORDER BY run_id LIMIT $2`, now, limit)
}

type refRow struct {
	Workspace domain.WorkspaceID `db:"workspace_id"`
	ID        string             `db:"id"`
}

func (r refRow) run() (domain.RunRef, error) {
	return domain.RunRef{Workspace: r.Workspace, Run: domain.RunID(r.ID)}, nil
}

func (r refRow) job() (job.Ref, error) {
	return job.Ref{Workspace: r.Workspace, Job: domain.JobID(r.ID)}, nil
}

func (r refRow) agent() (domain.AgentRef, error) {
	return domain.AgentRef{Workspace: r.Workspace, Agent: domain.AgentID(r.ID)}, nil
}

func (r refRow) attempt() (domain.AttemptRef, error) {
	return domain.AttemptRef{Workspace: r.Workspace, Attempt: domain.AttemptID(r.ID)}, nil
}

func refs[T any](ctx context.Context, s *System, translate func(refRow) (T, error), query string, args ...any) ([]T, error) {
	all, err := rows(ctx, s.db, translate, query, args...)
	return all, mapError(err)
}

// NextRetry implements job.System.
func (s *System) NextRetry(ctx context.Context, now time.Time) (time.Time, error) {
	return s.nextTime(ctx, `SELECT min(not_before) FROM tasks WHERE status = 'queued' AND current IS NULL AND not_before > $1`, now)
}

// Schedules implements job.System. Ticks that wait for their workspace's quota would hide others,
// so they are left out until there is room.
func (s *System) Schedules(ctx context.Context, now time.Time, limit int) ([]job.DueTick, error) {
	type row struct {
		refRow
		At time.Time `db:"at"`
	}
	translate := func(r row) (job.DueTick, error) {
		ref, err := r.job()
		return job.DueTick{Ref: ref, At: r.At.UTC()}, err
	}
	const tick, ticks = `LEAST(next_at, waiting_since)`, `SELECT workspace_id, id, LEAST(next_at, waiting_since) AS at FROM jobs j WHERE (next_at IS NOT NULL OR waiting_since IS NOT NULL) AND `
	all, err := rows(ctx, s.db, translate, `SELECT * FROM ((`+ticks+tick+` <= $1
			AND (next_at <= $1 OR (SELECT count(*) FROM runs r WHERE r.workspace_id = j.workspace_id AND r.status IN ('pending', 'running'))
				< COALESCE((SELECT value FROM quotas q WHERE q.workspace_id = j.workspace_id AND q.name = 'max_running_runs'), $3))
		ORDER BY at LIMIT $2) UNION ALL (`+ticks+tick+` > $1 ORDER BY at LIMIT 1)) due ORDER BY at`, now, limit, quota.Of(quota.MaxRunningRuns, nil, 0).Limit)
	return all, mapError(err)
}

func (s *System) nextTime(ctx context.Context, query string, args ...any) (time.Time, error) {
	var at sql.NullTime
	if err := s.db.GetContext(ctx, &at, query, args...); err != nil {
		return time.Time{}, mapError(err)
	}
	return at.Time.UTC(), nil
}

// ExpiredAgents implements job.System.
func (s *System) ExpiredAgents(ctx context.Context, now time.Time) ([]domain.AgentRef, error) {
	return refs(ctx, s, refRow.agent, `SELECT workspace_id, id FROM agents a WHERE lease_expires_at <= $1 AND (session <> '' OR EXISTS (
		SELECT FROM attempts r WHERE r.workspace_id = a.workspace_id AND r.agent_id = a.id AND r.status IN ('starting', 'running')))`, now)
}

// ExtendLeases implements job.System.
func (s *System) ExtendLeases(ctx context.Context, now, until time.Time) error {
	away := min(replicaSilence, until.Sub(now)/4) // a replica seen since then, such as this one's previous process, has given the agents time to reconnect
	_, err := s.db.ExecContext(ctx, `UPDATE agents SET lease_expires_at = $1 WHERE lease_expires_at < $1
		AND (session <> '' OR lease_expires_at > $1::timestamptz - interval '1 day') AND NOT EXISTS (SELECT FROM replicas WHERE seen_at > $2)`, until, now.Add(-away))
	return mapError(err)
}

// ForgetInstances implements job.System.
func (s *System) ForgetInstances(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agents SET instance = '' WHERE instance <> ''`)
	return mapError(err)
}

// RenewLeases implements job.System.
func (s *System) RenewLeases(ctx context.Context, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agents a SET lease_expires_at = $1 WHERE lease_expires_at IS NOT NULL AND (session <> '' OR EXISTS (
		SELECT FROM attempts r WHERE r.workspace_id = a.workspace_id AND r.agent_id = a.id AND r.status IN ('starting', 'running')))`, until)
	return mapError(err)
}

// sealBacklog is the number of unsealed log bytes at which a running attempt's log is sealed.
const sealBacklog = 8 << 20

// UnsealedAttempts implements job.System.
func (s *System) UnsealedAttempts(ctx context.Context, limit int) ([]domain.AttemptRef, error) {
	return refs(ctx, s, refRow.attempt, `SELECT workspace_id, id FROM attempts a WHERE NOT log_sealed AND (status NOT IN ('starting', 'running') OR
		COALESCE((SELECT start FROM log_chunks c WHERE c.workspace_id = a.workspace_id AND c.attempt_id = a.id ORDER BY start DESC LIMIT 1), 0) -
		COALESCE((SELECT stop FROM log_segments g WHERE g.workspace_id = a.workspace_id AND g.attempt_id = a.id ORDER BY start DESC LIMIT 1), 0) >= $2)
		ORDER BY id LIMIT $1`, limit, sealBacklog)
}

// Housekeep creates the log partitions of the coming days and drops those that are fully archived
// and older than a day. It deletes old idempotency keys, API keys 30 days after their expiry,
// sessions, and maintenance runs after 90 days.
func (s *System) Housekeep(ctx context.Context, now time.Time) error {
	if err := ensurePartitions(ctx, s.db, now); err != nil {
		return err
	}
	failed := []error{s.dropPartitions(ctx, now)} // a partition in use is dropped next time
	for _, statement := range []struct {
		sql string
		arg time.Time
	}{
		{`DELETE FROM idempotency_keys WHERE created_at < $1`, now.AddDate(0, 0, -1)},
		{`DELETE FROM api_keys WHERE expires_at < $1`, now.Add(-identity.APIKeyRetention)},
		{`DELETE FROM sessions WHERE expires_at < $1 OR ended_at < $1`, now.AddDate(0, 0, -7)},
		{`DELETE FROM replicas WHERE seen_at < $1`, now.Add(-time.Hour)},
		{`DELETE FROM signing_keys WHERE created_at < $1`, now.AddDate(-1, 0, 0)},
		{`DELETE FROM maintenance_runs WHERE finished_at < $1`, now.Add(-maintenance.Kept)},
	} {
		_, err := s.db.ExecContext(ctx, statement.sql, statement.arg)
		failed = append(failed, mapError(err))
	}
	return errors.Join(failed...)
}

// keepDays is how many days sealed chunks stay in the database.
const keepDays = 2

func (s *System) dropPartitions(ctx context.Context, now time.Time) error {
	var names []string
	var failed []error
	err := s.db.SelectContext(ctx, &names, `SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'log_chunks'::regclass`)
	if err != nil {
		return mapError(err)
	}
	for _, name := range names {
		day, err := time.Parse("20060102", name)
		if err != nil {
			return err
		}
		if now.Sub(day) < (keepDays+1)*24*time.Hour {
			continue
		}
		_, err = s.db.ExecContext(ctx, `SELECT drop_log_partition($1::date, $2, $3)`, day.Format(time.DateOnly), firstAttempt(day), firstAttempt(day.AddDate(0, 0, 1)))
		failed = append(failed, mapError(err))
	}
	return errors.Join(failed...)
}
