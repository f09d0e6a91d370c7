package quota

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// Tx is what quota uses of a transaction.
type Tx interface {
	domain.Tx
	Quotas(ctx context.Context) ([]Quota, error)
	UpdateQuota(ctx context.Context, name Name, limit int) error
	// LockQuota locks the quota's row until the end of the transaction and returns it, so that
	// counting and inserting are atomic.
	LockQuota(ctx context.Context, name Name) (Quota, error)
}
