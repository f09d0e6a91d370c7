package domain

import (
	"context"
	"slices"
	"time"
)

// RunFilter narrows a list of runs.
type RunFilter struct {
	JobID  JobID
	Status []RunStatus
}

// RunTx reads and writes runs and their tasks.
type RunTx interface {
	// Run returns the run with its spec and parameters, without its tasks.
	Run(ctx context.Context, id RunID) (Run, error)
	// RunsByID returns the heads of those of the runs that exist: without spec, parameters and tasks.
	RunsByID(ctx context.Context, ids []RunID) ([]Run, error)
	// Runs are heads, newest first.
	Runs(ctx context.Context, f RunFilter, before RunID, limit int) ([]Run, error)
	// RunSpecs returns the frozen specs.
	RunSpecs(ctx context.Context, ids []RunID) (map[RunID]JobSpec, error)
	// RunParameters returns what the runs were started with.
	RunParameters(ctx context.Context, ids []RunID) (map[RunID][]Variable, error)
	// LatestRuns returns the head of each job's newest run.
	LatestRuns(ctx context.Context, jobs []JobID) ([]Run, error)
	// Tasks are those of the runs, in the order of their specs, the one of a single command included.
	Tasks(ctx context.Context, runs []RunID) ([]Task, error)
	InsertRun(ctx context.Context, r *Run) error
	// UpdateRun locks the run, loads its tasks, applies fn and writes what fn changed.
	UpdateRun(ctx context.Context, id RunID, fn func(*Run) error) (*Run, error)
	// RecentRuns returns the heads of each job's newest runs, limit of each at most, newest first; of those in one of the states where there are any.
	RecentRuns(ctx context.Context, jobs []JobID, status []RunStatus, limit int) ([]Run, error)
	// ActiveRuns are the heads of the job's runs that are pending or running, oldest first.
	ActiveRuns(ctx context.Context, job JobID) ([]Run, error)
	// AttemptCount is how many attempts the runs have made together.
	AttemptCount(ctx context.Context, runs []RunID) (int, error)
	// OtherReadyRuns says whether a run but this one has a queued task for the machine, or the workspace's agent, that may start now.
	OtherReadyRuns(ctx context.Context, run RunID, machine MachineID, now time.Time) (bool, error)
}

// AttemptTx reads and writes attempts.
type AttemptTx interface {
	Attempt(ctx context.Context, id AttemptID) (Attempt, error)
	// Attempts are those of the runs, oldest first.
	Attempts(ctx context.Context, runs []RunID) ([]Attempt, error)
	InsertAttempt(ctx context.Context, a Attempt) error
	// UpdateAttempt locks the attempt, applies fn and writes it.
	UpdateAttempt(ctx context.Context, id AttemptID, fn func(*Attempt) error) (Attempt, error)
	// RequestCancel notes that the attempts are to end, and returns them.
	RequestCancel(ctx context.Context, ids []AttemptID, at time.Time) ([]Attempt, error)
	// Evict is RequestCancel for another reason than their runs' cancellation.
	Evict(ctx context.Context, ids []AttemptID, reason string, at time.Time) ([]Attempt, error)
}

// Runs starts, watches, cancels and repairs runs, and moves them on as their attempts do.
type Runs struct {
	Store  Store
	System System
	Topics Topics
	Clock  Clock
	Tokens Tokens
	Outbox *Outbox
}

// Start starts a run of the job as it is now. Parameters replace the job's defaults of the same names.
func (r *Runs) Start(ctx context.Context, s Scope, job JobID, params []Variable, key Idempotency) (*Run, error) {
	if err := authorize(ctx, r.Store, s, RunStart); err != nil {
		return nil, err
	}
	request := struct {
		Job    JobID
		Params []Variable
	}{job, params}
	return r.once(ctx, s, key, RunStart, request, func(tx Tx) (*Run, error) {
		j, err := tx.LockJob(ctx, job)
		if err != nil {
			return nil, err
		}
		return r.start(ctx, tx, s, j, params, TriggerManual)
	})
}

// once makes a run go, or for a key used before finds the run that went then.
func (r *Runs) once(ctx context.Context, s Scope, key Idempotency, operation Action, request any, start func(Tx) (*Run, error)) (run *Run, err error) {
	err = r.Store.In(ctx, s, func(tx Tx) error {
		run = nil // of an earlier try
		id, err := once(ctx, tx, s, key, operation, request, func() (RunID, error) {
			if run, err = start(tx); err != nil {
				return "", err
			}
			return run.ID, nil
		})
		if err != nil || run != nil {
			return err
		}
		earlier, err := runHead(ctx, tx, id)
		run = &earlier
		return err
	})
	if err != nil {
		return nil, err
	}
	r.deliver(s, run)
	return run, nil
}

// start counts to the quota and inserts, under the lock of the quota's row. Locks are taken in the order job, quota, run, agent.
func (r *Runs) start(ctx context.Context, tx Tx, s Scope, job Job, params []Variable, t Trigger) (*Run, error) {
	quota, err := tx.LockQuota(ctx, MaxRunningRuns)
	if err != nil {
		return nil, err
	}
	if err := quota.require(); err != nil {
		return nil, err
	}
	return r.insert(ctx, tx, s, job, params, t)
}

// insert adds the run of a locked job. The caller has counted to the quota.
func (r *Runs) insert(ctx context.Context, tx Tx, s Scope, job Job, params []Variable, t Trigger) (*Run, error) {
	if job.empty() {
		return nil, Errorf(CodeConflict, "The job %q has neither a command nor tasks; give it one of them first.", job.Name)
	}
	values, err := mergeParameters(job.Parameters, params)
	if err != nil {
		return nil, err
	}
	run := newRun(job, s.actor, values, t, r.Clock.Now())
	held, err := r.held(ctx, tx, run)
	if err != nil {
		return nil, err
	}
	if held {
		run.Message = heldMessage
	} else {
		run.Admit(run.CreatedAt)
	}
	if err := tx.InsertRun(ctx, run); err != nil {
		return nil, err
	}
	tx.Notify(RunTopic(run.ID), RunsTopic(s.workspace))
	if err := audited(ctx, tx, s, RunStart, "run", run.ID); err != nil {
		return nil, err
	}
	return r.update(ctx, tx, s, run.ID, func(*Run) error { return nil })
}

const heldMessage = "Waits for an earlier run of the job to end."

// held says whether the job's own limit of concurrent runs, as the run froze it, keeps the run from starting: earlier ones are admitted first. It locks
// the job, so that two runs are not admitted to one place.
func (r *Runs) held(ctx context.Context, tx Tx, run *Run) (bool, error) {
	if run.MaxConcurrentRuns == 0 || run.Admitted {
		return false, nil
	}
	if _, err := tx.LockJob(ctx, run.JobID); err != nil && !IsCode(err, CodeNotFound) {
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
			return nil, Invalid("parameters", "The job declares no parameter %q.", g.Name)
		}
		values[i].Value = g.Value
	}
	return values, nil
}

// Tasks returns the tasks of the runs, in the order of their specs. A single command has none.
func (r *Runs) Tasks(ctx context.Context, s Scope, runs ...RunID) (tasks []Task, err error) {
	if err := authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		if len(runs) == 1 {
			if _, err := runHead(ctx, tx, runs[0]); err != nil {
				return err
			}
		}
		tasks, err = tx.Tasks(ctx, runs)
		return err
	})
	return slices.DeleteFunc(tasks, func(t Task) bool { return t.Key == "" }), err
}

// Attempts returns the attempts of the runs' tasks, oldest first.
func (r *Runs) Attempts(ctx context.Context, s Scope, runs ...RunID) (attempts []Attempt, err error) {
	if err := authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		attempts, err = tx.Attempts(ctx, runs)
		return err
	})
	return attempts, err
}

// Attempt returns the attempt with that number of the run's task, the latest for 0. The key of a single command is empty. No attempt at
// all yet is nil without an error.
func (r *Runs) Attempt(ctx context.Context, s Scope, run RunID, key string, number int) (*Attempt, error) {
	if err := authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	var found *Attempt
	err := r.Store.In(ctx, s, func(tx Tx) error {
		tasks, err := tx.Tasks(ctx, []RunID{run})
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return NotFound("run", run)
		}
		if !slices.ContainsFunc(tasks, func(t Task) bool { return t.Key == key }) {
			if key == "" {
				return Errorf(CodeNotFound, "The run has tasks, and each has a log of its own: /runs/%s/tasks/{key}/logs.", run)
			}
			return Errorf(CodeNotFound, "There is no task %q in this run.", key)
		}
		attempts, err := tx.Attempts(ctx, []RunID{run})
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
				return Errorf(CodeNotFound, "There is no attempt %d of this run.", number)
			}
			return Errorf(CodeNotFound, "There is no attempt %d of the task %q.", number, key)
		}
		return nil
	})
	return found, err
}

// Watch wakes the channel whenever the run or one of its tasks may have changed.
func (r *Runs) Watch(ctx context.Context, s Scope, id RunID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := r.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(RunTopic(id))
	return wake, stop, nil
}

// WatchAll wakes the channel whenever a run of the workspace may have changed.
func (r *Runs) WatchAll(ctx context.Context, s Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(RunsTopic(s.workspace))
	return wake, stop, nil
}

// Cancel ends the run's pending and queued tasks at once and asks for the end of those that run; until the last has ended, the run stays running.
func (r *Runs) Cancel(ctx context.Context, s Scope, id RunID) (*Run, error) {
	if err := authorize(ctx, r.Store, s, RunCancel); err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	var ending []Attempt
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) (err error) {
		var live []AttemptID
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
		return audited(ctx, tx, s, RunCancel, "run", id)
	})
	if err != nil {
		return nil, err
	}
	r.Outbox.cancel(ending)
	r.deliver(s, run)
	return run, nil
}

// Repair runs again, in the same run, what did not succeed. It counts to the quota like a new run.
func (r *Runs) Repair(ctx context.Context, s Scope, id RunID, key Idempotency) (*Run, error) {
	if err := authorize(ctx, r.Store, s, RunRepair); err != nil {
		return nil, err
	}
	return r.once(ctx, s, key, RunRepair, id, func(tx Tx) (*Run, error) { return r.repair(ctx, tx, s, id) })
}

func (r *Runs) repair(ctx context.Context, tx Tx, s Scope, id RunID) (*Run, error) {
	over, err := runHead(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	over.Admitted = false
	held, err := r.held(ctx, tx, &over)
	if err != nil {
		return nil, err
	}
	quota, err := tx.LockQuota(ctx, MaxRunningRuns)
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
		if held {
			run.Message = heldMessage
		} else {
			run.Admit(r.Clock.Now())
		}
		return quota.require()
	})
	if err != nil {
		return nil, err
	}
	return run, audited(ctx, tx, s, RunRepair, "run", id)
}
