// Package quota bounds what a workspace may use.
package quota

import (
	"context"
	"slices"

	"github.com/millpond/millpond/domain"
)

// Name names a quota of a workspace.
type Name string

// The quotas. Those of the specification have its names.
const (
	MaxRunningRuns Name = "max_running_runs"
	MaxEndpoints   Name = "max_endpoints"

	MaxMetricPoints Name = "max_metric_points"
	MaxRequests     Name = "max_requests"
)

// Unit is what the numbers of a quota count.
type Unit string

// The units.
const (
	Count Unit = "count"
	Bytes Unit = "bytes"
)

// Units lists the units.
var Units = []Unit{Count, Bytes}

// Definition describes a quota. Its counter, if it counts rows, is in store/quota.go.
type Definition struct {
	Name        Name
	Unit        Unit
	Default     int64  // the limit of a workspace without one of its own
	Min         int64  // the lowest limit that an admin can set
	Max         int64  // the highest limit that an admin can set; it catches typing errors
	Description string // what it counts
}

// million bounds limits of what a workspace has at once.
const million = 1_000_000

// Definitions lists the quotas, in the order in which they are shown.
var Definitions = []Definition{
	{MaxRunningRuns, Count, 10, 0, million, "Runs that are pending or running at the same time."},
	{MaxEndpoints, Count, 10, 0, million, "Model serving endpoints."},
	{MaxMetricPoints, Count, 100 * million, 0, million * million, "Points of experiments' metrics, those of deleted runs included until they are erased."},
	// Fewer than the lowest limit would keep an admin from raising it.
	{MaxRequests, Count, 500, 10, million, "Requests that one server serves at the same time, followed logs included. A caller who is not an admin can have at most half of them, and a tenth is reserved for admins. WebSockets, agents and engines are not counted."},
}

// define returns the definition of the name.
func define(name Name) (Definition, bool) {
	i := slices.IndexFunc(Definitions, func(d Definition) bool { return d.Name == name })
	if i < 0 {
		return Definition{}, false
	}
	return Definitions[i], true
}

// Quota is a limit and its current use.
type Quota struct {
	Definition
	Limit   int64
	Current int64
}

// Of returns the quota of the name. A workspace without a limit of its own has the default.
func Of(name Name, limit *int64, current int64) Quota {
	d, _ := define(name)
	q := Quota{Definition: d, Limit: d.Default, Current: current}
	if limit != nil {
		q.Limit = *limit
	}
	return q
}

// Quotas manages the quotas of a workspace.
type Quotas struct {
	Store    domain.Store[Tx]
	Requests *Requests
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
	for i := range quotas {
		q.count(s, &quotas[i])
	}
	return quotas, err
}

// count counts what is not in the database.
func (q *Quotas) count(s domain.Scope, quota *Quota) {
	if quota.Name == MaxRequests {
		quota.Current = q.Requests.Current(s.Workspace())
	}
}

// Update sets a quota's limit; nil stands for the default. A limit below the current use stops
// nothing.
func (q *Quotas) Update(ctx context.Context, s domain.Scope, name Name, limit *int64) (Quota, error) {
	if err := domain.Authorize(ctx, q.Store, s, domain.QuotaUpdate); err != nil {
		return Quota{}, err
	}
	d, known := define(name)
	if !known {
		return Quota{}, domain.NotFound("quota", name)
	}
	if limit != nil && (*limit < d.Min || *limit > d.Max) {
		return Quota{}, domain.Invalid("limit", "The limit of %s is a number from %d to %d, or null for the default, %d.", name, d.Min, d.Max, d.Default)
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
	q.count(s, &quota)
	return quota, err
}

// Require returns CodeQuota if the limit is reached. The message has the exact form that the
// specification gives for status 429.
func (q Quota) Require() error { return q.RequireFor(1) }

// RequireFor is Require for several more at once.
func (q Quota) RequireFor(more int64) error {
	if q.Current <= q.Limit-more {
		return nil
	}
	return q.full()
}

func (q Quota) full() error {
	return domain.Errorf(domain.CodeQuota, "%s=%d, current=%d", q.Name, q.Limit, q.Current)
}
