package job

import (
	"context"
	"fmt"
	"time"

	"github.com/millpond/millpond/domain"
)

// AttemptReport is an attempt's state as its agent reports it.
type AttemptReport struct {
	Attempt    domain.AttemptID
	Exited     bool   // the process and all its descendants are gone, and its log is complete
	Started    bool   // its process exists or existed
	Held       string // why the process is blocked, while it is
	Reason     string // set if the process did not end by itself; one of the Reasons below
	Message    string
	ExitCode   *int
	Signal     string
	StartedAt  *time.Time
	FinishedAt *time.Time
	LogEnd     int64
}

// The values of AttemptReport.Reason.
const (
	ReasonTimeout    = "timeout"
	ReasonCancelled  = "cancelled"
	ReasonLease      = "lease"
	ReasonStart      = "start"
	ReasonSupervisor = "supervisor"
)

// ErrAttemptOver says that the attempt has already ended otherwise, or that its run was deleted.
var ErrAttemptOver = domain.Errorf(domain.CodeNotFound, "This attempt has ended; no more reports of it are accepted.")

// ErrLogIncomplete says that an attempt's end was reported before its whole log had arrived.
var ErrLogIncomplete = domain.Errorf(domain.CodeConflict, "The attempt's log is incomplete; send the rest of it first.")

// Report stores an attempt's state from its agent. Repeating a report has no effect. It returns
// ErrAttemptOver if the attempt ended otherwise or belongs to another agent.
func (r *Runs) Report(ctx context.Context, s domain.Scope, rep AttemptReport) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.AgentConnect); err != nil {
		return err
	}
	if rep.Exited {
		return r.exited(ctx, s, rep)
	}
	var run *Run
	return r.Store.In(ctx, s, func(tx Tx) error {
		a, err := tx.Attempt(ctx, rep.Attempt)
		if err != nil {
			return err
		}
		if a.AgentID != domain.AgentID(s.Actor().ID) || a.Status.Final() {
			return ErrAttemptOver
		}
		run, err = tx.UpdateRun(ctx, a.RunID, func(run *Run) error {
			if rep.Started && rep.StartedAt != nil {
				run.AttemptStarted(a.ID, a.TaskKey, *rep.StartedAt)
			}
			_, err := tx.UpdateAttempt(ctx, a.ID, func(a *Attempt) error { return a.report(rep) })
			return err
		})
		if err != nil {
			return err
		}
		tx.Notify(domain.RunTopic(run.ID), domain.RunsTopic(s.Workspace()))
		return nil
	})
}

func (a *Attempt) report(rep AttemptReport) error {
	if a.Status.Final() {
		return ErrAttemptOver
	}
	a.Held = domain.Shown(rep.Held)
	if rep.Started {
		a.Status, a.StartedAt = AttemptRunning, rep.StartedAt
	}
	return nil
}

func (r *Runs) exited(ctx context.Context, s domain.Scope, rep AttemptReport) error {
	return r.endAttempt(ctx, s, rep.Attempt, rep.end())
}

// end converts an agent's report of an exit.
func (rep AttemptReport) end() AttemptEnd {
	e := AttemptEnd{
		Status: AttemptFailed, Message: domain.Shown(rep.Message), ExitCode: rep.ExitCode, Signal: domain.Shown(rep.Signal),
		StartedAt: rep.StartedAt, FinishedAt: rep.FinishedAt, LogEnd: rep.LogEnd,
	}
	switch {
	case rep.Reason == ReasonCancelled:
		e.Status = AttemptCancelled
	case rep.Reason == ReasonLease:
		e.Status = AttemptLost
	case rep.Reason == "" && rep.ExitCode != nil && *rep.ExitCode == 0:
		e.Status = AttemptSuccess
	}
	if e.Message == "" && e.Status != AttemptSuccess && e.Status != AttemptCancelled {
		e.Message = rep.reason()
	}
	return e
}

func (rep AttemptReport) reason() string {
	switch {
	case rep.Reason == ReasonTimeout:
		return "It ran longer than its time-out and was ended."
	case rep.Reason == ReasonLease:
		return "Its agent could not reach the platform for too long, so it was ended."
	case rep.Reason == ReasonStart:
		return "Its process could not be started."
	case rep.Reason == ReasonSupervisor:
		return "The process that supervised it was killed, so it was ended."
	case rep.Signal != "":
		return fmt.Sprintf("The process was ended by %s.", rep.Signal)
	case rep.ExitCode != nil:
		return fmt.Sprintf("The process ended with exit code %d.", *rep.ExitCode)
	}
	return "The process ended without an exit code."
}

// endAttempt ends an attempt once, at the first report: by its agent, or by the sweep of its lease.
// The task and the run advance in the same transaction.
func (r *Runs) endAttempt(ctx context.Context, s domain.Scope, id domain.AttemptID, end AttemptEnd) error {
	return r.endAttemptIf(ctx, s, id, end, func(Tx) (bool, error) { return true, nil })
}

// endAttemptIf is endAttempt, but only if still returns true. It calls still under the locks of the
// run and the attempt.
func (r *Runs) endAttemptIf(ctx context.Context, s domain.Scope, id domain.AttemptID, end AttemptEnd, still func(Tx) (bool, error)) error {
	now := r.Clock.Now()
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) error {
		var machine domain.MachineID
		a, err := tx.Attempt(ctx, id)
		if err != nil {
			return err
		}
		if s.Role() == domain.RoleAgent && a.AgentID != domain.AgentID(s.Actor().ID) {
			return ErrAttemptOver
		}
		run, err = r.update(ctx, tx, s, a.RunID, func(run *Run) error {
			unchanged := false
			a, err = tx.UpdateAttempt(ctx, id, func(a *Attempt) error {
				holds, err := still(tx)
				if unchanged = !holds || a.Status.Final(); err != nil || !holds {
					return err
				}
				if a.CancelReason != "" && end.Status != AttemptSuccess && run.CancelRequestedAt == nil {
					end.Evicted, end.Message = true, a.CancelReason
				}
				return a.end(ctx, tx, end, now)
			})
			if err != nil || unchanged {
				return err
			}
			machine = run.Task(a.TaskKey).Compute
			if end.StartedAt != nil {
				run.AttemptStarted(id, a.TaskKey, *end.StartedAt)
			}
			run.AttemptEnded(id, a.TaskKey, end, now)
			return nil
		})
		if err == nil && machine != "" {
			err = r.machineIdle(ctx, tx, s, machine, now)
		}
		if err == nil && len(run.assigned) == 0 {
			// its slot is free for other runs, or the task waits until its back-off is over
			tx.Notify(domain.DispatchTopic)
		}
		tx.Notify(domain.LogTopic(id), domain.AgentsTopic(s.Workspace()))
		return err
	})
	if err == nil {
		r.deliver(s, run)
	}
	return err
}

func (a *Attempt) end(ctx context.Context, tx Tx, end AttemptEnd, now time.Time) error {
	if a.Status.Final() {
		if a.Status != end.Status {
			return ErrAttemptOver
		}
		return nil // a repeated report
	}
	ends, err := tx.LogEnds(ctx, []domain.AttemptID{a.ID})
	if err != nil {
		return err
	}
	if end.Status != AttemptLost && ends[a.ID].Offset < end.LogEnd {
		return ErrLogIncomplete
	}
	a.Status, a.Message, a.ExitCode, a.Signal, a.Held = end.Status, end.Message, end.ExitCode, end.Signal, ""
	if end.StartedAt != nil {
		a.StartedAt = end.StartedAt
	}
	a.FinishedAt, a.LogSize = &now, ends[a.ID].Offset
	if end.FinishedAt != nil {
		a.FinishedAt = end.FinishedAt
	}
	return nil
}

func attemptIDs(attempts []Attempt) []domain.AttemptID {
	ids := make([]domain.AttemptID, len(attempts))
	for i, a := range attempts {
		ids[i] = a.ID
	}
	return ids
}
