package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

type lakeTableRow struct {
	ID               domain.TableID    `db:"id"`
	Kind             lake.TableKind    `db:"kind"`
	DatabaseID       domain.DatabaseID `db:"database_id"`
	Database         string            `db:"database"`
	Schema           string            `db:"schema"`
	Name             string            `db:"name"`
	UUID             string            `db:"uuid"`
	Location         string            `db:"location"`
	MetadataLocation string            `db:"metadata_location"`
	Version          int               `db:"version"`
	FormatVersion    int               `db:"format_version"`
	Registered       bool              `db:"registered"`
	SnapshotID       sql.NullInt64     `db:"snapshot_id"`
	SnapshotAt       sql.NullTime      `db:"snapshot_at"`
	Operation        string            `db:"operation"`
	RowCount         sql.NullInt64     `db:"row_count"`
	DataBytes        sql.NullInt64     `db:"data_bytes"`
	DataFiles        sql.NullInt64     `db:"data_files"`
	DeleteFiles      sql.NullInt64     `db:"delete_files"`
	DeletedRows      sql.NullInt64     `db:"deleted_rows"`
	Snapshots        sql.NullInt64     `db:"snapshots"`
	ExpirableAt      sql.NullTime      `db:"expirable_at"`
	CreatedByKind    domain.ActorKind  `db:"created_by_kind"`
	CreatedByID      string            `db:"created_by_id"`
	CreatedByName    string            `db:"created_by_name"`
	UpdatedByKind    domain.ActorKind  `db:"updated_by_kind"`
	UpdatedByID      string            `db:"updated_by_id"`
	UpdatedByName    string            `db:"updated_by_name"`
	CreatedAt        time.Time         `db:"created_at"`
	UpdatedAt        time.Time         `db:"updated_at"`
	DroppedAt        sql.NullTime      `db:"dropped_at"`
	Purge            bool              `db:"purge"`
	PurgeAfter       sql.NullTime      `db:"purge_after"`
}

const selectLakeTables = `SELECT t.id, t.kind, t.database_id, COALESCE(d.name, '') AS database, t.schema, t.name, t.uuid, t.location, t.metadata_location, t.version,
	t.format_version, t.registered, t.snapshot_id, t.snapshot_at, t.operation, t.row_count, t.data_bytes, t.data_files, t.delete_files, t.deleted_rows, t.snapshots, t.expirable_at, t.created_by_kind, t.created_by_id,
	t.created_by_name, t.updated_by_kind, t.updated_by_id, t.updated_by_name, t.created_at, t.updated_at, t.dropped_at, t.purge, t.purge_after
	FROM lake_tables t LEFT JOIN databases d ON d.workspace_id = t.workspace_id AND d.id = t.database_id WHERE t.workspace_id = $1 AND `

func (r lakeTableRow) toDomain() (lake.Table, error) {
	t := lake.Table{
		ID: r.ID, Kind: r.Kind, DatabaseID: r.DatabaseID, Database: r.Database, Schema: r.Schema, Name: r.Name, UUID: r.UUID, Location: r.Location,
		MetadataLocation: r.MetadataLocation, Version: r.Version, FormatVersion: r.FormatVersion, Registered: r.Registered,
		RowCount: intPtr(r.RowCount), DataBytes: intPtr(r.DataBytes), DataFiles: intPtr(r.DataFiles),
		DeleteFiles: intPtr(r.DeleteFiles), DeletedRows: intPtr(r.DeletedRows), Snapshots: intPtr(r.Snapshots), ExpirableAt: timePtr(r.ExpirableAt),
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName},
		UpdatedBy: domain.Actor{Kind: r.UpdatedByKind, ID: r.UpdatedByID, Name: r.UpdatedByName},
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), DroppedAt: timePtr(r.DroppedAt), Purge: r.Purge, PurgeAfter: timePtr(r.PurgeAfter),
	}
	if r.SnapshotID.Valid {
		t.Snapshot = &lake.TableSnapshot{ID: r.SnapshotID.Int64, At: r.SnapshotAt.Time.UTC(), Operation: r.Operation}
	}
	return t, nil
}

func intPtr(n sql.NullInt64) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

func (t *Tx) lakeTable(ctx context.Context, missing error, where string, args ...any) (lake.Table, error) {
	var row lakeTableRow
	if err := t.get(ctx, &row, selectLakeTables+where, append([]any{t.workspace}, args...)...); err != nil {
		return lake.Table{}, orMissing(err, missing)
	}
	return row.toDomain()
}

// FindLakeTable implements lake.Tx.
func (t *Tx) FindLakeTable(ctx context.Context, database, schema, name string) (lake.Table, error) {
	return t.lakeTable(prepared(ctx), domain.NotFound("table", schema+"."+name),
		findByName, database, lake.FoldName(database), lake.FoldName(schema), lake.FoldName(name))
}

// LakeTable implements lake.Tx.
func (t *Tx) LakeTable(ctx context.Context, id domain.TableID) (lake.Table, error) {
	return t.lakeTable(ctx, domain.NotFound("table", id), `t.id = $2`, id)
}

// LockLakeTable implements lake.Tx.
func (t *Tx) LockLakeTable(ctx context.Context, id domain.TableID) (lake.Table, error) {
	return t.lakeTable(ctx, domain.NotFound("table", id), `t.id = $2 FOR UPDATE OF t`, id)
}

// LakeTables implements lake.Tx. Each kind is read in the order of an index.
func (t *Tx) LakeTables(ctx context.Context, f lake.TableFilter, after domain.TableID, limit int) ([]lake.Table, error) {
	args := []any{t.workspace, after, limit}
	where := `t.id > $2 AND t.dropped_at IS NULL`
	if f.Dropped {
		where = `t.id > $2 AND t.dropped_at IS NOT NULL`
	}
	also := func(column string, value any) {
		args = append(args, value)
		where += ` AND t.` + column + ` = $` + strconv.Itoa(len(args))
	}
	if f.Database != "" {
		also("database_id", f.Database)
	}
	if f.Schema != "" {
		also("schema_key", lake.FoldName(f.Schema))
	}
	if f.Kind != "" {
		also("kind", f.Kind)
		return rows(ctx, t.conn, lakeTableRow.toDomain, selectLakeTables+where+` ORDER BY t.id LIMIT $3`, args...)
	}
	each := `(` + selectLakeTables + where + ` AND t.kind = 'table' ORDER BY t.id LIMIT $3)`
	return rows(ctx, t.conn, lakeTableRow.toDomain, each+` UNION ALL `+strings.Replace(each, `'table'`, `'view'`, 1)+` ORDER BY id LIMIT $3`, args...)
}

// LakeTableNames implements lake.Tx.
func (t *Tx) LakeTableNames(ctx context.Context, db domain.DatabaseID, schema string, kind lake.TableKind, after string, limit int) (names []string, err error) {
	err = t.sel(ctx, &names, `SELECT name FROM lake_tables WHERE workspace_id = $1 AND database_id = $2 AND schema_key = $3 AND kind = $4 AND name_key > $5
		AND dropped_at IS NULL ORDER BY name_key LIMIT $6`, t.workspace, db, lake.FoldName(schema), kind, lake.FoldName(after), limit)
	return names, err
}

// LakeTablesByID implements lake.Tx.
func (t *Tx) LakeTablesByID(ctx context.Context, ids []domain.TableID) ([]lake.Table, error) {
	return rows(ctx, t.conn, lakeTableRow.toDomain, selectLakeTables+`t.id = ANY($2)`, t.workspace, texts(ids))
}

// snapshotArgs are the columns of a snapshot.
func snapshotArgs(s *lake.TableSnapshot) (id *int64, at *time.Time, operation string) {
	if s == nil {
		return nil, nil, ""
	}
	return &s.ID, &s.At, s.Operation
}

// holdSchema reads a schema, and locks it against a drop until the transaction ends.
const holdSchema = `SELECT name FROM lake_schemas WHERE workspace_id = :workspace_id AND database_id = :database AND key = :schema FOR KEY SHARE`

// InsertLakeTable implements lake.Tx. Locations that the catalog chooses contain the
// table's new id, so they cannot overlap others.
func (t *Tx) InsertLakeTable(ctx context.Context, l lake.Table, chosen bool) (lake.Inserted, error) {
	if chosen {
		if free, err := t.locationFree(ctx, l.ID, l.Location); err != nil || !free {
			return lake.InsertedOverlaid, err
		}
	}
	snapshot, at, operation := snapshotArgs(l.Snapshot)
	var done inserted
	err := t.getNamed(ctx, &done, `WITH parent AS (`+holdSchema+`), made AS (
			INSERT INTO lake_tables (workspace_id, id, kind, database_id, schema, schema_key, name, name_key, uuid, location, metadata_location, version, format_version,
				registered, snapshot_id, snapshot_at, operation, row_count, data_bytes, data_files, created_by_kind, created_by_id, created_by_name,
				updated_by_kind, updated_by_id, updated_by_name, created_at, updated_at, delete_files, deleted_rows, snapshots, expirable_at)
			SELECT :workspace_id, :id, :kind, :database, parent.name, :schema, :name, :name_key, :uuid, :location, :metadata_location, :version, :format_version,
				:registered, :snapshot, :snapshot_at, :operation, :row_count, :data_bytes, :data_files, :by_kind, :by_id, :by_name,
				:by_kind, :by_id, :by_name, :at, :at, :delete_files, :deleted_rows, :snapshots, :expirable_at FROM parent
			ON CONFLICT DO NOTHING RETURNING id
		), placed AS (INSERT INTO lake_locations AS l (workspace_id, location, table_id) SELECT :workspace_id, :location, id FROM made
			ON CONFLICT (workspace_id, location) DO UPDATE SET property = false WHERE l.table_id = excluded.table_id)
		SELECT EXISTS (SELECT FROM parent) AS parent, EXISTS (SELECT FROM made) AS made`,
		values{
			"database": l.DatabaseID, "schema": lake.FoldName(l.Schema), "id": l.ID, "kind": l.Kind, "name": l.Name, "name_key": lake.FoldName(l.Name), "uuid": l.UUID,
			"location": l.Location, "metadata_location": l.MetadataLocation, "version": l.Version, "format_version": l.FormatVersion, "registered": l.Registered,
			"snapshot": snapshot, "snapshot_at": at, "operation": operation, "row_count": l.RowCount, "data_bytes": l.DataBytes, "data_files": l.DataFiles,
			"at": l.CreatedAt, "delete_files": l.DeleteFiles, "deleted_rows": l.DeletedRows, "snapshots": l.Snapshots, "expirable_at": l.ExpirableAt,
		}.actor("by", l.CreatedBy))
	return done.toDomain(), err
}

// locationFree reports whether no other table's location is this one, in it or around it. It locks
// the workspace's locations until the transaction ends.
func (t *Tx) locationFree(ctx context.Context, id domain.TableID, location string) (free bool, err error) {
	if err := t.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('lake_locations:' || $1, 0))`, t.workspace); err != nil {
		return false, err
	}
	around := []string{location}
	for i := strings.LastIndexByte(location, '/'); i > 0; i = strings.LastIndexByte(location[:i], '/') {
		around = append(around, location[:i])
	}
	err = t.get(ctx, &free, `SELECT NOT EXISTS (SELECT FROM lake_locations WHERE workspace_id = $1 AND location = ANY($2) AND table_id <> $3)
		AND NOT EXISTS (SELECT FROM lake_locations WHERE workspace_id = $1 AND location >= $4 AND location < $5 AND table_id <> $3)`,
		t.workspace, pq.Array(around), id, location+"/", location+"0") // "0" is the character after "/"
	return free, err
}

// TakeLocation implements lake.Tx.
func (t *Tx) TakeLocation(ctx context.Context, id domain.TableID, location string) (bool, error) {
	return t.reserve(ctx, id, location, false)
}

// TakePath implements lake.Tx.
func (t *Tx) TakePath(ctx context.Context, id domain.TableID, directory string) (bool, error) {
	return t.reserve(ctx, id, directory, true)
}

// reserve adds a location to the table's. A former location stays one, even if a property also
// names it.
func (t *Tx) reserve(ctx context.Context, id domain.TableID, location string, property bool) (bool, error) {
	if free, err := t.locationFree(ctx, id, location); err != nil || !free {
		return false, err
	}
	return true, t.exec(ctx, `INSERT INTO lake_locations AS l (workspace_id, location, table_id, property) VALUES ($1, $2, $3, $4)
		ON CONFLICT (workspace_id, location) DO UPDATE SET property = l.property AND excluded.property`, t.workspace, location, id, property)
}

// TableLocations implements lake.Tx.
func (t *Tx) TableLocations(ctx context.Context, id domain.TableID) (found []string, err error) {
	err = t.sel(ctx, &found, `SELECT location FROM lake_locations WHERE workspace_id = $1 AND table_id = $2 ORDER BY location`, t.workspace, id)
	return found, err
}

// AdoptLakeTable implements lake.Tx. The heir's row may be inserted after it, in the
// same transaction.
func (t *Tx) AdoptLakeTable(ctx context.Context, id, heir domain.TableID) error {
	if err := t.exec(ctx, `SET CONSTRAINTS lake_locations_owner DEFERRED`); err != nil {
		return err
	}
	err := t.exec(ctx, `UPDATE lake_locations l SET table_id = $3 FROM lake_tables t WHERE l.workspace_id = $1 AND l.table_id = $2
		AND t.workspace_id = $1 AND t.id = $2 AND t.dropped_at IS NOT NULL`, t.workspace, id, heir)
	if err != nil {
		return err
	}
	return t.ForgetLakeTable(ctx, id)
}

// LocationOwners implements lake.Tx.
func (t *Tx) LocationOwners(ctx context.Context, locations []string) (map[string]domain.TableID, error) {
	var found []struct {
		Location string         `db:"location"`
		Table    domain.TableID `db:"table_id"`
	}
	err := t.sel(prepared(ctx), &found, `SELECT location, table_id FROM lake_locations WHERE workspace_id = $1 AND location = ANY($2)`, t.workspace, pq.Array(locations))
	owners := make(map[string]domain.TableID, len(found))
	for _, f := range found {
		owners[f.Location] = f.Table
	}
	return owners, err
}

// TableAt implements lake.Tx.
func (t *Tx) TableAt(ctx context.Context, location string) (lake.Table, error) {
	return t.lakeTable(ctx, domain.NotFound("table", location),
		`t.id = (SELECT table_id FROM lake_locations WHERE workspace_id = $1 AND location = $2 AND NOT property)`, location)
}

// LakeTablesNamed implements lake.Tx.
func (t *Tx) LakeTablesNamed(ctx context.Context, names []lake.TableName) ([]lake.Table, error) {
	if len(names) == 0 {
		return nil, nil
	}
	databases, keys, schemas, tables := make([]string, len(names)), make([]string, len(names)), make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		databases[i], keys[i], schemas[i], tables[i] = n.Database, lake.FoldName(n.Database), lake.FoldName(n.Schema), lake.FoldName(n.Name)
	}
	return rows(ctx, t.conn, lakeTableRow.toDomain, `WITH named AS (
			SELECT DISTINCT b.id, n.schema_key, n.name_key FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS n (database, key, schema_key, name_key)
			JOIN databases b ON b.workspace_id = $1 AND (b.id = n.database OR b.key = n.key)
		) `+selectLakeTables+`t.dropped_at IS NULL AND (t.database_id, t.schema_key, t.name_key) IN (SELECT id, schema_key, name_key FROM named)`,
		t.workspace, pq.Array(databases), pq.Array(keys), pq.Array(schemas), pq.Array(tables))
}

// LakeTablesAt implements lake.Tx.
func (t *Tx) LakeTablesAt(ctx context.Context, locations []string) (map[string]lake.Table, error) {
	type placedRow struct {
		lakeTableRow
		Place string `db:"place"`
	}
	if len(locations) == 0 {
		return nil, nil
	}
	var all []placedRow
	err := t.sel(ctx, &all, `SELECT p.location AS place, x.* FROM lake_locations p CROSS JOIN LATERAL (`+selectLakeTables+`t.id = p.table_id AND t.dropped_at IS NULL) x
		WHERE p.workspace_id = $1 AND p.location = ANY($2) AND NOT p.property`, t.workspace, pq.Array(locations))
	found := make(map[string]lake.Table, len(all))
	for _, row := range all {
		if found[row.Place], err = row.toDomain(); err != nil {
			return nil, err
		}
	}
	return found, err
}

// moved is the result of changing a table's name.
type moved struct {
	inserted
	Taken bool `db:"taken"`
}

// RenameLakeTable implements lake.Tx.
func (t *Tx) RenameLakeTable(ctx context.Context, id domain.TableID, database domain.DatabaseID, schema, name string) (lake.Inserted, error) {
	var done moved
	err := t.getNamed(ctx, &done, `WITH parent AS (`+holdSchema+`), taken AS (
			SELECT 1 FROM lake_tables WHERE workspace_id = :workspace_id AND database_id = :database AND schema_key = :schema AND name_key = :key AND id <> :id
				AND dropped_at IS NULL
		), made AS (
			UPDATE lake_tables t SET database_id = :database, schema = parent.name, schema_key = :schema, name = :name, name_key = :key FROM parent
			WHERE t.workspace_id = :workspace_id AND t.id = :id AND t.dropped_at IS NULL AND NOT EXISTS (SELECT FROM taken) RETURNING 1
		) SELECT EXISTS (SELECT FROM parent) AS parent, EXISTS (SELECT FROM taken) AS taken, EXISTS (SELECT FROM made) AS made`,
		values{"database": database, "schema": lake.FoldName(schema), "key": lake.FoldName(name), "id": id, "name": name})
	return done.of(id, err)
}

// of returns the result for the table with the id.
func (m moved) of(id domain.TableID, err error) (lake.Inserted, error) {
	if err == nil && m.Parent && !m.Taken && !m.Made {
		err = domain.NotFound("table", id)
	}
	return m.toDomain(), err
}

// DropLakeTable implements lake.Tx.
func (t *Tx) DropLakeTable(ctx context.Context, id domain.TableID, at, purgeAfter time.Time, purge bool) (bool, error) {
	return t.touched(ctx, `UPDATE lake_tables SET dropped_at = $3, purge_after = $4, purge_next = CASE WHEN $5 OR registered THEN $4::timestamptz END, purge_failures = 0,
		purge = $5 WHERE workspace_id = $1 AND id = $2 AND dropped_at IS NULL`, t.workspace, id, at, purgeAfter, purge)
}

// PurgeLakeTable implements lake.Tx.
func (t *Tx) PurgeLakeTable(ctx context.Context, id domain.TableID, at time.Time) error {
	return t.execOne(ctx, domain.NotFound("table", id), `UPDATE lake_tables SET purge = true, purge_after = greatest(purge_after, $3),
		purge_next = greatest(purge_after, $3), purge_failures = 0 WHERE workspace_id = $1 AND id = $2 AND dropped_at IS NOT NULL`, t.workspace, id, at)
}

// UndropLakeTable implements lake.Tx.
func (t *Tx) UndropLakeTable(ctx context.Context, id domain.TableID) (lake.Inserted, error) {
	var done moved
	err := t.get(ctx, &done, `WITH dropped AS (
			SELECT id, database_id, schema_key, name_key FROM lake_tables WHERE workspace_id = $1 AND id = $2 AND dropped_at IS NOT NULL FOR UPDATE
		), parent AS (
			SELECT l.name FROM lake_schemas l JOIN dropped d ON d.database_id = l.database_id AND d.schema_key = l.key WHERE l.workspace_id = $1 FOR KEY SHARE OF l
		), taken AS (
			SELECT 1 FROM lake_tables t JOIN dropped d USING (database_id, schema_key, name_key) WHERE t.workspace_id = $1 AND t.dropped_at IS NULL
		), made AS (
			UPDATE lake_tables t SET dropped_at = NULL, purge_after = NULL, purge_next = NULL, purge = false, schema = parent.name FROM parent
			WHERE t.workspace_id = $1 AND t.id = $2 AND t.dropped_at IS NOT NULL AND NOT EXISTS (SELECT FROM taken) RETURNING 1
		) SELECT EXISTS (SELECT FROM parent) AS parent, EXISTS (SELECT FROM taken) AS taken, EXISTS (SELECT FROM made) AS made`, t.workspace, id)
	return done.of(id, err)
}

// ForgetLakeTable implements lake.Tx.
func (t *Tx) ForgetLakeTable(ctx context.Context, id domain.TableID) error {
	return t.execOne(ctx, domain.NotFound("table", id), `DELETE FROM lake_tables WHERE workspace_id = $1 AND id = $2 AND dropped_at IS NOT NULL`, t.workspace, id)
}

// PostponePurge implements lake.Tx.
func (t *Tx) PostponePurge(ctx context.Context, id domain.TableID, from time.Time) error {
	return t.exec(ctx, `UPDATE lake_tables SET purge_failures = purge_failures + 1,
		purge_next = $3::timestamptz + least(power(2, least(purge_failures, 5)), 24) * interval '1 hour' WHERE workspace_id = $1 AND id = $2 AND dropped_at IS NOT NULL`,
		t.workspace, id, from)
}

func (r refRow) table() (lake.TableRef, error) {
	return lake.TableRef{Workspace: r.Workspace, Table: domain.TableID(r.ID)}, nil
}

var _ lake.System = (*System)(nil)

// DueTables implements lake.System.
func (s *System) DueTables(ctx context.Context, now time.Time, limit int) ([]lake.TableRef, error) {
	return refs(ctx, s, refRow.table, `SELECT workspace_id, id FROM lake_tables WHERE dropped_at IS NOT NULL AND purge_next <= $1 ORDER BY purge_next LIMIT $2`,
		now, limit)
}

// ForgetLakeAnswers implements lake.System.
func (s *System) ForgetLakeAnswers(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lake_answers WHERE created_at < $1`, before)
	return mapError(err)
}
