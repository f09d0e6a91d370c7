package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/millpond/millpond/domain"
)

// values are the values of a statement by name; in a row, by column.
type values map[string]any

// actor adds the three columns of an actor.
func (v values) actor(prefix string, a domain.Actor) values {
	v[prefix+"_kind"], v[prefix+"_id"], v[prefix+"_name"] = a.Kind, a.ID, a.Name
	return v
}

// each returns the names in order, each in the format.
func (v values) each(format string) string {
	names := slices.Sorted(maps.Keys(v))
	for i, name := range names {
		names[i] = fmt.Sprintf(format, name)
	}
	return strings.Join(names, ", ")
}

// bound returns the statement with numbered instead of named parameters (:name), and their
// arguments. A cast is written CAST(… AS …), since a double colon stands for a colon.
func bound(query string, v values) (string, []any, error) {
	query, args, err := sqlx.Named(query, map[string]any(v))
	return sqlx.Rebind(sqlx.DOLLAR, query), args, err
}

// write executes a statement with named parameters.
func write(ctx context.Context, db execer, query string, v values) (sql.Result, error) {
	query, args, err := bound(query, v)
	if err != nil {
		return nil, err
	}
	return db.ExecContext(ctx, query, args...)
}

// insert adds a row. What follows the row is ON CONFLICT, or nothing.
func insert(ctx context.Context, db execer, table string, row values, conflict ...string) error {
	query := `INSERT INTO ` + table + ` (` + row.each("%s") + `) VALUES (` + row.each(":%s") + `) ` + strings.Join(conflict, " ")
	_, err := write(ctx, db, query, row)
	return err
}

// write executes a statement with named parameters; :workspace_id is the workspace.
func (t *Tx) write(ctx context.Context, query string, v values) (sql.Result, error) {
	v["workspace_id"] = t.workspace
	return write(ctx, t.conn, query, v)
}

// getNamed reads a row by a statement with named parameters; :workspace_id is the workspace.
func (t *Tx) getNamed(ctx context.Context, dest any, query string, v values) error {
	v["workspace_id"] = t.workspace
	query, args, err := bound(query, v)
	if err != nil {
		return err
	}
	return t.get(ctx, dest, query, args...)
}

// insert adds a row of the workspace.
func (t *Tx) insert(ctx context.Context, table string, row values, conflict ...string) error {
	row["workspace_id"] = t.workspace
	return insert(ctx, t.conn, table, row, conflict...)
}

// insertAll adds rows of the workspace with the same columns, by one statement, and returns the ids
// of those that it has added. JSON columns are values, not texts.
func (t *Tx) insertAll(ctx context.Context, table string, all []values, conflict ...string) (ids []string, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	for _, row := range all {
		row["workspace_id"] = t.workspace
	}
	body, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	columns := all[0].each("%s")
	err = t.sel(ctx, &ids, `INSERT INTO `+table+` (`+columns+`) SELECT `+columns+` FROM jsonb_populate_recordset(NULL::`+table+`, $1::jsonb) `+
		strings.Join(conflict, " ")+` RETURNING id`, string(body))
	return ids, err
}

// save is insert, but updates the row with the same key if there is one.
func (t *Tx) save(ctx context.Context, table, key string, row values) error {
	return t.insert(ctx, table, row, `ON CONFLICT (`+key+`) DO UPDATE SET `+row.each("%[1]s = EXCLUDED.%[1]s"))
}

// update changes the workspace's row with the id. missing is the error if there is none; nil says
// that the caller has locked it.
func (t *Tx) update(ctx context.Context, missing error, table, id string, row values) error {
	set := row.each("%[1]s = :%[1]s")
	row["id"] = id
	res, err := t.write(ctx, `UPDATE `+table+` SET `+set+` WHERE workspace_id = :workspace_id AND id = :id`, row)
	if did, err := changed(res, err); did || err != nil {
		return err
	}
	return missing
}

// changed reports whether the statement changed a row.
func changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
