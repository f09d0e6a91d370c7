package store_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// Rows as a server wrote them before the operations of maintenance were statements.
const (
	oldStatement = `INSERT INTO statements (workspace_id, id, warehouse_id, query, database_name, schema_name, created_by_kind, created_by_id, created_by_name, role, created_at,
		state, replica) VALUES ('ws_1', $1, 'wh_1', 'OPTIMIZE', 'lake', 'public', $2, $2, $3, 'editor', '2026-03-01', $4, 'rep_1')`
	oldRun = `INSERT INTO maintenance_runs (workspace_id, id, table_id, database_id, database, schema, name, run_trigger, created_by_kind, created_by_id, created_by_name,
		created_at, due_at, state, message, look_at, todo, statement_id, operations) VALUES ('ws_1', $1, $2, 'db_1', 'lake', 'public', 'we"ird', 'schedule', 'system', 'system',
		'maintenance', '2026-03-01', '2026-03-01', $3, $4, '2026-03-01 01:00', $5, $6, $7)`
	oldOperation = `{"kind": "compact", "query": "OPTIMIZE", "warehouse": "wh_1", "started_at": "2026-03-01T02:00:00Z", "seconds": 2, "before": {"files": 7},`
	oldDone      = `[` + oldOperation + ` "statement": "stm_done", "state": "succeeded", "cost": "0.01", "currency": "EUR"}]`
	oldLive      = `[` + oldOperation + ` "statement": "stm_live", "state": "running"}]`
	oldRefused   = `[` + oldOperation + ` "statement": "", "state": "failed", "fault": "query", "message": "No.", "finished_at": "2026-03-01T02:00:01Z"}]`
	oldClaimed   = `[` + oldOperation + ` "statement": "", "state": "queued"}]`
)

// TestMaintenanceFromBeforeItsOperationsWereStatements is kept: what was done is shown as before,
// and what is still to do waits as held statements.
func TestMaintenanceFromBeforeItsOperationsWereStatements(t *testing.T) {
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 12)
	require.NoError(t, err)
	execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) VALUES ('ws_1', 'one', now())`)
	execute(t, db, oldStatement, "stm_mine", "user", "me", "succeeded")
	for id, state := range map[string]string{"stm_done": "succeeded", "stm_forgotten": "succeeded", "stm_live": "running"} {
		execute(t, db, oldStatement, id, "system", "maintenance", state)
	}
	execute(t, db, oldRun, "mnt_done", "tbl_done", "succeeded", "", `{}`, "", oldDone)
	execute(t, db, oldRun, "mnt_none", "tbl_none", "skipped", "Nothing to do.", `{compact}`, "", `[]`)
	execute(t, db, oldRun, "mnt_refused", "tbl_refused", "failed", "No.", `{}`, "", oldRefused)
	execute(t, db, oldRun, "mnt_waits", "tbl_waits", "queued", "Is written.", `{compact,expire}`, "", `[]`)
	execute(t, db, oldRun, "mnt_runs", "tbl_runs", "running", "", `{compact,orphans}`, "stm_live", oldLive)
	execute(t, db, oldRun, "mnt_claimed", "tbl_claimed", "running", "", `{compact}`, "", oldClaimed)

	require.NoError(t, store.Migrate(t.Context(), dsn))
	s := connect(t, dsn)
	at := func(hour int) *time.Time { return new(time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC)) }
	in(t, s, domain.SystemScope("ws_1", "test"), func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.MaintenanceRuns(ctx, maintenance.Filter{}, "", 10)
		require.NoError(t, err)
		runs := map[domain.MaintenanceRunID]maintenance.Run{}
		for _, r := range all {
			runs[r.ID] = r
			for _, o := range r.Operations {
				require.Equal(t, []any{statement.Maintenance, r.TableID}, []any{o.Statement.Purpose, o.Statement.TableID}, r.ID)
			}
		}
		done := runs["mnt_done"].Operations[0]
		require.Equal(t, []any{domain.StatementID("stm_done"), statement.Succeeded, *at(2), int64(7), "EUR"},
			[]any{done.Statement.ID, done.Statement.State, done.StartedAt(), *done.Before.Files, done.Currency})
		require.Equal(t, []any{maintenance.Skipped, "Nothing to do."}, []any{runs["mnt_none"].State, runs["mnt_none"].Message})
		refused := runs["mnt_refused"].Started()[0]
		require.Equal(t, []any{statement.Failed, "No.", "OPTIMIZE"}, []any{refused.Statement.State, refused.Message(), refused.Statement.Query})

		waits := runs["mnt_waits"]
		require.Equal(t, []any{maintenance.Queued, "Is written.", []maintenance.Kind{maintenance.Compact, maintenance.Expire}, at(1)},
			[]any{waits.State, waits.Message, waits.Todo(), waits.NextTryAt()})
		require.Equal(t, `ALTER TABLE lake.public."we""ird" EXECUTE optimize`, waits.Operations[0].Statement.Query)
		running := runs["mnt_runs"]
		require.Equal(t, []any{maintenance.Running, domain.StatementID("stm_live"), []maintenance.Kind{maintenance.Orphans}},
			[]any{running.State, running.Started()[0].Statement.ID, running.Todo()})
		require.Nil(t, running.Operations[1].Statement.NotBefore)
		require.Equal(t, []any{maintenance.Queued, []maintenance.Kind{maintenance.Compact}}, []any{runs["mnt_claimed"].State, runs["mnt_claimed"].Todo()})

		due, err := tx.WaitingMaintenance(ctx, *at(1), 10)
		require.NoError(t, err)
		require.Len(t, due, 2)
		mine, _, err := tx.Statements(ctx, statement.Filter{}, "", 10, 1000)
		require.NoError(t, err)
		require.Len(t, mine, 1, "a list leaves them out")
		forgotten, err := tx.Statement(ctx, "stm_forgotten")
		require.Equal(t, statement.Maintenance, forgotten.Purpose)
		return err
	})

	_, err = provider.DownTo(t.Context(), 12)
	require.NoError(t, err)
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM maintenance_runs WHERE message = 'The platform returned to an older version.'`))
	require.NoError(t, store.Migrate(t.Context(), dsn), "up again")
}
