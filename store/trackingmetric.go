package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/tracking"
)

// logPoints adds points ($4 to $7: keys, steps, times, values) to the run ($2) of the experiment
// ($3, or null for any), if the workspace has room for them. Their order prevents deadlocks. The
// latest point of each metric is the greatest by step, time and value, where NaN counts as 0. A
// metric is due to be summarized with each 1,024 points, and with points before the end of its last
// summary: these a little later, the more points it has, since many summaries are made again.
const logPoints = `
	WITH room AS (SELECT COALESCE((SELECT value FROM quotas WHERE workspace_id = $1 AND name = $9), $8) AS most,
			(SELECT COALESCE(sum(points), 0) FROM tracking_usage WHERE workspace_id = $1)::bigint AS current),
		run AS (SELECT r.number FROM tracking_runs r JOIN experiments x ON x.workspace_id = r.workspace_id AND x.number = r.experiment
			WHERE r.workspace_id = $1 AND r.id = $2 AND ($3::bigint IS NULL OR r.experiment = $3) AND r.deleted_at IS NULL AND x.deleted_at IS NULL),
		given AS (SELECT k.number AS key, g.key AS name, g.step, g.at, g.value FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::float8[]) AS g (key, step, at, value)
			LEFT JOIN tracking_keys k ON k.workspace_id = $1 AND k.key = g.key),
		added AS (INSERT INTO tracking_points (workspace_id, run, key, at, step, value)
			SELECT $1, run.number, g.key, g.at, g.step, g.value FROM given g, run, room
			WHERE current + cardinality($4::text[]) <= most AND NOT EXISTS (SELECT FROM given WHERE key IS NULL)
			ORDER BY g.key, g.at, g.step, g.value ON CONFLICT DO NOTHING RETURNING run, key, at, step, value),
		latest AS (INSERT INTO tracking_metrics AS m (workspace_id, run, key, step, at, value, points)
			SELECT DISTINCT ON (key) $1, run, key, step, at, value, count(*) OVER (PARTITION BY key) FROM added
			ORDER BY key, step DESC, at DESC, COALESCE(NULLIF(value, 'NaN'), 0) DESC
			ON CONFLICT (workspace_id, run, key) DO UPDATE SET (step, at, value, points) = (SELECT l.step, l.at, l.value, m.points + EXCLUDED.points
				FROM (VALUES (EXCLUDED.step, EXCLUDED.at, EXCLUDED.value, 0), (m.step, m.at, m.value, 1)) AS l (step, at, value, held)
				ORDER BY l.step DESC, l.at DESC, COALESCE(NULLIF(l.value, 'NaN'), 0) DESC, l.held DESC LIMIT 1)
			RETURNING xmax = 0 AS made, run, key, points, summarized_at, summarized_step, summarized_value),
		late AS (SELECT a.key, min(a.at) AS since FROM added a JOIN latest l USING (key) WHERE (a.at, a.step, a.value) < (l.summarized_at, l.summarized_step, l.summarized_value) GROUP BY a.key),
		due AS (INSERT INTO tracking_unsummarized AS u (workspace_id, run, key, since, due_at)
			SELECT $1, l.run, l.key, late.since, $10::timestamptz + CASE WHEN since IS NULL THEN interval '0' ELSE make_interval(secs => 10 + l.points / 100000) END
			FROM latest l JOIN (SELECT key, count(*) AS n FROM added GROUP BY key) a USING (key) LEFT JOIN late USING (key)
			WHERE since IS NOT NULL OR l.points / 1024 > (l.points - n) / 1024
			ON CONFLICT (workspace_id, run, key) DO UPDATE SET since = LEAST(u.since, EXCLUDED.since),
				due_at = CASE WHEN u.since IS NULL THEN GREATEST(u.due_at, EXCLUDED.due_at) ELSE u.due_at END WHERE EXCLUDED.since IS NOT NULL),
		used AS (INSERT INTO tracking_usage AS u (workspace_id, part, points) SELECT $1, pg_backend_pid() % 64, count(*) FROM added HAVING count(*) > 0
			ON CONFLICT (workspace_id, part) DO UPDATE SET points = u.points + EXCLUDED.points)
	SELECT (SELECT number FROM run) AS run, current, most, EXISTS (SELECT FROM given WHERE key IS NULL) AS unknown, (SELECT count(*) FROM latest WHERE made) AS made FROM room`

// LogPoints implements tracking.Tx.
func (t *Tx) LogPoints(ctx context.Context, x domain.ExperimentID, run domain.TrackingRunID, points []tracking.Point, now time.Time) (tracking.Logged, error) {
	n := len(points)
	keys, steps, ats, numbers := make([]string, n), make([]int64, n), make([]int64, n), make(floats, n)
	for i, p := range points {
		keys[i], steps[i], ats[i], numbers[i] = p.Key, p.Step, p.At, p.Value
	}
	var experiment *int64
	if x != "" {
		number := experimentNumber(x)
		experiment = &number
	}
	var found struct {
		Run     *int64 `db:"run"`
		Current int64  `db:"current"`
		Most    int64  `db:"most"`
		Unknown bool   `db:"unknown"`
		Made    int    `db:"made"`
	}
	standard := quota.Of(quota.MaxMetricPoints, nil, 0).Limit
	for try := 0; try < 2; try++ {
		err := t.get(prepared(ctx), &found, logPoints, t.workspace, run, experiment, pq.Array(keys), pq.Array(steps), pq.Array(ats), numbers, standard, quota.MaxMetricPoints, now)
		if err != nil {
			return tracking.Logged{}, err
		}
		if !found.Unknown || found.Run == nil {
			break
		}
		if err := t.insertMetricKeys(ctx, keys); err != nil {
			return tracking.Logged{}, err
		}
	}
	logged := tracking.Logged{Run: found.Run != nil, Room: found.Current+int64(n) <= found.Most, Keys: true, Limit: &found.Most, Current: found.Current}
	if found.Made == 0 {
		return logged, nil
	}
	var metrics int
	err := t.get(ctx, &metrics, `SELECT count(*) FROM tracking_metrics WHERE workspace_id = $1 AND run = $2`, t.workspace, *found.Run)
	logged.Keys = metrics <= tracking.MaxMetrics
	return logged, err
}

// insertMetricKeys gives numbers to the names of metrics that have none. It waits for transactions
// that do the same.
func (t *Tx) insertMetricKeys(ctx context.Context, keys []string) error {
	return t.exec(ctx, `INSERT INTO tracking_keys (workspace_id, key) SELECT DISTINCT $1, g.key FROM unnest($2::text[]) AS g (key)
		WHERE NOT EXISTS (SELECT FROM tracking_keys k WHERE k.workspace_id = $1 AND k.key = g.key) ORDER BY 2 ON CONFLICT DO NOTHING`, t.workspace, pq.Array(keys))
}

// floats is an array parameter in the shortest form.
type floats []float64

// Value implements driver.Valuer.
func (f floats) Value() (driver.Value, error) {
	b := make([]byte, 0, 2+18*len(f))
	b = append(b, '{')
	for i, v := range f {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsInf(v, 1):
			b = append(b, "Infinity"...)
		case math.IsInf(v, -1):
			b = append(b, "-Infinity"...)
		default:
			b = strconv.AppendFloat(b, v, 'g', -1, 64)
		}
	}
	return string(append(b, '}')), nil
}

// Points implements tracking.Tx.
func (t *Tx) Points(ctx context.Context, run int64, key string, after *tracking.Position, limit int) ([]tracking.Point, error) {
	where, args := "", []any{t.workspace, run, key, limit}
	if after != nil {
		where, args = " AND (at, step, value) > ($5, $6, $7)", append(args, after.At, after.Step, after.Value)
	}
	return t.points(ctx, key, `SELECT at, step, value FROM tracking_points WHERE workspace_id = $1 AND run = $2
		AND key = (SELECT number FROM tracking_keys WHERE workspace_id = $1 AND key = $3)`+where+` ORDER BY at, step, value LIMIT $4`, args...)
}

func (t *Tx) points(ctx context.Context, key, query string, args ...any) (points []tracking.Point, err error) {
	rows, err := t.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		p := tracking.Point{Key: key}
		if err := rows.Scan(&p.At, &p.Step, &p.Value); err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, rows.Err()
}

// samplePoints reads the range of the index whole, and sorts it by step. $5 and $6 are the first
// and the last step, or null.
const samplePoints = `SELECT DISTINCT ON (bucket, last) at, step, value FROM (SELECT at, step, value, row_number() OVER w AS i, ntile($4) OVER w AS bucket, lead(at) OVER w IS NULL AS last
		FROM tracking_points WHERE workspace_id = $1 AND run = $2 AND key = $3 AND ($5::bigint IS NULL OR step BETWEEN $5 AND $6) WINDOW w AS (ORDER BY step, at, value)) p
	ORDER BY bucket, last, i`

// samplePointsByTime looks at $4 times, equally distant, for the next point, of 256 at most, that
// has one of the steps.
const samplePointsByTime = `WITH p AS NOT MATERIALIZED (SELECT at, step, value FROM tracking_points WHERE workspace_id = $1 AND run = $2 AND key = $3),
		ends AS (SELECT (SELECT min(at) FROM p) AS first, (SELECT max(at) FROM p) AS last)
	SELECT DISTINCT found.at, found.step, found.value FROM ends, generate_series(0, $4::bigint) AS g, LATERAL (
		SELECT * FROM (SELECT * FROM p WHERE at >= first + ((last - first)::numeric * g / $4)::bigint ORDER BY at, step, value LIMIT 256) near
			WHERE $5::bigint IS NULL OR step BETWEEN $5 AND $6 ORDER BY at, step, value LIMIT 1) found
	ORDER BY found.step, found.at, found.value`

// SamplePoints implements tracking.Tx.
func (t *Tx) SamplePoints(ctx context.Context, run int64, key string, p tracking.Part) ([]tracking.Point, error) {
	var metric struct {
		Key    int64 `db:"key"`
		Points int64 `db:"points"`
	}
	err := t.get(ctx, &metric, `SELECT key, points FROM tracking_metrics WHERE workspace_id = $1 AND run = $2
		AND key = (SELECT number FROM tracking_keys WHERE workspace_id = $1 AND key = $3)`, t.workspace, run, key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	query := samplePoints
	if metric.Points > tracking.MaxSampled {
		query = samplePointsByTime
	}
	return t.points(ctx, key, query, t.workspace, run, metric.Key, p.Most, p.From, p.To)
}

// budget bounds what one read of logged values may hold, in bytes.
type budget struct {
	left  int
	whole int // the runs that were read whole
}

// take counts the bytes of a run's value, and reports whether to read on. The first run is always
// read.
func (b *budget) take(run, bytes int) bool {
	b.left -= bytes
	if b.left < 0 && run > 0 {
		b.whole = min(b.whole, run)
		return false
	}
	return true
}

// FillTrackingRuns implements tracking.Tx.
func (t *Tx) FillTrackingRuns(ctx context.Context, runs []tracking.Run, bytes int) (int, error) {
	b := &budget{left: bytes, whole: len(runs)}
	numbers := make([]int64, len(runs))
	for i := range runs {
		numbers[i] = runs[i].Number
		runs[i].Metrics, runs[i].Parameters, runs[i].Tags, runs[i].Inputs = nil, nil, nil, nil
	}
	for _, fill := range []func(context.Context, []tracking.Run, []int64, *budget) error{t.fillMetrics, t.fillParameters, t.fillTags, t.fillInputs} {
		if err := fill(ctx, runs, numbers, b); err != nil {
			return 0, err
		}
	}
	return b.whole, nil
}

// logged reads rows of the runs in their order, as long as scan returns true. $1 and $2 of the query
// are the workspace and the runs' numbers; wanted has each number with its place, from 1.
func (t *Tx) logged(ctx context.Context, numbers []int64, query string, scan func(*sql.Rows) (bool, error)) (err error) {
	rows, err := t.conn.QueryContext(prepared(ctx), query, t.workspace, pq.Array(numbers))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if more, err := scan(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

const wantedRuns = ` FROM unnest($2::bigint[]) WITH ORDINALITY AS wanted (run, place) `

func (t *Tx) fillMetrics(ctx context.Context, runs []tracking.Run, numbers []int64, b *budget) error {
	const size = 100
	return t.logged(ctx, numbers, `SELECT place, k.key, m.step, m.at, m.value, m.points`+wantedRuns+`
		JOIN tracking_metrics m ON m.workspace_id = $1 AND m.run = wanted.run JOIN tracking_keys k ON k.workspace_id = $1 AND k.number = m.key ORDER BY place, k.key`,
		func(rows *sql.Rows) (bool, error) {
			var place int
			var m tracking.Metric
			if err := rows.Scan(&place, &m.Key, &m.Step, &m.At, &m.Value, &m.Points); err != nil {
				return false, err
			}
			r := &runs[place-1]
			r.Metrics = append(r.Metrics, m)
			return b.take(place-1, size+len(m.Key)), nil
		})
}

func (t *Tx) fillParameters(ctx context.Context, runs []tracking.Run, numbers []int64, b *budget) error {
	return t.fillPairs(ctx, "tracking_parameters", numbers, b, func(i int) *[]tracking.Pair { return &runs[i].Parameters })
}

func (t *Tx) fillTags(ctx context.Context, runs []tracking.Run, numbers []int64, b *budget) error {
	return t.fillPairs(ctx, "tracking_tags", numbers, b, func(i int) *[]tracking.Pair { return &runs[i].Tags })
}

func (t *Tx) fillPairs(ctx context.Context, table string, numbers []int64, b *budget, of func(int) *[]tracking.Pair) error {
	return t.logged(ctx, numbers, `SELECT place, p.key, p.value`+wantedRuns+`JOIN `+table+` p ON p.workspace_id = $1 AND p.run = wanted.run ORDER BY place, p.key`,
		func(rows *sql.Rows) (bool, error) {
			var place int
			var p tracking.Pair
			if err := rows.Scan(&place, &p.Key, &p.Value); err != nil {
				return false, err
			}
			pairs := of(place - 1)
			*pairs = append(*pairs, p)
			return b.take(place-1, 50+len(p.Key)+len(p.Value)), nil
		})
}

func (t *Tx) fillInputs(ctx context.Context, runs []tracking.Run, numbers []int64, b *budget) error {
	return t.logged(ctx, numbers, `SELECT place, i.tags, d.name, d.digest, d.source_type, d.source, d.schema, d.profile`+wantedRuns+`
		JOIN tracking_inputs i ON i.workspace_id = $1 AND i.run = wanted.run JOIN tracking_datasets d ON d.workspace_id = $1 AND d.number = i.dataset ORDER BY place, d.number`,
		func(rows *sql.Rows) (bool, error) {
			var place int
			var tags []byte
			var in tracking.Input
			if err := rows.Scan(&place, &tags, &in.Name, &in.Digest, &in.SourceType, &in.Source, &in.Schema, &in.Profile); err != nil {
				return false, err
			}
			var pairs map[string]string
			if err := json.Unmarshal(tags, &pairs); err != nil {
				return false, err
			}
			for key, value := range pairs {
				in.Tags = append(in.Tags, tracking.Pair{Key: key, Value: value})
			}
			slices.SortFunc(in.Tags, func(a, b tracking.Pair) int { return strings.Compare(a.Key, b.Key) })
			r := &runs[place-1]
			r.Inputs = append(r.Inputs, in)
			return b.take(place-1, 200+len(in.Name)+len(in.Source)+len(in.Schema)+len(in.Profile)), nil
		})
}
