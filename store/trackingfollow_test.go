package store_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// reader has what a follower told it: the charts of a run's metrics.
type reader struct {
	l        *lab
	run      tracking.Run
	follower *tracking.PointFollower
	charts   map[string][]tracking.Point
	ends     map[string]tracking.End
	resets   int
	events   int
}

func (l *lab) reader(run tracking.Run, keys []string, after []tracking.End) *reader {
	l.t.Helper()
	f, err := l.runs.FollowPoints(l.admin, run.ID, keys, after)
	require.NoError(l.t, err)
	return &reader{l: l, run: run, follower: f, charts: map[string][]tracking.Point{}, ends: map[string]tracking.End{}}
}

// read reads once. A chart that is reset is read again.
func (r *reader) read() {
	r.l.t.Helper()
	require.NoError(r.l.t, r.follower.Each(r.l.t.Context(), func(all []tracking.News) error {
		r.events++
		size := 0
		for _, n := range all {
			size += max(len(n.Points), 1)
			r.ends[n.Key] = n.End
			if n.Reset {
				require.Empty(r.l.t, n.Points)
				r.resets++
				r.charts[n.Key] = r.l.history(r.run, n.Key)
				continue
			}
			r.charts[n.Key] = append(r.charts[n.Key], n.Points...)
		}
		require.LessOrEqual(r.l.t, size, 1_000)
		return nil
	}))
}

// requireHistory requires that the charts are the histories, point by point. After a reset a chart
// may have points that come again.
func (r *reader) requireHistory(keys ...string) {
	r.l.t.Helper()
	require.ElementsMatch(r.l.t, keys, slices.Collect(maps.Keys(r.charts)))
	for _, key := range keys {
		want, got := map[string]bool{}, map[string]bool{}
		history := r.l.history(r.run, key)
		for _, p := range history {
			want[fmt.Sprint(p)] = true
		}
		for _, p := range r.charts[key] {
			got[fmt.Sprint(p)] = true
		}
		require.Equal(r.l.t, want, got, key)
		require.EqualValues(r.l.t, len(history), r.ends[key].Total)
		require.Equal(r.l.t, fmt.Sprint(history[len(history)-1].Position()), fmt.Sprint(*r.ends[key].Last), "NaN is not equal to itself")
	}
}

func point(key string, at int64) tracking.Point {
	return tracking.Point{Key: key, Step: at, At: at, Value: float64(at)}
}

// TestNewPointsAreFollowed in their order, each once.
func TestNewPointsAreFollowed(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	require.NoError(t, l.log(run, point("old", 1), point("old", 2), point("other", 1)))
	now, all, some := l.reader(run, nil, nil), l.reader(run, nil, []tracking.End{}), l.reader(run, []string{"old", "new"}, []tracking.End{})
	now.read()
	require.Equal(t, 2, now.resets, "what a reader has to read that begins now")
	for i, values := range [][]float64{{math.Inf(-1), 0}, {math.Inf(1)}, {math.NaN()}} {
		for _, v := range values {
			require.NoError(t, l.log(run, tracking.Point{Key: "old", At: 3, Step: 3, Value: v}, tracking.Point{Key: "new", At: int64(i), Value: v}))
		}
		for _, r := range []*reader{now, all, some} {
			r.read()
		}
	}
	events := now.events
	require.NoError(t, l.log(run, point("old", 1)), "a point that it has")
	for _, r := range []*reader{now, all, some} {
		r.read()
	}
	require.Equal(t, events, now.events, "nothing is new")
	now.requireHistory("old", "new", "other")
	all.requireHistory("old", "new", "other")
	some.requireHistory("old", "new")
	require.Equal(t, []int{2, 0, 0}, []int{now.resets, all.resets, some.resets})
	require.Len(t, all.charts["old"], 6, "each once")

	again := l.reader(run, nil, slices.Collect(maps.Values(now.ends)))
	again.read()
	require.Zero(t, again.events, "it continues where the other one ended")
	require.NoError(t, l.log(run, point("old", 9)))
	again.read()
	require.Equal(t, map[string][]tracking.Point{"old": {point("old", 9)}}, again.charts)
}

// TestPointsOutOfOrder reset the chart: they are not after the last one that was sent.
func TestPointsOutOfOrder(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	r := l.reader(run, nil, []tracking.End{})
	require.NoError(t, l.log(run, point("a", 10), point("b", 10)))
	r.read()
	require.NoError(t, l.log(run, point("a", 5), point("b", 11)))
	r.read()
	require.Equal(t, 1, r.resets, "of a alone")
	require.NoError(t, l.log(run, point("a", 6), point("a", 11), point("b", 12)))
	r.read()
	require.Equal(t, 2, r.resets, "also beside one in order")
	require.NoError(t, l.log(run, point("a", 12)))
	r.read()
	require.Equal(t, 2, r.resets)
	r.requireHistory("a", "b")

	wrong := r.ends["a"]
	wrong.Total += 3
	r = l.reader(run, []string{"a"}, []tracking.End{wrong})
	r.read()
	require.Equal(t, 1, r.resets, "an end that never was")
	r.requireHistory("a")
}

// TestManyPointsComeInParts of at most 1,000.
func TestManyPointsComeInParts(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	var keys []string
	for k := range 12 {
		key := fmt.Sprintf("k%02d", k)
		keys = append(keys, key)
		points := make([]tracking.Point, 375) // the second page ends with a metric's last point
		for i := range points {
			points[i] = point(key, int64(i))
		}
		require.NoError(t, l.log(run, points...))
	}
	r := l.reader(run, nil, []tracking.End{})
	r.read()
	r.requireHistory(keys...)
	require.Zero(t, r.resets)
	require.Equal(t, 5, r.events)
	for _, key := range keys {
		require.Len(t, r.charts[key], 375)
	}
	require.NoError(t, l.log(run, tracking.Point{Key: keys[3], Value: -1}))
	r.read()
	require.Equal(t, 1, r.resets)
	r.requireHistory(keys...)

	early := make([]tracking.Point, 1_000)
	for i := range early {
		early[i] = tracking.Point{Key: keys[0], Value: -float64(i) - 1}
	}
	require.NoError(t, l.log(run, early...))
	require.NoError(t, l.log(run, point(keys[1], 400)))
	r.read()
	require.Equal(t, 2, r.resets, "a metric with many points, none of them after its end")
	r.requireHistory(keys...)
	require.Len(t, r.charts[keys[1]], 376, "and the next one")
}

// TestManyWritersAreFollowed: with points in any order from several writers, no point is lost.
func TestManyWritersAreFollowed(t *testing.T) {
	l := newLab(t, open(t), "one")
	run := l.run(tracking.NewRun{})
	wake, stop, err := l.runs.Watch(t.Context(), l.admin, run.ID)
	require.NoError(t, err)
	defer stop()
	readers := []*reader{l.reader(run, nil, nil), l.reader(run, nil, []tracking.End{})}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(w)))
			for batch := range 30 {
				var points []tracking.Point
				for range 20 {
					points = append(points, point(fmt.Sprintf("k%d", random.IntN(3)), int64(batch)*10+random.Int64N(30)))
				}
				if err := l.log(run, points...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-wake:
		}
		for _, r := range readers {
			r.read()
		}
	}
	for _, r := range readers {
		r.requireHistory("k0", "k1", "k2")
		require.Positive(t, r.resets)
	}
}

// TestARunIsFollowedUntilItIsErased. While it is deleted it can be read.
func TestARunIsFollowedUntilItIsErased(t *testing.T) {
	s, dsn := openDSN(t)
	l, other, db := newLab(t, s, "one"), newLab(t, s, "two"), superuser(t, dsn)
	run := l.run(tracking.NewRun{})
	r := l.reader(run, nil, []tracking.End{})
	require.NoError(t, l.log(run, point("a", 1)))
	require.NoError(t, l.runs.Delete(t.Context(), l.admin, "", run.ID))
	r.read()
	r.requireHistory("a")
	follow := func(l *lab) error {
		f, err := l.runs.FollowPoints(l.admin, run.ID, nil, nil)
		require.NoError(t, err)
		return f.Each(t.Context(), func([]tracking.News) error { return nil })
	}
	require.NoError(t, follow(l))
	require.True(t, domain.IsCode(follow(other), domain.CodeNotFound))
	_, _, err := other.runs.Watch(t.Context(), other.admin, run.ID)
	require.True(t, domain.IsCode(err, domain.CodeNotFound))
	execute(t, db, `DELETE FROM tracking_runs WHERE id = $1`, run.ID)
	require.True(t, domain.IsCode(r.follower.Each(t.Context(), nil), domain.CodeNotFound))
}
