package tracking

import (
	"context"
	"errors"
	"time"

	"github.com/millpond/millpond/domain"
)

// Kept is how long deleted experiments and runs can be restored.
const Kept = 30 * 24 * time.Hour

// Ref names a run across workspaces.
type Ref struct {
	Workspace domain.WorkspaceID
	Run       domain.TrackingRunID
}

// Ended is a run that is not over, though its attempt is.
type Ended struct {
	Ref
	Cancelled bool       // the attempt was cancelled
	At        *time.Time // when it ended; nil if unknown
}

// System reads across workspaces to find work.
type System interface {
	// EndedTrackingRuns returns runs that are not over, though their attempts are.
	EndedTrackingRuns(ctx context.Context, limit int) ([]Ended, error)
	// ExpiredTrackingRuns returns runs that were deleted before the time, or whose experiments were.
	ExpiredTrackingRuns(ctx context.Context, before time.Time, limit int) ([]Ref, error)
	// ExpiredExperiments returns the experiments without runs that were deleted before the time.
	ExpiredExperiments(ctx context.Context, before time.Time, limit int) ([]ExperimentRef, error)
	// UnsummarizedMetrics returns metrics whose summaries are due, and takes turns of workspaces.
	UnsummarizedMetrics(ctx context.Context, now time.Time, limit int) ([]MetricRef, error)
	// KeepPointPartitions makes the partition after that of the latest run, and drops those before
	// it that have neither runs nor points.
	KeepPointPartitions(ctx context.Context) error
}

// ExperimentRef names an experiment across workspaces.
type ExperimentRef struct {
	Workspace  domain.WorkspaceID
	Experiment domain.ExperimentID
}

// MetricRef names a metric across workspaces, by numbers.
type MetricRef struct {
	Workspace domain.WorkspaceID
	Run, Key  int64
}

// upkeepTx erases what expired, and summarizes what was logged.
type upkeepTx interface {
	// Summarize removes summaries of the metric that are not true, and makes some for points that
	// have none. It reports whether there is more to do. It stops writers of the metric meanwhile.
	Summarize(ctx context.Context, run, key int64, now time.Time) (more bool, err error)
	// EraseTrackingRun erases up to limit points of the run, and the run itself if it has no more
	// and was deleted before the time, or its experiment was. It reports whether there may be more.
	EraseTrackingRun(ctx context.Context, id domain.TrackingRunID, before time.Time, limit int) (more bool, err error)
	// EraseExperiment erases an experiment that was deleted before the time and has no runs.
	EraseExperiment(ctx context.Context, id domain.ExperimentID, before time.Time) error
}

// Upkeep ends runs with their attempts, and erases what was deleted long ago. Every replica may run
// it: each run is locked, and looked at again.
type Upkeep struct {
	Store  domain.Store[Tx]
	System System
	Clock  domain.Clock
}

// End ends the runs whose attempts have ended: as killed if the attempt was cancelled, otherwise as
// failed. At rest it costs one query.
func (u *Upkeep) End(ctx context.Context) error {
	for {
		ended, err := u.System.EndedTrackingRuns(ctx, domain.MaxLimit)
		if err != nil {
			return err
		}
		var failed []error
		for _, e := range ended {
			failed = append(failed, u.end(ctx, e))
		}
		if err := errors.Join(failed...); err != nil || len(ended) < domain.MaxLimit {
			return err
		}
	}
}

func (u *Upkeep) end(ctx context.Context, e Ended) error {
	s, state := domain.SystemScope(e.Workspace, "tracking"), Failed
	if e.Cancelled {
		state = Killed
	}
	at := u.Clock.Now()
	if e.At != nil {
		at = *e.At
	}
	return u.Store.In(ctx, s, func(tx Tx) error {
		over := false
		run, err := tx.UpdateTrackingRun(ctx, e.Run, func(run *Run) error {
			if over = run.State.Final(); !over {
				Change{State: &state, FinishedAt: &at}.apply(run, at)
			}
			return nil
		})
		if err != nil || over {
			return err
		}
		notify(tx, s, run)
		return domain.Audited(ctx, tx, s, domain.TrackingRunUpdate, "tracking_run", run.ID)
	})
}

// Summarize makes summaries of long histories, a few of each metric in turn. At rest it costs one
// query.
func (u *Upkeep) Summarize(ctx context.Context) error {
	for {
		due, err := u.System.UnsummarizedMetrics(ctx, u.Clock.Now(), domain.MaxLimit)
		if err != nil {
			return err
		}
		var failed []error
		again := len(due) == domain.MaxLimit
		for _, m := range due {
			err := u.Store.In(ctx, domain.SystemScope(m.Workspace, "tracking"), func(tx Tx) error {
				more, err := tx.Summarize(ctx, m.Run, m.Key, u.Clock.Now())
				again = again || more
				return err
			})
			failed = append(failed, err)
		}
		if err := errors.Join(failed...); err != nil || !again {
			return err
		}
	}
}

// eraseAtOnce is how many points one transaction erases.
const eraseAtOnce = 10_000

// Erase erases the runs and experiments that were deleted more than Kept ago, a few thousand points
// at a time, and keeps the partitions of points.
func (u *Upkeep) Erase(ctx context.Context) error {
	if err := u.System.KeepPointPartitions(ctx); err != nil {
		return err
	}
	before := u.Clock.Now().Add(-Kept)
	for {
		runs, err := u.System.ExpiredTrackingRuns(ctx, before, domain.MaxLimit)
		if err != nil {
			return err
		}
		for _, ref := range runs {
			if err := u.eraseRun(ctx, ref, before); err != nil {
				return err
			}
		}
		if len(runs) < domain.MaxLimit {
			break
		}
	}
	experiments, err := u.System.ExpiredExperiments(ctx, before, domain.MaxLimit)
	if err != nil {
		return err
	}
	for _, ref := range experiments {
		err := u.Store.In(ctx, domain.SystemScope(ref.Workspace, "tracking"), func(tx Tx) error { return tx.EraseExperiment(ctx, ref.Experiment, before) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *Upkeep) eraseRun(ctx context.Context, ref Ref, before time.Time) error {
	for more := true; more; {
		err := u.Store.In(ctx, domain.SystemScope(ref.Workspace, "tracking"), func(tx Tx) (err error) {
			more, err = tx.EraseTrackingRun(ctx, ref.Run, before, eraseAtOnce)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
