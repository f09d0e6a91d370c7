package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// trueSummaries are those of the metric ($1 to $3) up to the position ($4 to $6) that no point was
// logged into since.
const trueSummaries = `SELECT points, first_at, first_step, first_value, last_at, last_step, last_value, low_at, low_step, low_value, high_at, high_step, high_value,
		odd_at, odd_step, odd_value
	FROM tracking_summaries s WHERE workspace_id = $1 AND run = $2 AND key = $3
		AND last_at < COALESCE((SELECT since FROM tracking_unsummarized WHERE workspace_id = $1 AND run = $2 AND key = $3), 9223372036854775807)
		AND (last_at, last_step, last_value) <= ($4, $5, $6)
	ORDER BY last_at, last_step, last_value`

// restOfPoints are those after the position ($4 to $6) up to another ($7 to $9).
const restOfPoints = `SELECT at, step, value FROM tracking_points WHERE workspace_id = $1 AND run = $2 AND key = $3
	AND (at, step, value) > ($4, $5, $6) AND (at, step, value) <= ($7, $8, $9) ORDER BY at, step, value`

// restByTime looks at $10 times, equally distant, for the next of these points. A single row is the
// lower bound of a look: from two, the index would take either.
const restByTime = `WITH first AS (` + restOfPoints + ` LIMIT 1)
	SELECT DISTINCT found.at, found.step, found.value FROM first, generate_series(0, $10::bigint) AS g, LATERAL (
		SELECT p.at, p.step, p.value FROM tracking_points p WHERE workspace_id = $1 AND run = $2 AND key = $3
			AND (p.at, p.step, p.value) > (CASE g WHEN 0 THEN $4::bigint ELSE first.at + (($7 - first.at)::numeric * g / $10)::bigint END,
				CASE g WHEN 0 THEN $5::bigint ELSE -9223372036854775808 END, CASE g WHEN 0 THEN $6::float8 ELSE '-Infinity' END)
			AND (p.at, p.step, p.value) <= ($7, $8, $9) ORDER BY p.at, p.step, p.value LIMIT 1) found
	ORDER BY found.at, found.step, found.value`

// Summaries implements tracking.Tx.
func (t *Tx) Summaries(ctx context.Context, run int64, name string, end tracking.End, most int, add func(tracking.Summary)) (err error) {
	var key int64
	err = t.get(ctx, &key, `SELECT number FROM tracking_keys WHERE workspace_id = $1 AND key = $2`, t.workspace, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	last, rest := tracking.Position{At: -1}, end.Total
	if rest > tracking.MaxSampled {
		err := t.trueSummaries(ctx, run, key, *end.Last, func(s tracking.Summary) {
			last, rest = s.Last.Position(), rest-s.Points
			add(s)
		})
		if err != nil {
			return err
		}
	}
	query, args, of := restOfPoints, []any{t.workspace, run, key, last.At, last.Step, last.Value, end.Last.At, end.Last.Step, end.Last.Value}, int64(1)
	if rest > tracking.MaxSampled {
		query, args, of = restByTime, append(args, most), rest/int64(most)
	}
	rows, err := t.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p tracking.Point
		if err := rows.Scan(&p.At, &p.Step, &p.Value); err != nil {
			return err
		}
		s := tracking.SummaryOf(p)
		s.Points = of
		add(s)
	}
	if of > 1 {
		add(tracking.SummaryOf(tracking.Point{At: end.Last.At, Step: end.Last.Step, Value: end.Last.Value}))
	}
	return rows.Err()
}

func (t *Tx) trueSummaries(ctx context.Context, run, key int64, end tracking.Position, add func(tracking.Summary)) (err error) {
	rows, err := t.conn.QueryContext(ctx, trueSummaries, t.workspace, run, key, end.At, end.Step, end.Value)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s tracking.Summary
		var at, step *int64
		var value *float64
		err := rows.Scan(&s.Points, &s.First.At, &s.First.Step, &s.First.Value, &s.Last.At, &s.Last.Step, &s.Last.Value,
			&s.Low.At, &s.Low.Step, &s.Low.Value, &s.High.At, &s.High.Step, &s.High.Value, &at, &step, &value)
		if err != nil {
			return err
		}
		if at != nil {
			s.Odd = &tracking.Point{At: *at, Step: *step, Value: *value}
		}
		add(s)
	}
	return rows.Err()
}

// UnsummarizedMetrics implements tracking.System.
func (s *System) UnsummarizedMetrics(ctx context.Context, now time.Time, limit int) ([]tracking.MetricRef, error) {
	type row struct {
		Workspace string `db:"workspace_id"`
		Run, Key  int64
	}
	translate := func(r row) (tracking.MetricRef, error) {
		return tracking.MetricRef{Workspace: domain.WorkspaceID(r.Workspace), Run: r.Run, Key: r.Key}, nil
	}
	found, err := rows(ctx, s.db, translate, `SELECT workspace_id, run, key FROM tracking_unsummarized WHERE due_at <= $1
		ORDER BY row_number() OVER (PARTITION BY workspace_id ORDER BY due_at), due_at LIMIT $2`, now, limit)
	return found, mapError(err)
}

const (
	summarized    = 1_024 // points of a summary
	summariesOnce = 16    // that a transaction makes, in about 50 ms
)

// addSummaries makes summaries of the metric's points ($1 to $3) after the position ($4 to $6): of
// at most $7 points, but not of the last $8 of them, and of $8 points each.
const addSummaries = `WITH page AS (SELECT at, step, value, row_number() OVER (ORDER BY at, step, value) AS i FROM (
			SELECT at, step, value FROM tracking_points WHERE workspace_id = $1 AND run = $2 AND key = $3 AND (at, step, value) > ($4, $5, $6) ORDER BY at, step, value LIMIT $7) p),
		parts AS (SELECT count(*) AS points, min(i) AS first, max(i) AS last, (min(ARRAY[value, i]) FILTER (WHERE finite))[2] AS low, -(max(ARRAY[value, -i]) FILTER (WHERE finite))[2] AS high,
				min(i) FILTER (WHERE NOT finite) AS odd
			FROM (SELECT i, value, value NOT IN ('NaN', 'Infinity', '-Infinity') AS finite FROM page WHERE i <= ((SELECT count(*) FROM page) - $8) / $8 * $8) p GROUP BY (i - 1) / $8),
		made AS (INSERT INTO tracking_summaries (workspace_id, run, key, points, first_at, first_step, first_value, last_at, last_step, last_value,
				low_at, low_step, low_value, high_at, high_step, high_value, odd_at, odd_step, odd_value)
			SELECT $1, $2, $3, parts.points, f.at, f.step, f.value, l.at, l.step, l.value, low.at, low.step, low.value, high.at, high.step, high.value, odd.at, odd.step, odd.value
			FROM parts JOIN page f ON f.i = parts.first JOIN page l ON l.i = parts.last JOIN page low ON low.i = COALESCE(parts.low::bigint, parts.first)
				JOIN page high ON high.i = COALESCE(parts.high::bigint, parts.first) LEFT JOIN page odd ON odd.i = parts.odd)
	SELECT count(*) FROM page`

// Summarize implements tracking.Tx. Writers lock the metric before its row of work, and so does
// this.
func (t *Tx) Summarize(ctx context.Context, run, key int64, now time.Time) (more bool, err error) {
	if err := t.exec(ctx, `SELECT FROM tracking_metrics WHERE workspace_id = $1 AND run = $2 AND key = $3 FOR UPDATE`, t.workspace, run, key); err != nil {
		return false, err
	}
	var since *int64
	err = t.get(ctx, &since, `DELETE FROM tracking_unsummarized WHERE workspace_id = $1 AND run = $2 AND key = $3 RETURNING since`, t.workspace, run, key)
	if errors.Is(err, sql.ErrNoRows) { // another replica has done it, or the run is erased
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if since != nil {
		if err := t.exec(ctx, `DELETE FROM tracking_summaries WHERE workspace_id = $1 AND run = $2 AND key = $3 AND last_at >= $4`, t.workspace, run, key, *since); err != nil {
			return false, err
		}
	}
	last := tracking.Position{At: -1}
	const lastSummary = `SELECT last_at AS at, last_step AS step, last_value AS value FROM tracking_summaries WHERE workspace_id = $1 AND run = $2 AND key = $3
		ORDER BY last_at DESC, last_step DESC, last_value DESC LIMIT 1`
	if err := t.get(ctx, &last, lastSummary, t.workspace, run, key); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	var read int
	const limit = (summariesOnce + 1) * summarized
	if err := t.get(ctx, &read, addSummaries, t.workspace, run, key, last.At, last.Step, last.Value, limit, summarized); err != nil {
		return false, err
	}
	err = t.exec(ctx, `UPDATE tracking_metrics m SET summarized_at = s.at, summarized_step = s.step, summarized_value = s.value
		FROM (SELECT) one LEFT JOIN (`+lastSummary+`) s ON true WHERE m.workspace_id = $1 AND m.run = $2 AND m.key = $3`, t.workspace, run, key)
	if err != nil || read < limit {
		return false, err
	}
	return true, t.exec(ctx, `INSERT INTO tracking_unsummarized (workspace_id, run, key, due_at) VALUES ($1, $2, $3, $4)`, t.workspace, run, key, now)
}
