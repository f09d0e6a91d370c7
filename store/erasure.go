package store

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

type erasureRow struct {
	ID        string         `db:"id"`
	TableID   domain.TableID `db:"table_id"`
	List      string         `db:"list"`
	CreatedAt time.Time      `db:"created_at"`
	DueAt     time.Time      `db:"due_at"`
}

func (r erasureRow) toDomain() lake.DueErasure {
	return lake.DueErasure{ID: r.ID, TableID: r.TableID, List: r.List, CreatedAt: r.CreatedAt.UTC(), DueAt: r.DueAt.UTC()}
}

// InsertLakeErasure implements lake.Tx.
func (t *Tx) InsertLakeErasure(ctx context.Context, e lake.DueErasure) error {
	return t.insert(ctx, "lake_erasures", values{
		"id": e.ID, "table_id": e.TableID, "list": e.List, "created_at": e.CreatedAt, "due_at": e.DueAt, "next_at": e.DueAt,
	})
}

// LakeErasure implements lake.Tx.
func (t *Tx) LakeErasure(ctx context.Context, id string) (lake.DueErasure, error) {
	var row erasureRow
	if err := t.get(ctx, &row, `SELECT id, table_id, list, created_at, due_at FROM lake_erasures WHERE workspace_id = $1 AND id = $2`, t.workspace, id); err != nil {
		return lake.DueErasure{}, orMissing(err, domain.NotFound("erasure", id))
	}
	return row.toDomain(), nil
}

// PostponeLakeErasure implements lake.Tx.
func (t *Tx) PostponeLakeErasure(ctx context.Context, id string, from time.Time) error {
	return t.exec(ctx, `UPDATE lake_erasures SET failures = failures + 1,
		next_at = $3::timestamptz + least(power(2, least(failures, 5)), 24) * interval '1 hour' WHERE workspace_id = $1 AND id = $2`, t.workspace, id, from)
}

// DeleteLakeErasure implements lake.Tx.
func (t *Tx) DeleteLakeErasure(ctx context.Context, id string) error {
	return t.exec(ctx, `DELETE FROM lake_erasures WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}

func (r refRow) erasure() (lake.ErasureRef, error) {
	return lake.ErasureRef{Workspace: r.Workspace, ID: r.ID}, nil
}

// DueErasures implements lake.System.
func (s *System) DueErasures(ctx context.Context, now time.Time, limit int) ([]lake.ErasureRef, error) {
	return refs(ctx, s, refRow.erasure, `SELECT workspace_id, id FROM lake_erasures WHERE next_at <= $1 ORDER BY next_at LIMIT $2`, now, limit)
}
