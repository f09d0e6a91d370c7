package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
)

// lab is a workspace with the services of tracking.
type lab struct {
	*tenant
	experiments *tracking.Experiments
	runs        *tracking.Runs
}

func newLab(t testing.TB, s *store.Store, name string) *lab {
	w := newTenant(t, s, name)
	return &lab{
		tenant:      w,
		experiments: &tracking.Experiments{Store: store.For[tracking.Tx](s), Clock: w.clock},
		runs:        &tracking.Runs{Store: store.For[tracking.Tx](s), Topics: s.Topics(), Clock: w.clock},
	}
}

func (l *lab) run(n tracking.NewRun) tracking.Run {
	l.t.Helper()
	run, err := l.runs.Create(l.t.Context(), l.admin, n, domain.Idempotency{})
	require.NoError(l.t, err)
	return run
}

func (l *lab) log(run tracking.Run, points ...tracking.Point) error {
	return l.runs.LogPoints(l.t.Context(), l.admin, "", run.ID, points)
}

func (l *lab) whole(run tracking.Run) tracking.Run {
	l.t.Helper()
	run, err := l.runs.Get(l.t.Context(), l.admin, "", run.ID)
	require.NoError(l.t, err)
	return run
}

func (l *lab) history(run tracking.Run, key string) (points []tracking.Point) {
	l.t.Helper()
	pages, err := l.runs.History(l.t.Context(), l.admin, "", run.ID, key)
	require.NoError(l.t, err)
	for page, err := range pages {
		require.NoError(l.t, err)
		points = append(points, page...)
	}
	return points
}

// kept is how many points the workspace's quota counts.
func (l *lab) kept() int64 {
	l.t.Helper()
	quotas, err := l.services.Quotas.List(l.t.Context(), l.admin)
	require.NoError(l.t, err)
	for _, q := range quotas {
		if q.Name == quota.MaxMetricPoints {
			return q.Current
		}
	}
	return -1
}

// TestAWorkspaceHasTheDefaultExperiment, and its numbers are its own.
func TestAWorkspaceHasTheDefaultExperiment(t *testing.T) {
	s := open(t)
	for _, name := range []string{"one", "two"} {
		l := newLab(t, s, name)
		x, err := l.experiments.Get(t.Context(), l.admin, "0")
		require.NoError(t, err)
		require.Equal(t, "Default", x.Name)
		require.True(t, domain.IsCode(l.experiments.Delete(t.Context(), l.admin, "0"), domain.CodeConflict))
		made, err := l.experiments.Create(t.Context(), l.admin, tracking.NewExperiment{Name: "mine", Tags: []tracking.Pair{{Key: "a", Value: "1"}}}, domain.Idempotency{})
		require.NoError(t, err)
		require.Equal(t, domain.ExperimentID("1"), made.ID)
		require.Equal(t, []tracking.Pair{{Key: "a", Value: "1"}}, made.Tags)
		_, err = l.experiments.Create(t.Context(), l.admin, tracking.NewExperiment{Name: "mine"}, domain.Idempotency{})
		require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
		for _, id := range []domain.ExperimentID{"2", "01", "-1", "+1", "", "x", "99999999999999999999"} {
			_, err := l.experiments.Get(t.Context(), l.admin, id)
			require.True(t, domain.IsCode(err, domain.CodeNotFound), "%s: %v", id, err)
		}
	}
}

// TestRunsOfAnotherWorkspaceAreNotThere.
func TestRunsOfAnotherWorkspaceAreNotThere(t *testing.T) {
	s := open(t)
	one, two := newLab(t, s, "one"), newLab(t, s, "two")
	run := one.run(tracking.NewRun{})
	notFound := func(err error) {
		t.Helper()
		require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
	}
	notFound(second(two.runs.Get(t.Context(), two.admin, "", run.ID)))
	notFound(two.log(run, tracking.Point{Key: "a"}))
	notFound(two.runs.Delete(t.Context(), two.admin, "", run.ID))
	notFound(second(two.runs.Update(t.Context(), two.admin, "", run.ID, tracking.Change{})))
	require.Empty(t, one.whole(run).Metrics)
}

// TestPoints: the same points again change nothing, the latest is the greatest by step, time and
// value, and the history is in the order of time, step and value.
func TestPoints(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	batch := []tracking.Point{
		{Key: "loss", Step: 2, At: 10, Value: 5},
		{Key: "loss", Step: 1, At: 30, Value: 1},
		{Key: "loss", Step: 2, At: 20, Value: math.NaN()},
		{Key: "loss", Step: 2, At: 20, Value: -1},
		{Key: "loss", Step: 2, At: 20, Value: -1},
		{Key: "größe/x", Step: math.MinInt64, Value: math.Inf(-1)},
	}
	for range 3 {
		require.NoError(t, l.log(run, batch...))
		got := l.whole(run).Metrics
		require.Len(t, got, 2)
		require.Equal(t, "größe/x", got[0].Key)
		require.Equal(t, tracking.Metric{Point: tracking.Point{Key: "größe/x", Step: math.MinInt64, Value: math.Inf(-1)}, Points: 1}, got[0])
		require.Equal(t, []int64{2, 20, 4}, []int64{got[1].Step, got[1].At, got[1].Points})
		require.True(t, math.IsNaN(got[1].Value), "NaN counts as 0, which is more than -1")
		require.EqualValues(t, 5, l.kept())
	}
	history := l.history(run, "loss")
	require.Len(t, history, 4)
	require.Equal(t, [][2]int64{{10, 2}, {20, 2}, {20, 2}, {30, 1}}, [][2]int64{{history[0].At, history[0].Step}, {history[1].At, history[1].Step}, {history[2].At, history[2].Step}, {history[3].At, history[3].Step}})
	require.True(t, math.IsNaN(history[2].Value))
	require.Empty(t, l.history(run, "unknown"))

	require.NoError(t, l.log(run, tracking.Point{Key: "loss", Step: 2, At: 20, Value: 0}))
	require.True(t, math.IsNaN(l.whole(run).Metrics[1].Value), "0 is not more than NaN")
	require.NoError(t, l.log(run, tracking.Point{Key: "loss", Step: 2, At: 20, Value: 0.5}))
	require.InDelta(t, 0.5, l.whole(run).Metrics[1].Value, 0)
}

// TestManyWritersOfOneMetric: the latest point and the counts are exact.
func TestManyWritersOfOneMetric(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range 20 {
				points := make([]tracking.Point, 20)
				for i := range points {
					n := random.Int64N(200)
					points[i] = tracking.Point{Key: fmt.Sprintf("k%d", n%3), Step: n, At: n, Value: float64(n)}
				}
				if err := l.log(run, points...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	total := int64(0)
	for _, m := range l.whole(run).Metrics {
		history := l.history(run, m.Key)
		require.EqualValues(t, len(history), m.Points)
		require.Equal(t, history[len(history)-1], m.Point)
		total += m.Points
	}
	require.Equal(t, total, l.kept())
}

// TestALongHistory is read in pages, each point once.
func TestALongHistory(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	const n = 25_000
	for at := 0; at < n; at += tracking.MaxPoints {
		points := make([]tracking.Point, tracking.MaxPoints)
		for i := range points {
			points[i] = tracking.Point{Key: "a", Step: int64(at + i), At: int64((at + i) / 7), Value: 1}
		}
		require.NoError(t, l.log(run, points...))
	}
	history := l.history(run, "a")
	require.Len(t, history, n)
	for i, p := range history {
		require.EqualValues(t, i, p.Step)
	}
}

// TestPartitionsOfPoints: the partition of a run exists before its first point.
func TestPartitionsOfPoints(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	for _, number := range []int{9_999, 19_899, 29_899, 29_999} {
		execute(t, db, `SELECT setval(pg_get_serial_sequence('tracking_runs', 'number'), $1)`, number)
		for range 2 {
			require.NoError(t, l.log(l.run(tracking.NewRun{}), tracking.Point{Key: "a"}))
		}
	}
	require.Equal(t, 5, count(t, db, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'tracking_points'::regclass`))
}

// TestQuotaOfPoints: what would exceed it is refused whole.
func TestQuotaOfPoints(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	limit := int64(3)
	require.NoError(t, second(l.services.Quotas.Update(t.Context(), l.admin, quota.MaxMetricPoints, &limit)))
	require.NoError(t, l.log(run, tracking.Point{Key: "a", Step: 1}, tracking.Point{Key: "a", Step: 2}))
	err := l.log(run, tracking.Point{Key: "a", Step: 3}, tracking.Point{Key: "a", Step: 4})
	require.EqualError(t, err, "max_metric_points=3, current=2")
	require.True(t, domain.IsCode(err, domain.CodeQuota))
	require.NoError(t, l.log(run, tracking.Point{Key: "b"}))
	require.EqualValues(t, 3, l.kept())
}

// TestABatchIsWholeOrNothing.
func TestABatchIsWholeOrNothing(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{Name: "first"})
	ctx := t.Context()
	batch := tracking.Batch{Points: []tracking.Point{{Key: "m"}}, Parameters: []tracking.Pair{{Key: "p", Value: "1"}}, Tags: []tracking.Pair{{Key: "t", Value: "1"}}}
	for range 2 {
		require.NoError(t, l.runs.Log(ctx, l.admin, "", run.ID, batch))
	}
	err := l.runs.Log(ctx, l.admin, "", run.ID, tracking.Batch{
		Points: []tracking.Point{{Key: "m", Step: 1}}, Parameters: []tracking.Pair{{Key: "q", Value: "1"}, {Key: "p", Value: "2"}}, Tags: []tracking.Pair{{Key: "u", Value: "1"}},
	})
	require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
	require.ErrorContains(t, err, "Changing param values is not allowed. Param with key='p' was already logged with value='1'")
	got := l.whole(run)
	require.Equal(t, batch.Parameters, got.Parameters)
	require.Equal(t, []tracking.Pair{{Key: "mlflow.runName", Value: "first"}, {Key: "t", Value: "1"}}, got.Tags)
	require.EqualValues(t, 1, got.Metrics[0].Points)

	require.NoError(t, l.runs.Log(ctx, l.admin, "", run.ID, tracking.Batch{Tags: []tracking.Pair{{Key: "mlflow.runName", Value: "second"}}}))
	require.Equal(t, "second", l.whole(run).Name)
	name := "third"
	require.NoError(t, second(l.runs.Update(ctx, l.admin, "", run.ID, tracking.Change{Name: &name})))
	require.Contains(t, l.whole(run).Tags, tracking.Pair{Key: "mlflow.runName", Value: "third"})
}

// TestDeletedExperimentsAndRuns refuse writes, and come back with their runs.
func TestDeletedExperimentsAndRuns(t *testing.T) {
	l := newLab(t, open(t), "one")
	ctx := t.Context()
	x, err := l.experiments.Create(ctx, l.admin, tracking.NewExperiment{Name: "x"}, domain.Idempotency{})
	require.NoError(t, err)
	kept, gone := l.run(tracking.NewRun{Experiment: x.ID}), l.run(tracking.NewRun{Experiment: x.ID})
	require.NoError(t, l.runs.Delete(ctx, l.admin, x.ID, gone.ID))
	conflict := func(err error) {
		t.Helper()
		require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
	}
	conflict(l.runs.Delete(ctx, l.admin, x.ID, gone.ID))
	conflict(l.log(gone, tracking.Point{Key: "a"}))
	require.NoError(t, l.log(kept, tracking.Point{Key: "a"}))
	require.NoError(t, l.experiments.Delete(ctx, l.admin, x.ID))
	conflict(l.log(kept, tracking.Point{Key: "a", Step: 1}))
	conflict(second(l.runs.Create(ctx, l.admin, tracking.NewRun{Experiment: x.ID}, domain.Idempotency{})))
	conflict(second(l.runs.Restore(ctx, l.admin, x.ID, gone.ID)))
	conflict(second(l.experiments.Update(ctx, l.admin, x.ID, &x.Name)))
	require.NotNil(t, l.whole(kept).DeletedAt)
	require.NoError(t, second(l.experiments.Restore(ctx, l.admin, x.ID)))
	require.Nil(t, l.whole(kept).DeletedAt)
	require.NotNil(t, l.whole(gone).DeletedAt, "it was deleted before its experiment")
	require.NoError(t, l.log(kept, tracking.Point{Key: "a", Step: 1}))
}

// TestInputs: a dataset is stored once in its experiment, and the same input again adds its tags.
func TestInputs(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	data := tracking.Dataset{Name: "iris", Digest: "abc", SourceType: "local", Source: "{}", Schema: "{}"}
	for _, run := range []tracking.Run{l.run(tracking.NewRun{}), l.run(tracking.NewRun{})} {
		for _, tag := range []string{"a", "b"} {
			require.NoError(t, l.runs.LogInputs(t.Context(), l.admin, "0", run.ID, []tracking.Input{{Dataset: data, Tags: []tracking.Pair{{Key: tag, Value: "1"}}}}))
		}
		require.Equal(t, []tracking.Input{{Dataset: data, Tags: []tracking.Pair{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}}}}, l.whole(run).Inputs)
	}
	require.Equal(t, 1, count(t, db, `SELECT count(*) FROM tracking_datasets`))
}

// TestTooManyTagsAndParameters of one run are refused.
func TestTooManyTagsAndParameters(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	log := func(from, n int) (err error) {
		for at := from; at < from+n && err == nil; at += 100 {
			var b tracking.Batch
			for i := at; i < min(at+100, from+n); i++ {
				b.Tags = append(b.Tags, tracking.Pair{Key: fmt.Sprint(i)})
				b.Parameters = append(b.Parameters, tracking.Pair{Key: fmt.Sprint(i)})
			}
			err = l.runs.Log(t.Context(), l.admin, "", run.ID, b)
		}
		return err
	}
	require.NoError(t, log(0, tracking.MaxPairs-1))
	require.NoError(t, log(0, 10), "those that it has")
	err := log(tracking.MaxPairs, 2)
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
	require.Len(t, l.whole(run).Parameters, tracking.MaxPairs-1)
}

// TestTwoWritersOfOneParameter: the second one is refused, with the first one's value.
func TestTwoWritersOfOneParameter(t *testing.T) {
	l := newLab(t, open(t), "one")
	for range 10 {
		run := l.run(tracking.NewRun{})
		errs := make(chan error)
		for _, value := range []string{"1", "2"} {
			go func() {
				errs <- l.runs.Log(context.WithoutCancel(t.Context()), l.admin, "", run.ID, tracking.Batch{Parameters: []tracking.Pair{{Key: "p", Value: value}}})
			}()
		}
		failed := 0
		for range 2 {
			if err := <-errs; err != nil {
				require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
				failed++
			}
		}
		require.Equal(t, 1, failed)
	}
}

// upkeep is the platform's own work.
func (l *lab) upkeep() *tracking.Upkeep {
	return &tracking.Upkeep{Store: store.For[tracking.Tx](l.store), System: l.store.System(), Clock: l.clock}
}

// TestErasure: what was deleted more than 30 days ago is erased with its points, and its room is
// free. Nothing else is.
func TestErasure(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	x, err := l.experiments.Create(ctx, l.admin, tracking.NewExperiment{Name: "x"}, domain.Idempotency{})
	require.NoError(t, err)
	kept, gone, under := l.run(tracking.NewRun{}), l.run(tracking.NewRun{}), l.run(tracking.NewRun{Experiment: x.ID})
	points := make([]tracking.Point, tracking.MaxPoints)
	for _, run := range []tracking.Run{kept, gone, under} {
		for at := range 11 {
			for i := range points {
				points[i] = tracking.Point{Key: "a", Step: int64(at*len(points) + i)}
			}
			require.NoError(t, l.log(run, points...))
		}
		require.NoError(t, l.runs.Log(ctx, l.admin, "", run.ID, tracking.Batch{Tags: []tracking.Pair{{Key: "t"}}, Parameters: []tracking.Pair{{Key: "p"}}}))
		require.NoError(t, l.runs.LogInputs(ctx, l.admin, "", run.ID, []tracking.Input{{Dataset: tracking.Dataset{Name: "n", Digest: "d", SourceType: "s", Source: "s"}}}))
	}
	require.NoError(t, l.runs.Delete(ctx, l.admin, "", gone.ID))
	require.NoError(t, l.experiments.Delete(ctx, l.admin, x.ID))
	l.clock.move(tracking.Kept - time.Minute)
	require.NoError(t, l.upkeep().Erase(ctx))
	require.EqualValues(t, 33_000, l.kept())
	l.clock.move(2 * time.Minute)
	for range 2 {
		require.NoError(t, l.upkeep().Erase(ctx))
		require.EqualValues(t, 11_000, l.kept())
	}
	require.Len(t, l.history(kept, "a"), 11_000)
	for _, table := range []string{"tracking_runs", "tracking_metrics", "tracking_parameters", "tracking_inputs", "tracking_datasets", "experiments"} {
		require.Equal(t, 1, count(t, db, `SELECT count(*) FROM `+table+` WHERE workspace_id = $1`, l.admin.Workspace()), table)
	}
	require.True(t, domain.IsCode(second(l.experiments.Restore(ctx, l.admin, x.ID)), domain.CodeNotFound))
}

// TestEmptyPartitionsAreDropped, but not those that runs may still get.
func TestEmptyPartitionsAreDropped(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	execute(t, db, `SELECT create_point_partition(n * 10000) FROM generate_series(1, 5) n`)
	execute(t, db, `SELECT setval(pg_get_serial_sequence('tracking_runs', 'number'), 10500)`)
	require.NoError(t, l.log(l.run(tracking.NewRun{}), tracking.Point{Key: "a"}))
	execute(t, db, `SELECT setval(pg_get_serial_sequence('tracking_runs', 'number'), 45000)`)
	l.run(tracking.NewRun{})
	require.NoError(t, l.upkeep().Erase(t.Context()))
	var names []string
	rows, err := db.Query(`SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'tracking_points'::regclass ORDER BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		names = append(names, "")
		require.NoError(t, rows.Scan(&names[len(names)-1]))
	}
	require.Equal(t, []string{"tracking_points_1", "tracking_points_3", "tracking_points_4", "tracking_points_5"}, names)
}
