package store_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestAWorkspaceCannotAcceptForItsInvited: tenant SQL can invite and remove, but cannot write an
// acceptance.
func TestAWorkspaceCannotAcceptForItsInvited(t *testing.T) {
	s, dsn := openDSN(t)
	db := superuser(t, dsn)
	w := newTenant(t, s, "one")
	invited, token, err := w.services.Members.Add(t.Context(), w.admin, "ada@example.com", "", domain.RoleAdmin)
	require.NoError(t, err)
	as := func(statement string, args ...any) error {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func(tx *sql.Tx) { _ = tx.Rollback() }(tx)
		_, err = tx.Exec(`SELECT set_config('role', 'millpond_app', true), set_config('app.workspace', $1, true)`, string(w.admin.Workspace()))
		require.NoError(t, err)
		_, err = tx.Exec(statement, args...)
		return err
	}
	require.NoError(t, as(`UPDATE members SET role = 'viewer' WHERE user_id = $1`, invited.User.ID))
	require.ErrorContains(t, as(`UPDATE members SET accepted_at = now() WHERE user_id = $1`, invited.User.ID), "permission denied")
	require.ErrorContains(t, as(`INSERT INTO members (workspace_id, user_id, role, created_at, accepted_at) VALUES ($1, $2, 'admin', now(), now())`,
		w.admin.Workspace(), invited.User.ID), "permission denied")
	require.Equal(t, invited.User.ID, w.accept(token, "ada@example.com").UserID())
}
