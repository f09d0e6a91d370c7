package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

type factRow struct {
	lineageRow
	Process lineage.ProcessID `db:"process" json:"process"`
	RunID   domain.RunID      `db:"run_id" json:"-"`
	TaskKey string            `db:"task_key" json:"-"`
	Source  string            `db:"source" json:"source"`
	Key     string            `db:"table_key" json:"table_key"`
}

const factColumns = `l.at, l.actor_kind, l.actor_id, l.actor_name, l.direction, l.table_id, l.snapshot_id, l.database, l.schema, l.name, l.columns, l.process, l.run_id,
	l.task_key, l.source`

func (r factRow) toDomain() (lineage.Fact, error) {
	e, err := r.lineageRow.toDomain()
	return lineage.Fact{LineageEntry: e, Process: r.Process, RunID: r.RunID, TaskKey: r.TaskKey, Source: r.Source}, err
}

type lineageEdgeRow struct {
	factRow
	Count int64 `db:"count"`
}

func (r lineageEdgeRow) toDomain() (lineage.Edge, error) {
	f, err := r.factRow.toDomain()
	return lineage.Edge{Fact: f, Count: r.Count}, err
}

const factRecord = `jsonb_to_recordset($2::jsonb) AS e (actor_kind text, actor_id text, actor_name text, direction text, table_id text, snapshot_id bigint,
	at timestamptz, database text, schema text, name text, columns text[], process text, source text, table_key text)`

// These insert an entry e of lineage in the workspace $1, with its run, task and process.
const (
	insertFacts = `INSERT INTO lineage (workspace_id, actor_kind, actor_id, actor_name, direction, table_id, snapshot_id, at, database, schema, name, columns,
		run_id, task_key, process, adhoc, table_key, source)
	SELECT $1, e.actor_kind, e.actor_id, e.actor_name, e.direction, e.table_id, e.snapshot_id, e.at, e.database, e.schema, e.name, e.columns,
		COALESCE(r.id, ''), COALESCE(a.task_key, s.task_key, ''),
		COALESCE(NULLIF(e.process, ''), r.job_id || COALESCE('/' || NULLIF(COALESCE(a.task_key, s.task_key), ''), ''), e.actor_id),
		e.process = '' AND r.id IS NULL, e.table_key, e.source`
	factJoins = `
	LEFT JOIN attempts a ON e.actor_kind = 'run' AND a.workspace_id = $1 AND a.id = e.actor_id
	LEFT JOIN statements s ON e.actor_kind = 'statement' AND s.workspace_id = $1 AND s.id = e.actor_id
	LEFT JOIN runs r ON r.workspace_id = $1 AND r.id = COALESCE(a.run_id, NULLIF(s.run_id, ''))`
)

// InsertLineageFacts implements lineage.Tx. OpenLineage may report a table without a
// snapshot that the catalog saw the same actor use. Then its columns are added to that entry. An
// earlier report is replaced by what the catalog sees later. Reported writes of a failed run are
// left out.
func (t *Tx) InsertLineageFacts(ctx context.Context, facts []lineage.Fact) error {
	if len(facts) == 0 {
		return nil
	}
	all := make([]factRow, len(facts))
	told := false
	for i, f := range facts {
		all[i] = factRow{
			lineageRow: lineageRow{
				At: f.At, ActorKind: f.Actor.Kind, ActorID: f.Actor.ID, ActorName: f.Actor.Name, Direction: f.Direction, TableID: f.TableID,
				Database: f.Database, Schema: f.Schema, Name: f.Name, SnapshotID: f.SnapshotID, Columns: f.Columns,
			},
			Process: f.Process, Source: f.Source, Key: lake.FoldName(f.Database + "." + f.Schema + "." + f.Name),
		}
		told = told || f.Source != ""
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	err = t.exec(prepared(ctx), insertFacts+` FROM `+factRecord+factJoins+`
		WHERE e.source = '' OR ((e.snapshot_id <> 0 OR NOT EXISTS (SELECT FROM lineage k WHERE k.workspace_id = $1 AND k.actor_kind = e.actor_kind
			AND k.actor_id = e.actor_id AND k.direction = e.direction AND k.table_id = e.table_id))
			AND (e.direction = 'read' OR NOT EXISTS (SELECT FROM lineage_retracted x WHERE x.workspace_id = $1 AND x.actor_kind = e.actor_kind
			AND x.actor_id = e.actor_id AND x.source = e.source)))
		ON CONFLICT DO NOTHING`, t.workspace, string(body))
	if err != nil || !told {
		return err
	}
	return t.exec(ctx, `UPDATE lineage k SET columns = e.columns FROM `+factRecord+` WHERE e.columns IS NOT NULL AND k.columns IS NULL AND k.workspace_id = $1
		AND k.actor_kind = e.actor_kind AND k.actor_id = e.actor_id AND k.direction = e.direction AND k.table_id = e.table_id`, t.workspace, string(body))
}

// RetractLineage implements lineage.Tx.
func (t *Tx) RetractLineage(ctx context.Context, all []lineage.Source) error {
	if len(all) == 0 {
		return nil
	}
	kinds, ids, sources := make([]string, len(all)), make([]string, len(all)), make([]string, len(all))
	for i, l := range all {
		kinds[i], ids[i], sources[i] = string(l.Actor.Kind), l.Actor.ID, l.Source
	}
	return t.exec(ctx, `WITH gone AS (
			SELECT DISTINCT kind, id, source FROM unnest($2::text[], $3::text[], $4::text[]) AS g (kind, id, source) WHERE source <> ''
		), noted AS (
			INSERT INTO lineage_retracted (workspace_id, actor_kind, actor_id, source) SELECT $1, kind, id, source FROM gone ORDER BY kind, id, source ON CONFLICT DO NOTHING
		) DELETE FROM lineage l USING gone g WHERE l.workspace_id = $1 AND l.actor_kind = g.kind AND l.actor_id = g.id AND l.direction = 'written' AND l.source = g.source`,
		t.workspace, pq.Array(kinds), pq.Array(ids), pq.Array(sources))
}

type externalRow struct {
	ID        string `db:"id"`
	Kind      string `db:"kind"`
	Namespace string `db:"namespace"`
	Name      string `db:"name"`
}

// SaveExternals implements lineage.Tx.
func (t *Tx) SaveExternals(ctx context.Context, all []lineage.External, now time.Time) error {
	n := len(all)
	ids, kinds, spaces, names := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, e := range all {
		ids[i], kinds[i], spaces[i], names[i] = e.ID, "dataset", e.Namespace, e.Name
		if e.Job {
			kinds[i] = "job"
		}
	}
	return t.exec(ctx, `INSERT INTO lineage_externals SELECT $1, id, kind, namespace, name, $6 FROM unnest($2::text[], $3::text[], $4::text[], $5::text[])
		AS e (id, kind, namespace, name) ON CONFLICT DO NOTHING`, t.workspace, pq.Array(ids), pq.Array(kinds), pq.Array(spaces), pq.Array(names), now)
}

// Externals implements lineage.Tx.
func (t *Tx) Externals(ctx context.Context, ids []string) (map[string]lineage.External, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var all []externalRow
	err := t.sel(ctx, &all, `SELECT id, kind, namespace, name FROM lineage_externals WHERE workspace_id = $1 AND id = ANY($2)`, t.workspace, pq.Array(ids))
	found := make(map[string]lineage.External, len(all))
	for _, r := range all {
		found[r.ID] = lineage.External{ID: r.ID, Job: r.Kind == "job", Namespace: r.Namespace, Name: r.Name}
	}
	return found, err
}

// RunLineage implements lineage.Tx.
func (t *Tx) RunLineage(ctx context.Context, id domain.RunID, limit int) ([]lineage.Fact, error) {
	return rows(ctx, t.conn, factRow.toDomain, `SELECT `+factColumns+` FROM lineage l WHERE l.workspace_id = $1 AND l.run_id = $2 AND l.run_id <> ''
		ORDER BY l.at, l.table_id, l.direction, l.snapshot_id LIMIT $3`, t.workspace, id, limit)
}

// UnresolvedStatements implements lineage.Tx.
func (t *Tx) UnresolvedStatements(ctx context.Context, id domain.RunID) (ids []domain.StatementID, err error) {
	err = t.sel(ctx, &ids, `SELECT id FROM statements WHERE workspace_id = $1 AND run_id = $2 AND run_id <> '' AND lineage = 'unresolved' ORDER BY id`, t.workspace, id)
	return ids, err
}

// SettleLineage implements lineage.Tx. Without added entries it takes one round trip.
func (t *Tx) SettleLineage(ctx context.Context, s lineage.Settlement) error {
	type column struct {
		Table   domain.TableID `json:"table_id"`
		Columns []string       `json:"columns"`
	}
	columns := make([]column, 0, len(s.Columns))
	for id, names := range s.Columns {
		columns = append(columns, column{id, names})
	}
	body, err := json.Marshal(columns)
	if err != nil {
		return err
	}
	n := len(s.Removed)
	directions, tables, snapshots := make([]string, n), make([]string, n), make([]int64, n)
	for i, e := range s.Removed {
		directions[i], tables[i], snapshots[i] = string(e.Direction), string(e.TableID), e.SnapshotID
	}
	err = t.exec(prepared(ctx), `WITH gone AS (
			SELECT direction, table_id, snapshot_id FROM unnest($3::text[], $4::text[], $5::bigint[]) AS g (direction, table_id, snapshot_id)
		), removed AS (
			DELETE FROM lineage l USING gone g WHERE l.workspace_id = $1 AND l.actor_kind = 'statement' AND l.actor_id = $2 AND l.direction = g.direction
				AND l.table_id = g.table_id AND l.snapshot_id = g.snapshot_id
		)
		UPDATE lineage l SET columns = c.columns FROM jsonb_to_recordset($6::jsonb) AS c (table_id text, columns text[])
		WHERE l.workspace_id = $1 AND l.actor_kind = 'statement' AND l.actor_id = $2 AND l.direction = 'read' AND l.table_id = c.table_id
			AND NOT EXISTS (SELECT FROM gone g WHERE g.direction = l.direction AND g.table_id = l.table_id AND g.snapshot_id = l.snapshot_id)`,
		t.workspace, s.Statement, pq.Array(directions), pq.Array(tables), pq.Array(snapshots), string(body))
	if err != nil {
		return err
	}
	facts := make([]lineage.Fact, len(s.Added))
	for i, e := range s.Added {
		facts[i].LineageEntry = e
	}
	return t.InsertLineageFacts(ctx, facts)
}

type coverageRow struct {
	None       int64 `db:"none"`
	Resolved   int64 `db:"resolved"`
	Unresolved int64 `db:"unresolved"`
}

const coverageColumns = `count(*) FILTER (WHERE s.lineage = 'none') AS none, count(*) FILTER (WHERE s.lineage = 'resolved') AS resolved,
	count(*) FILTER (WHERE s.lineage = 'unresolved') AS unresolved`

// LineageCoverage implements lineage.Tx. It reads only an index.
func (t *Tx) LineageCoverage(ctx context.Context, since time.Time) (lineage.Coverage, error) {
	var r coverageRow
	err := t.get(ctx, &r, `SELECT `+coverageColumns+` FROM statements s WHERE s.workspace_id = $1 AND s.finished_at >= $2 AND s.lineage <> ''`, t.workspace, since)
	return lineage.Coverage(r), err
}

// latestAndCount selects an edge's latest entry by $4, and its number of entries, counted up to a
// limit.
const latestAndCount = `CROSS JOIN LATERAL (SELECT ` + factColumns + ` FROM lineage l WHERE l.workspace_id = $1 AND l.table_id = f.table_id AND l.direction = $3
			AND l.process = f.process AND NOT l.adhoc AND l.at <= $4 ORDER BY l.at DESC LIMIT 1) last
		CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT FROM lineage l WHERE l.workspace_id = $1 AND l.table_id = f.table_id AND l.direction = $3
			AND l.process = f.process AND NOT l.adhoc AND l.at <= $4 LIMIT $6) n) often`

// ProcessesOf implements lineage.Tx. Each process of a table costs one index step,
// however often it used the table. A statement without a run is its own process; these are read
// newest first. Maintenance is left out: it changes files, not rows.
func (t *Tx) ProcessesOf(ctx context.Context, tables []domain.TableID, d lake.LineageDirection, at time.Time, limit int) ([]lineage.Edge, error) {
	return rows(ctx, t.conn, lineageEdgeRow.toDomain, `
		WITH RECURSIVE wanted AS (SELECT DISTINCT unnest($2::text[]) COLLATE "C" AS table_id), found AS (
			SELECT w.table_id, n.process FROM wanted w CROSS JOIN LATERAL (SELECT l.process FROM lineage l WHERE l.workspace_id = $1 AND l.table_id = w.table_id
				AND l.direction = $3 AND NOT l.adhoc ORDER BY l.process LIMIT 1) n
			UNION ALL
			SELECT f.table_id, n.process FROM found f CROSS JOIN LATERAL (SELECT l.process FROM lineage l WHERE l.workspace_id = $1 AND l.table_id = f.table_id
				AND l.direction = $3 AND NOT l.adhoc AND l.process > f.process ORDER BY l.process LIMIT 1) n
		)
		(SELECT last.*, often.count FROM found f `+latestAndCount+` LIMIT $5)
		UNION ALL
		(SELECT s.* FROM wanted w CROSS JOIN LATERAL (SELECT `+factColumns+`, 1 AS count FROM lineage l WHERE l.workspace_id = $1 AND l.table_id = w.table_id
			AND l.direction = $3 AND l.adhoc AND l.at <= $4 AND NOT EXISTS (SELECT FROM statements m WHERE m.workspace_id = $1 AND m.id = l.actor_id
				AND m.purpose = 'maintenance')
			ORDER BY l.at DESC LIMIT $5) s ORDER BY s.at DESC LIMIT $5)
		LIMIT $5`, t.workspace, texts(tables), d, at, limit, lineage.MaxCount)
}

// TablesOf implements lineage.Tx. Each table of a process costs one index step.
func (t *Tx) TablesOf(ctx context.Context, processes []lineage.ProcessID, d lake.LineageDirection, at time.Time, limit int) ([]lineage.Edge, error) {
	return rows(ctx, t.conn, lineageEdgeRow.toDomain, `
		WITH RECURSIVE wanted AS (SELECT DISTINCT unnest($2::text[]) COLLATE "C" AS process), found AS (
			SELECT w.process, n.table_id FROM wanted w CROSS JOIN LATERAL (SELECT l.table_id FROM lineage l WHERE l.workspace_id = $1 AND l.process = w.process
				AND l.direction = $3 ORDER BY l.table_id LIMIT 1) n
			UNION ALL
			SELECT f.process, n.table_id FROM found f CROSS JOIN LATERAL (SELECT l.table_id FROM lineage l WHERE l.workspace_id = $1 AND l.process = f.process
				AND l.direction = $3 AND l.table_id > f.table_id ORDER BY l.table_id LIMIT 1) n
		)
		SELECT last.*, often.count FROM found f CROSS JOIN LATERAL (SELECT `+factColumns+` FROM lineage l WHERE l.workspace_id = $1 AND l.process = f.process
			AND l.direction = $3 AND l.table_id = f.table_id AND l.at <= $4 ORDER BY l.at DESC LIMIT 1) last
		CROSS JOIN LATERAL (SELECT count(*) FROM (SELECT FROM lineage l WHERE l.workspace_id = $1 AND l.process = f.process
			AND l.direction = $3 AND l.table_id = f.table_id AND l.at <= $4 LIMIT $6) n) often
		LIMIT $5`, t.workspace, texts(processes), d, at, limit, lineage.MaxCount)
}

// LineageTable implements lineage.Tx.
func (t *Tx) LineageTable(ctx context.Context, id domain.TableID, key string, at time.Time) (lake.LineageEntry, error) {
	where, arg := `table_key = $2`, any(key)
	if id != "" {
		where, arg = `table_id = $2`, id
	}
	var row lineageRow
	err := t.get(ctx, &row, `SELECT at, actor_kind, actor_id, actor_name, direction, table_id, snapshot_id, database, schema, name, columns FROM lineage
		WHERE workspace_id = $1 AND `+where+` AND at <= $3 ORDER BY at DESC LIMIT 1`, t.workspace, arg, at)
	if err != nil {
		return lake.LineageEntry{}, orMissing(err, domain.NotFound("table", string(id)+key))
	}
	return row.toDomain()
}

// StatementBriefs implements lineage.Tx.
func (t *Tx) StatementBriefs(ctx context.Context, ids []domain.StatementID) ([]lineage.StatementBrief, error) {
	type row struct {
		ID        domain.StatementID `db:"id"`
		Kind      string             `db:"kind"`
		Text      string             `db:"text"`
		CreatedBy string             `db:"created_by_name"`
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return rows(ctx, t.conn, func(r row) (lineage.StatementBrief, error) { return lineage.StatementBrief(r), nil },
		`SELECT id, kind, left(query, 200) AS text, created_by_name FROM statements WHERE workspace_id = $1 AND id = ANY($2)`, t.workspace, texts(ids))
}

// EventStatement implements lineage.Tx.
func (t *Tx) EventStatement(ctx context.Context, id domain.StatementID) (lineage.EventStatement, error) {
	st, err := t.Statement(ctx, id)
	e := lineage.EventStatement{Query: st.Query, Engine: st.Engine, CreatedBy: st.CreatedBy}
	if st.Failure != nil {
		e.Message = st.Failure.Message
	}
	return e, err
}
