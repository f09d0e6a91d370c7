package domain

import "context"

// Lineages returns what the statements have read and written so far. It omits statements without
// lineage.
func (t *Statements) Lineages(ctx context.Context, s Scope, ids []StatementID) (map[StatementID]Lineage, error) {
	if err := Authorize(ctx, t.Store, s, StatementRead); err != nil {
		return nil, err
	}
	actors := make([]Actor, len(ids))
	for i, id := range ids {
		actors[i] = Actor{Kind: ActorStatement, ID: string(id)}
	}
	var all Lineage
	err := t.Store.In(ctx, s, func(tx StatementModTx) (err error) {
		all, err = tx.LineageOf(ctx, actors...)
		return err
	})
	of := make(map[StatementID]Lineage, len(ids))
	for _, e := range all.Read {
		id := StatementID(e.Actor.ID)
		of[id] = Lineage{Read: append(of[id].Read, e), Written: of[id].Written}
	}
	for _, e := range all.Written {
		id := StatementID(e.Actor.ID)
		of[id] = Lineage{Read: of[id].Read, Written: append(of[id].Written, e)}
	}
	return of, err
}
