package auth_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// TestALinkThatNamesNobodyOpensNoOtherWorkspace uses the first administrator's link of one
// workspace. It must not set the password of a user whom another workspace has invited, because
// that would open the other workspace.
func TestALinkThatNamesNobodyOpensNoOtherWorkspace(t *testing.T) {
	i := newInstance(t)
	_, victim, _ := i.workspace("victim")
	_, link, err := i.members.Add(t.Context(), victim, "bob@example.com", "", domain.RoleAdmin)
	require.NoError(t, err)
	_, _, credentials, err := i.root.CreateWorkspace(t.Context(), "mallory")
	require.NoError(t, err)

	taking := auth.SetUp{Token: credentials.SetUpToken, Email: "bob@example.com", Password: "mallory knows this"}
	_, err = i.auth.SetUp(t.Context(), taking)
	require.Equal(t, domain.CodeConflict, code(err))
	require.Contains(t, domain.AsError(err).Message, "open the link of that invitation")
	_, err = i.auth.Login(t.Context(), auth.Login{Email: "bob@example.com", Password: "mallory knows this", Workspace: "victim"})
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	require.Zero(t, i.count(`SELECT count(*) FROM members m JOIN users u ON u.id = m.user_id JOIN workspaces w USING (workspace_id)
		WHERE u.email = 'bob@example.com' AND w.name = 'mallory'`))

	in, err := i.auth.SetUp(t.Context(), auth.SetUp{Token: link, Email: "bob@example.com", Password: password})
	require.NoError(t, err, "the link that names him still works")
	require.Equal(t, victim.Workspace(), in.Session.Workspace)
	taking.Email = "mallory@example.com"
	_, err = i.auth.SetUp(t.Context(), taking)
	require.NoError(t, err, "and so does the other one, for a new user")
}

// TestAJunkLinkCostsNoHash checks that requests without a valid link take no slot for hashing.
func TestAJunkLinkCostsNoHash(t *testing.T) {
	i := newInstance(t)
	_, _, credentials, err := i.root.CreateWorkspace(t.Context(), "one")
	require.NoError(t, err)
	free := i.auth.HoldHashing()
	in := auth.SetUp{Token: "junk", Email: "ada@example.com", Password: password}
	_, err = i.auth.SetUp(t.Context(), in)
	require.Equal(t, "token", domain.AsError(err).Field)

	in.Token = credentials.SetUpToken
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = i.auth.SetUp(gone, in)
	require.ErrorIs(t, err, context.Canceled)
	waiting, leave := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := i.auth.Login(waiting, auth.Login{Email: "ada@example.com", Password: password})
		answered <- err
	}()
	leave()
	require.ErrorIs(t, <-answered, context.Canceled, "a caller that left waits for no slot")
	free()
	_, err = i.auth.SetUp(t.Context(), in)
	require.NoError(t, err)
}

// TestTooManyJunkLinksOfAnAddress checks that they are refused for a while, and that other
// addresses are not.
func TestTooManyJunkLinksOfAnAddress(t *testing.T) {
	i := newInstance(t)
	_, _, credentials, err := i.root.CreateWorkspace(t.Context(), "one")
	require.NoError(t, err)
	try := func(address, token string) (err error) {
		r := request("millpond.example.com", true)
		r.RemoteAddr = address + ":1234"
		_, _, _ = i.serve(r, false, func(ctx context.Context) {
			_, err = i.auth.SetUp(ctx, auth.SetUp{Token: token, Email: "ada@example.com", Password: password})
		})
		return err
	}
	for n := range 20 {
		require.Equal(t, domain.CodeInvalid, code(try("10.0.0.1", fmt.Sprint(n))))
	}
	require.Equal(t, domain.CodeRate, code(try("10.0.0.1", credentials.SetUpToken)))
	require.NoError(t, try("10.0.0.2", credentials.SetUpToken))
}

// TestNothingIsDoneWithoutItsAuditRow checks that nothing changes if the row cannot be written.
func TestNothingIsDoneWithoutItsAuditRow(t *testing.T) {
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	in := i.member(admin, "ada", domain.RoleViewer)
	other, err := i.login("ada@example.com", password)
	require.NoError(t, err)
	_, link, err := i.members.Add(t.Context(), admin, "bob@example.com", "", domain.RoleViewer)
	require.NoError(t, err)
	bob := auth.SetUp{Token: link, Email: "bob@example.com", Password: password}
	sessions := i.count(`SELECT count(*) FROM sessions`)
	rows := i.count(`SELECT count(*) FROM audit_events`)
	_, err = i.db.Exec(`ALTER TABLE audit_events ADD CONSTRAINT refused CHECK (false) NOT VALID`)
	require.NoError(t, err)

	scope := i.scope(in.Token)
	_, err = i.login("ada@example.com", password)
	require.Error(t, err)
	require.Error(t, i.auth.Logout(t.Context(), scope))
	_, err = i.auth.ChangePassword(t.Context(), scope, password, "a new password at last")
	require.Error(t, err)
	_, err = i.auth.SetUp(t.Context(), bob)
	require.Error(t, err)
	_, _, _, err = i.root.CreateWorkspace(t.Context(), "two")
	require.Error(t, err)
	_, err = i.root.InviteAdmin(t.Context(), admin.Workspace())
	require.Error(t, err)
	require.True(t, i.opens(in.Token))
	require.True(t, i.opens(other.Token))
	require.Equal(t, sessions, i.count(`SELECT count(*) FROM sessions WHERE ended_at IS NULL`))
	require.Equal(t, 1, i.count(`SELECT count(*) FROM workspaces`))
	require.Equal(t, 1, i.count(`SELECT count(*) FROM invitations WHERE used_at IS NULL`))

	_, err = i.db.Exec(`ALTER TABLE audit_events DROP CONSTRAINT refused`)
	require.NoError(t, err)
	_, err = i.auth.SetUp(t.Context(), bob)
	require.NoError(t, err)
	_, err = i.auth.ChangePassword(t.Context(), scope, password, "a new password at last")
	require.NoError(t, err, "with the password as it was")
	require.NoError(t, i.auth.Logout(t.Context(), scope))
	two, _, _, err := i.root.CreateWorkspace(t.Context(), "two")
	require.NoError(t, err)
	_, err = i.root.InviteAdmin(t.Context(), two.ID)
	require.NoError(t, err)
	require.Equal(t, rows+5, i.count(`SELECT count(*) FROM audit_events`))
	require.Equal(t, 2, i.count(`SELECT count(*) FROM audit_events WHERE workspace_id = $1 AND actor_kind = 'system' AND actor_name = 'operator'
		AND action IN ('workspace.create', 'admin.invite') AND resource_id = workspace_id`, two.ID))
}
