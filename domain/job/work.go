package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// TaskWork is the Work of runs' tasks.
type TaskWork struct{ Runs *Runs }

// Starting implements machine.Work.
func (w TaskWork) Starting(ctx context.Context, s domain.Scope, m machine.Machine) error {
	return w.Runs.eachWaiting(ctx, s, m, func(*Run) {})
}

// Evict implements machine.Work.
func (w TaskWork) Evict(ctx context.Context, s domain.Scope, m machine.Machine, why string) error {
	var live []Attempt
	err := w.Runs.Store.In(ctx, s, func(tx Tx) (err error) {
		if live, err = tx.LiveAttempts(ctx, m.AgentID); err != nil {
			return err
		}
		_, err = tx.Evict(ctx, attemptIDs(live), why, w.Runs.Clock.Now())
		return err
	})
	if err == nil {
		w.Runs.Outbox.cancel(live)
	}
	return err
}

// End implements machine.Work: attempts are lost, without a report from their agent.
func (w TaskWork) End(ctx context.Context, s domain.Scope, m machine.Machine, why string) error {
	var live []Attempt
	err := w.Runs.Store.In(ctx, s, func(tx Tx) (err error) {
		live, err = tx.LiveAttempts(ctx, m.AgentID)
		return err
	})
	for _, a := range live {
		err = errors.Join(err, w.Runs.endAttempt(ctx, s, a.ID, AttemptEnd{Status: AttemptLost, Message: why, Evicted: true}))
	}
	return err
}

// Failed implements machine.Work.
func (w TaskWork) Failed(ctx context.Context, s domain.Scope, m machine.Machine) error {
	message := fmt.Sprintf("The %s %s failed. %s", m.Kind.Noun(), m.Name, m.Message)
	return w.Runs.eachWaiting(ctx, s, m, func(run *Run) { run.TargetFailed(m.ID, message, w.Runs.Clock.Now()) })
}

// Held implements machine.Work.
func (w TaskWork) Held(ctx context.Context, s domain.Scope, m machine.Machine) error {
	return w.Runs.eachWaiting(ctx, s, m, func(run *Run) {
		for i := range run.Tasks {
			if t := &run.Tasks[i]; t.Compute == m.ID && t.Status == TaskQueued && t.Current == "" {
				wait(run, []*Task{t}, m.Blocked())
			}
		}
	})
}
