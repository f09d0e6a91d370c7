package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

var _ tracking.System = (*System)(nil)

// EndedTrackingRuns implements tracking.System.
func (s *System) EndedTrackingRuns(ctx context.Context, limit int) ([]tracking.Ended, error) {
	type row struct {
		refRow
		Cancelled bool       `db:"cancelled"`
		At        *time.Time `db:"finished_at"`
	}
	translate := func(r row) (tracking.Ended, error) {
		return tracking.Ended{Ref: r.trackingRun(), Cancelled: r.Cancelled, At: utc(r.At)}, nil
	}
	ended, err := rows(ctx, s.db, translate, `SELECT r.workspace_id, r.id, COALESCE(a.status = 'cancelled', false) AS cancelled, a.finished_at FROM tracking_runs r
		LEFT JOIN attempts a ON a.workspace_id = r.workspace_id AND a.id = r.attempt_id
		WHERE r.attempt_id <> '' AND r.state IN ('scheduled', 'running') AND (a.status IS NULL OR a.status NOT IN ('starting', 'running')) LIMIT $1`, limit)
	return ended, mapError(err)
}

func (r refRow) trackingRun() tracking.Ref {
	return tracking.Ref{Workspace: r.Workspace, Run: domain.TrackingRunID(r.ID)}
}

// ExpiredTrackingRuns implements tracking.System.
func (s *System) ExpiredTrackingRuns(ctx context.Context, before time.Time, limit int) ([]tracking.Ref, error) {
	translate := func(r refRow) (tracking.Ref, error) { return r.trackingRun(), nil }
	return refs(ctx, s, translate, `(SELECT workspace_id, id FROM tracking_runs WHERE deleted_at < $1 LIMIT $2) UNION
		(SELECT r.workspace_id, r.id FROM experiments x JOIN tracking_runs r ON r.workspace_id = x.workspace_id AND r.experiment = x.number WHERE x.deleted_at < $1 LIMIT $2) LIMIT $2`, before, limit)
}

// ExpiredExperiments implements tracking.System.
func (s *System) ExpiredExperiments(ctx context.Context, before time.Time, limit int) ([]tracking.ExperimentRef, error) {
	type row struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Number    int64              `db:"number"`
	}
	translate := func(r row) (tracking.ExperimentRef, error) {
		return tracking.ExperimentRef{Workspace: r.Workspace, Experiment: experimentID(r.Number)}, nil
	}
	found, err := rows(ctx, s.db, translate, `SELECT workspace_id, number FROM experiments x WHERE deleted_at < $1
		AND NOT EXISTS (SELECT FROM tracking_runs r WHERE r.workspace_id = x.workspace_id AND r.experiment = x.number) LIMIT $2`, before, limit)
	return found, mapError(err)
}

// KeepPointPartitions implements tracking.System. A partition in use is dropped next time.
func (s *System) KeepPointPartitions(ctx context.Context) error {
	var latest int64
	if err := s.db.GetContext(ctx, &latest, `SELECT COALESCE(max(number), 0) FROM tracking_runs`); err != nil {
		return mapError(err)
	}
	const runs = 10_000
	if _, err := s.db.ExecContext(ctx, `SELECT create_point_partition($1)`, latest+runs); err != nil {
		return mapError(err)
	}
	var parts []int64
	err := s.db.SelectContext(ctx, &parts, `SELECT substr(c.relname, length('tracking_points_') + 1)::bigint AS part FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'tracking_points'::regclass ORDER BY part`)
	if err != nil {
		return mapError(err)
	}
	var failed []error
	for _, part := range parts {
		if part < latest/runs-1 {
			_, err := s.db.ExecContext(ctx, `SELECT drop_point_partition($1)`, part)
			failed = append(failed, mapError(err))
		}
	}
	return errors.Join(failed...)
}

// EraseTrackingRun implements tracking.Tx.
func (t *Tx) EraseTrackingRun(ctx context.Context, id domain.TrackingRunID, before time.Time, limit int) (more bool, err error) {
	var number int64
	err = t.get(ctx, &number, `SELECT r.number FROM tracking_runs r JOIN experiments x ON x.workspace_id = r.workspace_id AND x.number = r.experiment
		WHERE r.workspace_id = $1 AND r.id = $2 AND COALESCE(LEAST(r.deleted_at, x.deleted_at) < $3, false) FOR UPDATE OF r`, t.workspace, id, before)
	if errors.Is(err, sql.ErrNoRows) { // another replica has erased it, or it was restored
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var erased int // a run is in one partition, where a ctid names one row
	err = t.get(ctx, &erased, `WITH gone AS (DELETE FROM tracking_points WHERE workspace_id = $1 AND run = $2
			AND ctid = ANY (ARRAY(SELECT ctid FROM tracking_points WHERE workspace_id = $1 AND run = $2 LIMIT $3)) RETURNING 1),
		used AS (INSERT INTO tracking_usage AS u (workspace_id, part, points) SELECT $1, pg_backend_pid() % 64, -count(*) FROM gone HAVING count(*) > 0
			ON CONFLICT (workspace_id, part) DO UPDATE SET points = u.points + EXCLUDED.points)
		SELECT count(*) FROM gone`, t.workspace, number, limit)
	if err != nil || erased == limit {
		return true, err
	}
	for _, table := range []string{"tracking_metrics", "tracking_summaries", "tracking_unsummarized"} {
		if err := t.exec(ctx, `DELETE FROM `+table+` WHERE workspace_id = $1 AND run = $2`, t.workspace, number); err != nil {
			return false, err
		}
	}
	return false, t.exec(ctx, `DELETE FROM tracking_runs WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}

// EraseExperiment implements tracking.Tx.
func (t *Tx) EraseExperiment(ctx context.Context, id domain.ExperimentID, before time.Time) error {
	return t.exec(ctx, `DELETE FROM experiments x WHERE workspace_id = $1 AND number = $2 AND deleted_at < $3
		AND NOT EXISTS (SELECT FROM tracking_runs r WHERE r.workspace_id = $1 AND r.experiment = $2)`, t.workspace, experimentNumber(id), before)
}
