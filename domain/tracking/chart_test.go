package tracking

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAChartKeepsExtremes, the first value that is not finite, and both ends, however the history
// was summarized.
func TestAChartKeepsExtremes(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 99, -99}))
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(MinChart, 60).Draw(t, "most")
		values := rapid.SliceOfN(value, most+1, 400).Draw(t, "values")
		size := rapid.IntRange(1, 50).Draw(t, "size")
		expected := rapid.IntRange(1, 2*len(values)).Draw(t, "expected") // points came or went since
		p := newParts(int64(expected), most)
		var whole Summary
		for chunk := range slices.Chunk(values, size) {
			var s Summary
			for _, v := range chunk {
				at := int64(whole.Points + s.Points)
				s.Add(SummaryOf(Point{At: at / 3, Step: at, Value: v}))
			}
			p.add(s)
			whole.Add(s)
		}
		shown := p.points()
		require.LessOrEqual(t, len(shown), most)
		require.True(t, slices.IsSortedFunc(shown, comparePoints))
		has := func(want Point) {
			require.True(t, slices.ContainsFunc(shown, func(p Point) bool { return comparePoints(p, want) == 0 }), "%v is not in %v", want, shown)
		}
		has(whole.First)
		has(whole.Last)
		has(whole.Low)
		has(whole.High)
		if whole.Odd != nil {
			has(*whole.Odd)
		}
	})
}
