package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

const (
	findByName = `t.database_id = (SELECT id FROM databases WHERE workspace_id = $1 AND (id = $2 OR key = $3)) AND t.schema_key = $4 AND t.name_key = $5
	AND t.dropped_at IS NULL`
	prepareFind = `PREPARE find_lake_table (text, text, text, text, text) AS ` + selectLakeTables + findByName
	prepareNote = `PREPARE note_lake_table (text, text, text, text, text, text, text, text, text, timestamptz) AS WITH found AS (` + selectLakeTables + findByName + `), noted AS (
			` + insertFacts + ` FROM (
				SELECT $7 AS actor_kind, $8 AS actor_id, $9 AS actor_name, 'read' AS direction, f.id AS table_id, COALESCE(f.snapshot_id, 0) AS snapshot_id, $10 AS at,
					f.database, f.schema, f.name, NULL::text[] AS columns, '' AS process, d.key || '.' || $4 || '.' || $5 AS table_key, '' AS source
				FROM found f JOIN databases d ON d.workspace_id = $1 AND d.id = f.database_id WHERE f.kind = $6
			) e` + factJoins + ` ON CONFLICT DO NOTHING
		) SELECT * FROM found`
)

// FindLakeTable is lake.Tx's in its own transaction, in one round trip. Each connection
// caches its plan, and concurrent callers share one query.
func (s *Store) FindLakeTable(ctx context.Context, scope domain.Scope, database, schema, name string) (lake.Table, error) {
	key := tableName{scope.Workspace(), database, schema, name}
	row, err := s.tables.get(ctx, key, func(ctx context.Context) (lakeTableRow, error) {
		return s.oneLakeTable(ctx, execution{scope: scope, name: "find_lake_table", prepare: prepareFind, args: nameArgs(scope, database, schema, name)}, schema+"."+name)
	})
	if err != nil {
		return lake.Table{}, err
	}
	return row.toDomain()
}

// tableName identifies a table by the names in a request.
type tableName struct {
	workspace              domain.WorkspaceID
	database, schema, name string
}

// NoteLakeTable is FindLakeTable. It also records the scope's actor as reader if the kind matches.
// The record commits asynchronously, but before any later commit, such as the actor's end.
func (s *Store) NoteLakeTable(ctx context.Context, scope domain.Scope, database, schema, name string, kind lake.TableKind, at time.Time) (lake.Table, error) {
	actor := scope.Actor()
	args := append(nameArgs(scope, database, schema, name), string(kind), string(actor.Kind), actor.ID, actor.Name, at)
	row, err := s.oneLakeTable(ctx, execution{scope: scope, name: "note_lake_table", prepare: prepareNote, args: args, soon: true}, schema+"."+name)
	if err != nil {
		return lake.Table{}, err
	}
	return row.toDomain()
}

func nameArgs(scope domain.Scope, database, schema, name string) []any {
	return []any{string(scope.Workspace()), database, lake.FoldName(database), lake.FoldName(schema), lake.FoldName(name)}
}

// oneLakeTable runs an execution that finds a table, and retries it after a lost connection.
func (s *Store) oneLakeTable(ctx context.Context, e execution, named string) (row lakeTableRow, err error) {
	if err := e.scope.Valid(); err != nil {
		return row, err
	}
	for try := 0; ; try++ {
		err := s.message(ctx, e, func(found *sqlx.Rows) error { return found.StructScan(&row) })
		if err == nil {
			return row, nil
		}
		if !lostConnection(err) || ctx.Err() != nil || try == s.app.Stats().MaxOpenConnections {
			return row, mapError(orCancelled(ctx, orMissing(err, domain.NotFound("table", named))))
		}
	}
}

// execution is a prepared statement to run in a workspace, in its own transaction.
type execution struct {
	scope   domain.Scope
	name    string
	prepare string
	args    []any
	soon    bool // commit asynchronously
}

// query returns the whole transaction. The server runs several statements in one message as one
// transaction.
func (e execution) query() string {
	settings := `SELECT set_config('app.workspace', ` + pq.QuoteLiteral(string(e.scope.Workspace())) + `, true)`
	if e.soon {
		settings += `, set_config('synchronous_commit', 'off', true)`
	}
	return settings + `; EXECUTE ` + e.name + ` (` + literals(e.args) + `)`
}

// message runs the execution in one round trip. It prepares the statement at its first use on a
// connection. sql.ErrNoRows if there is no row.
func (s *Store) message(ctx context.Context, e execution, read func(*sqlx.Rows) error) error {
	query := e.query()
	if strings.ContainsRune(query, 0) {
		return domain.Errorf(domain.CodeInvalid, "The text holds a NUL character; leave it out.")
	}
	conn, err := s.app.Connx(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx) // see brief
	err = secondRow(ctx, conn, query, read)
	if pq.As(err, pqerror.InvalidSQLStatementName) == nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, e.prepare); err != nil {
		return err
	}
	return secondRow(ctx, conn, query, read)
}

// secondRow reads the one row of the second statement, and then to the end, where the transaction
// may still fail. sql.ErrNoRows if there is no row.
func secondRow(ctx context.Context, conn *sqlx.Conn, query string, read func(*sqlx.Rows) error) (err error) {
	found, err := conn.QueryxContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() { // the settings
	}
	if !found.NextResultSet() {
		return errors.Join(found.Err(), errNoSecond)
	}
	if !found.Next() {
		return errors.Join(found.Err(), sql.ErrNoRows)
	}
	if err := read(found); err != nil {
		return err
	}
	for found.Next() { // no further row
	}
	return found.Err()
}

var errNoSecond = errors.New("the database has answered only one of two statements")
