package domain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// arrowEnd ends a stream of Arrow IPC.
const arrowEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// rowResult is how large a result may be to be kept in its statement's row, in bytes.
const rowResult = 64 << 10

func chunkKey(ws WorkspaceID, id StatementID, n int) string {
	return fmt.Sprintf("%s/statements/%s/%d.arrow", ws, id, n)
}

// grow adds rows to the chunk in hand. What does not stay small soon gets the room of a whole one.
func (r *relay) grow(b ResultBatch) {
	if r.chunk == nil {
		r.chunk = append(make([]byte, 0, len(r.st.Schemata)+len(b.Data)+len(arrowEnd)), r.st.Schemata...)
	}
	if need := len(r.chunk) + len(b.Data) + len(arrowEnd); need > cap(r.chunk) && need > rowResult {
		r.chunk = slices.Grow(r.chunk, max(need, min(4*cap(r.chunk), ChunkBytes+ChunkBytes/8))-len(r.chunk))
	}
	r.chunk = append(r.chunk, b.Data...)
	r.rows += b.Rows
}

// Bounds of a chunk beside ChunkBytes: values of few bits, and nulls, are far larger in JSON than in Arrow.
const (
	chunkRows  = 1 << 20
	chunkCells = 1 << 30 // rows times bytes of the schema, of which a column has about a hundred
)

// full says that the chunk in hand is large enough to be cut.
func (r *relay) full() bool {
	return len(r.chunk) >= ChunkBytes || r.rows >= chunkRows || r.rows*int64(len(r.st.Schemata)) >= chunkCells
}

// cut ends the chunk in hand and has it kept, while the engine goes on with the next. The first one that is full is what callers wait for.
func (r *relay) cut(last bool) error {
	r.mu.Lock()
	chunk, rows, first := append(r.chunk, arrowEnd...), r.rows, r.kept == nil
	r.chunk, r.rows = nil, 0
	if first {
		r.kept, r.only = chunk, last
	}
	inRow := first && last && len(chunk) <= rowResult
	if inRow {
		r.st.Chunks = []ResultChunk{{Rows: rows, Bytes: int64(len(chunk))}}
	}
	r.mu.Unlock()
	if first && !last {
		r.answered()
	}
	if err := r.allKept(); err != nil || inRow {
		return err
	}
	kept := make(chan error, 1)
	r.keeping = kept
	go func() { kept <- r.keep(chunk, rows, last) }()
	return nil
}

// allKept waits until the chunk before is kept.
func (r *relay) allKept() error {
	if r.keeping == nil {
		return nil
	}
	err := <-r.keeping
	r.keeping = nil
	return err
}

// keep writes a chunk, so that others can read it.
func (r *relay) keep(chunk []byte, rows int64, last bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	r.mu.Lock()
	n := len(r.st.Chunks)
	chunks := append(r.st.Chunks[:n:n], ResultChunk{Rows: rows, Bytes: int64(len(chunk))})
	r.mu.Unlock()
	if err := r.t.Objects.Put(ctx, chunkKey(r.scope.workspace, r.id, n), chunk); err != nil {
		_ = r.t.Objects.Delete(ctx, chunkKey(r.scope.workspace, r.id, n)) // nobody knows of it
		return fmt.Errorf("keeping chunk %d of the result: %w", n, err)
	}
	if last { // its end tells of it
		r.mu.Lock()
		defer r.mu.Unlock()
		r.st.Chunks = chunks
		return nil
	}
	r.note(ctx, func(st *Statement) { st.Chunks = chunks })
	return nil
}

// concludeTime is how long the end of a statement is tried to be written while the database is away. Sweep settles what is left.
const concludeTime = time.Minute

// conclude keeps the rest of the result and the statement's end.
func (r *relay) conclude(end StatementEnd) error {
	if err := r.rest(end); err != nil {
		end = notKept()
		r.t.Report(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	var result []byte
	if r.kept != nil && len(r.kept) <= rowResult && len(r.st.Chunks) == 1 {
		result = r.kept
	}
	for {
		err := r.finish(ctx, end, result)
		if err == nil || !isPassing(err) {
			return err
		}
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return err
		}
	}
}

// rest keeps what is left of the result of a statement that has ended: an empty chunk where the one before was full, since that one was told to have another after it.
func (r *relay) rest(end StatementEnd) error {
	if end.Failure == nil && r.st.Schemata != nil {
		if r.chunk == nil {
			r.grow(ResultBatch{})
		}
		if err := r.cut(true); err != nil {
			return err
		}
	}
	return r.allKept()
}

// finish writes the end, unless it is written. A statement that did not end by itself, but had committed before, has succeeded.
func (r *relay) finish(ctx context.Context, end StatementEnd, result []byte) error {
	now := r.t.Clock.Now()
	var st Statement
	var lineage Lineage
	err := r.t.Store.In(ctx, r.scope, func(tx Tx) (err error) {
		if st, err = tx.LockStatement(ctx, r.id); err != nil || st.State.Final() {
			return err
		}
		cancelled := st.CancelRequestedAt
		if r.st.Query != "" { // else it is another server's
			st = r.st
		}
		st.CancelRequestedAt = cancelled
		if lineage, err = tx.LineageOf(ctx, Actor{Kind: ActorStatement, ID: string(r.id)}); err != nil {
			return err
		}
		st.Rows, st.Bytes, st.Scanned, st.Truncated = end.Rows, end.Bytes, end.Scanned, end.Truncated
		failure := end.Failure
		if failure != nil && st.committed(failure.Fault, lineage) {
			failure, st.Write, st.Rows = nil, true, -1
			st.RoutingReason = strings.TrimSpace(st.RoutingReason + " It was ended, or its engine was lost, after it had committed, so how many rows it wrote is not known.")
		}
		st.end(st.settled(failure), now)
		st.ResultUntil = new(now.Add(ResultKept))
		var settlements LineageSettlement
		if st.State == StatementSucceeded {
			settlements, st.Resolution = settlement(st, end, lineage)
		}
		tx.Notify(StatementTopic(r.id), StatementsTopic(r.scope.workspace))
		if st.CreatedBy.Kind == ActorSystem {
			tx.Notify(MaintenanceTopic)
		}
		if err = tx.UpdateStatement(ctx, st, result); err != nil {
			return err
		}
		if err := st.audit(ctx, tx, r.scope); err != nil {
			return err
		}
		lineage, err = settleLineage(ctx, tx, settlements, lineage)
		return err
	})
	if err == nil {
		r.mu.Lock()
		r.st, r.lineage = st, lineage
		r.mu.Unlock()
	}
	return err
}

// audit writes the row of a write that its actor's role forbids, as of any other that is.
func (s *Statement) audit(ctx context.Context, tx Tx, scope Scope) error {
	if s.Failure == nil || s.Failure.Fault != FaultForbidden {
		return nil
	}
	e := newAudit(scope, CatalogWrite, OutcomeDenied, "statement", string(s.ID))
	e.Actor = s.CreatedBy
	return tx.InsertAudit(ctx, e)
}

// settled is a failure with what became of what the statement wrote. It is over with it: nothing is committed after this.
func (s *Statement) settled(f *StatementFailure) *StatementFailure {
	if f == nil || !f.Unsure {
		return f
	}
	told := *f
	switch {
	case !s.Write && s.Kind != "" && f.Fault != FaultEngine: // somebody wanted it over
	case !s.Write && s.Kind != "":
		told.Message += " Run the statement again."
	case s.notesItsCommit():
		told.Message += " Nothing of it was committed: run it again."
	default:
		told.Message += " Whether what it changes was committed is not known: look before you run it again."
	}
	return &told
}

// notesItsCommit says that what the statement commits is in its lineage, in the same transaction.
func (s *Statement) notesItsCommit() bool {
	return s.ChangesRows() || slices.Contains([]string{"CREATE TABLE", "DROP TABLE", "CREATE VIEW", "DROP VIEW"}, s.Kind)
}

// ChangesRows reports whether the statement is of a kind that changes rows of tables which are there.
func (s *Statement) ChangesRows() bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "MERGE"}, s.Kind)
}

// committed says that a statement which was ended from without had done its work by then. What changes rows has made a snapshot.
func (s *Statement) committed(fault Fault, l Lineage) bool {
	switch fault {
	case FaultEngine, FaultCancelled, FaultTimeout, FaultResources:
	default:
		return false // the engine has said that it undid it
	}
	if s.Kind == "OPTIMIZE" {
		return false // it commits part after part, so that one says nothing of the others
	}
	if s.ChangesRows() {
		return slices.ContainsFunc(l.Written, func(e LineageEntry) bool { return e.SnapshotID != 0 })
	}
	return len(l.Written) > 0
}
