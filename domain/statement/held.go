package statement

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// ForTable returns a statement that the platform runs to maintain the table, without a warehouse.
func ForTable(s domain.Scope, id domain.TableID, n NewStatement, now time.Time) Statement {
	st := draft(s, n, now)
	st.Purpose, st.TableID, st.Detached = Maintenance, id, true
	return st
}

// Queue inserts the statement for any server: one of them adopts it after the commit.
func Queue(ctx context.Context, tx Tx, s domain.Scope, st Statement) error {
	if err := tx.InsertStatement(ctx, st); err != nil {
		return err
	}
	tx.Notify(domain.HandoverTopic, domain.StatementsTopic(s.Workspace()))
	return domain.Audited(ctx, tx, s, domain.StatementRun, "statement", st.ID)
}
