package statement

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// target is an agent that can run a statement.
type target struct {
	agent     domain.AgentID
	databases []string // all databases of the workspace
}

// targetOn returns the agent of a running warehouse; nil while it is disconnected.
func targetOn(ctx context.Context, tx Tx, m machine.Machine) (*target, error) {
	a, err := tx.Agent(ctx, m.AgentID)
	if err != nil || a.Session == "" {
		return nil, err
	}
	names, err := tx.DatabaseNames(ctx)
	return &target{a.ID, names}, err
}

// awaitTarget waits until the warehouse runs, and starts it if it is stopped. It returns nil when
// this server stops. A caller that leaves does not end the statement here: it may write, and only
// an engine knows.
func (x *execution) awaitTarget(ctx context.Context) (*target, *Failure) {
	if to := x.submitted; to != nil {
		x.submitted = nil
		return to, nil
	}
	wake, stop := x.t.Topics.Subscribe(domain.MachinesTopic(x.scope.Workspace()), domain.AgentsTopic(x.scope.Workspace()))
	defer stop()
	for !isClosed(x.t.draining) {
		to, wait, err := x.findTarget(ctx)
		if err != nil && !IsPassing(err) {
			return nil, &Failure{Fault: FaultEngine, Message: domain.AsError(err).Message}
		}
		if err == nil && to != nil {
			return to, nil
		}
		if err == nil {
			x.showWait(ctx, wait)
		}
		select {
		case <-wake:
		case <-time.After(5 * time.Second): // in case the database was away
		case <-x.cancelled:
			return nil, cancelledEnd().Failure
		case <-x.t.draining:
		}
	}
	return nil, nil
}

// findTarget returns the target of the statement. While there is none, to is nil and wait says what
// the statement waits for. An error that is not passing is final.
func (x *execution) findTarget(ctx context.Context) (to *target, wait string, err error) {
	now := x.t.Clock.Now()
	err = x.t.Store.In(ctx, x.scope, func(tx Tx) error {
		m, err := tx.Machine(ctx, x.st.Warehouse)
		if domain.IsCode(err, domain.CodeNotFound) {
			return domain.Errorf(domain.CodeNotFound, "Its warehouse was deleted.")
		}
		if err != nil {
			return err
		}
		if m.State == machine.Running {
			wait = "Waits for the agent of the warehouse " + m.Name + " to connect."
			if to, err = targetOn(ctx, tx, m); err != nil || to == nil {
				return err
			}
			return x.markSent(ctx, tx)
		}
		m, _, err = tx.LockMachine(ctx, x.st.Warehouse)
		if err != nil {
			return err
		}
		wait, err = x.wakeWarehouse(ctx, tx, &m, now)
		return err
	})
	return to, wait, err
}

// markSent records that an engine may have the statement, so that no other server runs it. It
// returns CodeConflict if another server has the statement.
func (x *execution) markSent(ctx context.Context, tx Tx) error {
	st, err := tx.LockStatement(ctx, x.id)
	if err != nil {
		return err
	}
	if st.State.Final() || st.Replica != x.t.Replica {
		return domain.Errorf(domain.CodeConflict, "Another server has the statement.")
	}
	st.Sent = true
	return tx.UpdateStatement(ctx, st, nil)
}

// wakeWarehouse starts the warehouse. It returns CodeConflict if the warehouse was stopped by a
// person, or failed, after the statement came. CodeUnavailable would mean that the database is
// away.
func (x *execution) wakeWarehouse(ctx context.Context, tx Tx, m *machine.Machine, now time.Time) (wait string, err error) {
	came := x.st.CreatedAt
	if at := x.st.NotBefore; at != nil { // it was held until then
		came = *at
	}
	switch {
	case m.HeldAt != nil && !came.After(*m.HeldAt):
		return "", domain.Errorf(domain.CodeConflict, "The warehouse %s was stopped while the statement waited.", m.Name)
	case m.State == machine.Failed && !came.After(m.StateSince):
		return "", domain.Errorf(domain.CodeConflict, "The warehouse %s failed. %s", m.Name, m.Message)
	case m.Resting():
		return fmt.Sprintf("Waits for the warehouse %s, which is being started.", m.Name), machine.Start(ctx, tx, x.scope, m, "Started for a statement.", now)
	}
	return strings.TrimSpace(fmt.Sprintf("Waits for the warehouse %s, which is %s. %s", m.Name, m.State, m.Message)), nil
}

// showWait shows what the statement waits for.
func (x *execution) showWait(ctx context.Context, message string) {
	x.mu.Lock()
	same := x.st.Message == message
	x.mu.Unlock()
	if !same {
		x.note(ctx, func(st *Statement) { st.Message = message })
	}
}
