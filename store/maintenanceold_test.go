package store_test

import (
	"context"
	"os"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// oldStatement inserts a statement by the actor, as a server did before statements had a purpose.
const oldStatement = `INSERT INTO statements (workspace_id, id, warehouse_id, query, database_name, schema_name, created_by_kind, created_by_id, created_by_name, role, created_at,
	state, replica, started_at, finished_at, fault, failure) VALUES ('ws_1', $1, 'wh_1', 'OPTIMIZE', 'lake', 'public', $2, $2, $3, 'editor', now(), $4, 'rep_1', now(), now(), $5, $5)`

// TestMaintenanceFromBeforeItsStatementsHadAPurpose is kept: its statements get their purpose and
// their table.
func TestMaintenanceFromBeforeItsStatementsHadAPurpose(t *testing.T) {
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 12)
	require.NoError(t, err)
	execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) VALUES ('ws_1', 'one', now())`)
	execute(t, db, oldStatement, "stm_mine", "user", "me", "succeeded", "")
	execute(t, db, oldStatement, "stm_done", "system", "maintenance", "succeeded", "")
	execute(t, db, oldStatement, "stm_forgotten", "system", "maintenance", "succeeded", "")
	execute(t, db, `INSERT INTO maintenance_runs (workspace_id, id, table_id, database_id, database, schema, name, run_trigger, created_by_kind, created_by_id, created_by_name,
		created_at, due_at, state, todo, look_at, operations) VALUES ('ws_1', 'mnt_1', 'tbl_1', 'db_1', 'lake', 'public', 't', 'manual', 'user', '', '', now(), now(), 'succeeded', '{}',
		now(), '[{"kind": "compact", "statement": "stm_done", "started_at": "2026-03-01T00:00:00Z"}]')`)

	require.NoError(t, store.Migrate(t.Context(), dsn))
	s := connect(t, dsn)
	in(t, s, domain.SystemScope("ws_1", "test"), func(ctx context.Context, tx *store.Tx) error {
		for purpose, want := range map[statement.Purpose]map[domain.StatementID]domain.TableID{
			"": {"stm_mine": ""}, statement.Maintenance: {"stm_done": "tbl_1", "stm_forgotten": ""},
		} {
			all, err := tx.Statements(ctx, statement.Filter{Purpose: purpose}, "", 10, 1000)
			require.NoError(t, err)
			found := map[domain.StatementID]domain.TableID{}
			for _, st := range all {
				found[st.ID] = st.TableID
			}
			require.Equal(t, want, found, purpose)
		}
		return nil
	})
	_, err = provider.DownTo(t.Context(), 12)
	require.NoError(t, err)
}
