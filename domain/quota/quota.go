// Package quota bounds what a workspace may use.
package quota

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// Name names a quota of a workspace.
type Name string

// The quotas, from the specification.
const (
	MaxRunningRuns Name = "max_running_runs" // runs pending or running
	MaxEndpoints   Name = "max_endpoints"    // serving endpoints
)

// Defaults are the limits of a new workspace.
var Defaults = map[Name]int{MaxRunningRuns: 10, MaxEndpoints: 10}

// maxQuota bounds the limits that an admin can set. It is far above one database's capacity and
// catches typing errors.
const maxQuota = 1_000_000

// Quota is a limit and its current use.
type Quota struct {
	Name    Name
	Limit   int
	Current int
}

// Description says what the quota counts.
func (q Quota) Description() string {
	switch q.Name {
	case MaxRunningRuns:
		return "Runs that are pending or running at the same time."
	case MaxEndpoints:
		return "Model serving endpoints."
	}
	return ""
}

// Quotas manages the quotas of a workspace.
type Quotas struct {
	Store domain.Store[Tx]
}

// List returns every quota with its current use.
func (q *Quotas) List(ctx context.Context, s domain.Scope) ([]Quota, error) {
	if err := domain.Authorize(ctx, q.Store, s, domain.QuotaRead); err != nil {
		return nil, err
	}
	var quotas []Quota
	err := q.Store.In(ctx, s, func(tx Tx) (err error) {
		quotas, err = tx.Quotas(ctx)
		return err
	})
	return quotas, err
}

// Update sets a quota's limit. A limit below the current use stops nothing.
func (q *Quotas) Update(ctx context.Context, s domain.Scope, name Name, limit int) (Quota, error) {
	if err := domain.Authorize(ctx, q.Store, s, domain.QuotaUpdate); err != nil {
		return Quota{}, err
	}
	if _, known := Defaults[name]; !known {
		return Quota{}, domain.NotFound("quota", name)
	}
	if limit < 0 || limit > maxQuota {
		return Quota{}, domain.Invalid("limit", "A quota is a number from 0 to %d.", maxQuota)
	}
	var quota Quota
	err := q.Store.In(ctx, s, func(tx Tx) (err error) {
		if err := tx.UpdateQuota(ctx, name, limit); err != nil {
			return err
		}
		if quota, err = tx.LockQuota(ctx, name); err != nil {
			return err
		}
		tx.Notify(domain.ScheduleTopic) // a tick may have waited for room
		return domain.Audited(ctx, tx, s, domain.QuotaUpdate, "quota", name)
	})
	return quota, err
}

// Require returns CodeQuota if the limit is reached. The message has the exact form that the
// specification gives for status 429.
func (q Quota) Require() error {
	if q.Current < q.Limit {
		return nil
	}
	return domain.Errorf(domain.CodeQuota, "%s=%d, current=%d", q.Name, q.Limit, q.Current)
}
