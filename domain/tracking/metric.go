package tracking

import (
	"context"
	"iter"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

// Point is one value of a metric.
type Point struct {
	Key   string
	Step  int64
	At    int64   // milliseconds since 1970
	Value float64 // may be NaN or infinite
}

// Metric is a run's metric: its latest point, which is the greatest by step, then time, then value,
// where NaN counts as 0; and its number of points.
type Metric struct {
	Point
	Points int64
}

// Position is a place in a metric's history, which is ordered by time, step and value. NaN comes
// after all other values.
type Position struct {
	At    int64
	Step  int64
	Value float64
}

// Position returns the point's place.
func (p Point) Position() Position { return Position{p.At, p.Step, p.Value} }

// Logged is what the store says of logged points.
type Logged struct {
	Run     bool   // whether the run is active
	Room    bool   // whether the points fit in the workspace's quota
	Keys    bool   // whether the run may have that many metrics
	Limit   *int64 // of the quota; nil for the default
	Current int64  // points in the workspace
}

// metricTx reads and writes points.
type metricTx interface {
	// LogPoints adds points to an active run, and updates its metrics. Points that the run already
	// has change nothing. x is the run's experiment, or empty for any. It costs one round trip, and
	// two more for keys that are new in the workspace. now decides when summaries are due.
	LogPoints(ctx context.Context, x domain.ExperimentID, run domain.TrackingRunID, points []Point, now time.Time) (Logged, error)
	// Points returns the metric's points after the position, which may be nil, in the order of the
	// history.
	Points(ctx context.Context, run int64, key string, after *Position, limit int) ([]Point, error)
	// SamplePoints returns the first point of each of p.Most parts of the same size, and the last
	// point. It reads at most MaxSampled points: of more, it looks at equal distances of time.
	SamplePoints(ctx context.Context, run int64, key string, p Part) ([]Point, error)
	// Summaries calls add with summaries of the metric's history up to its end, in order. Those of
	// up to MaxSampled points have one point each. Of more that have no summary yet, it reads some
	// most, at equal distances of time, which stand for all.
	Summaries(ctx context.Context, run int64, key string, end End, most int, add func(Summary)) error
}

// MaxSampled is how many points of a metric are read to sample them evenly. That takes about 0.1 s.
const MaxSampled = 100_000

// historyPage is how many points a transaction reads for a history.
const historyPage = 2_500

// History returns a metric's history in pages, each read in its own transaction: no reader holds a
// connection or more than a page. A key that the run does not have has no points. x is the run's
// experiment, or empty for any.
func (r *Runs) History(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, key string) (iter.Seq2[[]Point, error], error) {
	first, run, err := r.points(ctx, s, x, id, key, nil, historyPage)
	if err != nil {
		return nil, err
	}
	return func(yield func([]Point, error) bool) {
		page := first
		for yield(page, nil) && len(page) == historyPage {
			after := page[len(page)-1].Position()
			err := r.Store.In(ctx, s, func(tx Tx) (err error) {
				page, err = tx.Points(ctx, run.Number, key, &after, historyPage)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}, nil
}

// Points returns a page of a metric's history after the position.
func (r *Runs) Points(ctx context.Context, s domain.Scope, id domain.TrackingRunID, key string, after *Position, limit int) ([]Point, error) {
	points, _, err := r.points(ctx, s, "", id, key, after, limit)
	return points, err
}

func (r *Runs) points(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, key string, after *Position, limit int) (points []Point, run Run, err error) {
	err = r.read(ctx, s, func(tx Tx) (err error) {
		if run, err = runOf(ctx, tx, x, id); err != nil {
			return err
		}
		points, err = tx.Points(ctx, run.Number, key, after, limit)
		return err
	})
	return points, run, err
}

// Part selects points evenly from a metric's history, in the order of step, time and value: at most
// Most, which is at least 1, of the steps From to To. Without these it is of all steps.
type Part struct {
	From, To *int64
	Most     int
}

// Sample returns part of a metric's history, with its first and its last point; the last alone if
// Most is 1.
func (r *Runs) Sample(ctx context.Context, s domain.Scope, id domain.TrackingRunID, key string, p Part) (points []Point, err error) {
	err = r.turns.do(ctx, s, func(ctx context.Context) error {
		return r.read(ctx, s, func(tx Tx) error {
			run, err := tx.TrackingRun(ctx, id)
			if err != nil {
				return err
			}
			points, err = tx.SamplePoints(ctx, run.Number, key, p)
			return err
		})
	})
	if n := len(points); n > p.Most {
		points[p.Most-1], points = points[n-1], points[:p.Most]
	}
	return points, err
}

// LogPoints adds points to an active run, all or none. It returns CodeConflict for a deleted run,
// and CodeQuota if the workspace has no room.
func (r *Runs) LogPoints(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, points []Point) error {
	return r.Log(ctx, s, x, id, Batch{Points: points})
}

// Batch is what a run logs at once.
type Batch struct {
	Points     []Point
	Parameters []Pair
	Tags       []Pair
}

func (b Batch) validate() (Batch, error) {
	for _, bound := range []struct {
		what    string
		n, most int
	}{
		{"metrics", len(b.Points), MaxPoints},
		{"params", len(b.Parameters), maxBatchPairs},
		{"tags", len(b.Tags), maxBatchPairs},
		{"metrics, params, and tags", len(b.Points) + len(b.Parameters) + len(b.Tags), MaxPoints},
	} {
		if bound.n > bound.most {
			return b, domain.Invalid(bound.what, "A batch logging request can contain at most %d %s. Got %d %s. Please split up %s across multiple requests and try again.",
				bound.most, bound.what, bound.n, bound.what, bound.what)
		}
	}
	for _, p := range b.Points {
		if err := p.validate(); err != nil {
			return b, err
		}
	}
	var err error
	if b.Parameters, err = validPairs("Parameter", b.Parameters, maxValue); err != nil {
		return b, err
	}
	if err := unique(b.Parameters); err != nil {
		return b, err
	}
	b.Tags, err = validPairs("Tag", b.Tags, maxTag)
	return b, err
}

func (p Point) validate() error {
	if err := validKey("Metric name", p.Key); err != nil {
		return err
	}
	if p.At < 0 || p.At > maxTime {
		return domain.Invalid("timestamp", "Got invalid timestamp %d for metric '%s'. Timestamp must be a nonnegative long (64-bit integer), at most %d", p.At, p.Key, int64(maxTime))
	}
	return nil
}

func unique(parameters []Pair) error {
	seen := make(map[string]bool, len(parameters))
	for _, p := range parameters {
		if seen[p.Key] {
			return domain.Invalid("params", "Duplicate parameter keys have been submitted: %s. Please ensure the request contains only one param value per param key.", p.Key)
		}
		seen[p.Key] = true
	}
	return nil
}

// Log stores a batch, all of it or nothing. It returns CodeConflict for a deleted run and for a
// parameter that has another value, CodeQuota if the workspace has no room for the points, and
// CodeRate if other writes take too long.
func (r *Runs) Log(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID, b Batch) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunLog); err != nil {
		return err
	}
	b, err := b.validate()
	if err != nil {
		return err
	}
	end, err := r.shares.take(ctx, s.Workspace(), len(b.Points))
	if err != nil {
		return err
	}
	defer end()
	err = r.Store.In(ctx, s, func(tx Tx) error {
		if len(b.Parameters)+len(b.Tags) > 0 || len(b.Points) == 0 {
			run, err := activeRun(ctx, tx, x, id)
			if err != nil {
				return err
			}
			if err := logPairs(ctx, tx, s, run, b); err != nil {
				return err
			}
		}
		return logPoints(ctx, tx, x, id, b.Points, r.Clock.Now())
	})
	if err != nil {
		return err
	}
	topic := domain.TrackingRunTopic(id)
	r.Topics.Wake(topic)
	r.Topics.WakeOthers(topic)
	return nil
}

func logPoints(ctx context.Context, tx Tx, x domain.ExperimentID, id domain.TrackingRunID, points []Point, now time.Time) error {
	if len(points) == 0 {
		return nil
	}
	logged, err := tx.LogPoints(ctx, x, id, points, now)
	switch {
	case err != nil:
		return err
	case !logged.Run: // it says what is wrong
		_, err := activeRun(ctx, tx, x, id)
		return err
	case !logged.Room:
		return quota.Of(quota.MaxMetricPoints, logged.Limit, logged.Current).RequireFor(int64(len(points)))
	case !logged.Keys:
		return TooMany("metrics", MaxMetrics)
	}
	return nil
}

// TooMany says that a run would have more of something than it may.
func TooMany(what string, most int) error {
	return domain.Invalid("key", "A run has at most %d %s; log more in another run.", most, what)
}
