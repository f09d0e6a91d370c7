package tracking

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/millpond/millpond/domain"
)

// Summary stands for consecutive points of a metric's history.
type Summary struct {
	Points      int64 // how many; at least 1
	First, Last Point
	Low, High   Point  // the first of the lowest and of the highest finite values; First without one
	Odd         *Point // the first value that is NaN or infinite
}

// SummaryOf returns the summary of one point.
func SummaryOf(p Point) Summary {
	s := Summary{Points: 1, First: p, Last: p, Low: p, High: p}
	if !p.finite() {
		s.Odd = &p
	}
	return s
}

func (p Point) finite() bool { return !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) }

// Add extends the summary by what follows it.
func (s *Summary) Add(next Summary) {
	if s.Points == 0 {
		*s = next
		return
	}
	s.Points += next.Points
	s.Last = next.Last
	if next.Low.finite() && (!s.Low.finite() || next.Low.Value < s.Low.Value) {
		s.Low = next.Low
	}
	if next.High.finite() && (!s.High.finite() || next.High.Value > s.High.Value) {
		s.High = next.High
	}
	if s.Odd == nil {
		s.Odd = next.Odd
	}
}

// Chart is a metric's history with few points.
type Chart struct {
	Points []Point   // in the order of the history
	Total  int64     // number of the metric's points
	Last   *Position // of the history; nil without points
}

// Bounds of a chart's number of points.
const (
	MinChart = 10
	MaxChart = 10_000
)

// Chart returns a metric's history with at most most points: all of them if there are no more.
// Otherwise it divides the history into parts with about as many points each, and keeps the lowest
// and the highest value of each part, the first that is NaN or infinite, and the first and the last
// point of all. x is the run's experiment, or empty for any. It reads at most MaxSampled points and
// a summary for each 1,024 others. While others have no summary yet, it reads some of them, equally
// distant in time, so that extremes can be missing.
func (r *Runs) Chart(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, key string, most int) (c Chart, err error) {
	if most < MinChart || most > MaxChart {
		return c, domain.Invalid("max_points", "A chart has %d to %d points; this would be %d.", MinChart, MaxChart, most)
	}
	err = r.turns.do(ctx, s, func(ctx context.Context) error {
		return r.read(ctx, s, func(tx Tx) error {
			run, err := runOf(ctx, tx, x, id)
			if err != nil {
				return err
			}
			c, err = chartOf(ctx, tx, run.Number, key, most)
			return err
		})
	})
	return c, err
}

func chartOf(ctx context.Context, tx Tx, run int64, key string, most int) (Chart, error) {
	ends, err := tx.MetricEnds(ctx, run, []string{key})
	if err != nil || len(ends) == 0 {
		return Chart{}, err
	}
	end := ends[0]
	c := Chart{Total: end.Total, Last: end.Last}
	if end.Total <= int64(most) {
		c.Points, err = tx.Points(ctx, run, key, nil, most)
		return c, err
	}
	parts := newParts(end.Total, most)
	err = tx.Summaries(ctx, run, key, end, most, parts.add)
	c.Points = parts.points()
	return c, err
}

// parts divides a history that comes in summaries.
type parts struct {
	most  int
	total int64 // expected
	seen  int64
	whole Summary
	each  []Summary
}

// newParts returns parts that fit into most points if all values are finite.
func newParts(total int64, most int) *parts {
	return &parts{most: most, total: total, each: make([]Summary, (most-2)/2)}
}

func (p *parts) add(s Summary) {
	n := int64(len(p.each))
	// Points may have come since the total was read.
	p.each[min(int64(float64(p.seen)/float64(p.total)*float64(n)), n-1)].Add(s)
	p.whole.Add(s)
	p.seen += s.Points
}

// points returns what the chart shows: of each part also its first and last point, if they fit.
func (p *parts) points() []Point {
	all := p.collect(func(s Summary) []Point { return []Point{s.First, s.Low, s.High, s.Last} })
	for len(all) > p.most {
		if all = p.collect(func(s Summary) []Point { return []Point{s.Low, s.High} }); len(all) > p.most {
			p.halve()
		}
	}
	return all
}

func (p *parts) collect(of func(Summary) []Point) []Point {
	all := []Point{p.whole.First, p.whole.Last}
	for _, s := range p.each {
		if s.Points == 0 {
			continue
		}
		all = append(all, of(s)...)
		if s.Odd != nil {
			all = append(all, *s.Odd)
		}
	}
	slices.SortFunc(all, comparePoints)
	return slices.CompactFunc(all, func(a, b Point) bool { return comparePoints(a, b) == 0 })
}

// halve joins neighbours.
func (p *parts) halve() {
	joined := make([]Summary, (len(p.each)+1)/2)
	for i, s := range p.each {
		if s.Points > 0 {
			joined[i/2].Add(s)
		}
	}
	p.each = joined
}

// comparePoints compares by the order of the history.
func comparePoints(a, b Point) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Step, b.Step), compareValues(a.Value, b.Value))
}

func compareValues(a, b float64) int {
	if math.IsNaN(a) || math.IsNaN(b) {
		return cmp.Compare(b, a) // NaN is the least for cmp
	}
	return cmp.Compare(a, b)
}
