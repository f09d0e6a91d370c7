package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/millpond/millpond/domain/machine"
)

// Provider implements machine.Tx.
func (t *Tx) Provider(ctx context.Context) (machine.ProviderSettings, error) {
	var r struct {
		Kind       machine.ProviderKind `db:"kind"`
		Region     string               `db:"region"`
		Role       string               `db:"role"`
		ExternalID string               `db:"external_id"`
		UpdatedAt  time.Time            `db:"updated_at"`
	}
	err := t.get(ctx, &r, `SELECT kind, region, role, external_id, updated_at FROM providers WHERE workspace_id = $1`, t.workspace)
	if errors.Is(err, sql.ErrNoRows) {
		return machine.DefaultProvider, nil
	}
	return machine.ProviderSettings{Kind: r.Kind, Region: r.Region, Role: r.Role, ExternalID: r.ExternalID, UpdatedAt: new(r.UpdatedAt.UTC())}, err
}

// SaveProvider implements machine.Tx.
func (t *Tx) SaveProvider(ctx context.Context, p machine.ProviderSettings) error {
	return t.exec(ctx, `INSERT INTO providers (workspace_id, kind, region, role, external_id, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (workspace_id) DO UPDATE SET kind = EXCLUDED.kind, region = EXCLUDED.region, role = EXCLUDED.role, external_id = EXCLUDED.external_id,
		updated_at = EXCLUDED.updated_at`, t.workspace, p.Kind, p.Region, p.Role, p.ExternalID, p.UpdatedAt)
}

// Storage implements machine.Tx.
func (t *Tx) Storage(ctx context.Context) (machine.StorageSettings, error) {
	var r struct {
		URL        string    `db:"url"`
		Role       string    `db:"role"`
		ExternalID string    `db:"external_id"`
		UpdatedAt  time.Time `db:"updated_at"`
	}
	err := t.get(ctx, &r, `SELECT url, role, external_id, updated_at FROM storages WHERE workspace_id = $1`, t.workspace)
	if errors.Is(err, sql.ErrNoRows) {
		return machine.StorageSettings{}, nil
	}
	return machine.StorageSettings{URL: r.URL, Role: r.Role, ExternalID: r.ExternalID, UpdatedAt: new(r.UpdatedAt.UTC())}, err
}

// SaveStorage implements machine.Tx.
func (t *Tx) SaveStorage(ctx context.Context, p machine.StorageSettings) error {
	return t.exec(ctx, `INSERT INTO storages (workspace_id, url, role, external_id, updated_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (workspace_id) DO UPDATE SET url = EXCLUDED.url, role = EXCLUDED.role, external_id = EXCLUDED.external_id, updated_at = EXCLUDED.updated_at`,
		t.workspace, p.URL, p.Role, p.ExternalID, p.UpdatedAt)
}
