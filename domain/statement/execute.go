package statement

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Execute submits a statement and waits for its first chunk or its end. A non-nil wait limits the
// waiting; the statement then continues. A failed statement is returned as an error. If ctx ends
// first and no other caller waits, Execute cancels a statement that reads, after reconnectGrace if
// it has a key. A statement that writes continues.
func (t *Statements) Execute(ctx context.Context, s domain.Scope, n NewStatement, key domain.Idempotency, wait *time.Duration) (Result, error) {
	st, err := t.submit(ctx, s, n, key, wait != nil && *wait == 0)
	if err != nil {
		return Result{}, err
	}
	limit, cancel := ctx, context.CancelFunc(func() {})
	if wait != nil {
		limit, cancel = context.WithTimeout(ctx, *wait)
	}
	defer cancel()
	x := t.execution(st.ID)
	if x == nil {
		return t.await(limit, s, st.ID)
	}
	x.wait()
	select {
	case <-x.first:
	case <-limit.Done():
	}
	result := x.answer()
	switch {
	case result.Statement.State.Final() || result.Chunk != nil:
		return result, result.Statement.Err()
	case isClosed(x.first) && wait == nil && (!isClosed(t.draining) || result.Statement.Replica == t.Replica):
		return Result{}, domain.Errorf(domain.CodeUnavailable, "The end of the statement %s was not recorded: check its state before you run it again.", st.ID)
	case isClosed(x.first) && wait == nil:
		return Result{}, domain.Errorf(domain.CodeUnavailable, "The server is being stopped. The statement %s waits for another one: send it again with the same Idempotency-Key.", st.ID)
	case ctx.Err() != nil && t.open.Err() != nil:
		return Result{}, domain.Errorf(domain.CodeUnavailable, "The server was stopped before it recorded the end of the statement %s: check its state before you run it again.", st.ID)
	case ctx.Err() != nil:
		x.leave(key.Key != "")
		return Result{}, ctx.Err()
	}
	x.detach(ctx)
	return t.Result(ctx, s, st.ID)
}

// await is Execute for a statement of another server, or of no server any more.
func (t *Statements) await(ctx context.Context, s domain.Scope, id domain.StatementID) (Result, error) {
	wake, stop := t.Topics.Subscribe(domain.StatementTopic(id))
	defer stop()
	for {
		result, err := t.Result(context.WithoutCancel(ctx), s, id)
		if err != nil || result.Statement.State.Final() || result.Chunk != nil {
			return result, err
		}
		select {
		case <-wake:
		case <-t.draining:
			return result, domain.Errorf(domain.CodeUnavailable, "The server is being stopped. Another one has the statement %s: send it again with the same Idempotency-Key.", id)
		case <-ctx.Done():
			return result, nil
		}
	}
}
