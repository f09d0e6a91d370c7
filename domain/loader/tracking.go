package loader

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// track sets the loaders of experiments and tracking runs.
func (l *Loaders) track(s Services, scope domain.Scope) {
	l.experiments = newFamily(func(ctx context.Context, ids []domain.ExperimentID) (map[domain.ExperimentID]*tracking.Experiment, error) {
		found, err := s.Experiments.ByID(ctx, scope, ids)
		return index(found, func(x tracking.Experiment) domain.ExperimentID { return x.ID }), err
	})
	l.tracking = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID][]tracking.Run, error) {
		found, err := s.TrackingRuns.OfJobRuns(ctx, scope, ids)
		l.expectTracking(found)
		return group(found, func(r tracking.Run) domain.RunID { return r.JobRun }), err
	})
	l.logged = newFamily(func(ctx context.Context, ids []domain.TrackingRunID) (map[domain.TrackingRunID]*tracking.Run, error) {
		whole, err := s.TrackingRuns.Fill(ctx, scope, l.headsOf(ids))
		return index(whole, func(r tracking.Run) domain.TrackingRunID { return r.ID }), err
	})
}

func (l *Loaders) expectTracking(runs []tracking.Run) {
	l.experiments.expect(named(keys(runs, func(r tracking.Run) domain.ExperimentID { return r.Experiment })))
	l.runsByID.expect(named(keys(runs, func(r tracking.Run) domain.RunID { return r.JobRun })))
	l.logged.expect(keys(runs, func(r tracking.Run) domain.TrackingRunID { return r.ID }))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range runs {
		l.heads[r.ID] = r
	}
}

func (l *Loaders) headsOf(ids []domain.TrackingRunID) []tracking.Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	heads := make([]tracking.Run, len(ids))
	for i, id := range ids {
		heads[i] = l.heads[id]
	}
	return heads
}

// Experiment returns the experiment, also a deleted one; nil if it is erased.
func (l *Loaders) Experiment(ctx context.Context, id domain.ExperimentID) (*tracking.Experiment, error) {
	return l.experiments.load(ctx, id)
}

// TrackingRuns returns the first tracking runs that the job's run made, without what they logged.
func (l *Loaders) TrackingRuns(ctx context.Context, id domain.RunID) ([]tracking.Run, error) {
	return l.tracking.load(ctx, id)
}

// Logged returns the run with what it logged.
func (l *Loaders) Logged(ctx context.Context, run tracking.Run) (tracking.Run, error) {
	l.mu.Lock()
	if _, known := l.heads[run.ID]; !known {
		l.heads[run.ID] = run
	}
	l.mu.Unlock()
	whole, err := l.logged.load(ctx, run.ID)
	if err != nil {
		return tracking.Run{}, err
	}
	return *whole, nil
}
