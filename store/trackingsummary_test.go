package store_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
)

// summaries returns what a chart reads of a metric that has more points than are read one by one.
func (l *lab) summaries(run tracking.Run, key string) (all []tracking.Summary) {
	l.t.Helper()
	err := store.For[tracking.Tx](l.store).In(l.t.Context(), l.admin, func(tx tracking.Tx) error {
		all = nil
		ends, err := tx.MetricEnds(l.t.Context(), run.Number, []string{key})
		if err != nil {
			return err
		}
		ends[0].Total = tracking.MaxSampled + 1
		return tx.Summaries(l.t.Context(), run.Number, key, ends[0], 100, func(s tracking.Summary) { all = append(all, s) })
	})
	require.NoError(l.t, err)
	return all
}

// requireSummaries compares summaries with the history, and returns how many have several points.
func (l *lab) requireSummaries(run tracking.Run, key string) (several int) {
	l.t.Helper()
	history := l.history(run, key)
	for i := range history {
		history[i].Key = ""
	}
	all := l.summaries(run, key)
	if all[0].Points > 1 && all[0].First == all[0].Last {
		return 0 // without a summary, some points stand for all
	}
	for _, s := range all {
		part := history[:s.Points]
		want := tracking.SummaryOf(part[0])
		for _, p := range part[1:] {
			next := tracking.SummaryOf(p)
			want.Add(next)
		}
		require.True(l.t, sameSummary(want, s), "%+v\n%+v", want, s)
		history = history[s.Points:]
		if s.Points > 1 {
			several++
		}
	}
	require.Empty(l.t, history)
	return several
}

func sameSummary(a, b tracking.Summary) bool {
	same := func(p, q tracking.Point) bool {
		return p.At == q.At && p.Step == q.Step && (p.Value == q.Value || math.IsNaN(p.Value) && math.IsNaN(q.Value))
	}
	if (a.Odd == nil) != (b.Odd == nil) || a.Odd != nil && !same(*a.Odd, *b.Odd) {
		return false
	}
	return a.Points == b.Points && same(a.First, b.First) && same(a.Last, b.Last) && same(a.Low, b.Low) && same(a.High, b.High)
}

func pointsOf(from, to int64, value func(i int64) float64) (points []tracking.Point) {
	for i := from; i < to; i++ {
		points = append(points, tracking.Point{Key: "m", Step: i, At: 1000 + i/3, Value: value(i)})
	}
	return points
}

func (l *lab) logAll(run tracking.Run, points []tracking.Point) {
	l.t.Helper()
	for len(points) > 0 {
		n := min(len(points), tracking.MaxPoints)
		require.NoError(l.t, l.log(run, points[:n]...))
		points = points[n:]
	}
}

// TestSummariesOfMetrics: each 1,024 points have a summary, but for the last 1,024, and it is true.
func TestSummariesOfMetrics(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	run := l.run(tracking.NewRun{})
	values := func(i int64) float64 {
		switch {
		case i%1500 == 7:
			return math.NaN()
		case i%900 == 1:
			return math.Inf(int(i%2)*2 - 1)
		case i >= 6*1024 && i < 8*1024:
			return math.NaN()
		}
		return math.Sin(float64(i))
	}
	l.logAll(run, pointsOf(0, 1500, values))
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 0, l.requireSummaries(run, "m"))
	l.logAll(run, pointsOf(1500, 50_000, values))
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 47, l.requireSummaries(run, "m"))
	require.Zero(t, count(t, db, `SELECT count(*) FROM tracking_unsummarized`))
	l.logAll(run, pointsOf(50_000, 53_000, values))
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 50, l.requireSummaries(run, "m"))
}

// TestLatePoints: a summary is not read from the moment when a point was logged into it, and is made
// again later.
func TestLatePoints(t *testing.T) {
	s := open(t)
	l := newLab(t, s, "one")
	run, value := l.run(tracking.NewRun{}), func(i int64) float64 { return float64(i % 10) }
	l.logAll(run, pointsOf(0, 10_000, value))
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 8, l.requireSummaries(run, "m"))
	late := tracking.Point{Key: "m", Step: 5000, At: 1000 + 5000/3, Value: 99}
	require.NoError(t, l.log(run, late))
	require.NoError(t, l.log(run, late))
	require.Equal(t, 4, l.requireSummaries(run, "m"))
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 4, l.requireSummaries(run, "m"), "it waits for others")
	l.clock.move(time.Minute)
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 8, l.requireSummaries(run, "m"))

	require.NoError(t, l.log(run, tracking.Point{Key: "m", Step: -1, At: 0, Value: 99}))
	require.Equal(t, 0, l.requireSummaries(run, "m"))
	l.clock.move(time.Minute)
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 8, l.requireSummaries(run, "m"))
}

// TestALatePointBetweenTwoRounds waits for others, too, also while the history is being summarized.
func TestALatePointBetweenTwoRounds(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	run := l.run(tracking.NewRun{})
	l.logAll(run, pointsOf(0, 40_000, func(i int64) float64 { return float64(i % 10) }))
	ctx := t.Context()
	due, err := s.System().UnsummarizedMetrics(ctx, l.clock.Now(), 10)
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.NoError(t, store.For[tracking.Tx](s).In(ctx, l.admin, func(tx tracking.Tx) error {
		more, err := tx.Summarize(ctx, due[0].Run, due[0].Key, l.clock.Now())
		require.True(t, more)
		return err
	}))
	require.NoError(t, l.log(run, tracking.Point{Key: "m", Step: -1, At: 0, Value: 99}))
	require.NoError(t, l.upkeep().Summarize(ctx))
	require.Equal(t, 16, count(t, db, `SELECT count(*) FROM tracking_summaries`), "they are not made again at once")
	l.clock.move(time.Minute)
	require.NoError(t, l.upkeep().Summarize(ctx))
	require.Equal(t, 38, l.requireSummaries(run, "m"))
}

// TestSummariesOfManyWriters: summaries are true whatever is logged while they are made.
func TestSummariesOfManyWriters(t *testing.T) {
	s := open(t)
	l := newLab(t, s, "one")
	run := l.run(tracking.NewRun{})
	ctx, end := context.WithCancel(t.Context())
	var writers, upkeep sync.WaitGroup
	for range 2 {
		upkeep.Go(func() {
			for ctx.Err() == nil {
				l.clock.move(time.Minute)
				if err := l.upkeep().Summarize(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for i := range int64(12) {
				points := make([]tracking.Point, tracking.MaxPoints)
				for j := range points {
					points[j] = tracking.Point{Key: "m", Step: random.Int64N(1 << 40), At: i*10_000 + random.Int64N(20_000), Value: random.Float64()}
				}
				if err := l.log(run, points...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	end()
	upkeep.Wait()
	l.requireSummaries(run, "m")
	l.clock.move(time.Hour)
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	require.Equal(t, 45, l.requireSummaries(run, "m"))
}

// TestChartOfALongMetric has few points and all extremes, whether it is summarized or not.
func TestChartOfALongMetric(t *testing.T) {
	s, dsn := openDSN(t)
	l, db := newLab(t, s, "one"), superuser(t, dsn)
	run := l.run(tracking.NewRun{})
	l.logAll(run, pointsOf(0, 20_000, func(i int64) float64 {
		switch i {
		case 9_000:
			return math.NaN()
		case 12_345:
			return 77
		case 54:
			return -77
		}
		return math.Sin(float64(i))
	}))
	chart := func(most int) tracking.Chart {
		t.Helper()
		c, err := l.runs.Chart(t.Context(), l.admin, "", run.ID, "m", most)
		require.NoError(t, err)
		require.LessOrEqual(t, len(c.Points), most)
		var steps []int64
		for _, p := range c.Points {
			if p.Step == 9_000 || p.Step == 54 || p.Step == 12_345 || p.Step == 0 || p.Step == 19_999 {
				steps = append(steps, p.Step)
			}
		}
		require.Equal(t, []int64{0, 54, 9_000, 12_345, 19_999}, steps)
		return c
	}
	require.EqualValues(t, 20_000, chart(2_000).Total)
	require.Greater(t, len(chart(2_000).Points), 900)
	chart(tracking.MinChart)
	require.NoError(t, l.upkeep().Summarize(t.Context()))
	execute(t, db, `UPDATE tracking_metrics SET points = points + $1`, tracking.MaxSampled-2_000)
	chart(2_000)
	chart(tracking.MinChart)
	execute(t, db, `UPDATE tracking_metrics SET points = points + $1`, 10*tracking.MaxSampled)
	sampled, err := l.runs.Chart(t.Context(), l.admin, "", run.ID, "m", 500)
	require.NoError(t, err)
	require.LessOrEqual(t, len(sampled.Points), 500)
	require.EqualValues(t, 19_999, sampled.Points[len(sampled.Points)-1].Step)

	none, err := l.runs.Chart(t.Context(), l.admin, "", run.ID, "other", 100)
	require.NoError(t, err)
	require.Equal(t, tracking.Chart{}, none)
	for _, most := range []int{tracking.MinChart - 1, tracking.MaxChart + 1} {
		_, err = l.runs.Chart(t.Context(), l.admin, "", run.ID, "m", most)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
	}
	_, err = l.runs.Chart(t.Context(), newLab(t, s, "two").admin, "", run.ID, "m", 100)
	require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
}
