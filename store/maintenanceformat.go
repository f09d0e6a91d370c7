package store

import (
	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
)

// storedPolicy is the format of the column policy.
type storedPolicy struct {
	Enabled        *bool             `json:"enabled,omitempty"`
	Schedule       *storedSchedule   `json:"schedule,omitempty"`
	Compact        storedCompact     `json:"compact"`
	Expire         storedExpire      `json:"expire"`
	Orphans        storedOrphans     `json:"orphans"`
	Warehouse      *domain.MachineID `json:"warehouse,omitempty"`
	StartWarehouse *bool             `json:"start_warehouse,omitempty"`
}

type storedSchedule struct {
	Cron     string `json:"cron"`
	TimeZone string `json:"time_zone"`
}

type storedCompact struct {
	Enabled       *bool  `json:"enabled,omitempty"`
	Threshold     *int64 `json:"threshold,omitempty"`
	MinFiles      *int   `json:"min_files,omitempty"`
	DeletePercent *int   `json:"delete_percent,omitempty"`
}

type storedExpire struct {
	Enabled        *bool `json:"enabled,omitempty"`
	KeepDays       *int  `json:"keep_days,omitempty"`
	MaxSnapshots   *int  `json:"max_snapshots,omitempty"`
	EraseAfterDays *int  `json:"erase_after_days,omitempty"`
}

type storedOrphans struct {
	Enabled   *bool `json:"enabled,omitempty"`
	OlderDays *int  `json:"older_days,omitempty"`
}

func storePolicy(p maintenance.Policy) storedPolicy {
	return storedPolicy{
		Enabled: p.Enabled, Schedule: (*storedSchedule)(p.Schedule), Compact: storedCompact(p.Compact), Expire: storedExpire(p.Expire), Orphans: storedOrphans(p.Orphans),
		Warehouse: p.Warehouse, StartWarehouse: p.StartWarehouse,
	}
}

func (p storedPolicy) toDomain() maintenance.Policy {
	return maintenance.Policy{
		Enabled: p.Enabled, Schedule: (*maintenance.Schedule)(p.Schedule), Compact: maintenance.CompactPolicy(p.Compact), Expire: maintenance.ExpirePolicy(p.Expire),
		Orphans: maintenance.OrphansPolicy(p.Orphans), Warehouse: p.Warehouse, StartWarehouse: p.StartWarehouse,
	}
}

// storedOperation is the format of an element of the column operations. The rest is in the
// statement.
type storedOperation struct {
	Kind             maintenance.Kind   `json:"kind"`
	Statement        domain.StatementID `json:"statement"`
	Before           *storedTotals      `json:"before,omitempty"`
	After            *storedTotals      `json:"after,omitempty"`
	SnapshotsExpired *int64             `json:"snapshots_expired,omitempty"`
	FilesRemoved     *int64             `json:"files_removed,omitempty"`
	Metrics          map[string]int64   `json:"metrics,omitempty"`
	Cost             *decimal.Decimal   `json:"cost,omitempty"`
	Currency         string             `json:"currency,omitempty"`
}

type storedTotals struct {
	Files       *int64 `json:"files"`
	Bytes       *int64 `json:"bytes"`
	DeleteFiles *int64 `json:"delete_files"`
	Snapshots   *int64 `json:"snapshots"`
}

func storeOperation(o maintenance.Operation) storedOperation {
	return storedOperation{
		Kind: o.Kind, Statement: o.Statement.ID, Before: (*storedTotals)(o.Before), After: (*storedTotals)(o.After),
		SnapshotsExpired: o.SnapshotsExpired, FilesRemoved: o.FilesRemoved, Metrics: o.Metrics, Cost: o.Cost, Currency: o.Currency,
	}
}

func (o storedOperation) toDomain() maintenance.Operation {
	return maintenance.Operation{
		Kind: o.Kind, Statement: statement.Statement{ID: o.Statement}, Before: (*maintenance.TableTotals)(o.Before), After: (*maintenance.TableTotals)(o.After),
		SnapshotsExpired: o.SnapshotsExpired, FilesRemoved: o.FilesRemoved, Metrics: o.Metrics, Cost: o.Cost, Currency: o.Currency,
	}
}
