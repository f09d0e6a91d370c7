package maintenance

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/statement"
)

// Tx is what maintenance uses of a transaction.
type Tx interface {
	statement.Tx
	maintenanceTx
}

// System reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type System interface {
	// CrowdedTables returns live tables with more snapshots than given, by workspace and id, after
	// the given one.
	CrowdedTables(ctx context.Context, snapshots int, after lake.TableRef, limit int) ([]lake.TableRef, error)
	// DueMaintenance returns the due times of maintenance, earliest first.
	DueMaintenance(ctx context.Context, now time.Time, limit int) ([]Due, error)
}
