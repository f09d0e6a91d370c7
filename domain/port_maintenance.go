package domain

import (
	"context"
	"time"
)

// MaintenanceModTx is what this module uses of a transaction.
type MaintenanceModTx interface {
	StatementModTx
	MaintenanceTx
}

// MaintenanceModSystem reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type MaintenanceModSystem interface {
	// CrowdedTables returns live tables with more snapshots than given, by workspace and id, after
	// the given one.
	CrowdedTables(ctx context.Context, snapshots int, after TableRef, limit int) ([]TableRef, error)
	// DueMaintenance returns the due times of maintenance, earliest first.
	DueMaintenance(ctx context.Context, now time.Time, limit int) ([]DueMaintenance, error)
}
