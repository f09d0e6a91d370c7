package tracking

import (
	"context"
	"slices"

	"github.com/millpond/millpond/domain"
)

// Experiments manages the experiments of a workspace.
type Experiments struct {
	Store domain.Store[Tx]
	Clock domain.Clock

	turns turns
}

// Create makes an experiment. It returns CodeConflict if the name is in use, also by a deleted
// experiment.
func (x *Experiments) Create(ctx context.Context, s domain.Scope, n NewExperiment, key domain.Idempotency) (e Experiment, err error) {
	if err := domain.Authorize(ctx, x.Store, s, domain.ExperimentCreate); err != nil {
		return Experiment{}, err
	}
	if err := n.validate(); err != nil {
		return Experiment{}, err
	}
	now := x.Clock.Now()
	err = x.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, domain.ExperimentCreate, n, func() (domain.ExperimentID, error) {
			id, err := tx.InsertExperiment(ctx, Experiment{Name: n.Name, Location: n.Location, CreatedBy: s.Actor(), CreatedAt: now, UpdatedAt: now})
			if err != nil {
				return "", err
			}
			if err := tx.SetExperimentTags(ctx, id, n.Tags); err != nil {
				return "", err
			}
			tx.Notify(domain.ExperimentsTopic(s.Workspace()))
			return id, domain.Audited(ctx, tx, s, domain.ExperimentCreate, "experiment", id)
		})
		if err != nil {
			return err
		}
		e, err = tx.Experiment(ctx, id)
		return err
	})
	return e, err
}

// Get returns one experiment, also a deleted one.
func (x *Experiments) Get(ctx context.Context, s domain.Scope, id domain.ExperimentID) (Experiment, error) {
	return x.read(ctx, s, func(tx Tx) (Experiment, error) { return tx.Experiment(ctx, id) })
}

// ByName returns the experiment with the name, also a deleted one.
func (x *Experiments) ByName(ctx context.Context, s domain.Scope, name string) (Experiment, error) {
	return x.read(ctx, s, func(tx Tx) (Experiment, error) { return tx.ExperimentByName(ctx, name) })
}

// ByID returns those of the experiments that exist, also deleted ones.
func (x *Experiments) ByID(ctx context.Context, s domain.Scope, ids []domain.ExperimentID) (found []Experiment, err error) {
	if err := domain.Authorize(ctx, x.Store, s, domain.ExperimentRead); err != nil {
		return nil, err
	}
	err = x.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = tx.ExperimentsByID(ctx, ids)
		return err
	})
	return found, err
}

func (x *Experiments) read(ctx context.Context, s domain.Scope, get func(Tx) (Experiment, error)) (e Experiment, err error) {
	if err := domain.Authorize(ctx, x.Store, s, domain.ExperimentRead); err != nil {
		return Experiment{}, err
	}
	err = x.Store.In(ctx, s, func(tx Tx) (err error) {
		e, err = get(tx)
		return err
	})
	return e, err
}

// Search returns a page of the experiments that match. A page whose tags would exceed searchBytes
// ends earlier.
func (x *Experiments) Search(ctx context.Context, s domain.Scope, q ExperimentSearch) (l domain.List[Experiment], err error) {
	if err := domain.Authorize(ctx, x.Store, s, domain.ExperimentRead); err != nil {
		return l, err
	}
	query, err := q.query()
	if err != nil {
		return l, err
	}
	err = x.turns.do(ctx, s, func(ctx context.Context) error {
		return x.Store.In(ctx, s, func(tx Tx) error {
			items, keys, cut, err := tx.Experiments(ctx, query, searchBytes)
			l = page(items, keys, query, cut, func(e Experiment) domain.ExperimentID { return e.ID })
			return err
		})
	})
	return l, err
}

func (q ExperimentSearch) query() (Query, error) {
	where, err := ParseExperimentFilter(q.Filter)
	if err != nil {
		return Query{}, err
	}
	order, err := ParseExperimentOrder(q.Order)
	if err != nil {
		return Query{}, err
	}
	if len(order) == 0 {
		order = []Order{{Entity: Attribute, Key: "creation_time", Descending: true}}
	}
	query, cursor := Query{Where: where, Order: order, View: q.View, Limit: q.Limit}, q.Cursor
	q.Limit, q.Cursor = 0, ""
	return newQuery("experiments", q, query, cursor, MaxExperimentsPage)
}

// Update changes the name. It returns CodeConflict if the name is in use, or the experiment is
// deleted.
func (x *Experiments) Update(ctx context.Context, s domain.Scope, id domain.ExperimentID, name *string) (Experiment, error) {
	if name != nil {
		if err := validExperimentName(*name); err != nil {
			return Experiment{}, err
		}
	}
	return x.change(ctx, s, domain.ExperimentUpdate, id, func(e *Experiment) error {
		if e.DeletedAt != nil {
			return domain.Errorf(domain.CodeConflict, "Cannot rename a non-active experiment. Restore it first.")
		}
		domain.SetIfGiven(&e.Name, name)
		return nil
	})
}

// Delete marks the experiment deleted, and with it its runs. After 30 days they are erased. It
// returns CodeConflict for a deleted experiment and for Default.
func (x *Experiments) Delete(ctx context.Context, s domain.Scope, id domain.ExperimentID) error {
	now := x.Clock.Now()
	_, err := x.change(ctx, s, domain.ExperimentDelete, id, func(e *Experiment) error {
		switch {
		case id == DefaultExperiment:
			return domain.Errorf(domain.CodeConflict, "The experiment Default cannot be deleted; every workspace has it.")
		case e.DeletedAt != nil:
			return experimentNotActive(*e)
		}
		e.DeletedAt = &now
		return nil
	})
	return err
}

// Restore brings a deleted experiment back, with the runs that were not deleted before it.
func (x *Experiments) Restore(ctx context.Context, s domain.Scope, id domain.ExperimentID) (Experiment, error) {
	return x.change(ctx, s, domain.ExperimentRestore, id, func(e *Experiment) error {
		if e.DeletedAt == nil {
			return domain.Errorf(domain.CodeConflict, "The experiment %s is not deleted.", id)
		}
		e.DeletedAt = nil
		return nil
	})
}

// change applies fn to the experiment, with an audit row.
func (x *Experiments) change(ctx context.Context, s domain.Scope, a domain.Action, id domain.ExperimentID, fn func(*Experiment) error) (e Experiment, err error) {
	if err := domain.Authorize(ctx, x.Store, s, a); err != nil {
		return Experiment{}, err
	}
	now := x.Clock.Now()
	err = x.Store.In(ctx, s, func(tx Tx) (err error) {
		e, err = tx.UpdateExperiment(ctx, id, func(e *Experiment) error {
			e.UpdatedAt = now
			return fn(e)
		})
		if err != nil {
			return err
		}
		tx.Notify(domain.ExperimentsTopic(s.Workspace()))
		return domain.Audited(ctx, tx, s, a, "experiment", id)
	})
	return e, err
}

// SetTags sets tags of an active experiment.
func (x *Experiments) SetTags(ctx context.Context, s domain.Scope, id domain.ExperimentID, tags []Pair) error {
	if err := validExperimentTags(tags); err != nil {
		return err
	}
	return x.retag(ctx, s, id, func(tx Tx) error { return tx.SetExperimentTags(ctx, id, tags) })
}

// DeleteTag removes a tag of an active experiment. It returns CodeNotFound if there is none.
func (x *Experiments) DeleteTag(ctx context.Context, s domain.Scope, id domain.ExperimentID, key string) error {
	return x.retag(ctx, s, id, func(tx Tx) error {
		found, err := tx.DeleteExperimentTag(ctx, id, key)
		if err == nil && !found {
			err = noTag(key)
		}
		return err
	})
}

func (x *Experiments) retag(ctx context.Context, s domain.Scope, id domain.ExperimentID, fn func(Tx) error) error {
	if err := domain.Authorize(ctx, x.Store, s, domain.ExperimentTag); err != nil {
		return err
	}
	now := x.Clock.Now()
	return x.Store.In(ctx, s, func(tx Tx) error {
		_, err := tx.UpdateExperiment(ctx, id, func(e *Experiment) error {
			if e.DeletedAt != nil {
				return experimentNotActive(*e)
			}
			e.UpdatedAt = now
			return fn(tx)
		})
		tx.Notify(domain.ExperimentsTopic(s.Workspace()))
		return err
	})
}

func experimentNotActive(e Experiment) error {
	return domain.Errorf(domain.CodeConflict, "The experiment %s must be in the 'active' state. It is deleted; restore it first.", e.ID)
}

// noTag names its field, so that it differs from the error of a missing experiment or run.
func noTag(key string) error {
	err := domain.Errorf(domain.CodeNotFound, "No tag with name: %s", key)
	err.Field = "key"
	return err
}

// validView returns the view; empty stands for active.
func validView(v View) (View, error) {
	if v == "" {
		return ViewActive, nil
	}
	if !slices.Contains(Views, v) {
		return "", domain.Invalid("view", "%q is not a view; use active, deleted or all.", v)
	}
	return v, nil
}
