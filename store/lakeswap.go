package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// The swap of a pointer, alone and with its audit row in one statement.
const (
	updateLakeTable = `UPDATE lake_tables SET location = $7, metadata_location = $8, version = $9, format_version = $10, snapshot_id = $11, snapshot_at = $12,
		operation = $13, row_count = $14, data_bytes = $15, data_files = $16, updated_by_kind = $17, updated_by_id = $18, updated_by_name = $19, updated_at = $20,
		uuid = $21, registered = $22, delete_files = $23, deleted_rows = $24, snapshots = $25, expirable_at = $26 WHERE workspace_id = $1 AND id = $2 AND database_id = $3 AND schema_key = $4 AND name_key = $5 AND metadata_location = $6
		AND version < $9 AND dropped_at IS NULL
		AND NOT EXISTS (SELECT FROM lake_turns t WHERE t.workspace_id = $1 AND t.table_id = $2 AND t.writer <> $17 || ':' || $18 AND t.until > $20)`
	swapped = `WITH swapped AS (` + updateLakeTable + ` RETURNING 1), over AS (
			DELETE FROM lake_turns WHERE workspace_id = $1 AND table_id = $2 AND writer = $17 || ':' || $18 AND EXISTS (SELECT FROM swapped)
		)`
	swapLakeTable = swapped + ` SELECT EXISTS (SELECT FROM swapped)`
	prepareSwap   = `PREPARE swap_lake_table (text, text, text, text, text, text, text, text, int, int, bigint, timestamptz, text, bigint, bigint, bigint, text, text, text,
		timestamptz, text, bool, bigint, bigint, bigint, timestamptz, text, text, text, text, text, text, text, text, text) AS ` + swapped + `, audited AS (
			INSERT INTO audit_events (workspace_id, id, actor_kind, actor_id, actor_name, action, resource_type, resource_id, outcome, detail)
			SELECT $1, $27, $28, $29, $30, $31, $32, $33, $34, $35 FROM swapped
		) SELECT EXISTS (SELECT FROM swapped)`
)

func swapArgs(ws domain.WorkspaceID, l lake.Table, old string) []any {
	snapshot, at, operation := snapshotArgs(l.Snapshot)
	return []any{
		string(ws), string(l.ID), string(l.DatabaseID), lake.FoldName(l.Schema), lake.FoldName(l.Name), old, l.Location, l.MetadataLocation, l.Version, l.FormatVersion,
		snapshot, at, operation, l.RowCount, l.DataBytes, l.DataFiles, string(l.UpdatedBy.Kind), l.UpdatedBy.ID, l.UpdatedBy.Name, l.UpdatedAt, l.UUID, l.Registered,
		l.DeleteFiles, l.DeletedRows, l.Snapshots, l.ExpirableAt,
	}
}

// SwapLakeTable implements lake.Tx.
func (t *Tx) SwapLakeTable(ctx context.Context, l lake.Table, old string) (swapped bool, err error) {
	err = t.get(prepared(ctx), &swapped, swapLakeTable, swapArgs(t.workspace, l, old)...)
	return swapped, err
}

// FenceLakeTable implements lake.Tx.
func (t *Tx) FenceLakeTable(ctx context.Context, id domain.TableID, old string, version int) (fenced bool, err error) {
	err = t.get(ctx, &fenced, `WITH fenced AS (
			UPDATE lake_tables SET version = $4 WHERE workspace_id = $1 AND id = $2 AND metadata_location = $3 AND version < $4 RETURNING 1
		) SELECT EXISTS (SELECT FROM fenced)`, t.workspace, id, old, version)
	return fenced, err
}

// SwapLakeTable is lake.Tx's with an audit row, in its own transaction and one round
// trip. After an error that is not the database's answer, the outcome is open and the swap may
// still happen.
func (s *Store) SwapLakeTable(ctx context.Context, scope domain.Scope, l lake.Table, old string, e domain.AuditEvent) (swapped bool, err error) {
	if err := scope.Valid(); err != nil {
		return false, err
	}
	args := append(swapArgs(scope.Workspace(), l, old), e.ID, string(e.Actor.Kind), e.Actor.ID, e.Actor.Name, string(e.Action), e.ResourceType, e.ResourceID, string(e.Outcome), e.Detail)
	read := func(found *sqlx.Rows) error { return found.Scan(&swapped) }
	for try := 1; ; try++ {
		err := s.message(ctx, execution{scope: scope, name: "swap_lake_table", prepare: prepareSwap, args: args}, read)
		if lost := pq.As(err, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure); lost == nil || try == maxTries {
			return swapped, mapError(orCancelled(ctx, err))
		}
	}
}

// LockLocations implements lake.Tx.
func (t *Tx) LockLocations(ctx context.Context) error {
	return t.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('lake_locations:' || $1, 0))`, t.workspace)
}

// literal formats a value for a statement. Text holds no NUL character.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return pq.QuoteLiteral(v)
	case domain.EventID:
		return pq.QuoteLiteral(string(v))
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return pq.QuoteLiteral(string(pq.FormatTimestamp(v)))
	case *int64:
		if v != nil {
			return strconv.FormatInt(*v, 10)
		}
	case *time.Time:
		if v != nil {
			return literal(*v)
		}
	default:
		panic("this type has no literal") // the types are those of this package's own statements
	}
	return "NULL"
}

func literals(args []any) string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = literal(arg)
	}
	return strings.Join(all, ", ")
}
