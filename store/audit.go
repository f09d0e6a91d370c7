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
	return insert(ctx, db, "audit_events", values{
		"workspace_id": ws, "id": e.ID, "action": e.Action, "resource_type": e.ResourceType, "resource_id": e.ResourceID, "outcome": e.Outcome, "detail": e.Detail,
	}.actor("actor", e.Actor))
}
