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

// grow adds rows to the chunk in hand.
func (r *relay) grow(b ResultBatch) {
	if r.chunk == nil {
		r.chunk = append(make([]byte, 0, len(r.st.Schemata)+len(b.Data)+len(arrowEnd)), r.st.Schemata...)
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

// cut ends the chunk in hand and keeps it, so that others can read it. The first one that is full is what callers wait for.
func (r *relay) cut(ctx context.Context, last bool) error {
	r.mu.Lock()
	chunk, n := append(r.chunk, arrowEnd...), len(r.st.Chunks)
	r.st.Chunks = append(r.st.Chunks, ResultChunk{Rows: r.rows, Bytes: int64(len(chunk))})
	r.chunk, r.rows = nil, 0
	chunks := r.st.Chunks[: n+1 : n+1]
	if n == 0 {
		r.kept = chunk
	}
	r.mu.Unlock()
	if n == 0 && last && len(chunk) <= rowResult {
		return nil // it goes into the row
	}
	if err := r.t.Objects.Put(ctx, chunkKey(r.scope.workspace, r.id, n), chunk); err != nil {
		return fmt.Errorf("keeping chunk %d of the result: %w", n, err)
	}
	if last {
		return nil
	}
	r.note(ctx, func(st *Statement) { st.Chunks = chunks })
	r.answered()
	return nil
}

// concludeTime is how long the end of a statement is tried to be written while the database is away. Sweep settles what is left.
const concludeTime = time.Minute

// conclude keeps the rest of the result and the statement's end.
func (r *relay) conclude(end StatementEnd) error {
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	if end.Failure == nil && r.st.Schemata != nil && (r.chunk != nil || len(r.st.Chunks) == 0) {
		if r.chunk == nil {
			r.grow(ResultBatch{})
		}
		if err := r.cut(ctx, true); err != nil {
			end = notKept()
			r.t.Report(err)
		}
	}
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
			failure, st.RoutingReason = nil, strings.TrimSpace(st.RoutingReason+" It was ended, or its engine was lost, after it had committed, so how many rows it wrote is not known.")
		}
		st.end(st.settled(failure), now)
		st.ResultUntil = new(now.Add(ResultKept))
		var settlements LineageSettlement
		if st.State == StatementSucceeded {
			settlements, st.Resolution = settlement(st, end, lineage)
		}
		tx.Notify(StatementTopic(r.id), StatementsTopic(r.scope.workspace))
		if err = tx.UpdateStatement(ctx, st, result); err != nil {
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

// settled is a failure with what became of what the statement wrote. It is over with it: nothing is committed after this.
func (s *Statement) settled(f *StatementFailure) *StatementFailure {
	if f == nil || !f.Unsure {
		return f
	}
	told := *f
	switch {
	case !s.Write:
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
	return s.changesRows() || slices.Contains([]string{"CREATE TABLE", "DROP TABLE", "CREATE VIEW", "DROP VIEW"}, s.Kind)
}

func (s *Statement) changesRows() bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "MERGE"}, s.Kind)
}

// committed says that a statement which was ended from without had done its work by then. What changes rows has made a snapshot.
func (s *Statement) committed(fault Fault, l Lineage) bool {
	switch fault {
	case FaultEngine, FaultCancelled, FaultTimeout, FaultResources:
	default:
		return false // the engine has said that it undid it
	}
	if s.changesRows() {
		return slices.ContainsFunc(l.Written, func(e LineageEntry) bool { return e.SnapshotID != 0 })
	}
	return len(l.Written) > 0
}
