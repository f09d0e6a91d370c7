package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/millpond/millpond/domain"
)

const (
	findByName = `t.database_id = (SELECT id FROM databases WHERE workspace_id = $1 AND (id = $2 OR key = $3)) AND t.schema_key = $4 AND t.name_key = $5
	AND t.dropped_at IS NULL`
	prepareFind = `PREPARE find_lake_table (text, text, text, text, text) AS ` + selectLakeTables + findByName
)

// FindLakeTable is domain.LakeTableTx's in a transaction of its own: one round trip for all of it, with a plan that each connection keeps.
func (s *Store) FindLakeTable(ctx context.Context, scope domain.Scope, database, schema, name string) (domain.LakeTable, error) {
	if err := scope.Valid(); err != nil {
		return domain.LakeTable{}, err
	}
	if strings.ContainsRune(database+schema+name, 0) {
		return domain.LakeTable{}, domain.Errorf(domain.CodeInvalid, "A name holds a NUL character; leave it out.")
	}
	ws := pq.QuoteLiteral(string(scope.Workspace()))
	args := []string{ws}
	for _, arg := range []string{database, domain.FoldName(database), domain.FoldName(schema), domain.FoldName(name)} {
		args = append(args, pq.QuoteLiteral(arg))
	}
	query := `SELECT set_config('app.workspace', ` + ws + `, true); EXECUTE find_lake_table (` + strings.Join(args, ", ") + `)`
	for try := 0; ; try++ {
		row, err := s.findOnce(ctx, query)
		if err == nil {
			return row.toDomain()
		}
		if !lostConnection(err) || ctx.Err() != nil || try == s.app.Stats().MaxOpenConnections {
			return domain.LakeTable{}, mapError(orCancelled(ctx, orMissing(err, domain.NotFound("table", schema+"."+name))))
		}
	}
}

// findOnce asks on one connection. Several statements sent as one are one transaction, and end it.
func (s *Store) findOnce(ctx context.Context, query string) (lakeTableRow, error) {
	conn, err := s.app.Connx(ctx)
	if err != nil {
		return lakeTableRow{}, err
	}
	defer conn.Close()
	row, err := secondRow(ctx, conn, query)
	if pq.As(err, pqerror.InvalidSQLStatementName) == nil {
		return row, err
	}
	if _, err := conn.ExecContext(ctx, prepareFind); err != nil {
		return row, err
	}
	return secondRow(ctx, conn, query)
}

// secondRow is the one row of the second statement's result; sql.ErrNoRows where it has none.
func secondRow(ctx context.Context, conn *sqlx.Conn, query string) (row lakeTableRow, err error) {
	found, err := conn.QueryxContext(ctx, query)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() { // the setting
	}
	if !found.NextResultSet() {
		return row, errors.Join(found.Err(), errNoSecond)
	}
	if !found.Next() {
		return row, errors.Join(found.Err(), sql.ErrNoRows)
	}
	return row, found.StructScan(&row)
}

var errNoSecond = errors.New("the database has answered only one of two statements")
