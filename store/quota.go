package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain/quota"
)

// counters count what a workspace ($1) has of what a quota limits. What has no counter yet is 0.
var counters = map[quota.Name]string{
	quota.MaxRunningRuns:  `SELECT count(*) FROM runs WHERE workspace_id = $1 AND status IN ('pending', 'running')`,
	quota.MaxMetricPoints: `SELECT COALESCE(sum(points), 0)::bigint FROM tracking_usage WHERE workspace_id = $1`,
}

var selectQuotas = func() string {
	var use strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		use.WriteString(` WHEN '` + string(name) + `' THEN (` + counters[name] + `)`)
	}
	return `SELECT n.name, q.value, CASE n.name` + use.String() + ` ELSE 0 END AS current FROM unnest($2::text[]) WITH ORDINALITY AS n (name, place)
		LEFT JOIN quotas q ON q.workspace_id = $1 AND q.name = n.name ORDER BY n.place`
}()

type quotaRow struct {
	Name    quota.Name `db:"name"`
	Value   *int64     `db:"value"`
	Current int64      `db:"current"`
}

func (r quotaRow) toDomain() (quota.Quota, error) { return quota.Of(r.Name, r.Value, r.Current), nil }

func (t *Tx) quotas(ctx context.Context, names ...quota.Name) ([]quota.Quota, error) {
	return rows(ctx, t.conn, quotaRow.toDomain, selectQuotas, t.workspace, texts(names))
}

// Quotas implements quota.Tx.
func (t *Tx) Quotas(ctx context.Context) ([]quota.Quota, error) {
	names := make([]quota.Name, len(quota.Definitions))
	for i, d := range quota.Definitions {
		names[i] = d.Name
	}
	return t.quotas(ctx, names...)
}

// UpdateQuota implements quota.Tx.
func (t *Tx) UpdateQuota(ctx context.Context, name quota.Name, limit *int64) error {
	return t.save(ctx, "quotas", "workspace_id, name", values{"name": name, "value": limit})
}

// LockQuota implements quota.Tx. The count is a separate statement after the lock, so it sees
// what earlier holders of the lock inserted. The first to lock a quota makes its row, without a
// value.
func (t *Tx) LockQuota(ctx context.Context, name quota.Name) (quota.Quota, error) {
	const lock = `SELECT 1 FROM quotas WHERE workspace_id = $1 AND name = $2 FOR UPDATE`
	var locked int
	err := t.get(ctx, &locked, lock, t.workspace, name)
	if errors.Is(err, sql.ErrNoRows) {
		if err = t.insert(ctx, "quotas", values{"name": name}, "ON CONFLICT DO NOTHING"); err == nil {
			err = t.get(ctx, &locked, lock, t.workspace, name)
		}
	}
	if err != nil {
		return quota.Quota{}, err
	}
	found, err := t.quotas(ctx, name)
	if err != nil {
		return quota.Quota{}, err
	}
	return found[0], nil
}

// QuotaLimit implements quota.Tx.
func (t *Tx) QuotaLimit(ctx context.Context, name quota.Name) (limit *int64, err error) {
	err = t.get(ctx, &limit, `SELECT value FROM quotas WHERE workspace_id = $1 AND name = $2`, t.workspace, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return limit, err
}
