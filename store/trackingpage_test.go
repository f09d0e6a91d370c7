package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// TestPagesOfExperimentsEndEarly: what is in memory at once does not grow with the tags.
func TestPagesOfExperimentsEndEarly(t *testing.T) {
	l := newLab(t, open(t), "one")
	tags := make([]tracking.Pair, 100)
	for i := range tags {
		tags[i] = tracking.Pair{Key: fmt.Sprint(i), Value: strings.Repeat("x", 20_000)}
	}
	want := []domain.ExperimentID{"0"}
	for i := range 6 { // 12 MB
		x, err := l.experiments.Create(t.Context(), l.admin, tracking.NewExperiment{Name: fmt.Sprint(i), Tags: tags}, domain.Idempotency{})
		require.NoError(t, err)
		want = append(want, x.ID)
	}
	var got []domain.ExperimentID
	var sizes []int
	for q := (tracking.ExperimentSearch{Limit: 1000}); ; {
		page, err := l.experiments.Search(t.Context(), l.admin, q)
		require.NoError(t, err)
		for _, e := range page.Items {
			got = append(got, e.ID)
		}
		sizes = append(sizes, len(page.Items))
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, []int{5, 2}, sizes)
}

func TestAnExperimentHasSoManyTags(t *testing.T) {
	l := newLab(t, open(t), "one")
	tags := make([]tracking.Pair, tracking.MaxExperimentTags+1)
	for i := range tags {
		tags[i] = tracking.Pair{Key: fmt.Sprint(i), Value: "v"}
	}
	require.True(t, domain.IsCode(l.experiments.SetTags(t.Context(), l.admin, "0", tags), domain.CodeInvalid))
	require.NoError(t, l.experiments.SetTags(t.Context(), l.admin, "0", tags[1:]))
	require.NoError(t, l.experiments.SetTags(t.Context(), l.admin, "0", tags[1:2]))
	require.True(t, domain.IsCode(l.experiments.SetTags(t.Context(), l.admin, "0", tags[:1]), domain.CodeInvalid))
}

// TestSamples: parts of the same size by step, with both ends. Of very many points, those at equal
// distances of time.
func TestSamples(t *testing.T) {
	s, dsn := openDSN(t)
	l := newLab(t, s, "one")
	run := l.run(tracking.NewRun{})
	points := make([]tracking.Point, 1000)
	for i := range points {
		points[i] = tracking.Point{Key: "m", Step: int64(999 - i), At: int64(1000 + i), Value: float64(i)}
	}
	require.NoError(t, l.log(run, points...))
	sample := func(p tracking.Part) (steps []int64) {
		t.Helper()
		got, err := l.runs.Sample(t.Context(), l.admin, run.ID, "m", p)
		require.NoError(t, err)
		for _, point := range got {
			require.Equal(t, []int64{999 - point.Step, 1000 + 999 - point.Step}, []int64{int64(point.Value), point.At})
			steps = append(steps, point.Step)
		}
		return steps
	}
	from, to, far := int64(10), int64(19), int64(5000)
	require.Equal(t, []int64{0, 250, 500, 999}, sample(tracking.Part{Most: 4}))
	require.Equal(t, []int64{999}, sample(tracking.Part{Most: 1}))
	require.Equal(t, []int64{10, 14, 19}, sample(tracking.Part{Most: 3, From: &from, To: &to}))
	require.Len(t, sample(tracking.Part{Most: 1000}), 1000)
	require.Len(t, sample(tracking.Part{Most: 2000}), 1000)
	require.Empty(t, sample(tracking.Part{Most: 10, From: &far, To: &far}))

	execute(t, superuser(t, dsn), `UPDATE tracking_metrics SET points = $1`, tracking.MaxSampled+1)
	require.Equal(t, []int64{0, 250, 499, 999}, sample(tracking.Part{Most: 4}))
	require.Equal(t, []int64{999}, sample(tracking.Part{Most: 1}))
	some := sample(tracking.Part{Most: 100, From: &from, To: &to})
	require.NotEmpty(t, some)
	require.True(t, slices.Min(some) >= from && slices.Max(some) <= to, some)
	require.Empty(t, sample(tracking.Part{Most: 10, From: &far, To: &far}))

	_, err := l.runs.Sample(t.Context(), newLab(t, s, "two").admin, run.ID, "m", tracking.Part{Most: 1})
	require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
	used, err := l.runs.Datasets(t.Context(), l.admin, []domain.ExperimentID{"0", "x"})
	require.NoError(t, err)
	require.Empty(t, used)
}
