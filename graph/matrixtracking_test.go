package graph

import (
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// track gives alpha an experiment with a run that a task created. Its number is more than beta's
// experiments will have.
func (f *matrixWorld) track() {
	for range 10 {
		f.newExperiment()
	}
	f.experiment = f.newExperiment()
	f.newExperiment()
	ctx, s := f.w.t.Context(), f.w.services
	scope := domain.NewScope(f.alpha.workspace.ID, domain.Actor{Kind: domain.ActorRun, ID: string(f.attempt), Name: f.job.Name}, domain.RoleEditor)
	var err error
	f.tracked, err = s.TrackingRuns.Create(ctx, scope, tracking.NewRun{Experiment: f.experiment.ID, Name: secret + " run", User: "me"}, domain.Idempotency{})
	require.NoError(f.w.t, err)
	require.Equal(f.w.t, f.run.ID, f.tracked.JobRun)
	require.NoError(f.w.t, s.TrackingRuns.LogPoints(ctx, scope, "", f.tracked.ID, []tracking.Point{{Key: secret + "_loss", Value: 1}}))
	data := tracking.Dataset{Name: secret, Digest: "1", SourceType: "local", Source: "{}"}
	require.NoError(f.w.t, s.TrackingRuns.LogInputs(ctx, scope, "", f.tracked.ID, []tracking.Input{{Dataset: data}}))
}

func (f *matrixWorld) newExperiment() tracking.Experiment {
	n := tracking.NewExperiment{Name: f.fresh(secret), Tags: []tracking.Pair{{Key: "a", Value: "1"}}}
	x, err := f.w.services.Experiments.Create(f.w.t.Context(), f.alpha.editor.scope, n, domain.Idempotency{})
	require.NoError(f.w.t, err)
	return x
}

func (f *matrixWorld) deletedExperiment() domain.ExperimentID {
	x := f.newExperiment()
	require.NoError(f.w.t, f.w.services.Experiments.Delete(f.w.t.Context(), f.alpha.editor.scope, x.ID))
	return x.ID
}

func (f *matrixWorld) newTracked() tracking.Run {
	n := tracking.NewRun{Name: f.fresh(secret), Tags: []tracking.Pair{{Key: "a", Value: "1"}}}
	run, err := f.w.services.TrackingRuns.Create(f.w.t.Context(), f.alpha.editor.scope, n, domain.Idempotency{})
	require.NoError(f.w.t, err)
	return run
}

func (f *matrixWorld) deletedTracked() domain.TrackingRunID {
	run := f.newTracked()
	require.NoError(f.w.t, f.w.services.TrackingRuns.Delete(f.w.t.Context(), f.alpha.editor.scope, "", run.ID))
	return run.ID
}

// pairsOf returns tags or parameters as an input.
func pairsOf(pairs ...string) (list []map[string]any) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, map[string]any{"key": pairs[i], "value": pairs[i+1]})
	}
	return list
}

func datasetOf(name string) map[string]any {
	return map[string]any{"name": name, "digest": "abc", "sourceType": "local", "source": "{}"}
}
