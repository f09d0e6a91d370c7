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
	return t.save(ctx, "providers", "workspace_id", values{"kind": p.Kind, "region": p.Region, "role": p.Role, "external_id": p.ExternalID, "updated_at": p.UpdatedAt})
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
	return t.save(ctx, "storages", "workspace_id", values{"url": p.URL, "role": p.Role, "external_id": p.ExternalID, "updated_at": p.UpdatedAt})
}
