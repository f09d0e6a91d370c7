package store

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// InsertAudit implements domain.AuditTx.
func (t *Tx) InsertAudit(ctx context.Context, e domain.AuditEvent) error {
	return insertAudit(prepared(ctx), t.conn, t.workspace, e)
}

func insertAudit(ctx context.Context, db execer, ws domain.WorkspaceID, e domain.AuditEvent) error {
	_, err := db.ExecContext(ctx, `INSERT INTO audit_events (workspace_id, id, actor_kind, actor_id, actor_name, action, resource_type, resource_id, outcome, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		ws, e.ID, e.Actor.Kind, e.Actor.ID, e.Actor.Name, e.Action, e.ResourceType, e.ResourceID, e.Outcome, e.Detail)
	return err
}
