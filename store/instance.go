package store

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/setup"
)

var _ setup.InstanceStore = (*System)(nil)

// Workspaces implements setup.InstanceStore.
func (s *System) Workspaces(ctx context.Context) ([]identity.Workspace, error) {
	all, err := rows(ctx, s.db, workspaceRow.toDomain, `SELECT workspace_id, name, created_at FROM workspaces ORDER BY workspace_id`)
	return all, mapError(err)
}

// InsertWorkspace implements setup.InstanceStore.
func (s *System) InsertWorkspace(ctx context.Context, n setup.NewWorkspace, row domain.AuditEvent) error {
	ws := n.Workspace.ID
	return s.in(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO workspaces (workspace_id, name, sample_due, created_at) VALUES ($1, $2, $3, $4)`,
			ws, n.Workspace.Name, n.Sample, n.Workspace.CreatedAt)
		if err != nil {
			return err
		}
		if err := insertAgent(ctx, tx, ws, n.Agent, n.AgentTokenHash); err != nil {
			return err
		}
		if err := insertMachine(ctx, tx, ws, n.Warehouse, n.WarehouseAgent); err != nil {
			return err
		}
		if err := insertDatabase(ctx, tx, ws, n.Database); err != nil {
			return err
		}
		if err := insertDefaultExperiment(ctx, tx, ws, n.Database.CreatedBy, n.Workspace.CreatedAt); err != nil {
			return err
		}
		return invite(ctx, tx, ws, n.Invitation, row)
	})
}

// InsertInvitation implements setup.InstanceStore.
func (s *System) InsertInvitation(ctx context.Context, ws domain.WorkspaceID, i identity.Invitation, row domain.AuditEvent) error {
	return s.in(ctx, func(tx *sqlx.Tx) error { return invite(ctx, tx, ws, i, row) })
}

func invite(ctx context.Context, tx *sqlx.Tx, ws domain.WorkspaceID, i identity.Invitation, row domain.AuditEvent) error {
	if _, err := tx.ExecContext(ctx, insertInvitation, ws, i.TokenHash, i.Email, i.Role, i.ExpiresAt); err != nil {
		return err
	}
	return insertAudit(ctx, tx, ws, row)
}

// HasPasswords implements setup.InstanceStore.
func (s *System) HasPasswords(ctx context.Context) (has bool, err error) {
	err = s.db.GetContext(ctx, &has, `SELECT EXISTS (SELECT FROM users WHERE password_hash IS NOT NULL)`)
	return has, mapError(err)
}
