package tracking

import (
	"context"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
)

// Runs manages the tracking runs of a workspace, and what they log.
type Runs struct {
	Store  domain.Store[Tx]
	Topics domain.Topics
	Clock  domain.Clock

	turns  turns
	shares shares
}

// NewRun describes the run to create.
type NewRun struct {
	Experiment domain.ExperimentID // empty stands for Default
	Name       string              // empty for an invented one
	User       string
	StartedAt  *time.Time // nil for now
	Tags       []Pair
}

func (n NewRun) run(s domain.Scope, now time.Time) (Run, error) {
	run := Run{
		ID: newRunID(), Experiment: n.Experiment, Name: n.Name, State: Running, User: n.User,
		CreatedBy: s.Actor(), CreatedAt: now, StartedAt: now,
	}
	if n.Experiment == "" {
		run.Experiment = DefaultExperiment
	}
	if n.StartedAt != nil {
		run.StartedAt = *n.StartedAt
	}
	run.StartedAt = run.StartedAt.Truncate(time.Millisecond)
	if err := validTime("start_time", run.StartedAt); err != nil {
		return Run{}, err
	}
	if err := domain.ValidText("user_id", n.User, maxUser); err != nil {
		return Run{}, err
	}
	tags, err := validPairs("Tag", n.Tags, maxTag)
	if err != nil {
		return Run{}, err
	}
	return run, run.nameFrom(tags)
}

// nameFrom sets the tags, and makes the name and the tag mlflow.runName the same.
func (r *Run) nameFrom(tags []Pair) error {
	i := slices.IndexFunc(tags, func(t Pair) bool { return t.Key == runNameTag })
	switch {
	case i >= 0 && r.Name != "" && tags[i].Value != r.Name:
		return domain.Invalid("run_name", "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values (run_name='%s', mlflow.runName='%s').", r.Name, tags[i].Value)
	case i >= 0 && tags[i].Value != "":
		r.Name = tags[i].Value
	case r.Name == "":
		r.Name = inventName()
	}
	if err := domain.ValidText("run_name", r.Name, maxRunName); err != nil {
		return err
	}
	if i >= 0 {
		tags[i].Value = r.Name
	} else {
		tags = append(tags, Pair{runNameTag, r.Name})
	}
	r.Tags = tags
	return nil
}

// Create starts a run. A credential of a job's task links it to the task; nothing else does. It
// returns CodeConflict for a deleted experiment.
func (r *Runs) Create(ctx context.Context, s domain.Scope, n NewRun, key domain.Idempotency) (run Run, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunCreate); err != nil {
		return Run{}, err
	}
	made, err := n.run(s, r.Clock.Now())
	if err != nil {
		return Run{}, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, domain.TrackingRunCreate, n, func() (domain.TrackingRunID, error) {
			return made.ID, insertRun(ctx, tx, s, made)
		})
		if err != nil {
			return err
		}
		run, err = whole(ctx, tx, "", id)
		return err
	})
	return run, err
}

func insertRun(ctx context.Context, tx Tx, s domain.Scope, run Run) error {
	x, err := tx.Experiment(ctx, run.Experiment)
	if err != nil {
		return err
	}
	if x.DeletedAt != nil {
		return experimentNotActive(x)
	}
	if s.Actor().Kind == domain.ActorRun {
		a, err := tx.Attempt(ctx, domain.AttemptID(s.Actor().ID))
		if err != nil {
			return err
		}
		run.JobRun, run.TaskKey, run.Attempt = a.RunID, a.TaskKey, a.ID
		run.Tags = append(run.Tags, Pair{ReservedTags + "run_id", string(a.RunID)}, Pair{ReservedTags + "task", a.TaskKey}, Pair{ReservedTags + "attempt", string(a.ID)})
	}
	if run.Number, err = tx.InsertTrackingRun(ctx, run); err != nil {
		return err
	}
	if err := tx.SetTags(ctx, run.Number, run.Tags); err != nil {
		return err
	}
	notify(tx, s, run)
	return domain.Audited(ctx, tx, s, domain.TrackingRunCreate, "tracking_run", run.ID)
}

// notify wakes those who follow the run, its experiment's runs, or its job's run.
func notify(tx Tx, s domain.Scope, run Run) {
	tx.Notify(domain.TrackingRunTopic(run.ID), domain.TrackingRunsTopic(s.Workspace()))
	if run.JobRun != "" {
		tx.Notify(domain.RunTopic(run.JobRun))
	}
}

// runOf returns the run without what it logged. A run of another experiment than x is not found; an
// empty x stands for any.
func runOf(ctx context.Context, tx Tx, x domain.ExperimentID, id domain.TrackingRunID) (Run, error) {
	if x != "" {
		if _, err := tx.Experiment(ctx, x); err != nil {
			return Run{}, err
		}
	}
	run, err := tx.TrackingRun(ctx, id)
	if err == nil && x != "" && run.Experiment != x {
		err = domain.Errorf(domain.CodeNotFound, "The experiment %s has no run %q.", x, id)
	}
	return run, err
}

// activeRun is runOf for a run that is not deleted.
func activeRun(ctx context.Context, tx Tx, x domain.ExperimentID, id domain.TrackingRunID) (Run, error) {
	run, err := runOf(ctx, tx, x, id)
	if err == nil {
		err = run.active()
	}
	return run, err
}

func (r Run) active() error {
	if r.DeletedAt != nil {
		return domain.Errorf(domain.CodeConflict, "The run %s must be in the 'active' state. It is deleted; restore it first.", r.ID)
	}
	return nil
}

// whole is runOf with what the run logged.
func whole(ctx context.Context, tx Tx, x domain.ExperimentID, id domain.TrackingRunID) (Run, error) {
	run, err := runOf(ctx, tx, x, id)
	if err != nil {
		return Run{}, err
	}
	one := []Run{run}
	_, err = tx.FillTrackingRuns(ctx, one, searchBytes)
	return one[0], err
}

// Get returns one run with what it logged, also a deleted one. x is its experiment, or empty for
// any.
func (r *Runs) Get(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID) (run Run, err error) {
	err = r.read(ctx, s, func(tx Tx) (err error) {
		run, err = whole(ctx, tx, x, id)
		return err
	})
	return run, err
}

func (r *Runs) read(ctx context.Context, s domain.Scope, fn func(Tx) error) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunRead); err != nil {
		return err
	}
	return r.Store.In(ctx, s, fn)
}

// Change changes the fields of a run that are not nil.
type Change struct {
	Name       *string
	State      *State
	FinishedAt *time.Time // with a final state; nil for now
}

func (c Change) validate() error {
	if c.Name != nil {
		if *c.Name == "" {
			return errNoName()
		}
		if err := domain.ValidText("run_name", *c.Name, maxRunName); err != nil {
			return err
		}
	}
	if c.State != nil && !slices.Contains(States, *c.State) {
		return domain.Invalid("status", "%q is not a state of a run; use scheduled, running, finished, failed or killed.", *c.State)
	}
	if c.FinishedAt != nil {
		return validTime("end_time", *c.FinishedAt)
	}
	return nil
}

func errNoName() error {
	return domain.Invalid("run_name", "The name of a run must not be empty.")
}

// apply changes the run. A run that is over may run again, to be resumed.
func (c Change) apply(run *Run, now time.Time) {
	domain.SetIfGiven(&run.Name, c.Name)
	domain.SetIfGiven(&run.State, c.State)
	switch {
	case !run.State.Final():
		run.FinishedAt = nil
	case c.FinishedAt != nil:
		at := c.FinishedAt.Truncate(time.Millisecond)
		run.FinishedAt = &at
	case run.FinishedAt == nil:
		at := now.Truncate(time.Millisecond)
		run.FinishedAt = &at
	}
}

// Update changes an active run. A change to a final state is audited.
func (r *Runs) Update(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, c Change) (run Run, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunUpdate); err != nil {
		return Run{}, err
	}
	if err := c.validate(); err != nil {
		return Run{}, err
	}
	now := r.Clock.Now()
	err = r.Store.In(ctx, s, func(tx Tx) error {
		before, err := activeRun(ctx, tx, x, id)
		if err != nil {
			return err
		}
		run, err = tx.UpdateTrackingRun(ctx, id, func(run *Run) error {
			before = *run
			c.apply(run, now)
			return run.active()
		})
		if err != nil {
			return err
		}
		if c.Name != nil {
			if err := tx.SetTags(ctx, run.Number, []Pair{{runNameTag, run.Name}}); err != nil {
				return err
			}
		}
		notify(tx, s, run)
		if !run.State.Final() || before.State == run.State {
			return nil
		}
		return domain.Audited(ctx, tx, s, domain.TrackingRunUpdate, "tracking_run", id)
	})
	return run, err
}

// Delete marks the run deleted. After 30 days it is erased. It returns CodeConflict for a deleted
// run.
func (r *Runs) Delete(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID) error {
	now := r.Clock.Now()
	_, err := r.bury(ctx, s, domain.TrackingRunDelete, x, id, func(run *Run) error {
		if err := run.active(); err != nil {
			return err
		}
		run.DeletedAt = &now
		return nil
	})
	return err
}

// Restore brings a deleted run back. It returns CodeConflict for a run that is not deleted, or whose
// experiment is.
func (r *Runs) Restore(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID) (Run, error) {
	return r.bury(ctx, s, domain.TrackingRunRestore, x, id, func(run *Run) error {
		if run.DeletedAt == nil {
			return domain.Errorf(domain.CodeConflict, "The run %s must be in the 'deleted' state.", id)
		}
		run.DeletedAt = nil
		return nil
	})
}

func (r *Runs) bury(ctx context.Context, s domain.Scope, a domain.Action, x domain.ExperimentID, id domain.TrackingRunID, fn func(*Run) error) (run Run, err error) {
	if err := domain.Authorize(ctx, r.Store, s, a); err != nil {
		return Run{}, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) error {
		run, err = runOf(ctx, tx, x, id)
		if err != nil {
			return err
		}
		experiment, err := tx.Experiment(ctx, run.Experiment)
		if err != nil {
			return err
		}
		if experiment.DeletedAt != nil {
			return experimentNotActive(experiment)
		}
		if run, err = tx.UpdateTrackingRun(ctx, id, fn); err != nil {
			return err
		}
		notify(tx, s, run)
		return domain.Audited(ctx, tx, s, a, "tracking_run", id)
	})
	return run, err
}

// logPairs stores the batch's parameters and tags.
func logPairs(ctx context.Context, tx Tx, s domain.Scope, run Run, b Batch) error {
	if len(b.Parameters) > 0 {
		if err := logParameters(ctx, tx, run, b.Parameters); err != nil {
			return err
		}
	}
	if len(b.Tags) == 0 {
		return nil
	}
	if err := tx.SetTags(ctx, run.Number, b.Tags); err != nil {
		return err
	}
	i := slices.IndexFunc(b.Tags, func(t Pair) bool { return t.Key == runNameTag })
	if i < 0 {
		return nil
	}
	if b.Tags[i].Value == "" {
		return errNoName()
	}
	run, err := tx.UpdateTrackingRun(ctx, run.ID, func(run *Run) error {
		run.Name = b.Tags[i].Value
		return nil
	})
	notify(tx, s, run)
	return err
}

func logParameters(ctx context.Context, tx Tx, run Run, parameters []Pair) error {
	different, err := tx.InsertParameters(ctx, run.Number, parameters)
	if err != nil || len(different) == 0 {
		return err
	}
	was := different[0]
	i := slices.IndexFunc(parameters, func(p Pair) bool { return p.Key == was.Key })
	return domain.Errorf(domain.CodeConflict, "Changing param values is not allowed. Param with key='%s' was already logged with value='%s' for run ID='%s'. Attempted logging new value '%s'.",
		was.Key, was.Value, run.ID, parameters[i].Value)
}

// DeleteTag removes a tag of an active run. It returns CodeNotFound if there is none.
func (r *Runs) DeleteTag(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, key string) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunLog); err != nil {
		return err
	}
	if _, err := validPairs("Tag", []Pair{{Key: key}}, maxTag); err != nil {
		return err
	}
	return r.Store.In(ctx, s, func(tx Tx) error {
		run, err := activeRun(ctx, tx, x, id)
		if err != nil {
			return err
		}
		found, err := tx.DeleteTag(ctx, run.Number, key)
		if err == nil && !found {
			err = noTag(key)
		}
		notify(tx, s, run)
		return err
	})
}

// LogInputs adds datasets to an active run.
func (r *Runs) LogInputs(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, inputs []Input) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunLog); err != nil {
		return err
	}
	if err := validInputs(inputs); err != nil {
		return err
	}
	return r.Store.In(ctx, s, func(tx Tx) error {
		run, err := activeRun(ctx, tx, x, id)
		if err != nil {
			return err
		}
		notify(tx, s, run)
		return tx.InsertInputs(ctx, run, inputs)
	})
}

// Used is a dataset that runs of an experiment used.
type Used struct {
	Experiment domain.ExperimentID
	Name       string
	Digest     string
	Context    string // the tag mlflow.data.context; may be empty
}

// maxUsed bounds a list of used datasets.
const maxUsed = 1_000

// Datasets returns what the experiments' runs used, each once per context, at most 1,000 in all.
func (r *Runs) Datasets(ctx context.Context, s domain.Scope, ids []domain.ExperimentID) (used []Used, err error) {
	err = r.turns.do(ctx, s, func(ctx context.Context) error {
		return r.read(ctx, s, func(tx Tx) (err error) {
			used, err = tx.UsedDatasets(ctx, ids, maxUsed)
			return err
		})
	})
	return used, err
}

// ofJobRun is how many tracking runs of one job's run are listed with it.
const ofJobRun = 100

// OfJobRuns returns the tracking runs that each of the job's runs made, without what they logged:
// oldest first, at most 100 of each.
func (r *Runs) OfJobRuns(ctx context.Context, s domain.Scope, ids []domain.RunID) (found []Run, err error) {
	err = r.read(ctx, s, func(tx Tx) (err error) {
		found, err = tx.TrackingRunsOfJob(ctx, ids, ofJobRun)
		return err
	})
	return found, err
}

// Fill returns the runs with what they logged. It returns CodeTooLarge if that is more than 8 MiB.
func (r *Runs) Fill(ctx context.Context, s domain.Scope, runs []Run) ([]Run, error) {
	runs = slices.Clone(runs)
	err := r.read(ctx, s, func(tx Tx) error {
		whole, err := tx.FillTrackingRuns(ctx, runs, searchBytes)
		if err == nil && whole < len(runs) {
			err = domain.Errorf(domain.CodeTooLarge, "These %d tracking runs logged more than %d bytes; ask for fewer runs at once.", len(runs), searchBytes)
		}
		return err
	})
	return runs, err
}

// ChangedSince returns the experiment's runs that changed since the position, without what they
// logged.
func (r *Runs) ChangedSince(ctx context.Context, s domain.Scope, x domain.ExperimentID, p domain.Position) (domain.Changes[Run], error) {
	return domain.ChangedSince(ctx, r.Store, s, domain.TrackingRunRead, p, func(tx Tx, ctx context.Context, p domain.Position) ([]Run, bool, error) {
		return tx.ChangedTrackingRuns(ctx, x, p)
	})
}

// Follow returns a follower of the experiment's runs, without what they logged.
func (r *Runs) Follow(s domain.Scope, x domain.ExperimentID) *domain.Follower[Run] {
	read := func(ctx context.Context, p domain.Position) (domain.Changes[Run], error) {
		return r.ChangedSince(ctx, s, x, p)
	}
	return domain.Follow(r.Clock.Now(), read, nil, nil)
}
