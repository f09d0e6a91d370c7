package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

type trackingRunRow struct {
	ID            domain.TrackingRunID `db:"id"`
	Number        int64                `db:"number"`
	Experiment    int64                `db:"experiment"`
	Location      string               `db:"artifact_location"`
	Name          string               `db:"name"`
	State         tracking.State       `db:"state"`
	User          string               `db:"user_name"`
	CreatedByKind domain.ActorKind     `db:"created_by_kind"`
	CreatedByID   string               `db:"created_by_id"`
	CreatedByName string               `db:"created_by_name"`
	JobRun        domain.RunID         `db:"job_run_id"`
	TaskKey       string               `db:"task_key"`
	Attempt       domain.AttemptID     `db:"attempt_id"`
	CreatedAt     time.Time            `db:"created_at"`
	StartedAt     time.Time            `db:"started_at"`
	FinishedAt    *time.Time           `db:"finished_at"`
	DeletedAt     *time.Time           `db:"deleted_at"`
	Changed       domain.Change        `db:"changed"`
	Keys          pq.StringArray       `db:"keys"`
}

const (
	trackingRunColumns = `r.id, r.number, r.experiment, x.artifact_location, r.name, r.state, r.user_name, r.created_by_kind, r.created_by_id, r.created_by_name,
		r.job_run_id, r.task_key, r.attempt_id, r.created_at, r.started_at, r.finished_at, COALESCE(r.deleted_at, x.deleted_at) AS deleted_at, r.changed`
	trackingRunTables = `tracking_runs r JOIN experiments x ON x.workspace_id = r.workspace_id AND x.number = r.experiment`
)

func (r trackingRunRow) toDomain() (tracking.Run, error) {
	x := tracking.Experiment{ID: experimentID(r.Experiment), Location: r.Location}
	return tracking.Run{
		ID: r.ID, Number: r.Number, Experiment: x.ID, Location: x.ArtifactLocation(), Name: r.Name, State: r.State, User: r.User,
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName}, JobRun: r.JobRun, TaskKey: r.TaskKey, Attempt: r.Attempt,
		CreatedAt: r.CreatedAt.UTC(), StartedAt: r.StartedAt.UTC(), FinishedAt: utc(r.FinishedAt), DeletedAt: utc(r.DeletedAt), Changed: r.Changed,
	}, nil
}

func (t *Tx) trackingRun(ctx context.Context, id domain.TrackingRunID, lock string) (tracking.Run, error) {
	var row trackingRunRow
	err := t.get(ctx, &row, `SELECT `+trackingRunColumns+` FROM `+trackingRunTables+` WHERE r.workspace_id = $1 AND r.id = $2`+lock, t.workspace, id)
	if err != nil {
		return tracking.Run{}, orMissing(err, domain.NotFound("tracking run", id))
	}
	return row.toDomain()
}

// TrackingRun implements tracking.Tx.
func (t *Tx) TrackingRun(ctx context.Context, id domain.TrackingRunID) (tracking.Run, error) {
	return t.trackingRun(ctx, id, "")
}

// pointPartitionEvery is how many runs make sure, once, that the partition after theirs exists. A
// partition has 10,000 runs, so a hundred of them do.
const pointPartitionEvery = 100

// InsertTrackingRun implements tracking.Tx.
func (t *Tx) InsertTrackingRun(ctx context.Context, r tracking.Run) (number int64, err error) {
	row := values{
		"id": r.ID, "experiment": experimentNumber(r.Experiment), "name": r.Name, "state": r.State, "user_name": r.User, "job_run_id": r.JobRun, "task_key": r.TaskKey,
		"attempt_id": r.Attempt, "created_at": r.CreatedAt, "started_at": r.StartedAt, "finished_at": r.FinishedAt,
	}.actor("created_by", r.CreatedBy)
	query := `INSERT INTO tracking_runs (workspace_id, ` + row.each("%s") + `) VALUES (:workspace_id, ` + row.each(":%s") + `) RETURNING number`
	if err := t.getNamed(ctx, &number, query, row); err != nil {
		return 0, err
	}
	if number%pointPartitionEvery == 0 {
		err = t.exec(ctx, `SELECT create_point_partition($1)`, number+10_000)
	}
	return number, err
}

// UpdateTrackingRun implements tracking.Tx.
func (t *Tx) UpdateTrackingRun(ctx context.Context, id domain.TrackingRunID, fn func(*tracking.Run) error) (tracking.Run, error) {
	r, err := t.trackingRun(ctx, id, ` FOR UPDATE OF r`)
	if err != nil {
		return tracking.Run{}, err
	}
	if err := fn(&r); err != nil {
		return tracking.Run{}, err
	}
	return r, t.update(ctx, nil, "tracking_runs", string(id), values{"name": r.Name, "state": r.State, "finished_at": r.FinishedAt, "deleted_at": r.DeletedAt})
}

// TrackingRuns implements tracking.Tx.
func (t *Tx) TrackingRuns(ctx context.Context, q tracking.Query) ([]tracking.Run, []tracking.Keys, error) {
	metrics, err := t.metricNumbers(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	s := newSearch(t.workspace, "r")
	s.experiments(q.Experiments)
	s.view(q.View, "r.deleted_at", "x.deleted_at")
	for _, c := range q.Where {
		s.runCondition(c, metrics)
	}
	for _, o := range q.Order {
		s.runOrder(o, metrics)
	}
	s.orderBy(runAttribute("start_time"), true)
	s.orderBy(runAttribute("run_id"), false)
	var found []trackingRunRow
	if err := t.sel(ctx, &found, s.query(trackingRunColumns, trackingRunTables, q), s.args...); err != nil {
		return nil, nil, err
	}
	runs, keys := make([]tracking.Run, len(found)), make([]tracking.Keys, len(found))
	for i, row := range found {
		if runs[i], err = row.toDomain(); err != nil {
			return nil, nil, err
		}
		keys[i] = tracking.Keys(row.Keys)
	}
	return runs, keys, nil
}

// experiments selects the runs of the experiments. A single one is compared by itself, so that an
// index gives the order.
func (s *search) experiments(ids []domain.ExperimentID) {
	if len(ids) == 1 {
		s.and("r.experiment = %s", s.arg(experimentNumber(ids[0])))
		return
	}
	s.and("r.experiment = ANY(%s)", s.arg(pq.Array(experimentNumbers(ids))))
}

// metricNumbers returns the numbers of the metrics that the query names. Others stay 0, which no
// metric has.
func (t *Tx) metricNumbers(ctx context.Context, q tracking.Query) (map[string]int64, error) {
	var names []string
	for _, c := range q.Where {
		if c.Entity == tracking.MetricEntity {
			names = append(names, c.Key)
		}
	}
	for _, o := range q.Order {
		if o.Entity == tracking.MetricEntity {
			names = append(names, o.Key)
		}
	}
	numbers := map[string]int64{}
	if len(names) == 0 {
		return numbers, nil
	}
	var found []struct {
		Number int64  `db:"number"`
		Key    string `db:"key"`
	}
	err := t.sel(ctx, &found, `SELECT number, key FROM tracking_keys WHERE workspace_id = $1 AND key = ANY($2)`, t.workspace, pq.Array(names))
	for _, f := range found {
		numbers[f.Key] = f.Number
	}
	return numbers, err
}

// TrackingRunsOfJob implements tracking.Tx.
func (t *Tx) TrackingRunsOfJob(ctx context.Context, runs []domain.RunID, limit int) ([]tracking.Run, error) {
	return rows(ctx, t.conn, trackingRunRow.toDomain, `SELECT `+trackingRunColumns+` FROM unnest($2::text[]) AS g (job_run_id)
		CROSS JOIN LATERAL (SELECT * FROM tracking_runs r WHERE r.workspace_id = $1 AND r.job_run_id = g.job_run_id AND r.job_run_id <> '' ORDER BY r.id LIMIT $3) r
		JOIN experiments x ON x.workspace_id = r.workspace_id AND x.number = r.experiment ORDER BY r.id`, t.workspace, texts(runs), limit)
}

// ChangedTrackingRuns implements tracking.Tx.
func (t *Tx) ChangedTrackingRuns(ctx context.Context, x domain.ExperimentID, p domain.Position) ([]tracking.Run, bool, error) {
	where, args := t.changedSince(p)
	where, args = t.firstRound(where, args, p, "tracking_runs", "state IN ('scheduled', 'running')")
	args = append(args, experimentNumber(x))
	found, err := rows(ctx, t.conn, trackingRunRow.toDomain, `SELECT `+trackingRunColumns+` FROM (SELECT * FROM tracking_runs WHERE `+where+` AND experiment = `+placeholder(len(args))+`
		ORDER BY changed, id LIMIT $4) r JOIN experiments x ON x.workspace_id = r.workspace_id AND x.number = r.experiment ORDER BY r.changed, r.id`, args...)
	return found, len(found) == domain.MaxLimit, err
}

// InsertParameters implements tracking.Tx. Another transaction may have added the same parameter
// after the statement began: then a second try sees it.
func (t *Tx) InsertParameters(ctx context.Context, run int64, parameters []tracking.Pair) (different []tracking.Pair, err error) {
	keys, texts := make([]string, len(parameters)), make([]string, len(parameters))
	for i, p := range parameters {
		keys[i], texts[i] = p.Key, p.Value
	}
	for range 2 {
		var stored []struct {
			Key   string  `db:"key"`
			Given string  `db:"given"`
			Value *string `db:"value"`
		}
		err := t.sel(ctx, &stored, `WITH given AS (SELECT key, value FROM unnest($3::text[], $4::text[]) AS g (key, value)),
			added AS (INSERT INTO tracking_parameters (workspace_id, run, key, value) SELECT $1, $2, key, value FROM given
				WHERE (SELECT count(*) FROM tracking_parameters WHERE workspace_id = $1 AND run = $2) + $5 <= $6 ORDER BY key COLLATE "C" ON CONFLICT DO NOTHING RETURNING key, value)
			SELECT g.key, g.value AS given, COALESCE(p.value, a.value) AS value FROM given g LEFT JOIN added a ON a.key = g.key
				LEFT JOIN tracking_parameters p ON p.workspace_id = $1 AND p.run = $2 AND p.key = g.key`,
			t.workspace, run, pq.Array(keys), pq.Array(texts), len(parameters), tracking.MaxPairs)
		if err != nil {
			return nil, err
		}
		unseen := false
		for _, s := range stored {
			switch {
			case s.Value == nil:
				unseen = true
			case *s.Value != s.Given:
				different = append(different, tracking.Pair{Key: s.Key, Value: *s.Value})
			}
		}
		if !unseen || len(different) > 0 {
			return different, nil
		}
	}
	return nil, tracking.TooMany("parameters", tracking.MaxPairs)
}

// SetTags implements tracking.Tx.
func (t *Tx) SetTags(ctx context.Context, run int64, tags []tracking.Pair) error {
	if err := t.setPairs(ctx, "tracking_tags", "run", run, tags); err != nil {
		return err
	}
	var n int
	if err := t.get(ctx, &n, `SELECT count(*) FROM tracking_tags WHERE workspace_id = $1 AND run = $2`, t.workspace, run); err != nil {
		return err
	}
	if n > tracking.MaxPairs {
		return tracking.TooMany("tags", tracking.MaxPairs)
	}
	return nil
}

// DeleteTag implements tracking.Tx.
func (t *Tx) DeleteTag(ctx context.Context, run int64, key string) (bool, error) {
	return t.touched(ctx, `DELETE FROM tracking_tags WHERE workspace_id = $1 AND run = $2 AND key = $3`, t.workspace, run, key)
}

// InsertInputs implements tracking.Tx.
func (t *Tx) InsertInputs(ctx context.Context, r tracking.Run, inputs []tracking.Input) error {
	for _, in := range inputs {
		tags := map[string]string{}
		for _, p := range in.Tags {
			tags[p.Key] = p.Value
		}
		document, err := json.Marshal(tags)
		if err != nil {
			return err
		}
		_, err = t.write(ctx, `WITH known AS (SELECT number FROM tracking_datasets WHERE workspace_id = :workspace_id AND experiment = :experiment AND name = :name AND digest = :digest),
			added AS (INSERT INTO tracking_datasets (workspace_id, experiment, name, digest, source_type, source, schema, profile)
				SELECT :workspace_id, CAST(:experiment AS bigint), :name, :digest, :source_type, :source, :schema, :profile WHERE NOT EXISTS (SELECT FROM known)
				ON CONFLICT (workspace_id, experiment, name, digest) DO UPDATE SET name = EXCLUDED.name RETURNING number)
			INSERT INTO tracking_inputs AS i (workspace_id, run, dataset, tags)
				SELECT :workspace_id, CAST(:run AS bigint), number, CAST(:tags AS jsonb) FROM (SELECT number FROM known UNION SELECT number FROM added) d
				ON CONFLICT (workspace_id, run, dataset) DO UPDATE SET tags = i.tags || EXCLUDED.tags`, values{
			"experiment": experimentNumber(r.Experiment), "name": in.Name, "digest": in.Digest, "source_type": in.SourceType, "source": in.Source,
			"schema": in.Schema, "profile": in.Profile, "run": r.Number, "tags": string(document),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// UsedDatasets implements tracking.Tx.
func (t *Tx) UsedDatasets(ctx context.Context, ids []domain.ExperimentID, limit int) ([]tracking.Used, error) {
	type row struct {
		Experiment int64  `db:"experiment"`
		Name       string `db:"name"`
		Digest     string `db:"digest"`
		Context    string `db:"context"`
	}
	toDomain := func(r row) (tracking.Used, error) {
		return tracking.Used{Experiment: experimentID(r.Experiment), Name: r.Name, Digest: r.Digest, Context: r.Context}, nil
	}
	return rows(ctx, t.conn, toDomain, `SELECT DISTINCT d.experiment, d.name, d.digest, COALESCE(i.tags ->> 'mlflow.data.context', '') AS context
		FROM tracking_datasets d JOIN tracking_inputs i ON i.workspace_id = d.workspace_id AND i.dataset = d.number
		WHERE d.workspace_id = $1 AND d.experiment = ANY($2) ORDER BY 1, 2, 3, 4 LIMIT $3`, t.workspace, pq.Array(experimentNumbers(ids)), limit)
}
