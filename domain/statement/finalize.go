package statement

import (
	"context"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// finalize writes a statement's end, unless it has one or another server has the statement. The
// lock waits for a change of the catalog in progress, and the catalog refuses changes after the end
// is written. So the end includes all changes. A statement that committed has succeeded, whatever
// ended it.
func (x *execution) finalize(ctx context.Context, end End, result []byte) error {
	var st Statement
	var lineage lake.Lineage
	err := x.t.Store.In(ctx, x.scope, func(tx Tx) (err error) {
		if st, err = tx.LockStatement(ctx, x.id); err != nil || st.State.Final() || st.Replica != x.t.Replica {
			return err
		}
		x.mu.Lock()
		known := x.st
		x.mu.Unlock()
		known.CancelRequestedAt, known.Committed = st.CancelRequestedAt, st.Committed
		st = known
		if lineage, err = tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorStatement, ID: string(x.id)}); err != nil {
			return err
		}
		lineage, err = x.t.finalizeIn(ctx, tx, x.scope, &st, lineage, end, result)
		return err
	})
	if err == nil {
		x.mu.Lock()
		x.st, x.lineage = st, lineage
		x.mu.Unlock()
	}
	return err
}

// finalizeIn writes the end of a locked statement, in the transaction that locked it.
func (t *Statements) finalizeIn(ctx context.Context, tx Tx, s domain.Scope, st *Statement, lineage lake.Lineage, end End, result []byte) (lake.Lineage, error) {
	now := t.Clock.Now()
	st.Rows, st.Bytes, st.Scanned, st.Truncated = end.Rows, end.Bytes, end.Scanned, end.Truncated
	failure := end.Failure
	if failure != nil && st.committed(failure.Fault, lineage) {
		failure, st.Write, st.Rows = nil, true, -1
		st.RoutingReason = strings.TrimSpace(st.RoutingReason + " It committed before it was ended or its engine was lost, so the number of rows is not known.")
	}
	st.end(st.finalFailure(failure), now)
	st.ResultUntil = new(now.Add(ResultKept))
	lineage, err := finalizeLineage(ctx, tx, st, end, lineage)
	if err != nil {
		return lineage, err
	}
	st.notify(tx, s)
	if st.Purpose == Maintenance {
		tx.Notify(domain.MaintenanceTopic)
	}
	if err := tx.UpdateStatement(ctx, *st, result); err != nil {
		return lineage, err
	}
	if err := st.audit(ctx, tx, s); err != nil {
		return lineage, err
	}
	return lineage, st.releaseKey(ctx, tx, failure)
}

// notify wakes those who follow the statement, or the run of maintenance that shows it.
func (s *Statement) notify(tx Tx, scope domain.Scope) {
	tx.Notify(domain.StatementTopic(s.ID), domain.StatementsTopic(scope.Workspace()))
	if s.Purpose == Maintenance {
		tx.Notify(domain.MaintenanceRunsTopic(scope.Workspace()))
	}
}

// audit writes the denial of a write that the actor's role forbids.
func (s *Statement) audit(ctx context.Context, tx Tx, scope domain.Scope) error {
	if s.Failure == nil || s.Failure.Fault != FaultForbidden {
		return nil
	}
	e := domain.NewAudit(scope, domain.CatalogWrite, domain.OutcomeDenied, "statement", string(s.ID), "")
	e.Actor = s.CreatedBy
	return tx.InsertAudit(ctx, e)
}

// finalFailure adds to the failure's message whether anything was committed. Nothing is committed
// after this.
func (s *Statement) finalFailure(f *Failure) *Failure {
	if f == nil || !f.Unsure {
		return f
	}
	final := *f
	reads := s.Reads()
	switch {
	case reads && f.Fault != FaultEngine: // a person or a limit ended it
	case reads:
		final.Message += " Run the statement again."
	case s.unknown(f) && s.Purpose == Maintenance:
		final.Message += " Whether its changes were committed is not known. Maintenance can repeat it without harm."
	case s.unknown(f):
		final.Message += " Whether its changes were committed is not known: check before you run it again."
	case s.Purpose == Maintenance: // it has its own retries
		final.Message += " Nothing of it was committed."
	default:
		final.Message += " Nothing of it was committed: run it again."
	}
	return &final
}

// Reads reports whether the statement is known to write nothing.
func (s *Statement) Reads() bool { return s.Kind != "" && !s.Write }

// unknown reports whether the statement changed the catalog and it is unknown whether that was all
// of its work.
func (s *Statement) unknown(f *Failure) bool {
	return f.Unsure && s.Committed && (s.Write || s.Kind == "")
}

// releaseKey lets the same request run again under its key if the failure allows it.
func (s *Statement) releaseKey(ctx context.Context, tx Tx, f *Failure) error {
	if s.Key == "" || f == nil || f.Fault != FaultEngine || s.unknown(f) {
		return nil
	}
	return tx.ReleaseKey(ctx, domain.IdempotencyActor(s.CreatedBy), s.Key, string(s.ID))
}

// ChangesRows reports whether statements of this kind change rows of existing tables.
func (s *Statement) ChangesRows() bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "MERGE"}, s.Kind)
}

// committed reports whether a statement that was ended from outside had completed its work. A
// statement that changes rows has then made a snapshot.
func (s *Statement) committed(fault Fault, l lake.Lineage) bool {
	switch fault {
	case FaultEngine, FaultCancelled, FaultTimeout, FaultResources:
	default:
		return false // the engine has reported that it rolled back
	}
	if slices.Contains([]string{"OPTIMIZE", "EXPIRE SNAPSHOTS"}, s.Kind) {
		return false // a commit is only part of its work
	}
	if s.ChangesRows() {
		return slices.ContainsFunc(l.Written, func(e lake.LineageEntry) bool { return e.SnapshotID != 0 })
	}
	return len(l.Written) > 0
}
