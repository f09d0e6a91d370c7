package domain

import (
	"context"
	"time"
)

// StatementModTx is what this module uses of a transaction.
type StatementModTx interface {
	LineageModTx
	StatementTx
}

// StatementModSystem reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type StatementModSystem interface {
	// LostStatements returns the unfinished statements whose server is gone or has handed them
	// over, and those of this replica that are not in live.
	LostStatements(ctx context.Context, now time.Time, replica string, live []StatementID, limit int) ([]StatementRef, error)
	// ExpiredResults returns the statements with expired results that are still stored.
	ExpiredResults(ctx context.Context, now time.Time, limit int) ([]StatementRef, error)
}
