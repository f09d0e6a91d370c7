package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

type lakeSchemaRow struct {
	DatabaseID    domain.DatabaseID `db:"database_id"`
	Name          string            `db:"name"`
	Properties    []byte            `db:"properties"`
	CreatedByKind domain.ActorKind  `db:"created_by_kind"`
	CreatedByID   string            `db:"created_by_id"`
	CreatedByName string            `db:"created_by_name"`
	CreatedAt     time.Time         `db:"created_at"`
}

const selectLakeSchemas = `SELECT database_id, name, properties, created_by_kind, created_by_id, created_by_name, created_at FROM lake_schemas
	WHERE workspace_id = $1 AND database_id = $2 AND `

func (r lakeSchemaRow) toDomain() (lake.Schema, error) {
	l := lake.Schema{
		DatabaseID: r.DatabaseID, Name: r.Name, CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName},
		CreatedAt: r.CreatedAt.UTC(),
	}
	return l, json.Unmarshal(r.Properties, &l.Properties)
}

func (t *Tx) lakeSchema(ctx context.Context, database domain.DatabaseID, name, lock string) (lake.Schema, error) {
	var row lakeSchemaRow
	if err := t.get(ctx, &row, selectLakeSchemas+`key = $3 `+lock, t.workspace, database, lake.FoldName(name)); err != nil {
		return lake.Schema{}, orMissing(err, domain.NotFound("schema", name))
	}
	return row.toDomain()
}

// LakeSchema implements lake.Tx.
func (t *Tx) LakeSchema(ctx context.Context, database domain.DatabaseID, name string) (lake.Schema, error) {
	return t.lakeSchema(ctx, database, name, "")
}

// LockLakeSchema implements lake.Tx.
func (t *Tx) LockLakeSchema(ctx context.Context, database domain.DatabaseID, name string) (lake.Schema, error) {
	return t.lakeSchema(ctx, database, name, "FOR UPDATE")
}

// LakeSchemas implements lake.Tx.
func (t *Tx) LakeSchemas(ctx context.Context, database domain.DatabaseID, parent string, all bool, after string, limit int) ([]lake.Schema, error) {
	parent, after = lake.FoldName(parent), lake.FoldName(after)
	if all {
		return rows(ctx, t.conn, lakeSchemaRow.toDomain, selectLakeSchemas+`key > $3 AND ($4 = '' OR starts_with(key, $4 || '.')) ORDER BY key LIMIT $5`,
			t.workspace, database, after, parent, limit)
	}
	return rows(ctx, t.conn, lakeSchemaRow.toDomain, selectLakeSchemas+`parent_key = $3 AND key > $4 ORDER BY key LIMIT $5`,
		t.workspace, database, parent, after, limit)
}

// inserted is the result of an insert into the catalog.
type inserted struct {
	Parent bool `db:"parent"`
	Made   bool `db:"made"`
}

func (i inserted) toDomain() lake.Inserted {
	switch {
	case !i.Parent:
		return lake.InsertedNowhere
	case !i.Made:
		return lake.InsertedNot
	}
	return lake.InsertedNow
}

// InsertLakeSchema implements lake.Tx. The parent is a schema, or the database for the
// first level. Its row is locked until the transaction ends.
func (t *Tx) InsertLakeSchema(ctx context.Context, l lake.Schema) (lake.Inserted, error) {
	properties, err := json.Marshal(l.Properties)
	if err != nil {
		return 0, err
	}
	parent := `SELECT name || '.' AS prefix FROM lake_schemas WHERE workspace_id = :workspace_id AND database_id = :database AND key = :parent_key FOR KEY SHARE`
	above := l.Parent()
	level := l.Name
	if above == "" {
		parent = `SELECT '' AS prefix FROM databases WHERE workspace_id = :workspace_id AND id = :database FOR KEY SHARE`
	} else {
		level = l.Name[len(above)+1:]
	}
	var done inserted
	err = t.getNamed(ctx, &done, `WITH parent AS (`+parent+`), made AS (
			INSERT INTO lake_schemas (workspace_id, database_id, key, parent_key, name, properties, created_by_kind, created_by_id, created_by_name, created_at)
			SELECT :workspace_id, :database, :key, :parent_key, prefix || :level, :properties, :by_kind, :by_id, :by_name, :at FROM parent ON CONFLICT DO NOTHING RETURNING 1
		) SELECT EXISTS (SELECT FROM parent) AS parent, EXISTS (SELECT FROM made) AS made`,
		values{
			"database": l.DatabaseID, "key": lake.FoldName(l.Name), "parent_key": lake.FoldName(above), "level": level, "properties": string(properties), "at": l.CreatedAt,
		}.actor("by", l.CreatedBy))
	return done.toDomain(), err
}

// SetLakeSchemaProperties implements lake.Tx.
func (t *Tx) SetLakeSchemaProperties(ctx context.Context, database domain.DatabaseID, name string, properties map[string]string) error {
	body, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	return t.execOne(ctx, domain.NotFound("schema", name), `UPDATE lake_schemas SET properties = $4 WHERE workspace_id = $1 AND database_id = $2 AND key = $3`,
		t.workspace, database, lake.FoldName(name), string(body))
}

// LakeSchemaEmpty implements lake.Tx.
func (t *Tx) LakeSchemaEmpty(ctx context.Context, database domain.DatabaseID, name string) (empty bool, err error) {
	err = t.get(ctx, &empty, `SELECT NOT EXISTS (SELECT FROM lake_tables WHERE workspace_id = $1 AND database_id = $2 AND schema_key = $3 AND dropped_at IS NULL)
		AND NOT EXISTS (SELECT FROM lake_schemas WHERE workspace_id = $1 AND database_id = $2 AND parent_key = $3)`, t.workspace, database, lake.FoldName(name))
	return empty, err
}

// DeleteLakeSchema implements lake.Tx.
func (t *Tx) DeleteLakeSchema(ctx context.Context, database domain.DatabaseID, name string) error {
	return t.execOne(ctx, domain.NotFound("schema", name), `DELETE FROM lake_schemas WHERE workspace_id = $1 AND database_id = $2 AND key = $3`,
		t.workspace, database, lake.FoldName(name))
}
