package store

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

type workspaceRow struct {
	ID        domain.WorkspaceID `db:"workspace_id"`
	Name      string             `db:"name"`
	CreatedAt time.Time          `db:"created_at"`
}

func (r workspaceRow) toDomain() (identity.Workspace, error) {
	return identity.Workspace{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt.UTC()}, nil
}

// Workspace implements identity.Tx.
func (t *Tx) Workspace(ctx context.Context) (identity.Workspace, error) {
	var row workspaceRow
	if err := t.get(ctx, &row, "SELECT workspace_id, name, created_at FROM workspaces WHERE workspace_id = $1", t.workspace); err != nil {
		return identity.Workspace{}, orMissing(err, domain.NotFound("workspace", t.workspace))
	}
	return row.toDomain()
}

// TakeSample implements identity.Tx.
func (t *Tx) TakeSample(ctx context.Context) (due bool, err error) {
	res, err := t.conn.ExecContext(ctx, `UPDATE workspaces SET sample_due = false WHERE workspace_id = $1 AND sample_due`, t.workspace)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// Overview implements identity.Tx. Its counts use indexes. They grow with the active and the
// recently finished runs, not with history.
func (t *Tx) Overview(ctx context.Context, since time.Time) (o identity.Overview, err error) {
	err = t.conn.QueryRowxContext(ctx, `
		SELECT (SELECT count(*) FROM runs WHERE workspace_id = $1 AND status = 'running'),
		       (SELECT count(*) FROM runs WHERE workspace_id = $1 AND status = 'pending'),
		       (SELECT count(*) FROM runs WHERE workspace_id = $1 AND finished_at >= $2 AND status = 'success'),
		       (SELECT count(*) FROM runs WHERE workspace_id = $1 AND finished_at >= $2 AND status = 'failed'),
		       (SELECT count(*) FROM agents WHERE workspace_id = $1 AND machine_id = '' AND session <> ''),
		       (SELECT count(*) FROM agents WHERE workspace_id = $1 AND machine_id = '')`, t.workspace, since).
		Scan(&o.RunningRuns, &o.PendingRuns, &o.SucceededRuns, &o.FailedRuns, &o.ConnectedAgents, &o.Agents)
	return o, err
}
