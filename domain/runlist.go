package domain

import (
	"context"
	"slices"
)

// pageBytes bounds the specs or parameters on one page of a list, in stored bytes. A page that
// would exceed it ends earlier.
const pageBytes = 8 << 20

// runHead returns the run without spec, parameters and tasks.
func runHead(ctx context.Context, tx JobModTx, id RunID) (Run, error) {
	runs, err := tx.RunsByID(ctx, []RunID{id})
	if err == nil && len(runs) == 0 {
		err = NotFound("run", id)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

// fillParameters reads the runs' parameters.
func fillParameters(ctx context.Context, tx JobModTx, runs []Run) error {
	ids := make([]RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	parameters, err := tx.RunParameters(ctx, ids)
	for i := range runs {
		runs[i].Parameters = parameters[runs[i].ID]
	}
	return err
}

// Get returns one run with its parameters, without its spec and tasks.
func (r *Runs) Get(ctx context.Context, s Scope, id RunID) (Run, error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return Run{}, err
	}
	one := make([]Run, 1)
	err := r.Store.In(ctx, s, func(tx JobModTx) (err error) {
		if one[0], err = runHead(ctx, tx, id); err != nil {
			return err
		}
		return fillParameters(ctx, tx, one)
	})
	return one[0], err
}

// ByID returns the runs with the ids that exist in the workspace, without spec, parameters and
// tasks.
func (r *Runs) ByID(ctx context.Context, s Scope, ids []RunID) (runs []Run, err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) (err error) {
		runs, err = tx.RunsByID(ctx, ids)
		return err
	})
	return runs, err
}

// List returns runs with their parameters, newest first. It shortens a page whose parameters would
// exceed 8 MiB.
func (r *Runs) List(ctx context.Context, s Scope, f RunFilter, p Page) (List[Run], error) {
	return r.list(ctx, s, f, p, func(tx JobModTx, l *List[Run]) error {
		l.Fit(pageBytes, func(r Run) int { return r.ParametersSize })
		return fillParameters(ctx, tx, l.Items)
	})
}

// Heads is List without parameters.
func (r *Runs) Heads(ctx context.Context, s Scope, f RunFilter, p Page) (List[Run], error) {
	return r.list(ctx, s, f, p, func(JobModTx, *List[Run]) error { return nil })
}

// list reads a page and calls fill to complete it.
func (r *Runs) list(ctx context.Context, s Scope, f RunFilter, p Page, fill func(JobModTx, *List[Run]) error) (l List[Run], err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return List[Run]{}, err
	}
	if err := f.validate(); err != nil {
		return List[Run]{}, err
	}
	list := f.list()
	before, limit, err := p.After(list)
	if err != nil {
		return List[Run]{}, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) error {
		rows, err := tx.Runs(ctx, f, RunID(before), limit+1)
		if err != nil {
			return err
		}
		l = PageOf(list, rows, limit, func(r Run) string { return string(r.ID) })
		return fill(tx, &l)
	})
	return l, err
}

// list returns the list's name; nil and empty Status are the same.
func (f RunFilter) list() string {
	if len(f.Status) == 0 {
		f.Status = nil
	}
	return ListName("runs", f)
}

func (f RunFilter) validate() error {
	for _, status := range f.Status {
		if !slices.Contains(RunStatuses, status) {
			return Invalid("status", "%q is not a state of a run; use pending, running, success, failed or cancelled.", status)
		}
	}
	return nil
}

// Recent returns the first page of each job's runs, as Heads with a filter for that job.
func (r *Runs) Recent(ctx context.Context, s Scope, jobs []JobID, status []RunStatus, limit int) (map[JobID]List[Run], error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	if err := (RunFilter{Status: status}).validate(); err != nil {
		return nil, err
	}
	if _, _, err := (Page{Limit: limit}).After(""); err != nil {
		return nil, err
	}
	byJob := make(map[JobID][]Run, len(jobs))
	err := r.Store.In(ctx, s, func(tx JobModTx) error {
		clear(byJob) // left by an earlier try of the transaction
		rows, err := tx.RecentRuns(ctx, jobs, status, limit+1)
		for _, run := range rows {
			byJob[run.JobID] = append(byJob[run.JobID], run)
		}
		return err
	})
	lists := make(map[JobID]List[Run], len(jobs))
	for _, job := range jobs {
		list := RunFilter{JobID: job, Status: status}.list()
		lists[job] = PageOf(list, byJob[job], limit, func(r Run) string { return string(r.ID) })
	}
	return lists, err
}

// Latest returns each job's newest run, without spec, parameters and tasks.
func (r *Runs) Latest(ctx context.Context, s Scope, jobs []JobID) (runs []Run, err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) (err error) {
		runs, err = tx.LatestRuns(ctx, jobs)
		return err
	})
	return runs, err
}

// Specs returns the runs' frozen specs. Check their SpecSize before requesting many.
func (r *Runs) Specs(ctx context.Context, s Scope, ids []RunID) (specs map[RunID]JobSpec, err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) (err error) {
		specs, err = tx.RunSpecs(ctx, ids)
		return err
	})
	return specs, err
}

// Parameters returns the runs' parameters. Check their ParametersSize before requesting many.
func (r *Runs) Parameters(ctx context.Context, s Scope, ids []RunID) (parameters map[RunID][]Variable, err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) (err error) {
		parameters, err = tx.RunParameters(ctx, ids)
		return err
	})
	return parameters, err
}

// AttemptsWithin is Attempts with a limit. If the runs together have more attempts, it returns
// CodeTooLarge.
func (r *Runs) AttemptsWithin(ctx context.Context, s Scope, limit int, runs ...RunID) (attempts []Attempt, err error) {
	if err := Authorize(ctx, r.Store, s, RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx JobModTx) error {
		n, err := tx.AttemptCount(ctx, runs)
		if err != nil {
			return err
		}
		if n > limit {
			return Errorf(CodeTooLarge, "The runs have made %d attempts and %d can be shown here; ask for fewer runs at once.", n, limit)
		}
		attempts, err = tx.Attempts(ctx, runs)
		return err
	})
	return attempts, err
}
