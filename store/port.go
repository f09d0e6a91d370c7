package store

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// Transactor runs transactions; a Store, or what a test puts before it.
type Transactor interface {
	In(ctx context.Context, s domain.Scope, fn func(*Tx) error) error
}

// For returns the store as a module declares it: T is the module's Tx, which *Tx must implement.
func For[T any](t Transactor) domain.Store[T] {
	_ = any((*Tx)(nil)).(T) // a mistake shows as the server starts
	return port[T]{t}
}

// port narrows transactions to what a module uses of them.
type port[T any] struct{ all Transactor }

// In implements domain.Store.
func (p port[T]) In(ctx context.Context, s domain.Scope, fn func(T) error) error {
	return p.all.In(ctx, s, func(tx *Tx) error { return fn(any(tx).(T)) })
}
