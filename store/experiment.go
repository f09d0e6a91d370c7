package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

type experimentRow struct {
	Number        int64            `db:"number"`
	Name          string           `db:"name"`
	Location      string           `db:"artifact_location"`
	CreatedByKind domain.ActorKind `db:"created_by_kind"`
	CreatedByID   string           `db:"created_by_id"`
	CreatedByName string           `db:"created_by_name"`
	CreatedAt     time.Time        `db:"created_at"`
	UpdatedAt     time.Time        `db:"updated_at"`
	DeletedAt     *time.Time       `db:"deleted_at"`
	Tags          []byte           `db:"tags"`
	Keys          pq.StringArray   `db:"keys"`
}

const experimentColumns = `x.number, x.name, x.artifact_location, x.created_by_kind, x.created_by_id, x.created_by_name, x.created_at, x.updated_at, x.deleted_at,
	(SELECT COALESCE(jsonb_agg(jsonb_build_object('key', key, 'value', value) ORDER BY key), '[]') FROM experiment_tags t
		WHERE t.workspace_id = x.workspace_id AND t.experiment = x.number) AS tags`

// pair is the stored form of tracking.Pair.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (p pair) toDomain() tracking.Pair { return tracking.Pair{Key: p.Key, Value: p.Value} }

func (r experimentRow) toDomain() (tracking.Experiment, error) {
	tags, err := decodeEach(r.Tags, pair.toDomain)
	return tracking.Experiment{
		ID: experimentID(r.Number), Name: r.Name, Location: r.Location, Tags: tags,
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName},
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), DeletedAt: utc(r.DeletedAt),
	}, err
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func experimentID(number int64) domain.ExperimentID {
	return domain.ExperimentID(strconv.FormatInt(number, 10))
}

// experimentNumber returns the number of the id, or -1, which no experiment has.
func experimentNumber(id domain.ExperimentID) int64 {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil || n < 0 || experimentID(n) != id {
		return -1
	}
	return n
}

func experimentNumbers(ids []domain.ExperimentID) []int64 { return each(ids, experimentNumber) }

func noExperiment(id domain.ExperimentID) error { return domain.NotFound("experiment", id) }

func (t *Tx) experiment(ctx context.Context, missing error, where string, arg any) (tracking.Experiment, error) {
	var row experimentRow
	if err := t.get(ctx, &row, `SELECT `+experimentColumns+` FROM experiments x WHERE x.workspace_id = $1 AND `+where, t.workspace, arg); err != nil {
		return tracking.Experiment{}, orMissing(err, missing)
	}
	return row.toDomain()
}

// Experiment implements tracking.Tx.
func (t *Tx) Experiment(ctx context.Context, id domain.ExperimentID) (tracking.Experiment, error) {
	return t.experiment(ctx, noExperiment(id), `x.number = $2`, experimentNumber(id))
}

// ExperimentByName implements tracking.Tx.
func (t *Tx) ExperimentByName(ctx context.Context, name string) (tracking.Experiment, error) {
	return t.experiment(ctx, domain.NotFound("experiment", name), `x.name = $2`, name)
}

// ExperimentsByID implements tracking.Tx.
func (t *Tx) ExperimentsByID(ctx context.Context, ids []domain.ExperimentID) ([]tracking.Experiment, error) {
	return rows(ctx, t.conn, experimentRow.toDomain, `SELECT `+experimentColumns+` FROM experiments x WHERE x.workspace_id = $1 AND x.number = ANY($2)`,
		t.workspace, pq.Array(experimentNumbers(ids)))
}

// insertDefaultExperiment adds the experiment that every workspace has.
func insertDefaultExperiment(ctx context.Context, tx *sqlx.Tx, ws domain.WorkspaceID, by domain.Actor, at time.Time) error {
	if err := insert(ctx, tx, "experiment_numbers", values{"workspace_id": ws, "last": 0}); err != nil {
		return err
	}
	return insert(ctx, tx, "experiments", values{
		"workspace_id": ws, "number": 0, "name": "Default", "created_at": at, "updated_at": at,
	}.actor("created_by", by))
}

// InsertExperiment implements tracking.Tx.
func (t *Tx) InsertExperiment(ctx context.Context, e tracking.Experiment) (domain.ExperimentID, error) {
	var number int64
	if err := t.get(ctx, &number, `UPDATE experiment_numbers SET last = last + 1 WHERE workspace_id = $1 RETURNING last`, t.workspace); err != nil {
		return "", err
	}
	err := t.insert(ctx, "experiments", values{
		"number": number, "name": e.Name, "artifact_location": e.Location, "created_at": e.CreatedAt, "updated_at": e.UpdatedAt,
	}.actor("created_by", e.CreatedBy))
	return experimentID(number), err
}

// Experiments implements tracking.Tx.
func (t *Tx) Experiments(ctx context.Context, q tracking.Query, bytes int) (found []tracking.Experiment, keys []tracking.Keys, cut bool, err error) {
	s := newSearch(t.workspace, "x")
	s.view(q.View, "x.deleted_at")
	for _, c := range q.Where {
		s.experimentCondition(c)
	}
	for _, o := range q.Order {
		s.orderBy(experimentAttribute(o.Key), o.Descending)
	}
	s.orderBy(column{sql: "x.number", kind: "bigint"}, false)
	rows, err := t.conn.QueryxContext(ctx, s.query(experimentColumns, "experiments x", q), s.args...)
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row experimentRow
		if err := rows.StructScan(&row); err != nil {
			return nil, nil, false, err
		}
		if bytes -= 500 + len(row.Tags); bytes < 0 && len(found) > 0 {
			return found, keys, true, nil
		}
		e, err := row.toDomain()
		if err != nil {
			return nil, nil, false, err
		}
		found, keys = append(found, e), append(keys, tracking.Keys(row.Keys))
	}
	return found, keys, false, rows.Err()
}

// UpdateExperiment implements tracking.Tx.
func (t *Tx) UpdateExperiment(ctx context.Context, id domain.ExperimentID, fn func(*tracking.Experiment) error) (tracking.Experiment, error) {
	e, err := t.experiment(ctx, noExperiment(id), `x.number = $2 FOR UPDATE`, experimentNumber(id))
	if err != nil {
		return tracking.Experiment{}, err
	}
	if err := fn(&e); err != nil {
		return tracking.Experiment{}, err
	}
	_, err = t.write(ctx, `UPDATE experiments SET name = :name, updated_at = :updated_at, deleted_at = :deleted_at WHERE workspace_id = :workspace_id AND number = :number`,
		values{"number": experimentNumber(id), "name": e.Name, "updated_at": e.UpdatedAt, "deleted_at": e.DeletedAt})
	return e, err
}

// SetExperimentTags implements tracking.Tx.
func (t *Tx) SetExperimentTags(ctx context.Context, id domain.ExperimentID, tags []tracking.Pair) error {
	if err := t.setPairs(ctx, "experiment_tags", "experiment", experimentNumber(id), tags); err != nil {
		return err
	}
	var n int
	err := t.get(ctx, &n, `SELECT count(*) FROM experiment_tags WHERE workspace_id = $1 AND experiment = $2`, t.workspace, experimentNumber(id))
	if err == nil && n > tracking.MaxExperimentTags {
		err = domain.Invalid("key", "An experiment has at most %d tags; delete some first.", tracking.MaxExperimentTags)
	}
	return err
}

// setPairs adds pairs to their owner, or replaces their values. Of the same key the last counts.
func (t *Tx) setPairs(ctx context.Context, table, owner string, number int64, pairs []tracking.Pair) error {
	if len(pairs) == 0 {
		return nil
	}
	last := map[string]string{}
	for _, p := range pairs {
		last[p.Key] = p.Value
	}
	keys, texts := make([]string, 0, len(last)), make([]string, 0, len(last))
	for key, value := range last {
		keys, texts = append(keys, key), append(texts, value)
	}
	return t.exec(ctx, `INSERT INTO `+table+` AS t (workspace_id, `+owner+`, key, value) SELECT $1, $2, key, value FROM unnest($3::text[], $4::text[]) AS g (key, value) ORDER BY key COLLATE "C"
		ON CONFLICT (workspace_id, `+owner+`, key) DO UPDATE SET value = EXCLUDED.value WHERE t.value <> EXCLUDED.value`, t.workspace, number, pq.Array(keys), pq.Array(texts))
}

// DeleteExperimentTag implements tracking.Tx.
func (t *Tx) DeleteExperimentTag(ctx context.Context, id domain.ExperimentID, key string) (bool, error) {
	return t.touched(ctx, `DELETE FROM experiment_tags WHERE workspace_id = $1 AND experiment = $2 AND key = $3`, t.workspace, experimentNumber(id), key)
}
