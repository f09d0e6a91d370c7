package domain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
)

// maxIdempotencyKey bounds a key's length in bytes, as other APIs do.
const maxIdempotencyKey = 255

// Idempotency is what a caller said of a create or a start so that it can be sent again: the key of the header, empty when
// there was none.
type Idempotency struct {
	Key string
}

// IdempotencyTx keeps which request a key was used for, for a day.
type IdempotencyTx interface {
	// ClaimKey takes the key for this actor. When it is taken already it returns the hash and the resource it was
	// used with, and claimed is false; it waits for a transaction that is just claiming it.
	ClaimKey(ctx context.Context, actor, key string, hash []byte) (claimed bool, usedHash []byte, resource string, err error)
	// BindKey remembers the resource that the claimed key made.
	BindKey(ctx context.Context, actor, key, resource string) error
}

// once runs create for a new key, or without one; for a key used before with the same request it returns the id that was made
// then. The same key with another request is a conflict.
func once[T ~string](ctx context.Context, tx Tx, s Scope, key Idempotency, operation Action, request any, create func() (T, error)) (T, error) {
	if key.Key == "" {
		return create()
	}
	if len(key.Key) > maxIdempotencyKey {
		return "", Invalid("Idempotency-Key", "An idempotency key has at most %d bytes.", maxIdempotencyKey)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(append([]byte(operation+"\n"), body...))
	actor := string(s.actor.Kind) + ":" + s.actor.ID
	claimed, used, resource, err := tx.ClaimKey(ctx, actor, key.Key, hash[:])
	if err != nil {
		return "", err
	}
	if !claimed && string(used) != string(hash[:]) {
		return "", Errorf(CodeConflict, "This idempotency key was used for another request; use a new key.")
	}
	if !claimed {
		return T(resource), nil
	}
	id, err := create()
	if err != nil {
		return "", err
	}
	return id, tx.BindKey(ctx, actor, key.Key, string(id))
}
