package statement

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
)

// Tx is what statement uses of a transaction.
type Tx interface {
	lineage.Tx
	statementTx
}

// System reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type System interface {
	// LostStatements returns the unfinished statements whose server is gone or has handed them
	// over, and those of this replica that are not in live.
	LostStatements(ctx context.Context, now time.Time, replica string, live []domain.StatementID, limit int) ([]Ref, error)
	// ExpiredResults returns the statements with expired results that are still stored.
	ExpiredResults(ctx context.Context, now time.Time, limit int) ([]Ref, error)
}
