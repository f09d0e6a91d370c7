package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

type apiKeyRow struct {
	ID         domain.APIKeyID `db:"id"`
	Name       string          `db:"name"`
	Hint       string          `db:"hint"`
	Role       domain.Role     `db:"role"`
	CreatedBy  domain.UserID   `db:"created_by"`
	CreatedAt  time.Time       `db:"created_at"`
	ExpiresAt  sql.NullTime    `db:"expires_at"`
	RevokedAt  sql.NullTime    `db:"revoked_at"`
	LastUsedAt sql.NullTime    `db:"last_used_at"`
}

const apiKeyColumns = `id, name, hint, role, created_by, created_at, expires_at, revoked_at, last_used_at`

func (r apiKeyRow) toDomain() (identity.APIKey, error) {
	return identity.APIKey{
		ID: r.ID, Name: r.Name, Hint: r.Hint, Role: r.Role, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
		ExpiresAt: timePtr(r.ExpiresAt), RevokedAt: timePtr(r.RevokedAt), LastUsedAt: timePtr(r.LastUsedAt),
	}, nil
}

// APIKey implements identity.Tx. The row is locked until the end of the transaction.
func (t *Tx) APIKey(ctx context.Context, id domain.APIKeyID) (identity.APIKey, error) {
	var row apiKeyRow
	if err := t.get(ctx, &row, `SELECT `+apiKeyColumns+` FROM api_keys WHERE workspace_id = $1 AND id = $2 FOR UPDATE`, t.workspace, id); err != nil {
		return identity.APIKey{}, orMissing(err, domain.NotFound("API key", id))
	}
	return row.toDomain()
}

// APIKeys implements identity.Tx.
func (t *Tx) APIKeys(ctx context.Context, maker domain.UserID, before domain.APIKeyID, limit int) ([]identity.APIKey, error) {
	query := `SELECT ` + apiKeyColumns + ` FROM api_keys WHERE workspace_id = $1 AND ($2 = '' OR id < $2)`
	args := []any{t.workspace, before, limit}
	if maker != "" {
		query += ` AND created_by = $4`
		args = append(args, maker)
	}
	return rows(ctx, t.conn, apiKeyRow.toDomain, query+` ORDER BY id DESC LIMIT $3`, args...)
}

// InsertAPIKey implements identity.Tx.
func (t *Tx) InsertAPIKey(ctx context.Context, k identity.APIKey, hash []byte) error {
	return t.insert(ctx, "api_keys", values{
		"id": k.ID, "name": k.Name, "hint": k.Hint, "role": k.Role, "secret_hash": hash, "created_by": k.CreatedBy, "created_at": k.CreatedAt, "expires_at": k.ExpiresAt,
	})
}

// RevokeAPIKey implements identity.Tx.
func (t *Tx) RevokeAPIKey(ctx context.Context, id domain.APIKeyID, at time.Time) error {
	t.Notify(domain.APIKeyTopic(id))
	return t.execOne(ctx, domain.NotFound("API key", id), `UPDATE api_keys SET revoked_at = $3 WHERE workspace_id = $1 AND id = $2`, t.workspace, id, at)
}
