package statement

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// ForTable returns a held statement that the platform runs to maintain the table.
func ForTable(s domain.Scope, id domain.TableID, n NewStatement, now time.Time) Statement {
	st := draft(s, n, now)
	st.Purpose, st.TableID, st.Detached = Maintenance, id, true
	return st
}

// Held reports whether the statement waits for Release. It is a row only: no server has it, and it
// has no warehouse yet.
func (s *Statement) Held() bool { return s.State == Queued && s.Warehouse == "" }

// Release queues a held statement, with its text and its warehouse, for any server: one of them
// adopts it after the commit.
func Release(ctx context.Context, tx Tx, s domain.Scope, st Statement) error {
	if err := tx.UpdateHeld(ctx, st); err != nil {
		return err
	}
	tx.Notify(domain.HandoverTopic, domain.StatementTopic(st.ID), domain.StatementsTopic(s.Workspace()))
	return domain.Audited(ctx, tx, s, domain.StatementRun, "statement", st.ID)
}

// Withdraw ends a held statement that will not run, and returns it.
func Withdraw(ctx context.Context, tx Tx, s domain.Scope, id domain.StatementID, why Failure, now time.Time) (Statement, error) {
	st, err := tx.LockStatement(ctx, id)
	if err != nil || !st.Held() {
		return st, err
	}
	st.end(&why, now)
	tx.Notify(domain.StatementTopic(id), domain.StatementsTopic(s.Workspace()))
	return st, tx.UpdateStatement(ctx, st, nil)
}
