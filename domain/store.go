package domain

import "context"

// Store runs transactions confined to a workspace. T is what a module uses of a transaction: each
// module declares its own Tx, and store.For makes its Store.
type Store[T any] interface {
	// In runs fn in one transaction confined to the scope's workspace, and commits if fn returns
	// nil. For a zero scope it returns ErrNoScope.
	In(ctx context.Context, s Scope, fn func(T) error) error
}

// Tx is the part of a transaction that every module uses. A transaction reads and writes only rows
// of its workspace.
type Tx interface {
	AuditTx
	IdempotencyTx
	// OldestOpen returns the oldest transaction that has not ended. All changes of earlier ones are
	// visible to later reads of this transaction.
	OldestOpen(ctx context.Context) (Change, error)
	// Notify wakes the topics' subscribers on every replica, once the transaction commits.
	Notify(topics ...Topic)
}

// Objects is an object store.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	// Get returns the whole object, or CodeNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Delete removes the object. A missing object is no error.
	Delete(ctx context.Context, key string) error
}
