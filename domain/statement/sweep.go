package statement

import (
	"context"

	"github.com/millpond/millpond/domain"
)

func (t *Statements) expired(st Statement) bool {
	return st.ResultUntil != nil && !st.ResultUntil.After(t.Clock.Now())
}

// Sweep continues or finalizes statements whose server is gone, and finalizes this server's
// statements whose end was not recorded. It deletes expired results.
func (t *Statements) Sweep(ctx context.Context) error {
	lost, err := t.System.LostStatements(ctx, t.Clock.Now(), t.Replica, t.running(), sweepAtOnce)
	for _, ref := range lost {
		if e := t.recoverLost(ctx, ref); e != nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	old, err := t.System.ExpiredResults(ctx, t.Clock.Now(), sweepAtOnce)
	for _, ref := range old {
		if e := t.forget(ctx, ref); e != nil {
			err = e
		}
	}
	return err
}

// sweepAtOnce is the maximum number of statements in one sweep.
const sweepAtOnce = 200

func (t *Statements) forget(ctx context.Context, ref Ref) error {
	for n := range ref.Chunks {
		if err := t.Objects.Delete(ctx, chunkKey(ref.Workspace, ref.Statement, n)); err != nil {
			return err
		}
	}
	s := domain.SystemScope(ref.Workspace, "result expired")
	return t.Store.In(ctx, s, func(tx Tx) error {
		st, err := tx.LockStatement(ctx, ref.Statement)
		if err != nil {
			return err
		}
		st.Chunks = nil
		return tx.UpdateStatement(ctx, st, []byte{})
	})
}
