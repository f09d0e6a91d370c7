package tracking

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millpond/millpond/domain"
)

// End is how far a reader knows the history of a metric.
type End struct {
	Key   string
	Total int64     // points up to Last
	Last  *Position // nil without points
}

// News is what was logged to a metric since the last read.
type News struct {
	End            // after the points
	Points []Point // in the order of the history
	// Reset means that points were added before the last known one. Points is empty, and the reader
	// reads the history again.
	Reset bool
}

// followTx reads what is new in a run.
type followTx interface {
	// MetricEnds returns the ends of the run's metrics, by key. Nil keys stand for all metrics.
	MetricEnds(ctx context.Context, run int64, keys []string) ([]End, error)
	// NewPoints returns the run's metrics that have another number of points than is known, by key:
	// the number, and the points after the last known one. A metric without such points counts as
	// one: if there are limit in all, the last metric may have more. If it is not complete, there are
	// more points or metrics. It costs one round trip.
	NewPoints(ctx context.Context, run int64, keys []string, known []End, limit int) (found []News, complete bool, err error)
}

// Bounds of a follower of points.
const (
	maxFollowed = 1_000 // named metrics
	maxNews     = 1_000 // points and metrics that are sent at once
)

// PointFollower finds the new points of one run for one reader.
type PointFollower struct {
	runs  *Runs
	scope domain.Scope
	run   domain.TrackingRunID
	keys  []string
	known map[string]End // nil before the first read, if it begins now
}

// FollowPoints returns a follower of the run's metrics with the keys; nil stands for all. If after
// is nil, its first read returns a reset of every metric that has points, and later reads return
// what is new. Otherwise it begins after the ends, and other metrics begin at their first point.
func (r *Runs) FollowPoints(s domain.Scope, id domain.TrackingRunID, keys []string, after []End) (*PointFollower, error) {
	if len(keys) > maxFollowed {
		return nil, domain.Invalid("keys", "A reader follows at most %d metrics by name; these are %d. Leave the names out to follow all.", maxFollowed, len(keys))
	}
	f := &PointFollower{runs: r, scope: s, run: id, keys: keys}
	if after == nil {
		return f, nil
	}
	if len(after) > MaxMetrics {
		return nil, domain.Invalid("after", "A run has at most %d metrics; these are %d.", MaxMetrics, len(after))
	}
	f.known = make(map[string]End, len(after))
	for _, end := range after {
		f.known[end.Key] = end
	}
	return f, nil
}

// Each calls send with what is new, at most 1,000 points at once. A point is sent once, or a reset
// of its metric follows its commit. After an error of the store, the next call continues where this
// one ended.
func (f *PointFollower) Each(ctx context.Context, send func([]News) error) error {
	if f.known == nil {
		return f.begin(ctx, send)
	}
	for complete := false; !complete; {
		var news []News
		err := f.read(ctx, func(tx Tx, run int64) (err error) {
			news, complete, err = tx.NewPoints(ctx, run, f.keys, slices.Collect(maps.Values(f.known)), maxNews)
			return err
		})
		if err != nil || len(news) == 0 {
			return err
		}
		read := 0
		for i := range news {
			read += max(len(news[i].Points), 1)
			news[i].continues(f.known[news[i].Key], read < maxNews)
			f.known[news[i].Key] = news[i].End
		}
		if err := send(news); err != nil {
			return err
		}
	}
	return nil
}

// begin resets every metric.
func (f *PointFollower) begin(ctx context.Context, send func([]News) error) error {
	var ends []End
	err := f.read(ctx, func(tx Tx, run int64) (err error) {
		ends, err = tx.MetricEnds(ctx, run, f.keys)
		return err
	})
	if err != nil {
		return err
	}
	f.known = make(map[string]End, len(ends))
	news := make([]News, len(ends))
	for i, end := range ends {
		f.known[end.Key] = end
		news[i] = News{End: end, Reset: true}
	}
	for some := range slices.Chunk(news, maxNews) {
		if err := send(some); err != nil {
			return err
		}
	}
	return nil
}

func (f *PointFollower) read(ctx context.Context, fn func(tx Tx, run int64) error) error {
	return f.runs.read(ctx, f.scope, func(tx Tx) error {
		run, err := tx.TrackingRun(ctx, f.run)
		if err != nil {
			return err
		}
		return fn(tx, run.Number)
	})
}

// continues sets the end after the points that follow the known end. The number of points of the
// metric was read in the same snapshot: if they do not explain it, others were added before them.
func (n *News) continues(known End, complete bool) {
	total := n.Total
	n.Total, n.Last = known.Total+int64(len(n.Points)), known.Last
	if len(n.Points) > 0 {
		last := n.Points[len(n.Points)-1].Position()
		n.Last = &last
	}
	if complete && n.Total != total {
		n.Total, n.Points, n.Reset = total, nil, true
	}
}

// Watch wakes the channel whenever the run may have changed, or has new points.
func (r *Runs) Watch(ctx context.Context, s domain.Scope, id domain.TrackingRunID) (wake <-chan struct{}, stop func(), err error) {
	err = r.read(ctx, s, func(tx Tx) error {
		_, err := tx.TrackingRun(ctx, id)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(domain.TrackingRunTopic(id))
	return wake, stop, nil
}

// WatchExperiment wakes the channel whenever a run of the experiment may have changed.
func (r *Runs) WatchExperiment(ctx context.Context, s domain.Scope, x domain.ExperimentID) (wake <-chan struct{}, stop func(), err error) {
	err = r.read(ctx, s, func(tx Tx) error {
		_, err := tx.Experiment(ctx, x)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	wake, stop = r.Topics.Subscribe(domain.TrackingRunsTopic(s.Workspace()))
	return wake, stop, nil
}

// Cursor returns the position's cursor in the history of the run's metric.
func (p Position) Cursor(run domain.TrackingRunID, key string) string {
	return domain.PageOf(historyName(run, key), nil, 0, Position.text).Cursor(p)
}

// ParsePosition reads a cursor of the history of the run's metric; nil for an empty one. It returns
// CodeInvalid for a cursor of another history.
func ParsePosition(run domain.TrackingRunID, key, cursor string) (*Position, error) {
	text, _, err := domain.Page{Cursor: cursor}.After(historyName(run, key))
	if err != nil || text == "" {
		return nil, err
	}
	var p Position
	parts := strings.Split(text, ",")
	if len(parts) == 3 {
		var errs [3]error
		p.At, errs[0] = strconv.ParseInt(parts[0], 10, 64)
		p.Step, errs[1] = strconv.ParseInt(parts[1], 10, 64)
		p.Value, errs[2] = strconv.ParseFloat(parts[2], 64)
		if errs == [3]error{} {
			return &p, nil
		}
	}
	return nil, domain.Invalid("cursor", "The cursor is malformed; use the cursor of the previous answer as it came.")
}

func historyName(run domain.TrackingRunID, key string) string {
	return domain.ListName("points", []string{string(run), key})
}

func (p Position) text() string {
	return fmt.Sprintf("%d,%d,%s", p.At, p.Step, strconv.FormatFloat(p.Value, 'g', -1, 64))
}
