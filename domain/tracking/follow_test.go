package tracking

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestNewsContinues(t *testing.T) {
	at := func(n int64) *Position { return &Position{At: n, Step: n} }
	points := func(ns ...int64) (points []Point) {
		for _, n := range ns {
			points = append(points, Point{Key: "a", At: n, Step: n})
		}
		return points
	}
	for name, c := range map[string]struct {
		known    End
		total    int64 // of the metric
		points   []Point
		complete bool
		want     News
	}{
		"the first points":          {End{}, 2, points(1, 2), true, News{End: End{"a", 2, at(2)}, Points: points(1, 2)}},
		"points in order":           {End{"a", 2, at(2)}, 3, points(3), true, News{End: End{"a", 3, at(3)}, Points: points(3)}},
		"a part":                    {End{"a", 2, at(2)}, 9, points(3), false, News{End: End{"a", 3, at(3)}, Points: points(3)}},
		"a point before":            {End{"a", 2, at(2)}, 3, nil, true, News{End: End{"a", 3, at(2)}, Reset: true}},
		"one before, one after":     {End{"a", 2, at(2)}, 4, points(3), true, News{End: End{"a", 4, at(3)}, Reset: true}},
		"less than a reader claims": {End{"a", 7, at(2)}, 3, points(3), true, News{End: End{"a", 3, at(3)}, Reset: true}},
	} {
		n := News{End: End{Key: "a", Total: c.total}, Points: c.points}
		n.continues(c.known, c.complete)
		require.Equal(t, c.want, n, name)
	}
}

func TestCursorsOfPoints(t *testing.T) {
	for _, p := range []Position{{}, {1, math.MinInt64, -0.1}, {maxTime, math.MaxInt64, math.MaxFloat64}, {2, 3, math.Inf(-1)}, {2, 3, math.Inf(1)}} {
		got, err := ParsePosition("r", "a", p.Cursor("r", "a"))
		require.NoError(t, err)
		require.Equal(t, p, *got)
	}
	nan, err := ParsePosition("r", "a", Position{Value: math.NaN()}.Cursor("r", "a"))
	require.NoError(t, err)
	require.True(t, math.IsNaN(nan.Value))
	none, err := ParsePosition("r", "a", "")
	require.NoError(t, err)
	require.Nil(t, none)
	other := domain.PageOf(historyName("r", "a"), nil, 0, func(s string) string { return s })
	for _, bad := range []string{"x", Position{}.Cursor("r", "b"), Position{}.Cursor("q", "a"), other.Cursor("1,2"), other.Cursor("1,x,2"), other.Cursor("1,2,x")} {
		_, err := ParsePosition("r", "a", bad)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), bad)
	}
}

func TestTooManyFollowedMetrics(t *testing.T) {
	r := &Runs{}
	_, err := r.FollowPoints(domain.Scope{}, "r", make([]string, maxFollowed+1), nil)
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	_, err = r.FollowPoints(domain.Scope{}, "r", nil, make([]End, MaxMetrics+1))
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
}
