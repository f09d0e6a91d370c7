package statement

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Lineages returns what the statements have read and written so far. It omits statements without
// lineage.
func (t *Statements) Lineages(ctx context.Context, s domain.Scope, ids []domain.StatementID) (map[domain.StatementID]lake.Lineage, error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRead); err != nil {
		return nil, err
	}
	actors := make([]domain.Actor, len(ids))
	for i, id := range ids {
		actors[i] = domain.Actor{Kind: domain.ActorStatement, ID: string(id)}
	}
	var all lake.Lineage
	err := t.Store.In(ctx, s, func(tx Tx) (err error) {
		all, err = tx.LineageOf(ctx, actors...)
		return err
	})
	of := make(map[domain.StatementID]lake.Lineage, len(ids))
	for _, e := range all.Read {
		id := domain.StatementID(e.Actor.ID)
		of[id] = lake.Lineage{Read: append(of[id].Read, e), Written: of[id].Written}
	}
	for _, e := range all.Written {
		id := domain.StatementID(e.Actor.ID)
		of[id] = lake.Lineage{Read: of[id].Read, Written: append(of[id].Written, e)}
	}
	return of, err
}
