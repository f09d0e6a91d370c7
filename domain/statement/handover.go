package statement

import (
	"context"
	"errors"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// cutTime is the time for recording the ends of statements that Drain has ended.
const cutTime = cancelGrace + 2*time.Second

// Drain prepares the stop of this server. It refuses new statements and returns those that no
// engine has to the store. The others run until ctx ends; then it ends them. It returns when all
// ends are recorded, or after cutTime. Another server's Sweep finalizes the rest.
func (t *Statements) Drain(ctx context.Context) {
	t.mu.Lock()
	if !isClosed(t.draining) {
		close(t.draining)
	}
	t.mu.Unlock()
	over := make(chan struct{})
	go func() {
		t.executions.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	t.close()
	select {
	case <-over:
	case <-time.After(cutTime):
		t.Report(errors.New("the end of some statements is not recorded; the next sweep does it"))
	}
}

// Close is Drain without time for running statements.
func (t *Statements) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Drain(ctx)
}

// errDraining returns the refusal of a statement during Drain, which records nothing of it.
func errDraining() error {
	return domain.Errorf(domain.CodeUnavailable, "The server is being stopped. Nothing was run or committed: send the statement again.")
}

// handOver returns the statement, which no engine has, to the store for another server. If only a
// caller on a connection waits for it, handOver ends it.
func (x *execution) handOver() error {
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	return untilWritten(ctx, func() error {
		var st Statement
		var lineage lake.Lineage
		err := x.t.Store.In(ctx, x.scope, func(tx Tx) (err error) {
			if st, err = tx.LockStatement(ctx, x.id); err != nil || st.State.Final() || st.Replica != x.t.Replica {
				return err
			}
			switch {
			case st.CancelRequestedAt != nil:
				lineage, err = x.t.finalizeIn(ctx, tx, x.scope, &st, lineage, cancelledEnd(), nil)
				return err
			case !st.Detached:
				end := End{Failure: &Failure{Fault: FaultEngine, Message: "The server was stopped before the statement ran.", Unsure: true}}
				lineage, err = x.t.finalizeIn(ctx, tx, x.scope, &st, lineage, end, nil)
				return err
			}
			st.State, st.StartedAt, st.Message = Queued, nil, "Waits for a server: the one that had it was stopped."
			st.Replica, st.Sent = "", false
			tx.Notify(domain.HandoverTopic, domain.StatementTopic(x.id), domain.StatementsTopic(x.scope.Workspace()))
			return tx.UpdateStatement(ctx, st, nil)
		})
		if err == nil {
			x.begin(st)
		}
		return err
	})
}

// detach records that no caller waits on a connection, so that a stop of this server does not end
// the statement.
func (x *execution) detach(ctx context.Context) {
	x.mu.Lock()
	queued := x.st.State == Queued && !x.st.Detached
	x.mu.Unlock()
	if queued {
		x.note(ctx, func(st *Statement) { st.Detached = true })
	}
}

// recoverLost continues a statement whose server is gone. It ends the statement instead if an
// engine may have it, or if nobody could find its result.
func (t *Statements) recoverLost(ctx context.Context, ref Ref) error {
	if t.execution(ref.Statement) != nil {
		return nil
	}
	x, refused := t.enlist(Statement{ID: ref.Statement}, ref.Workspace)
	if refused != nil {
		return nil // no room now; the statement waits on
	}
	var st Statement
	taken := false
	err := t.Store.In(ctx, x.scope, func(tx Tx) (err error) {
		if st, err = tx.LockStatement(ctx, ref.Statement); err != nil || st.State.Final() || st.Replica != ref.Replica {
			return err
		}
		if taken = st.Detached && !st.Sent && st.CancelRequestedAt == nil; taken {
			st.Replica, st.Message = t.Replica, ""
			tx.Notify(domain.StatementTopic(st.ID), domain.StatementsTopic(ref.Workspace))
			return tx.UpdateStatement(ctx, st, nil)
		}
		end := End{Failure: &Failure{Fault: FaultEngine, Message: "The server that ran the statement ended.", Unsure: true}}
		if !st.Sent && st.CancelRequestedAt != nil {
			end = cancelledEnd()
		}
		lineage, err := tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID)})
		if err != nil {
			return err
		}
		_, err = t.finalizeIn(ctx, tx, x.scope, &st, lineage, end, nil)
		return err
	})
	if err != nil || !taken {
		t.dismiss(x)
		return err
	}
	x.begin(st)
	go x.run()
	return nil
}
