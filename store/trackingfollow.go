package store

import (
	"context"
	"errors"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain/tracking"
)

// followedMetrics are the metrics of the run ($2): those with the keys ($3), or all if it is null.
const followedMetrics = `FROM tracking_metrics m JOIN tracking_keys k ON k.workspace_id = $1 AND k.number = m.key`

const ofFollowed = `WHERE m.workspace_id = $1 AND m.run = $2 AND ($3::text[] IS NULL OR k.key = ANY($3))`

// MetricEnds implements tracking.Tx.
func (t *Tx) MetricEnds(ctx context.Context, run int64, keys []string) (ends []tracking.End, err error) {
	rows, err := t.conn.QueryContext(ctx, `SELECT k.key, m.points, p.at, p.step, p.value `+followedMetrics+`
		CROSS JOIN LATERAL (SELECT at, step, value FROM tracking_points p WHERE p.workspace_id = $1 AND p.run = $2 AND p.key = m.key ORDER BY at DESC, step DESC, value DESC LIMIT 1) p
		`+ofFollowed+` ORDER BY k.key`, t.workspace, run, pq.Array(keys))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		end := tracking.End{Last: &tracking.Position{}}
		if err := rows.Scan(&end.Key, &end.Total, &end.Last.At, &end.Last.Step, &end.Last.Value); err != nil {
			return nil, err
		}
		ends = append(ends, end)
	}
	return ends, rows.Err()
}

// newPoints reads points after the known ends ($4 to $8: keys, totals, times, steps, values): at
// most $9 rows, of the first metrics that together have as many new points. A metric without points
// after its end has one row. Times are not negative, so an unknown metric begins after -1.
const newPoints = `SELECT m.name, m.points, m.changed, p.at, p.step, p.value
	FROM (SELECT k.key AS name, m.key, m.points, COALESCE(g.at, -1) AS at, COALESCE(g.step, 0) AS step, COALESCE(g.value, 0) AS value, count(*) OVER () AS changed,
			sum(greatest(m.points - COALESCE(g.total, 0), 1)) OVER (ORDER BY k.key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before ` + followedMetrics + `
		LEFT JOIN unnest($4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::float8[]) AS g (key, total, at, step, value) ON g.key = k.key
		` + ofFollowed + ` AND m.points <> COALESCE(g.total, 0)) m
	LEFT JOIN LATERAL (SELECT at, step, value FROM tracking_points p WHERE p.workspace_id = $1 AND p.run = $2 AND p.key = m.key AND (p.at, p.step, p.value) > (m.at, m.step, m.value)
		ORDER BY at, step, value LIMIT $9) p ON true
	WHERE COALESCE(m.before, 0) < $9 ORDER BY m.name, p.at, p.step, p.value LIMIT $9`

// NewPoints implements tracking.Tx.
func (t *Tx) NewPoints(ctx context.Context, run int64, keys []string, known []tracking.End, limit int) (found []tracking.News, complete bool, err error) {
	n := len(known)
	names, totals, ats, steps, numbers := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make(floats, n)
	for i, end := range known {
		names[i], totals[i], ats[i] = end.Key, end.Total, -1
		if end.Last != nil {
			ats[i], steps[i], numbers[i] = end.Last.At, end.Last.Step, end.Last.Value
		}
	}
	rows, err := t.conn.QueryContext(ctx, newPoints, t.workspace, run, pq.Array(keys), pq.Array(names), pq.Array(totals), pq.Array(ats), pq.Array(steps), numbers, limit)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var read, changed int
	for ; rows.Next(); read++ {
		var key string
		var total int64
		var at, step *int64
		var value *float64
		if err := rows.Scan(&key, &total, &changed, &at, &step, &value); err != nil {
			return nil, false, err
		}
		if len(found) == 0 || found[len(found)-1].Key != key {
			found = append(found, tracking.News{End: tracking.End{Key: key, Total: total}})
		}
		if at != nil {
			last := &found[len(found)-1]
			last.Points = append(last.Points, tracking.Point{Key: key, At: *at, Step: *step, Value: *value})
		}
	}
	return found, len(found) == changed && read < limit, rows.Err()
}
