package store

import (
	"context"
	"time"

	"github.com/lib/pq"
)

// StageLocations implements lake.Tx.
func (t *Tx) StageLocations(ctx context.Context, locations []string, at time.Time, most int) (bool, error) {
	return t.touched(ctx, `INSERT INTO lake_stages (workspace_id, location, staged_at) SELECT $1, unnest($2::text[]), $3
		WHERE (SELECT count(*) FROM lake_stages WHERE workspace_id = $1) < $4
		ON CONFLICT (workspace_id, location) DO UPDATE SET staged_at = excluded.staged_at`, t.workspace, pq.Array(locations), at, most)
}

// StagedLocations implements lake.Tx.
func (t *Tx) StagedLocations(ctx context.Context, locations []string, since time.Time) (found []string, err error) {
	err = t.sel(ctx, &found, `SELECT location FROM lake_stages WHERE workspace_id = $1 AND location = ANY($2) AND staged_at > $3`,
		t.workspace, pq.Array(locations), since)
	return found, err
}

// ForgetStages implements lake.Tx.
func (t *Tx) ForgetStages(ctx context.Context, locations []string) error {
	return t.exec(ctx, `DELETE FROM lake_stages WHERE workspace_id = $1 AND location = ANY($2)`, t.workspace, pq.Array(locations))
}

// ForgetLakeStages implements lake.System.
func (s *System) ForgetLakeStages(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lake_stages WHERE staged_at < $1`, before)
	return mapError(err)
}
