package store

import (
	"context"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

type databaseRow struct {
	ID            domain.DatabaseID `db:"id"`
	Name          string            `db:"name"`
	CreatedByKind domain.ActorKind  `db:"created_by_kind"`
	CreatedByID   string            `db:"created_by_id"`
	CreatedByName string            `db:"created_by_name"`
	CreatedAt     time.Time         `db:"created_at"`
}

const databaseColumns = `id, name, created_by_kind, created_by_id, created_by_name, created_at`

func (r databaseRow) toDomain() (lake.Database, error) {
	by := domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName}
	return lake.Database{ID: r.ID, Name: r.Name, CreatedBy: by, CreatedAt: r.CreatedAt.UTC()}, nil
}

func (t *Tx) database(ctx context.Context, missing error, where string, args ...any) (lake.Database, error) {
	var row databaseRow
	if err := t.get(ctx, &row, `SELECT `+databaseColumns+` FROM databases WHERE workspace_id = $1 AND `+where, append([]any{t.workspace}, args...)...); err != nil {
		return lake.Database{}, orMissing(err, missing)
	}
	return row.toDomain()
}

// Database implements lake.Tx.
func (t *Tx) Database(ctx context.Context, id domain.DatabaseID) (lake.Database, error) {
	return t.database(ctx, domain.NotFound("database", id), `id = $2`, id)
}

// FindDatabase implements lake.Tx. A name never looks like an id.
func (t *Tx) FindDatabase(ctx context.Context, idOrName string) (lake.Database, error) {
	return t.database(ctx, domain.NotFound("database", idOrName), `(id = $2 OR key = $3)`, idOrName, lake.FoldName(idOrName))
}

// Databases implements lake.Tx.
func (t *Tx) Databases(ctx context.Context, after domain.DatabaseID, limit int) ([]lake.Database, error) {
	return rows(ctx, t.conn, databaseRow.toDomain, `SELECT `+databaseColumns+` FROM databases WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3`,
		t.workspace, after, limit)
}

// DatabasesByID implements lake.Tx.
func (t *Tx) DatabasesByID(ctx context.Context, ids []domain.DatabaseID) ([]lake.Database, error) {
	return rows(ctx, t.conn, databaseRow.toDomain, `SELECT `+databaseColumns+` FROM databases WHERE workspace_id = $1 AND id = ANY($2)`, t.workspace, texts(ids))
}

// DatabaseNames implements lake.Tx.
func (t *Tx) DatabaseNames(ctx context.Context) (names []string, err error) {
	err = t.sel(prepared(ctx), &names, `SELECT name FROM databases WHERE workspace_id = $1 ORDER BY key`, t.workspace)
	return names, err
}

// insertDatabase adds a database with its first schema. The caller checks permissions.
func insertDatabase(ctx context.Context, db execer, ws domain.WorkspaceID, d lake.Database) error {
	err := insert(ctx, db, "databases", values{
		"workspace_id": ws, "id": d.ID, "name": d.Name, "key": lake.FoldName(d.Name), "created_at": d.CreatedAt,
	}.actor("created_by", d.CreatedBy))
	if err != nil {
		return err
	}
	return insert(ctx, db, "lake_schemas", values{
		"workspace_id": ws, "database_id": d.ID, "key": lake.DefaultSchema, "parent_key": "", "name": lake.DefaultSchema, "created_at": d.CreatedAt,
	}.actor("created_by", d.CreatedBy))
}

// InsertDatabase implements lake.Tx.
func (t *Tx) InsertDatabase(ctx context.Context, d lake.Database) error {
	return insertDatabase(ctx, t.conn, t.workspace, d)
}

// DeleteDatabase implements lake.Tx. The schema locks prevent new tables in them.
func (t *Tx) DeleteDatabase(ctx context.Context, id domain.DatabaseID) error {
	d, err := t.database(ctx, domain.NotFound("database", id), `id = $2 FOR UPDATE`, id)
	if err != nil {
		return err
	}
	var locked []string
	if err := t.sel(ctx, &locked, `SELECT key FROM lake_schemas WHERE workspace_id = $1 AND database_id = $2 ORDER BY key FOR UPDATE`, t.workspace, id); err != nil {
		return err
	}
	var found struct {
		Live     int `db:"live"`
		Detached int `db:"detached"`
	}
	err = t.get(ctx, &found, `SELECT count(*) FILTER (WHERE dropped_at IS NULL AND schema_key = ANY($3)) AS live,
		count(*) FILTER (WHERE dropped_at IS NOT NULL AND purge_next IS NULL) AS detached FROM lake_tables WHERE workspace_id = $1 AND database_id = $2`,
		t.workspace, id, pq.Array(locked))
	switch {
	case err != nil:
		return err
	case found.Live > 0:
		return domain.Errorf(domain.CodeConflict, "The database %s has %d tables and views; drop them first.", d.Name, found.Live)
	case found.Detached > 0:
		return domain.Errorf(domain.CodeConflict, "The database %s has %d tables that were dropped without purge and keep their files; purge them, or register them elsewhere, first.", d.Name, found.Detached)
	}
	if err := t.exec(ctx, `DELETE FROM lake_schemas WHERE workspace_id = $1 AND database_id = $2`, t.workspace, id); err != nil {
		return err
	}
	return t.exec(ctx, `DELETE FROM databases WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}
