package store

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
)

var _ lineage.Outbox = (*System)(nil)

// lineageLock is the advisory lock of the server that sends to the OpenLineage receiver.
const lineageLock = 7236405

// WantLineageEvents implements lineage.Outbox.
func (s *System) WantLineageEvents(ctx context.Context, until time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO lineage_receiver (wanted_until) VALUES ($1) ON CONFLICT (one) DO UPDATE SET wanted_until = excluded.wanted_until`, until)
	return mapError(err)
}

// LineageTurn implements lineage.Outbox. The lock ends with its connection, so a dead
// server's lock is free.
func (s *System) LineageTurn(ctx context.Context, fn func(context.Context) error) (mine bool, err error) {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return false, mapError(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.GetContext(ctx, &mine, `SELECT pg_try_advisory_xact_lock($1)`, lineageLock); err != nil || !mine {
		return false, mapError(err)
	}
	return true, fn(ctx)
}

// LineageEvents implements lineage.Outbox.
func (s *System) LineageEvents(ctx context.Context, limit int) ([]lineage.EventRef, error) {
	type row struct {
		Seq       int64              `db:"seq"`
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Kind      string             `db:"kind"`
		Subject   string             `db:"subject_id"`
		Status    string             `db:"status"`
		At        time.Time          `db:"at"`
	}
	all, err := rows(ctx, s.db, func(r row) (lineage.EventRef, error) { return lineage.EventRef(r), nil },
		`SELECT seq, workspace_id, kind, subject_id, status, at FROM lineage_outbox ORDER BY seq LIMIT $1`, limit)
	return all, mapError(err)
}

// RemoveLineageEvent implements lineage.Outbox.
func (s *System) RemoveLineageEvent(ctx context.Context, seq int64) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lineage_outbox WHERE seq = $1`, seq)
	return mapError(err)
}

// DropLineageEvents implements lineage.Outbox.
func (s *System) DropLineageEvents(ctx context.Context, before time.Time) (int64, error) {
	res, err := s.db.ExecContext(ctx, `DELETE FROM lineage_outbox WHERE at < $1`, before)
	if err != nil {
		return 0, mapError(err)
	}
	return res.RowsAffected()
}

// LineageCoverage counts the statements of all workspaces that ended since then, by the state of
// their lineage.
func (s *System) LineageCoverage(ctx context.Context, since time.Time) (lineage.Coverage, error) {
	var r coverageRow
	err := s.db.GetContext(ctx, &r, `SELECT `+coverageColumns+` FROM workspaces w JOIN statements s ON s.workspace_id = w.workspace_id AND s.finished_at >= $1 AND s.lineage <> ''`, since)
	return lineage.Coverage(r), mapError(err)
}
