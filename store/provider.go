package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/millpond/millpond/domain"
)

// Provider implements domain.ProviderTx.
func (t *Tx) Provider(ctx context.Context) (domain.ProviderSettings, error) {
	var r struct {
		Kind       domain.ProviderKind `db:"kind"`
		Region     string              `db:"region"`
		Role       string              `db:"role"`
		ExternalID string              `db:"external_id"`
		UpdatedAt  time.Time           `db:"updated_at"`
	}
	err := t.get(ctx, &r, `SELECT kind, region, role, external_id, updated_at FROM providers WHERE workspace_id = $1`, t.workspace)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.DefaultProvider, nil
	}
	return domain.ProviderSettings{Kind: r.Kind, Region: r.Region, Role: r.Role, ExternalID: r.ExternalID, UpdatedAt: new(r.UpdatedAt.UTC())}, err
}

// SaveProvider implements domain.ProviderTx.
func (t *Tx) SaveProvider(ctx context.Context, p domain.ProviderSettings) error {
	return t.exec(ctx, `INSERT INTO providers (workspace_id, kind, region, role, external_id, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (workspace_id) DO UPDATE SET kind = EXCLUDED.kind, region = EXCLUDED.region, role = EXCLUDED.role, external_id = EXCLUDED.external_id,
		updated_at = EXCLUDED.updated_at`, t.workspace, p.Kind, p.Region, p.Role, p.ExternalID, p.UpdatedAt)
}

// Storage implements domain.ProviderTx.
func (t *Tx) Storage(ctx context.Context) (domain.StorageSettings, error) {
	var r struct {
		URL        string    `db:"url"`
		Role       string    `db:"role"`
		ExternalID string    `db:"external_id"`
		UpdatedAt  time.Time `db:"updated_at"`
	}
	err := t.get(ctx, &r, `SELECT url, role, external_id, updated_at FROM storages WHERE workspace_id = $1`, t.workspace)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.StorageSettings{}, nil
	}
	return domain.StorageSettings{URL: r.URL, Role: r.Role, ExternalID: r.ExternalID, UpdatedAt: new(r.UpdatedAt.UTC())}, err
}

// SaveStorage implements domain.ProviderTx.
func (t *Tx) SaveStorage(ctx context.Context, p domain.StorageSettings) error {
	return t.exec(ctx, `INSERT INTO storages (workspace_id, url, role, external_id, updated_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (workspace_id) DO UPDATE SET url = EXCLUDED.url, role = EXCLUDED.role, external_id = EXCLUDED.external_id, updated_at = EXCLUDED.updated_at`,
		t.workspace, p.URL, p.Role, p.ExternalID, p.UpdatedAt)
}
