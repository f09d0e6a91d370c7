package job

import (
	"context"
	"slices"

	"github.com/millpond/millpond/domain"
)

// pageBytes bounds the specs or parameters on one page of a list, in stored bytes. A page that
// would exceed it ends earlier.
const pageBytes = 8 << 20

// RunHead returns the run without spec, parameters and tasks.
func RunHead(ctx context.Context, tx Tx, id domain.RunID) (Run, error) {
	runs, err := tx.RunsByID(ctx, []domain.RunID{id})
	if err == nil && len(runs) == 0 {
		err = domain.NotFound("run", id)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

// fillParameters reads the runs' parameters.
func fillParameters(ctx context.Context, tx Tx, runs []Run) error {
	ids := make([]domain.RunID, len(runs))
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
func (r *Runs) Get(ctx context.Context, s domain.Scope, id domain.RunID) (Run, error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return Run{}, err
	}
	one := make([]Run, 1)
	err := r.Store.In(ctx, s, func(tx Tx) (err error) {
		if one[0], err = RunHead(ctx, tx, id); err != nil {
			return err
		}
		return fillParameters(ctx, tx, one)
	})
	return one[0], err
}

// ByID returns the runs with the ids that exist in the workspace, without spec, parameters and
// tasks.
func (r *Runs) ByID(ctx context.Context, s domain.Scope, ids []domain.RunID) (runs []Run, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		runs, err = tx.RunsByID(ctx, ids)
		return err
	})
	return runs, err
}

// List returns runs with their parameters, newest first. It shortens a page whose parameters would
// exceed 8 MiB.
func (r *Runs) List(ctx context.Context, s domain.Scope, f RunFilter, p domain.Page) (domain.List[Run], error) {
	return r.list(ctx, s, f, p, func(tx Tx, l *domain.List[Run]) error {
		l.Fit(pageBytes, func(r Run) int { return r.ParametersSize })
		return fillParameters(ctx, tx, l.Items)
	})
}

// Heads is List without parameters.
func (r *Runs) Heads(ctx context.Context, s domain.Scope, f RunFilter, p domain.Page) (domain.List[Run], error) {
	return r.list(ctx, s, f, p, func(Tx, *domain.List[Run]) error { return nil })
}

// list reads a page and calls fill to complete it.
func (r *Runs) list(ctx context.Context, s domain.Scope, f RunFilter, p domain.Page, fill func(Tx, *domain.List[Run]) error) (l domain.List[Run], err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return domain.List[Run]{}, err
	}
	if err := f.validate(); err != nil {
		return domain.List[Run]{}, err
	}
	list := f.list()
	before, limit, err := p.After(list)
	if err != nil {
		return domain.List[Run]{}, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) error {
		rows, err := tx.Runs(ctx, f, domain.RunID(before), limit+1)
		if err != nil {
			return err
		}
		l = domain.PageOf(list, rows, limit, func(r Run) string { return string(r.ID) })
		return fill(tx, &l)
	})
	return l, err
}

// ChangedSince returns the heads of runs that changed since the position.
func (r *Runs) ChangedSince(ctx context.Context, s domain.Scope, p domain.Position) (domain.Changes[Run], error) {
	return domain.ChangedSince(ctx, r.Store, s, domain.RunRead, p, Tx.ChangedRuns)
}

// Follow returns a follower of the matching runs' heads.
func (r *Runs) Follow(s domain.Scope, f RunFilter) *domain.Follower[Run] {
	read := func(ctx context.Context, p domain.Position) (domain.Changes[Run], error) {
		return r.ChangedSince(ctx, s, p)
	}
	leaves := func(r Run) bool { return len(f.Status) > 0 && r.Status != RunSuccess } // other final states can be repaired
	return domain.Follow(r.Clock.Now(), read, f.matches, leaves)
}

func (f RunFilter) matches(r Run) bool {
	return (f.JobID == "" || r.JobID == f.JobID) && (len(f.Status) == 0 || slices.Contains(f.Status, r.Status))
}

// list returns the list's name; nil and empty Status are the same.
func (f RunFilter) list() string {
	if len(f.Status) == 0 {
		f.Status = nil
	}
	return domain.ListName("runs", f)
}

func (f RunFilter) validate() error {
	for _, status := range f.Status {
		if !slices.Contains(RunStatuses, status) {
			return domain.Invalid("status", "%q is not a state of a run; use pending, running, success, failed or cancelled.", status)
		}
	}
	return nil
}

// Recent returns the first page of each job's runs, as Heads with a filter for that job.
func (r *Runs) Recent(ctx context.Context, s domain.Scope, jobs []domain.JobID, status []RunStatus, limit int) (map[domain.JobID]domain.List[Run], error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	if err := (RunFilter{Status: status}).validate(); err != nil {
		return nil, err
	}
	if _, _, err := (domain.Page{Limit: limit}).After(""); err != nil {
		return nil, err
	}
	byJob := make(map[domain.JobID][]Run, len(jobs))
	err := r.Store.In(ctx, s, func(tx Tx) error {
		clear(byJob) // left by an earlier try of the transaction
		rows, err := tx.RecentRuns(ctx, jobs, status, limit+1)
		for _, run := range rows {
			byJob[run.JobID] = append(byJob[run.JobID], run)
		}
		return err
	})
	lists := make(map[domain.JobID]domain.List[Run], len(jobs))
	for _, job := range jobs {
		list := RunFilter{JobID: job, Status: status}.list()
		lists[job] = domain.PageOf(list, byJob[job], limit, func(r Run) string { return string(r.ID) })
	}
	return lists, err
}

// Latest returns each job's newest run, without spec, parameters and tasks.
func (r *Runs) Latest(ctx context.Context, s domain.Scope, jobs []domain.JobID) (runs []Run, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		runs, err = tx.LatestRuns(ctx, jobs)
		return err
	})
	return runs, err
}

// Specs returns the runs' frozen specs. Check their SpecSize before requesting many.
func (r *Runs) Specs(ctx context.Context, s domain.Scope, ids []domain.RunID) (specs map[domain.RunID]Spec, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		specs, err = tx.RunSpecs(ctx, ids)
		return err
	})
	return specs, err
}

// Parameters returns the runs' parameters. Check their ParametersSize before requesting many.
func (r *Runs) Parameters(ctx context.Context, s domain.Scope, ids []domain.RunID) (parameters map[domain.RunID][]Variable, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) (err error) {
		parameters, err = tx.RunParameters(ctx, ids)
		return err
	})
	return parameters, err
}

// AttemptsWithin is Attempts with a limit. If the runs together have more attempts, it returns
// CodeTooLarge.
func (r *Runs) AttemptsWithin(ctx context.Context, s domain.Scope, limit int, runs ...domain.RunID) (attempts []Attempt, err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	err = r.Store.In(ctx, s, func(tx Tx) error {
		n, err := tx.AttemptCount(ctx, runs)
		if err != nil {
			return err
		}
		if n > limit {
			return domain.Errorf(domain.CodeTooLarge, "The runs have made %d attempts and %d can be shown here; ask for fewer runs at once.", n, limit)
		}
		attempts, err = tx.Attempts(ctx, runs)
		return err
	})
	return attempts, err
}
