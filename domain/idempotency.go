package domain

import (
	"context"
	"crypto/sha256"
	"encoding/json"
)

// maxIdempotencyKey bounds a key's length in bytes, as other APIs do.
const maxIdempotencyKey = 255

// Idempotency holds the Idempotency-Key header of a create or a start; empty if there was none.
type Idempotency struct {
	Key string
}

// IdempotencyTx stores for a day which request each key was used for.
type IdempotencyTx interface {
	// ClaimKey claims the key for the actor. If the key is in use, claimed is false, and it returns
	// the hash and the resource of the first request. It waits for a transaction that is claiming
	// the key.
	ClaimKey(ctx context.Context, actor, key string, hash []byte) (claimed bool, usedHash []byte, resource string, err error)
	// BindKey stores the resource that the claimed key made.
	BindKey(ctx context.Context, actor, key, resource string) error
	// ReleaseKey releases the key that made the resource.
	ReleaseKey(ctx context.Context, actor, key, resource string) error
}

// Once runs create for a new key, or without a key. If the key was used before with the same
// request, it returns the id that was made then. With a different request it returns CodeConflict.
func Once[T ~string](ctx context.Context, tx IdempotencyTx, s Scope, key Idempotency, operation Action, request any, create func() (T, error)) (T, error) {
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
	actor := IdempotencyActor(s.Actor())
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

// IdempotencyActor returns the actor as keys store it.
func IdempotencyActor(a Actor) string { return string(a.Kind) + ":" + a.ID }
