package auth_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

func TestLogin(t *testing.T) {
	i := newInstance(t)
	_, _, _ = i.workspace("one")
	in, err := i.login("  ONE@Example.com ", password)
	require.NoError(t, err, "an e-mail is the same in any case")
	require.True(t, i.opens(in.Token))
	require.Equal(t, domain.RoleAdmin, in.Session.Role)
	require.Equal(t, "one", in.Session.User.Name)
	require.Equal(t, i.clock.Now().Add(auth.SessionLife), in.Session.ExpiresAt)

	_, unknown := i.login("nobody@example.com", password)
	_, wrong := i.login("one@example.com", "another horse battery")
	require.Equal(t, domain.CodeUnauthenticated, code(unknown))
	require.Equal(t, domain.AsError(unknown), domain.AsError(wrong), "an unknown e-mail and a wrong password look the same")
	for _, pw := range []string{"", strings.Repeat("x", 2000), "correct horse battery ", "correct horse battery\x00", "\xff"} {
		_, err := i.login("one@example.com", pw)
		require.Equal(t, domain.AsError(wrong), domain.AsError(err), "%q", pw)
	}
	_, err = i.login("not an e-mail", password)
	require.Equal(t, domain.CodeInvalid, code(err))
	require.Equal(t, 6, i.count(`SELECT count(*) FROM audit_events WHERE action = 'session.login' AND outcome = 'failure'`))
	require.Equal(t, 1, i.count(`SELECT count(*) FROM audit_events WHERE action = 'session.login' AND outcome = 'success'`))
	require.Zero(t, i.count(`SELECT count(*) FROM users WHERE password_hash NOT LIKE '$argon2id$v=19$m=19456,t=2,p=1$%'`))
}

// TestSomebodyWithoutAPassword checks that an invited user who has not set a password cannot sign
// in.
func TestSomebodyWithoutAPassword(t *testing.T) {
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	_, _, err := i.members.Add(t.Context(), admin, "new@example.com", "", domain.RoleViewer)
	require.NoError(t, err)
	for _, pw := range []string{"", password} {
		_, err = i.login("new@example.com", pw)
		require.Equal(t, domain.CodeUnauthenticated, code(err))
	}
}

func TestTooManyFailures(t *testing.T) {
	i := newInstance(t)
	_, _, _ = i.workspace("one")
	for range 10 {
		_, err := i.login("one@example.com", "wrong")
		require.Equal(t, domain.CodeUnauthenticated, code(err))
	}
	_, err := i.login("one@example.com", password)
	require.Equal(t, domain.CodeRate, code(err), "not even with the right one")
	_, err = i.login("other@example.com", "wrong")
	require.Equal(t, domain.CodeUnauthenticated, code(err), "another e-mail is another count")
	i.clock.move(2 * time.Minute)
	for range 12 {
		_, err = i.login("one@example.com", password)
		require.NoError(t, err, "successes are not counted")
	}
}

func TestTooManyFailuresOfAnAddress(t *testing.T) {
	i := newInstance(t)
	_, _, _ = i.workspace("one")
	try := func(n int, address string) error {
		_, err := i.auth.Login(t.Context(), auth.Login{Email: "x" + strings.Repeat("y", n) + "@example.com", Password: "wrong", Address: address})
		return err
	}
	for n := range 20 {
		require.Equal(t, domain.CodeUnauthenticated, code(try(n, "10.0.0.1")))
	}
	require.Equal(t, domain.CodeRate, code(try(99, "10.0.0.1")))
	require.Equal(t, domain.CodeUnauthenticated, code(try(99, "10.0.0.2")))
}

// TestFailuresAtOnceAreCountedAtOnce checks that parallel connections gain no additional guesses.
func TestFailuresAtOnceAreCountedAtOnce(t *testing.T) {
	i := newInstance(t)
	_, _, _ = i.workspace("one")
	var all sync.WaitGroup
	codes := make(chan domain.Code, 60)
	for range 60 {
		all.Go(func() {
			_, err := i.login("one@example.com", "wrong")
			codes <- code(err)
		})
	}
	all.Wait()
	close(codes)
	guesses := 0
	for c := range codes {
		if c == domain.CodeUnauthenticated {
			guesses++
		} else {
			require.Equal(t, domain.CodeRate, c)
		}
	}
	require.LessOrEqual(t, guesses, 10)
	require.Positive(t, guesses)
}

func TestSeveralWorkspaces(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	in := i.member(one, "ada", domain.RoleViewer)
	i.member(two, "ada", domain.RoleEditor)
	_, err := i.login("ada@example.com", password)
	require.Equal(t, domain.CodeInvalid, code(err))
	require.Equal(t, "workspace", domain.AsError(err).Field)
	require.Contains(t, domain.AsError(err).Message, "one, two")
	for name, want := range map[string]domain.Role{"one": domain.RoleViewer, "two": domain.RoleEditor, string(two.Workspace()): domain.RoleEditor} {
		in, err := i.auth.Login(t.Context(), auth.Login{Email: "ada@example.com", Password: password, Workspace: name})
		require.NoError(t, err)
		require.Equal(t, want, i.scope(in.Token).Role())
	}
	_, err = i.auth.Login(t.Context(), auth.Login{Email: "ada@example.com", Password: password, Workspace: "three"})
	require.Equal(t, domain.CodeInvalid, code(err))
	require.Equal(t, "workspace", domain.AsError(err).Field)
	require.Contains(t, domain.AsError(err).Message, "one, two")
	require.Equal(t, one.Workspace(), i.scope(in.Token).Workspace(), "a session is of one of them")

	user := in.Session.User.ID
	require.NoError(t, i.members.Remove(t.Context(), one, user))
	require.False(t, i.opens(in.Token))
	_, err = i.login("ada@example.com", password)
	require.NoError(t, err, "one is left, and needs no name")
	require.NoError(t, i.members.Remove(t.Context(), two, user))
	_, err = i.login("ada@example.com", password)
	require.Equal(t, domain.CodeForbidden, code(err))
}

func TestTokensAndTheirEnds(t *testing.T) {
	i := newInstance(t)
	in, scope, _ := i.workspace("one")
	i.clock.move(auth.AccessTokenLife - time.Second)
	require.True(t, i.opens(in.Token))
	fresh, err := i.auth.Refresh(t.Context(), scope)
	require.NoError(t, err)
	i.clock.move(2 * time.Second)
	require.False(t, i.opens(in.Token), "an hour is over")
	require.True(t, i.opens(fresh))
	for _, forged := range []string{"", "x", "a.b.c", fresh + "x", fresh[:len(fresh)-2], strings.Repeat("a", 100_000), "svc_sk_", "mp_run_", "mp_agt_", "mp_run_a.b.c"} {
		require.False(t, i.opens(forged), "%.40q", forged)
	}
	// The header of alg none, with the same claims.
	parts := strings.Split(fresh, ".")
	require.False(t, i.opens("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0."+parts[1]+"."))

	i.clock.move(auth.SessionLife - auth.AccessTokenLife)
	_, err = i.auth.Refresh(t.Context(), scope)
	require.Equal(t, domain.CodeUnauthenticated, code(err), "a session ends after 30 days, however often it is refreshed")
	_, err = i.auth.Cookie(t.Context(), in.Secret)
	require.Equal(t, domain.CodeUnauthenticated, code(err))
}

// TestLogoutIsEverywhereAtOnce checks every replica, the bearer token and the cookie, and that open
// connections get a wake-up.
func TestLogoutIsEverywhereAtOnce(t *testing.T) {
	i := newInstance(t)
	in, scope, _ := i.workspace("one")
	other, err := i.login("one@example.com", password)
	require.NoError(t, err)
	there := replica(t, i.dsn, i.db, i.clock)
	wake, stop := there.store.Topics().Subscribe(domain.SessionTopic(in.Session.ID))
	defer stop()
	require.True(t, there.opens(in.Token))
	_, err = there.auth.Cookie(t.Context(), in.Secret)
	require.NoError(t, err)
	require.NoError(t, i.auth.Logout(t.Context(), scope))
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Fatal("the session's open connections got no wake-up")
	}
	for _, at := range []*instance{i, there} {
		require.False(t, at.opens(in.Token))
		_, err = at.auth.Cookie(t.Context(), in.Secret)
		require.Equal(t, domain.CodeUnauthenticated, code(err))
		require.True(t, at.opens(other.Token), "the other session stays")
	}
	require.Equal(t, domain.CodeUnauthenticated, code(i.auth.Logout(t.Context(), scope)))
	_, err = i.auth.Refresh(t.Context(), scope)
	require.Equal(t, domain.CodeUnauthenticated, code(err))
}

func TestANewPasswordEndsOtherSessions(t *testing.T) {
	i := newInstance(t)
	_, one, _ := i.workspace("one")
	_, two, _ := i.workspace("two")
	here := i.member(one, "ada", domain.RoleViewer)
	elsewhere := i.member(two, "ada", domain.RoleViewer)
	wake, stop := i.store.Topics().Subscribe(domain.SessionTopic(elsewhere.Session.ID))
	defer stop()
	scope := i.scope(here.Token)
	change := func(current, next string) error {
		_, err := i.auth.ChangePassword(t.Context(), scope, current, next)
		return err
	}
	require.Equal(t, "current", domain.AsError(change("wrong", "a new password at last")).Field)
	for _, bad := range []string{"", "short", strings.Repeat("x", 1025), "eleven char", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		require.Equal(t, "new", domain.AsError(change(password, bad)).Field, "%q", bad)
	}
	require.True(t, i.opens(elsewhere.Token), "nothing has changed so far")
	require.NoError(t, change(password, "a new password at last"))
	<-wake
	require.True(t, i.opens(here.Token), "the session that changed it stays")
	require.False(t, i.opens(elsewhere.Token), "the others end, in other workspaces too")
	_, err := i.auth.Login(t.Context(), auth.Login{Email: "ada@example.com", Password: password, Workspace: "one"})
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	_, err = i.auth.Login(t.Context(), auth.Login{Email: "ada@example.com", Password: "a new password at last", Workspace: "one"})
	require.NoError(t, err)
	for range 10 {
		require.Error(t, change("wrong", "a new password at last"))
	}
	require.Equal(t, domain.CodeRate, code(change("wrong", "a new password at last")), "guesses are counted here as well")
}

func TestANewRoleTakesEffectAtOnce(t *testing.T) {
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	in := i.member(admin, "ada", domain.RoleViewer)
	for _, role := range []domain.Role{domain.RoleEditor, domain.RoleAdmin, domain.RoleViewer} {
		_, err := i.members.Update(t.Context(), admin, in.Session.User.ID, role)
		require.NoError(t, err)
		require.Equal(t, role, i.scope(in.Token).Role(), "with the token as it was")
		byCookie, err := i.auth.Cookie(t.Context(), in.Secret)
		require.NoError(t, err)
		require.Equal(t, role, byCookie.Role())
	}
	require.NoError(t, i.members.Remove(t.Context(), admin, in.Session.User.ID))
	require.False(t, i.opens(in.Token))
}

func TestTheLastAdminStays(t *testing.T) {
	i := newInstance(t)
	first, admin, _ := i.workspace("one")
	second := i.member(admin, "ada", domain.RoleAdmin)
	ids := []domain.UserID{first.Session.User.ID, second.Session.User.ID}
	var all sync.WaitGroup
	errs := make(chan error, 2)
	for n, id := range ids {
		all.Go(func() {
			if n == 0 {
				errs <- i.members.Remove(t.Context(), admin, id)
				return
			}
			_, err := i.members.Update(t.Context(), admin, id, domain.RoleViewer)
			errs <- err
		})
	}
	all.Wait()
	one, two := code(<-errs), code(<-errs)
	require.ElementsMatch(t, []domain.Code{"", domain.CodeConflict}, []domain.Code{one, two}, "two admins cannot remove each other at once")
	require.Equal(t, 1, i.count(`SELECT count(*) FROM members WHERE role = 'admin'`))
}

// TestWhoHasNotAcceptedIsNoAdminYet checks that a pending admin cannot administer the workspace,
// with or without a password from another workspace.
func TestWhoHasNotAcceptedIsNoAdminYet(t *testing.T) {
	i := newInstance(t)
	first, admin, _ := i.workspace("one")
	id := first.Session.User.ID
	_, _, _ = i.workspace("ada")
	_, _, err := i.members.Add(t.Context(), admin, "new@example.com", "", domain.RoleAdmin)
	require.NoError(t, err)
	invited, token, err := i.members.Add(t.Context(), admin, "ada@example.com", "", domain.RoleAdmin)
	require.NoError(t, err)
	require.Equal(t, domain.CodeConflict, code(i.members.Remove(t.Context(), admin, id)))
	_, err = i.members.Update(t.Context(), admin, id, domain.RoleEditor)
	require.Equal(t, domain.CodeConflict, code(err))
	require.Contains(t, domain.AsError(err).Message, "one@example.com is the only admin who can sign in")
	_, err = i.members.Update(t.Context(), admin, id, domain.RoleAdmin)
	require.NoError(t, err, "nothing is lost by this")
	_, err = i.members.Update(t.Context(), admin, invited.User.ID, domain.RoleViewer)
	require.NoError(t, err)
	_, err = i.members.Update(t.Context(), admin, invited.User.ID, domain.RoleAdmin)
	require.NoError(t, err)

	_, err = i.auth.SetUp(t.Context(), auth.SetUp{Token: token, Email: "ada@example.com", Password: password})
	require.NoError(t, err)
	require.NoError(t, i.members.Remove(t.Context(), admin, id))
}

func TestInvitations(t *testing.T) {
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	invite := func(email string) (identity.Member, string) {
		m, token, err := i.members.Add(t.Context(), admin, email, "", domain.RoleEditor)
		require.NoError(t, err)
		return m, token
	}
	accept := func(token, email string) error {
		_, err := i.auth.SetUp(t.Context(), auth.SetUp{Token: token, Email: email, Name: "Ada", Password: password})
		return err
	}
	_, token := invite("ada@example.com")
	require.Equal(t, "email", domain.AsError(accept(token, "eve@example.com")).Field, "a link is for one e-mail")
	require.Equal(t, "token", domain.AsError(accept(token+"x", "ada@example.com")).Field)
	require.Equal(t, "token", domain.AsError(accept("", "ada@example.com")).Field)
	for _, bad := range []auth.SetUp{
		{Token: token, Email: "ada@example.com", Password: "short"},
		{Token: token, Email: "ada", Password: password},
		{Token: token, Email: "ada@example.com", Password: password, Name: "a\x00"},
		{Token: token, Email: "ada@example.com", Password: password, Name: strings.Repeat("x", 200)},
	} {
		_, err := i.auth.SetUp(t.Context(), bad)
		require.Equal(t, domain.CodeInvalid, code(err))
	}
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		all.Go(func() { errs <- accept(token, "ADA@example.com") })
	}
	all.Wait()
	accepted := 0
	for range 8 {
		if err := <-errs; err == nil {
			accepted++
		} else {
			require.Equal(t, domain.CodeInvalid, code(err), "%v", err)
		}
	}
	require.Equal(t, 1, accepted, "a link works once, although it came eight times at once")

	_, late := invite("bob@example.com")
	i.clock.move(7*24*time.Hour + time.Second)
	require.Equal(t, "token", domain.AsError(accept(late, "bob@example.com")).Field, "a week is over")

	removed, stale := invite("carl@example.com")
	require.NoError(t, i.members.Remove(t.Context(), admin, removed.User.ID))
	require.Equal(t, "token", domain.AsError(accept(stale, "carl@example.com")).Field, "an old link does not restore a removed member")

	_, _, err := i.members.Add(t.Context(), admin, "ada@example.com", "", domain.RoleViewer)
	require.Equal(t, domain.CodeConflict, code(err), "a member already")
}
