package store

import (
	"context"
)

// ClaimKey implements domain.IdempotencyTx. The insert waits for a transaction with the same key. A
// key older than a day is replaced.
func (t *Tx) ClaimKey(ctx context.Context, actor, key string, hash []byte) (claimed bool, usedHash []byte, resource string, err error) {
	res, err := t.conn.ExecContext(ctx, `INSERT INTO idempotency_keys AS k (workspace_id, actor, key, hash) VALUES ($1, $2, $3, $4)
		ON CONFLICT (workspace_id, actor, key) DO UPDATE SET hash = excluded.hash, resource = '', created_at = now()
		WHERE k.created_at < now() - interval '1 day'`, t.workspace, actor, key, hash)
	if err != nil {
		return false, nil, "", err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return n == 1, nil, "", err
	}
	var used struct {
		Hash     []byte `db:"hash"`
		Resource string `db:"resource"`
	}
	err = t.get(ctx, &used, `SELECT hash, resource FROM idempotency_keys WHERE workspace_id = $1 AND actor = $2 AND key = $3`, t.workspace, actor, key)
	return false, used.Hash, used.Resource, err
}

// BindKey implements domain.IdempotencyTx.
func (t *Tx) BindKey(ctx context.Context, actor, key, resource string) error {
	return t.exec(ctx, `UPDATE idempotency_keys SET resource = $4 WHERE workspace_id = $1 AND actor = $2 AND key = $3`, t.workspace, actor, key, resource)
}

// ReleaseKey implements domain.IdempotencyTx. The row becomes so old that the next claim replaces
// it.
func (t *Tx) ReleaseKey(ctx context.Context, actor, key, resource string) error {
	return t.exec(ctx, `UPDATE idempotency_keys SET created_at = '-infinity' WHERE workspace_id = $1 AND actor = $2 AND key = $3 AND resource = $4`, t.workspace, actor, key, resource)
}
