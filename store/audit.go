package store

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// InsertAudit implements domain.AuditTx.
func (t *Tx) InsertAudit(ctx context.Context, e domain.AuditEvent) error {
	return t.exec(ctx, `INSERT INTO audit_events (workspace_id, id, actor_kind, actor_id, actor_name, action, resource_type, resource_id, outcome, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		t.workspace, e.ID, e.Actor.Kind, e.Actor.ID, e.Actor.Name, e.Action, e.ResourceType, e.ResourceID, e.Outcome, e.Detail)
}
