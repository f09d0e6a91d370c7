package job

import (
	"context"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

// RunFilter narrows a list of runs.
type RunFilter struct {
	JobID  domain.JobID
	Status []RunStatus
}

// runTx reads and writes runs and their tasks.
type runTx interface {
	// Run returns the run with its spec and parameters, without its tasks.
	Run(ctx context.Context, id domain.RunID) (Run, error)
	// RunsByID returns the heads of the existing runs: without spec, parameters and tasks.
	RunsByID(ctx context.Context, ids []domain.RunID) ([]Run, error)
	// Runs returns heads, newest first.
	Runs(ctx context.Context, f RunFilter, before domain.RunID, limit int) ([]Run, error)
	// ChangedRuns returns the heads of a page of changed runs, and whether there may be more.
	ChangedRuns(ctx context.Context, p domain.Position) ([]Run, bool, error)
	// RunSpecs returns the frozen specs.
	RunSpecs(ctx context.Context, ids []domain.RunID) (map[domain.RunID]Spec, error)
	// RunParameters returns the runs' parameters.
	RunParameters(ctx context.Context, ids []domain.RunID) (map[domain.RunID][]Variable, error)
	// LatestRuns returns the head of each job's newest run.
	LatestRuns(ctx context.Context, jobs []domain.JobID) ([]Run, error)
	// Tasks returns the runs' tasks in the order of their specs, including those of single
	// commands.
	Tasks(ctx context.Context, runs []domain.RunID) ([]Task, error)
	InsertRun(ctx context.Context, r *Run) error
	// UpdateRun locks the run, loads its tasks, applies fn and writes the changes.
	UpdateRun(ctx context.Context, id domain.RunID, fn func(*Run) error) (*Run, error)
	// RecentRuns returns the heads of each job's newest runs, at most limit each, newest first. If
	// status is not empty, it selects runs in those states.
	RecentRuns(ctx context.Context, jobs []domain.JobID, status []RunStatus, limit int) ([]Run, error)
	// ActiveRuns returns the heads of the job's pending and running runs, oldest first.
	ActiveRuns(ctx context.Context, job domain.JobID) ([]Run, error)
	// AttemptCount returns the total number of the runs' attempts.
	AttemptCount(ctx context.Context, runs []domain.RunID) (int, error)
	// WaitingRuns returns the runs with a queued task for the machine.
	WaitingRuns(ctx context.Context, machine domain.MachineID) ([]domain.RunID, error)
	// OtherReadyRuns reports whether another run has a queued task for the machine that may start
	// now. An empty machine stands for the workspace's agent.
	OtherReadyRuns(ctx context.Context, run domain.RunID, machine domain.MachineID, now time.Time) (bool, error)
}

// attemptTx reads and writes attempts.
type attemptTx interface {
	Attempt(ctx context.Context, id domain.AttemptID) (Attempt, error)
	// Attempts returns the runs' attempts, oldest first.
	Attempts(ctx context.Context, runs []domain.RunID) ([]Attempt, error)
	// LiveAttempts returns the agent's attempts that have not ended.
	LiveAttempts(ctx context.Context, agent domain.AgentID) ([]Attempt, error)
	InsertAttempt(ctx context.Context, a Attempt) error
	// UpdateAttempt locks the attempt, applies fn and writes it.
	UpdateAttempt(ctx context.Context, id domain.AttemptID, fn func(*Attempt) error) (Attempt, error)
	// RequestCancel records that the attempts must end, and returns them.
	RequestCancel(ctx context.Context, ids []domain.AttemptID, at time.Time) ([]Attempt, error)
	// Evict is RequestCancel for a reason other than their runs' cancellation.
	Evict(ctx context.Context, ids []domain.AttemptID, reason string, at time.Time) ([]Attempt, error)
}

// Runs starts, watches, cancels and repairs runs, and advances them as their attempts end.
type Runs struct {
	Store  domain.Store[Tx]
	System System
	Topics domain.Topics
	Clock  domain.Clock
	Tokens Tokens
	Outbox *Outbox
}

// Start starts a run of the job in its current form. Parameters replace the job's defaults of the
// same names.
func (r *Runs) Start(ctx context.Context, s domain.Scope, job domain.JobID, params []Variable, key domain.Idempotency) (*Run, error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunStart); err != nil {
		return nil, err
	}
	request := struct {
		Job    domain.JobID
		Params []Variable
	}{job, params}
	return r.once(ctx, s, key, domain.RunStart, request, func(tx Tx) (*Run, error) {
		j, err := tx.LockJob(ctx, job)
		if err != nil {
			return nil, err
		}
		return r.start(ctx, tx, s, j, params, TriggerManual)
	})
}

// once starts a run or, for a key used before, returns the run that was started then.
func (r *Runs) once(ctx context.Context, s domain.Scope, key domain.Idempotency, operation domain.Action, request any, start func(Tx) (*Run, error)) (run *Run, err error) {
	err = r.Store.In(ctx, s, func(tx Tx) error {
		run = nil // left by an earlier try of the transaction
		id, err := domain.Once(ctx, tx, s, key, operation, request, func() (domain.RunID, error) {
			if run, err = start(tx); err != nil {
				return "", err
			}
			return run.ID, nil
		})
		if err != nil || run != nil {
			return err
		}
		earlier, err := RunHead(ctx, tx, id)
		run = &earlier
		return err
	})
	if err != nil {
		return nil, err
	}
	r.deliver(s, run)
	return run, nil
}

// start checks the quota and inserts the run, under the lock of the quota's row. The order of locks
// is job, quota, run, agent.
func (r *Runs) start(ctx context.Context, tx Tx, s domain.Scope, job Job, params []Variable, t Trigger) (*Run, error) {
	quota, err := tx.LockQuota(ctx, quota.MaxRunningRuns)
	if err != nil {
		return nil, err
	}
	if err := quota.Require(); err != nil {
		return nil, err
	}
	return r.insert(ctx, tx, s, job, params, t)
}

// insert adds a run of a locked job. The caller has checked the quota.
func (r *Runs) insert(ctx context.Context, tx Tx, s domain.Scope, job Job, params []Variable, t Trigger) (*Run, error) {
	if job.empty() {
		return nil, domain.Errorf(domain.CodeConflict, "The job %q has neither a command nor tasks; give it one of them first.", job.Name)
	}
	values, err := mergeParameters(job.Parameters, params)
	if err != nil {
		return nil, err
	}
	run := newRun(job, s.Actor(), values, t, r.Clock.Now())
	blocked, err := r.blocked(ctx, tx, run)
	if err != nil {
		return nil, err
	}
	if blocked {
		run.Message = blockedMessage
	} else {
		run.Admit(run.CreatedAt)
	}
	if err := tx.InsertRun(ctx, run); err != nil {
		return nil, err
	}
	tx.Notify(domain.RunTopic(run.ID), domain.RunsTopic(s.Workspace()))
	if err := domain.Audited(ctx, tx, s, domain.RunStart, "run", run.ID); err != nil {
		return nil, err
	}
	return r.update(ctx, tx, s, run.ID, func(*Run) error { return nil })
}

const blockedMessage = "Waits for an earlier run of the job to end."

// blocked reports whether the job's own limit of concurrent runs, as frozen in the run, blocks the
// run. Earlier runs are admitted first. It locks the job, so that two runs are not admitted to one
// free place.
func (r *Runs) blocked(ctx context.Context, tx Tx, run *Run) (bool, error) {
	if run.MaxConcurrentRuns == 0 || run.Admitted {
		return false, nil
	}
	if _, err := tx.LockJob(ctx, run.JobID); err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return false, err
	}
	active, err := tx.ActiveRuns(ctx, run.JobID)
	if err != nil {
		return false, err
	}
	ahead := 0
	for _, a := range active {
		if a.ID != run.ID && (a.Admitted || a.ID < run.ID) {
			ahead++
		}
	}
	return ahead >= run.MaxConcurrentRuns, nil
}

func mergeParameters(declared, given []Variable) ([]Variable, error) {
	if err := validVariables("parameters", given); err != nil {
		return nil, err
	}
	values := slices.Clone(declared)
	for _, g := range given {
		i := slices.IndexFunc(values, func(v Variable) bool { return v.Name == g.Name })
		if i < 0 {
			return nil, domain.Invalid("parameters", "The job declares no parameter %q.", g.Name)
		}
		values[i].Value = g.Value
	}
	return values, nil
}

// Tasks returns the tasks of the runs, in the order of their specs. A single command has none.
func (r *Runs) Tasks(ctx context.Context, s domain.Scope, runs ...domain.RunID) (tasks []Task, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		if len(runs) == 1 {
			if _, err := RunHead(ctx, tx, runs[0]); err != nil {
				return err
			}
		}
		tasks, err = tx.Tasks(ctx, runs)
		return err
	})
	return slices.DeleteFunc(tasks, func(t Task) bool { return t.Key == "" }), err
}

// Attempts returns the attempts of the runs' tasks, oldest first.
func (r *Runs) Attempts(ctx context.Context, s domain.Scope, runs ...domain.RunID) (attempts []Attempt, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		attempts, err = tx.Attempts(ctx, runs)
		return err
	})
	return attempts, err
}

// Attempt returns the attempt with that number of the run's task, or the latest for 0. The key of a
// single command is empty. It returns nil without an error if there is no attempt yet.
func (r *Runs) Attempt(ctx context.Context, s domain.Scope, run domain.RunID, key string, number int) (*Attempt, error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	var found *Attempt
	err := r.Store.In(ctx, s, func(tx Tx) error {
		tasks, err := tx.Tasks(ctx, []domain.RunID{run})
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return domain.NotFound("run", run)
		}
		if !slices.ContainsFunc(tasks, func(t Task) bool { return t.Key == key }) {
			if key == "" {
				return domain.Errorf(domain.CodeNotFound, "The run has tasks, and each has its own log: /runs/%s/tasks/{key}/logs.", run)
			}
			return domain.Errorf(domain.CodeNotFound, "There is no task %q in this run.", key)
		}
		attempts, err := tx.Attempts(ctx, []domain.RunID{run})
		if err != nil {
			return err
		}
		for _, a := range attempts {
			if a.TaskKey == key && (number == 0 || a.Number == number) {
				found = &a
			}
		}
		if found == nil && number != 0 {
			if key == "" {
				return domain.Errorf(domain.CodeNotFound, "There is no attempt %d of this run.", number)
			}
			return domain.Errorf(domain.CodeNotFound, "There is no attempt %d of the task %q.", number, key)
		}
		return nil
	})
	return found, err
}

// Watch wakes the channel whenever the run or one of its tasks may have changed.
func (r *Runs) Watch(ctx context.Context, s domain.Scope, id domain.RunID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := r.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(domain.RunTopic(id))
	return wake, stop, nil
}

// WatchAll wakes the channel whenever a run of the workspace may have changed.
func (r *Runs) WatchAll(ctx context.Context, s domain.Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(domain.RunsTopic(s.Workspace()))
	return wake, stop, nil
}

// Cancel ends the run's pending and queued tasks at once and cancels its live attempts. The run
// stays running until the last of them has ended.
func (r *Runs) Cancel(ctx context.Context, s domain.Scope, id domain.RunID) (*Run, error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunCancel); err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	var ending []Attempt
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) (err error) {
		var live []domain.AttemptID
		run, err = r.update(ctx, tx, s, id, func(run *Run) (err error) {
			live, err = run.Cancel(now)
			return err
		})
		if err != nil {
			return err
		}
		if ending, err = tx.RequestCancel(ctx, live, now); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.RunCancel, "run", id)
	})
	if err != nil {
		return nil, err
	}
	r.Outbox.cancel(ending)
	r.deliver(s, run)
	return run, nil
}

// Repair reruns, in the same run, all tasks that did not succeed. It counts toward the quota like a
// new run.
func (r *Runs) Repair(ctx context.Context, s domain.Scope, id domain.RunID, key domain.Idempotency) (*Run, error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRepair); err != nil {
		return nil, err
	}
	return r.once(ctx, s, key, domain.RunRepair, id, func(tx Tx) (*Run, error) { return r.repair(ctx, tx, s, id) })
}

func (r *Runs) repair(ctx context.Context, tx Tx, s domain.Scope, id domain.RunID) (*Run, error) {
	over, err := RunHead(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	over.Admitted = false
	blocked, err := r.blocked(ctx, tx, &over)
	if err != nil {
		return nil, err
	}
	quota, err := tx.LockQuota(ctx, quota.MaxRunningRuns)
	if err != nil {
		return nil, err
	}
	run, err := r.update(ctx, tx, s, id, func(run *Run) error {
		if err := run.Repair(); err != nil {
			return err
		}
		if err := liftHold(ctx, tx, run); err != nil {
			return err
		}
		if blocked {
			run.Message = blockedMessage
		} else {
			run.Admit(r.Clock.Now())
		}
		return quota.Require()
	})
	if err != nil {
		return nil, err
	}
	return run, domain.Audited(ctx, tx, s, domain.RunRepair, "run", id)
}
