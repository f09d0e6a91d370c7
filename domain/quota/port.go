package quota

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// Tx is what quota uses of a transaction.
type Tx interface {
	domain.Tx
	// Quotas returns every quota with its current use.
	Quotas(ctx context.Context) ([]Quota, error)
	// UpdateQuota sets a limit; nil stands for the default.
	UpdateQuota(ctx context.Context, name Name, limit *int64) error
	// LockQuota locks the quota until the end of the transaction and returns it, so that counting
	// and inserting are atomic.
	LockQuota(ctx context.Context, name Name) (Quota, error)
	// QuotaLimit returns the limit that the workspace has of its own, or nil.
	QuotaLimit(ctx context.Context, name Name) (*int64, error)
}
