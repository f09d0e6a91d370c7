package auth_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

// TestAnAccountThatSomebodyTookOpensNothingElse lets an admin invite a foreign e-mail and set its
// password. That password must not open another workspace that invites the same e-mail later.
func TestAnAccountThatSomebodyTookOpensNothingElse(t *testing.T) {
	i := newInstance(t)
	_, mallory, _ := i.workspace("mallory")
	_, victim, _ := i.workspace("victim")
	early := i.invite(victim, "carl", domain.RoleAdmin)
	taken := map[string]auth.SignedIn{}
	for _, name := range []string{"bob", "carl"} {
		in, err := i.accept(i.invite(mallory, name, domain.RoleViewer), name, "mallory knows this")
		require.NoError(t, err)
		taken[name] = in
	}
	links := map[string]string{"bob": i.invite(victim, "bob", domain.RoleAdmin), "carl": early}
	for name, link := range links {
		email := name + "@example.com"
		for _, workspace := range []string{"victim", string(victim.Workspace())} {
			_, err := i.auth.Login(t.Context(), auth.Login{Email: email, Password: "mallory knows this", Workspace: workspace})
			require.Equal(t, "workspace", domain.AsError(err).Field, "%s: %v", name, err)
			require.NotContains(t, domain.AsError(err).Message, "yours: mallory, victim")
		}
		in, err := i.login(email, "mallory knows this")
		require.NoError(t, err)
		require.Equal(t, mallory.Workspace(), in.Session.Workspace)
		require.Equal(t, mallory.Workspace(), i.scope(taken[name].Token).Workspace())
		_, err = i.accept(link, name, password)
		require.Equal(t, domain.CodeUnauthenticated, code(err), "nor does the victim's link give the account to somebody else")
	}
	require.Equal(t, 1, i.count(`SELECT count(*) FROM members WHERE workspace_id = $1 AND accepted_at IS NOT NULL`, victim.Workspace()))
	require.Zero(t, i.count(`SELECT count(*) FROM sessions s JOIN users u ON u.id = s.user_id WHERE workspace_id = $1 AND u.email ~ '^(bob|carl)@'`, victim.Workspace()))
}

// TestPendingMemberships checks that a pending membership grants nothing and does not count.
func TestPendingMemberships(t *testing.T) {
	for name, c := range map[string]struct {
		accepted, pending []string
		workspace         string
		opens             string
		refused           domain.Code
		says, hides       string
	}{
		"one":                        {accepted: []string{"a"}, opens: "a"},
		"one and one pending":        {accepted: []string{"a"}, pending: []string{"b"}, opens: "a"},
		"one and two pending":        {accepted: []string{"b"}, pending: []string{"a", "c"}, opens: "b"},
		"one, the pending named":     {accepted: []string{"a"}, pending: []string{"b"}, workspace: "b", refused: domain.CodeInvalid, says: "yours: a.", hides: ", b"},
		"two and one pending":        {accepted: []string{"a", "b"}, pending: []string{"c"}, refused: domain.CodeInvalid, says: "name one of them: a, b.", hides: ", c"},
		"two and one pending, named": {accepted: []string{"a", "b"}, pending: []string{"c"}, workspace: "b", opens: "b"},
		"pending only":               {pending: []string{"a", "b"}, refused: domain.CodeForbidden, says: "open the link"},
		"pending only, named":        {pending: []string{"a"}, workspace: "a", refused: domain.CodeForbidden, says: "open the link"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t)
			scopes := map[string]domain.Scope{}
			for _, ws := range []string{"a", "b", "c", "gone"} {
				_, scopes[ws], _ = i.workspace(ws)
			}
			// The account has a password from a membership that was removed.
			in := i.member(scopes["gone"], "ada", domain.RoleViewer)
			for _, ws := range c.accepted {
				i.member(scopes[ws], "ada", domain.RoleEditor)
			}
			for _, ws := range c.pending {
				i.invite(scopes[ws], "ada", domain.RoleAdmin)
			}
			require.NoError(t, i.members.Remove(t.Context(), scopes["gone"], in.Session.User.ID))
			got, err := i.auth.Login(t.Context(), auth.Login{Email: "ada@example.com", Password: password, Workspace: c.workspace})
			require.Equal(t, c.refused, code(err), "%v", err)
			if c.opens != "" {
				require.Equal(t, scopes[c.opens].Workspace(), got.Session.Workspace)
				require.Equal(t, domain.RoleEditor, i.scope(got.Token).Role())
				return
			}
			require.Contains(t, domain.AsError(err).Message, c.says)
			if c.hides != "" {
				require.NotContains(t, domain.AsError(err).Message, c.hides)
			}
		})
	}
}

// TestAcceptingWithThePasswordOneHas checks that a user with an account joins with its password,
// and keeps the account and its sessions.
func TestAcceptingWithThePasswordOneHas(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	here := i.member(one, "ada", domain.RoleViewer)
	link := i.invite(two, "ada", domain.RoleEditor)
	require.Nil(t, i.listed(two)["ada@example.com"].AcceptedAt, "invited")
	hash := i.hash("ada")

	_, err := i.accept(link, "eve", password)
	require.Equal(t, "email", domain.AsError(err).Field, "a link is for one e-mail")
	for _, wrong := range []string{"", "short", "another horse battery", strings.Repeat("x", 2000), "\xff"} {
		_, err := i.accept(link, "ada", wrong)
		require.Equal(t, domain.CodeUnauthenticated, code(err), "%q", wrong)
		require.Contains(t, domain.AsError(err).Message, "ada@example.com already has an account")
	}
	require.Nil(t, i.listed(two)["ada@example.com"].AcceptedAt)
	require.Equal(t, 1, i.count(`SELECT count(*) FROM invitations WHERE workspace_id = $1 AND email = 'ada@example.com' AND used_at IS NULL`, two.Workspace()))
	for ws, action := range map[domain.WorkspaceID]string{two.Workspace(): "user.set_up", one.Workspace(): "session.login"} {
		require.Equal(t, 5, i.count(`SELECT count(*) FROM audit_events WHERE workspace_id = $1 AND action = $2 AND outcome = 'failure'`, ws, action), action)
	}

	there, err := i.auth.SetUp(t.Context(), auth.SetUp{Token: link, Email: " Ada@example.com", Name: "Somebody Else", Password: password})
	require.NoError(t, err)
	require.Equal(t, two.Workspace(), there.Session.Workspace)
	require.Equal(t, domain.RoleEditor, i.scope(there.Token).Role())
	require.Equal(t, here.Session.User, there.Session.User, "the same account with the same name")
	require.Equal(t, hash, i.hash("ada"), "and the same password")
	require.Equal(t, one.Workspace(), i.scope(here.Token).Workspace(), "what was open stays open")
	require.Equal(t, i.clock.Now().Unix(), i.listed(two)["ada@example.com"].AcceptedAt.Unix())
	_, err = i.accept(link, "ada", password)
	require.Equal(t, "token", domain.AsError(err).Field, "a link works once")
	_, _, err = i.members.Add(t.Context(), two, "ada@example.com", "", domain.RoleAdmin)
	require.Equal(t, domain.CodeConflict, code(err), "a member already")
	require.Equal(t, domain.RoleEditor, i.listed(two)["ada@example.com"].Role)
}

// TestWrongPasswordsOfALinkAreFailedLogins checks that they and failed logins share the counters,
// by e-mail and by address.
func TestWrongPasswordsOfALinkAreFailedLogins(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	i.member(one, "ada", domain.RoleViewer)
	i.member(one, "bob", domain.RoleViewer)
	i.member(one, "carl", domain.RoleViewer)
	links := map[string]string{}
	for _, name := range []string{"ada", "bob", "carl"} {
		links[name] = i.invite(two, name, domain.RoleViewer)
	}
	try := func(address, name, pw string) (err error) {
		r := request("millpond.example.com", true)
		r.RemoteAddr = address + ":1234"
		_, _, _ = i.serve(r, false, func(ctx context.Context) {
			_, err = i.auth.SetUp(ctx, auth.SetUp{Token: links[name], Email: name + "@example.com", Password: pw})
		})
		return err
	}
	for range 10 {
		require.Equal(t, domain.CodeUnauthenticated, code(try("10.0.0.1", "ada", "wrong")))
	}
	require.Equal(t, domain.CodeRate, code(try("10.0.0.2", "ada", password)), "by e-mail, from wherever")
	_, err := i.login("ada@example.com", password)
	require.Equal(t, domain.CodeRate, code(err))
	for range 10 {
		require.Equal(t, domain.CodeUnauthenticated, code(try("10.0.0.1", "bob", "wrong")))
	}
	require.Equal(t, domain.CodeRate, code(try("10.0.0.1", "carl", password)), "by address, for whomever")
	_, err = i.auth.Login(t.Context(), auth.Login{Email: "carl@example.com", Password: password, Address: "10.0.0.1"})
	require.Equal(t, domain.CodeRate, code(err))
	require.NoError(t, try("10.0.0.2", "carl", password))
}

// TestOneLinkAcceptedAtOnce checks that a link works once, with and without an account. Two links
// for a new user must set only one password.
func TestOneLinkAcceptedAtOnce(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	i.member(one, "ada", domain.RoleViewer)
	for name, links := range map[string][]string{
		"ada": {i.invite(two, "ada", domain.RoleViewer)},
		"bob": {i.invite(two, "bob", domain.RoleViewer)},
	} {
		accepted, refused := i.race(name, links, 8)
		require.Equal(t, 1, accepted, name)
		for _, err := range refused {
			require.Equal(t, "token", domain.AsError(err).Field, "%s: %v", name, err)
		}
	}
	require.Equal(t, 1, i.count(`SELECT count(*) FROM sessions s JOIN users u ON u.id = s.user_id WHERE workspace_id = $1 AND email = 'ada@example.com'`, two.Workspace()))

	accepted, refused := i.race("carl", []string{i.invite(one, "carl", domain.RoleViewer), i.invite(two, "carl", domain.RoleViewer)}, 2)
	require.GreaterOrEqual(t, accepted, 1)
	for _, err := range refused {
		require.Equal(t, domain.CodeConflict, code(err), "%v", err)
		require.Contains(t, domain.AsError(err).Message, "try again")
	}
}

// TestAFirstPasswordIsNotReplaced checks an acceptance that began before another workspace's link
// set the password.
func TestAFirstPasswordIsNotReplaced(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	link := i.invite(one, "ada", domain.RoleViewer)
	tx, err := i.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`UPDATE users SET password_hash = (SELECT password_hash FROM users WHERE email = 'one@example.com') WHERE email = 'ada@example.com'`)
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		_, err := i.accept(link, "ada", "mallory knows this")
		answered <- err
	}()
	require.Eventually(t, func() bool {
		return i.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, 5*time.Millisecond, "the acceptance waits")
	require.NoError(t, tx.Commit())
	err = <-answered
	require.Equal(t, domain.CodeConflict, code(err), "%v", err)
	require.Equal(t, i.hash("one"), i.hash("ada"))
	_, err = i.accept(link, "ada", password)
	require.NoError(t, err, "the link was not used up")
}

// race accepts each of the links n times at once.
func (i *instance) race(name string, links []string, n int) (accepted int, refused []error) {
	var all sync.WaitGroup
	errs := make(chan error, n)
	for k := range n {
		all.Go(func() {
			_, err := i.accept(links[k%len(links)], name, password)
			errs <- err
		})
	}
	all.Wait()
	for range n {
		if err := <-errs; err != nil {
			refused = append(refused, err)
		} else {
			accepted++
		}
	}
	return accepted, refused
}

// TestAnotherLink checks that a new link replaces the previous one, with its role, and that a
// removal invalidates it.
func TestAnotherLink(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	i.member(two, "ada", domain.RoleViewer)
	for _, name := range []string{"ada", "new"} { // with a password, and without
		first := i.invite(one, name, domain.RoleViewer)
		second := i.invite(one, name, domain.RoleAdmin)
		require.Len(t, i.listed(one), 2)
		_, err := i.accept(first, name, password)
		require.Equal(t, "token", domain.AsError(err).Field, name)
		id := i.listed(one)[name+"@example.com"].User.ID
		_, err = i.members.Update(t.Context(), one, id, domain.RoleEditor)
		require.NoError(t, err)
		in, err := i.accept(second, name, password)
		require.NoError(t, err)
		require.Equal(t, domain.RoleEditor, in.Session.Role, "as it is when the link is opened")

		require.NoError(t, i.members.Remove(t.Context(), one, id))
		require.False(t, i.opens(in.Token))
		third := i.invite(one, name, domain.RoleAdmin)
		require.False(t, i.opens(in.Token), "an invitation brings back no session")
		require.NoError(t, i.members.Remove(t.Context(), one, id))
		_, err = i.accept(third, name, password)
		require.Equal(t, "token", domain.AsError(err).Field, name)
		fourth := i.invite(one, name, domain.RoleViewer)
		_, err = i.accept(third, name, password)
		require.Equal(t, "token", domain.AsError(err).Field, "a new invitation wakes no old link")
		_, err = i.accept(fourth, name, password)
		require.NoError(t, err)
		require.NoError(t, i.members.Remove(t.Context(), one, id))
	}
}

// TestLinksMadeAtOnce checks that only one of several links works that admins create at the same
// time.
func TestLinksMadeAtOnce(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	var all sync.WaitGroup
	links := make(chan string, 6)
	for range 6 {
		all.Go(func() {
			_, token, err := i.members.Add(t.Context(), one, "ada@example.com", "", domain.RoleViewer)
			if err == nil {
				links <- token
			}
		})
	}
	all.Wait()
	close(links)
	require.Len(t, links, 6)
	accepted := 0
	for link := range links {
		if _, err := i.accept(link, "ada", password); err == nil {
			accepted++
		}
	}
	require.Equal(t, 1, accepted)
}

// TestTheFirstAdministratorMayHaveAnAccount checks that an existing account becomes an admin with
// its password, and keeps its roles in other workspaces.
func TestTheFirstAdministratorMayHaveAnAccount(t *testing.T) {
	i := newInstance(t)
	in, one, _ := i.workspace("one")
	ws, _, credentials, err := i.root.CreateWorkspace(t.Context(), "two")
	require.NoError(t, err)
	_, err = i.accept(credentials.SetUpToken, "one", "another password here")
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	_, err = i.login("one@example.com", password)
	require.NoError(t, err, "the password is as it was")
	there, err := i.accept(credentials.SetUpToken, "one", password)
	require.NoError(t, err, "the link was not used up by the refusal")
	require.Equal(t, ws.ID, there.Session.Workspace)
	require.Equal(t, in.Session.User, there.Session.User)
	two := i.scope(there.Token)
	require.Equal(t, domain.RoleAdmin, two.Role())
	require.Equal(t, one.Workspace(), i.scope(in.Token).Workspace())

	viewer := i.member(two, "ada", domain.RoleViewer)
	again, err := i.root.InviteAdmin(t.Context(), ws.ID)
	require.NoError(t, err)
	_, err = i.accept(again, "ada", password)
	require.NoError(t, err)
	require.Equal(t, domain.RoleAdmin, i.scope(viewer.Token).Role(), "the operator's link makes an admin of a member as well")
	again, err = i.root.InviteAdmin(t.Context(), ws.ID)
	require.NoError(t, err)
	_, err = i.accept(again, "new", password)
	require.NoError(t, err, "and of somebody new")

	i.member(one, "bob", domain.RoleViewer)
	named := i.invite(two, "bob", domain.RoleViewer)
	again, err = i.root.InviteAdmin(t.Context(), ws.ID)
	require.NoError(t, err)
	_, err = i.accept(again, "bob", password)
	require.NoError(t, err)
	_, err = i.accept(named, "bob", password)
	require.Equal(t, "token", domain.AsError(err).Field, "who has accepted needs the other link no longer")
	needed, err := i.root.NeedsSetUp(t.Context())
	require.NoError(t, err)
	require.False(t, needed)
	_, _, _, err = i.root.CreateWorkspace(t.Context(), "two")
	require.Equal(t, domain.CodeConflict, code(err))
}

// listed returns the members of the scope's workspace by e-mail.
func (i *instance) listed(s domain.Scope) map[string]identity.Member {
	i.t.Helper()
	list, err := i.members.List(i.t.Context(), s, domain.Page{})
	require.NoError(i.t, err)
	all := map[string]identity.Member{}
	for _, m := range list.Items {
		all[m.User.Email] = m
	}
	return all
}

func (i *instance) hash(name string) (hash string) {
	i.t.Helper()
	require.NoError(i.t, i.db.QueryRow(`SELECT password_hash FROM users WHERE email = $1`, name+"@example.com").Scan(&hash))
	return hash
}
