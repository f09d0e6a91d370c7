// Package identity has the workspaces, their members and users, and API keys.
package identity

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Workspace belongs to one team. Everything except users belongs to exactly one workspace.
type Workspace struct {
	ID        domain.WorkspaceID
	Name      string // unique in the instance
	CreatedAt time.Time
}

// workspaceTx reads the workspace of the transaction.
type workspaceTx interface {
	Workspace(ctx context.Context) (Workspace, error)
	// Overview counts the overview's values; finished runs since the given time.
	Overview(ctx context.Context, since time.Time) (Overview, error)
}

// Overview summarizes a workspace's runs and agents.
type Overview struct {
	RunningRuns, PendingRuns, SucceededRuns, FailedRuns int
	ConnectedAgents, Agents                             int
}

// Workspaces reads workspaces. Instance creates them.
type Workspaces struct {
	Store domain.Store[Tx]
	Clock domain.Clock
}

// Get returns the caller's workspace.
func (w *Workspaces) Get(ctx context.Context, s domain.Scope) (ws Workspace, err error) {
	if err := domain.Authorize(ctx, w.Store, s, domain.WorkspaceRead); err != nil {
		return ws, err
	}
	err = w.Store.In(ctx, s, func(tx Tx) (err error) {
		ws, err = tx.Workspace(ctx)
		return err
	})
	return ws, err
}

// Overview counts running and pending runs, those finished in the last 24 hours, and agents.
func (w *Workspaces) Overview(ctx context.Context, s domain.Scope) (o Overview, err error) {
	if err := domain.Authorize(ctx, w.Store, s, domain.WorkspaceRead); err != nil {
		return o, err
	}
	err = w.Store.In(ctx, s, func(tx Tx) (err error) {
		o, err = tx.Overview(ctx, w.Clock.Now().Add(-24*time.Hour))
		return err
	})
	return o, err
}
