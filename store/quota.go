package store

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

type quotaRow struct {
	Name    quota.Name `db:"name"`
	Value   int        `db:"value"`
	Current int        `db:"current"`
}

// quotaColumns includes the current count; max_endpoints has nothing to count yet.
const quotaColumns = `q.name, q.value, CASE q.name WHEN 'max_running_runs'
	THEN (SELECT count(*) FROM runs r WHERE r.workspace_id = q.workspace_id AND r.status IN ('pending', 'running')) ELSE 0 END AS current`

func (r quotaRow) toDomain() (quota.Quota, error) {
	return quota.Quota{Name: r.Name, Limit: r.Value, Current: r.Current}, nil
}

// Quotas implements quota.Tx.
func (t *Tx) Quotas(ctx context.Context) ([]quota.Quota, error) {
	return rows(ctx, t.conn, quotaRow.toDomain, `SELECT `+quotaColumns+` FROM quotas q WHERE q.workspace_id = $1 ORDER BY q.name DESC`, t.workspace)
}

// UpdateQuota implements quota.Tx.
func (t *Tx) UpdateQuota(ctx context.Context, name quota.Name, limit int) error {
	return t.execOne(ctx, domain.NotFound("quota", name), `UPDATE quotas SET value = $3 WHERE workspace_id = $1 AND name = $2`, t.workspace, name, limit)
}

// LockQuota implements quota.Tx. The count is a separate statement after the lock, so it sees
// what earlier holders of the lock inserted.
func (t *Tx) LockQuota(ctx context.Context, name quota.Name) (quota.Quota, error) {
	var locked int
	if err := t.get(ctx, &locked, `SELECT 1 FROM quotas WHERE workspace_id = $1 AND name = $2 FOR UPDATE`, t.workspace, name); err != nil {
		return quota.Quota{}, orMissing(err, domain.NotFound("quota", name))
	}
	var row quotaRow
	if err := t.get(ctx, &row, `SELECT `+quotaColumns+` FROM quotas q WHERE q.workspace_id = $1 AND q.name = $2`, t.workspace, name); err != nil {
		return quota.Quota{}, err
	}
	return row.toDomain()
}
