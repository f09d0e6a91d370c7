package store_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
)

// furnishTracking creates a run in a new experiment, with everything that a run can log.
func (w *tenant) furnishTracking(jobRun domain.RunID) (run tracking.Run) {
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		id, err := tx.InsertExperiment(ctx, tracking.Experiment{Name: "secret", CreatedBy: w.admin.Actor(), CreatedAt: now, UpdatedAt: now})
		require.NoError(w.t, err)
		tags := []tracking.Pair{{Key: "secret", Value: "1"}}
		require.NoError(w.t, tx.SetExperimentTags(ctx, id, tags))
		run = tracking.Run{ID: domain.TrackingRunID("run" + w.admin.Workspace()), Experiment: id, State: tracking.Running, CreatedBy: w.admin.Actor(), JobRun: jobRun, CreatedAt: now, StartedAt: now}
		run.Number, err = tx.InsertTrackingRun(ctx, run)
		require.NoError(w.t, err)
		require.NoError(w.t, tx.SetTags(ctx, run.Number, tags))
		require.NoError(w.t, second(tx.InsertParameters(ctx, run.Number, tags)))
		require.NoError(w.t, tx.InsertInputs(ctx, run, []tracking.Input{{Dataset: tracking.Dataset{Name: "secret", Digest: "1"}}}))
		return second(tx.LogPoints(ctx, "", run.ID, []tracking.Point{{Key: "secret", Value: 1}}, now))
	})
	return run
}

// found counts what was logged.
func found(runs []tracking.Run) (n int) {
	for _, r := range runs {
		n += len(r.Metrics) + len(r.Parameters) + len(r.Tags) + len(r.Inputs)
	}
	return n
}

var trackingTrespasses = map[string]trespass{
	"Experiment": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.Experiment(ctx, b.tracked.Experiment))
	}},
	"ExperimentByName": {missing, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return one(tx.ExperimentByName(ctx, "secret"))
	}},
	"ExperimentsByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.ExperimentsByID(ctx, []domain.ExperimentID{b.tracked.Experiment}))
	}},
	"UpdateExperiment": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.UpdateExperiment(ctx, b.tracked.Experiment, func(*tracking.Experiment) error { panic("found") }))
	}},
	"DeleteExperimentTag": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.DeleteExperimentTag(ctx, b.tracked.Experiment, "secret"))
	}},
	"EraseExperiment": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.EraseExperiment(ctx, b.tracked.Experiment, now))
	}},
	"TrackingRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.TrackingRun(ctx, b.tracked.ID))
	}},
	"UpdateTrackingRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.UpdateTrackingRun(ctx, b.tracked.ID, func(*tracking.Run) error { panic("found") }))
	}},
	"EraseTrackingRun": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.EraseTrackingRun(ctx, b.tracked.ID, now, 10))
	}},
	"TrackingRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		runs, _, err := tx.TrackingRuns(ctx, tracking.Query{Experiments: []domain.ExperimentID{b.tracked.Experiment}, View: tracking.ViewAll, Limit: 10})
		return len(runs), err
	}},
	"TrackingRunsOfJob": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.TrackingRunsOfJob(ctx, []domain.RunID{b.run}, 10))
	}},
	"ChangedTrackingRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		runs, _, err := tx.ChangedTrackingRuns(ctx, b.tracked.Experiment, domain.Position{})
		return len(runs), err
	}},
	"FillTrackingRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		runs := []tracking.Run{b.tracked}
		_, err := tx.FillTrackingRuns(ctx, runs, 1<<20)
		return found(runs), err
	}},
	"LogPoints": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		logged, err := tx.LogPoints(ctx, "", b.tracked.ID, []tracking.Point{{Key: "secret", Value: 2}}, now)
		if logged.Run {
			return 1, err
		}
		return 0, err
	}},
	"Points": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.Points(ctx, b.tracked.Number, "secret", nil, 10))
	}},
	"SamplePoints": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.SamplePoints(ctx, b.tracked.Number, "secret", tracking.Part{Most: 10}))
	}},
	"Summaries": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (n int, err error) {
		end := tracking.End{Key: "secret", Total: 1, Last: &tracking.Position{At: 1}}
		err = tx.Summaries(ctx, b.tracked.Number, "secret", end, 10, func(tracking.Summary) { n++ })
		return n, err
	}},
	"Summarize": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.Summarize(ctx, b.tracked.Number, 1, now))
	}},
	"MetricEnds": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.MetricEnds(ctx, b.tracked.Number, nil))
	}},
	"NewPoints": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		news, _, err := tx.NewPoints(ctx, b.tracked.Number, nil, nil, 10)
		return len(news), err
	}},
	"DeleteTag": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.DeleteTag(ctx, b.tracked.Number, "secret"))
	}},
	"UsedDatasets": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.UsedDatasets(ctx, []domain.ExperimentID{b.tracked.Experiment}, 10))
	}},
	// Inserts that refer to another workspace's row, which does not exist here.
	"SetExperimentTags": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetExperimentTags(ctx, b.tracked.Experiment, []tracking.Pair{{Key: "k"}}))
	}},
	"InsertTrackingRun": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.InsertTrackingRun(ctx, tracking.Run{ID: "new", Experiment: b.tracked.Experiment, State: tracking.Running, CreatedAt: now, StartedAt: now}))
	}},
	"SetTags": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetTags(ctx, b.tracked.Number, []tracking.Pair{{Key: "k"}}))
	}},
	"InsertParameters": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.InsertParameters(ctx, b.tracked.Number, []tracking.Pair{{Key: "k"}}))
	}},
	"InsertInputs": {refused, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertInputs(ctx, b.tracked, []tracking.Input{{Dataset: tracking.Dataset{Name: "n", Digest: "d"}}}))
	}},
}
