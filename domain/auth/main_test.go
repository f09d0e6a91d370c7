package auth_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const password = "correct horse battery"

// clock is a clock that the tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// instance is an installation: its database and its authentication.
type instance struct {
	t       testing.TB
	dsn     string
	store   *store.Store
	db      *sql.DB
	clock   *clock
	auth    *auth.Service
	keys    *auth.Keys
	members *identity.Members
	apiKeys *identity.APIKeys
	agents  *job.Agents
	root    *setup.Instance
}

func newInstance(t testing.TB) *instance {
	dsn := storetest.Database(t, store.Migrate)
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return replica(t, dsn, db, &clock{at: time.Now().UTC().Truncate(time.Microsecond)})
}

// replica returns one server of the installation.
func replica(t testing.TB, dsn string, db *sql.DB, c *clock) *instance {
	s, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	keys, err := auth.NewKeys(t.Context(), s.System(), c)
	require.NoError(t, err)
	return &instance{
		t: t, dsn: dsn, store: s, db: db, clock: c, keys: keys, auth: auth.NewService(s.System(), store.For[domain.Tx](s), keys, nil, c),
		members: &identity.Members{Store: store.For[identity.Tx](s), Clock: c}, apiKeys: &identity.APIKeys{Store: store.For[identity.Tx](s), Clock: c}, root: &setup.Instance{Store: s.System(), Clock: c},
		agents: &job.Agents{Store: store.For[job.Tx](s), System: s.System(), Topics: s.Topics(), Clock: c, Lease: machine.DefaultLease, Replica: "rep_1"},
	}
}

// workspace creates a workspace with an administrator. It returns the administrator's session and
// scope, and the agent's token.
func (i *instance) workspace(name string) (auth.SignedIn, domain.Scope, string) {
	i.t.Helper()
	_, _, credentials, err := i.root.CreateWorkspace(i.t.Context(), name)
	require.NoError(i.t, err)
	in, err := i.auth.SetUp(i.t.Context(), auth.SetUp{Token: credentials.SetUpToken, Email: name + "@example.com", Name: name, Password: password})
	require.NoError(i.t, err)
	return in, i.scope(in.Token), credentials.AgentToken
}

func (i *instance) scope(token string) domain.Scope {
	i.t.Helper()
	s, err := i.auth.Bearer(i.t.Context(), token)
	require.NoError(i.t, err)
	return s
}

// member invites a user and signs in with the fixed password.
func (i *instance) member(admin domain.Scope, name string, role domain.Role) auth.SignedIn {
	i.t.Helper()
	in, err := i.accept(i.invite(admin, name, role), name, password)
	require.NoError(i.t, err)
	return in
}

// invite invites a user and returns the token of the link.
func (i *instance) invite(admin domain.Scope, name string, role domain.Role) string {
	i.t.Helper()
	m, token, err := i.members.Add(i.t.Context(), admin, name+"@example.com", name, role)
	require.NoError(i.t, err)
	require.NotEmpty(i.t, token)
	require.Nil(i.t, m.AcceptedAt)
	return token
}

// accept accepts the invitation of a link.
func (i *instance) accept(token, name, pw string) (auth.SignedIn, error) {
	return i.auth.SetUp(i.t.Context(), auth.SetUp{Token: token, Email: name + "@example.com", Password: pw})
}

func (i *instance) login(email, pw string) (auth.SignedIn, error) {
	return i.auth.Login(i.t.Context(), auth.Login{Email: email, Password: pw})
}

// opens reports whether the bearer token is valid.
func (i *instance) opens(token string) bool {
	i.t.Helper()
	_, err := i.auth.Bearer(i.t.Context(), token)
	if err != nil {
		require.Equal(i.t, domain.CodeUnauthenticated, code(err), "%v", err)
	}
	return err == nil
}

func (i *instance) count(query string, args ...any) (n int) {
	i.t.Helper()
	require.NoError(i.t, i.db.QueryRow(query, args...).Scan(&n))
	return n
}

func code(err error) domain.Code {
	if err == nil {
		return ""
	}
	return domain.AsError(err).Code
}

// serve sends the request through the middleware, with or without cookies, and returns the result
// of From and the response.
func (i *instance) serve(r *http.Request, cookies bool, handle func(ctx context.Context)) (domain.Scope, *http.Response, error) {
	var scope domain.Scope
	var err error
	w := httptest.NewRecorder()
	i.auth.Middleware(func(*http.Request) bool { return cookies })(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		scope, err = auth.From(r.Context())
		if handle != nil {
			handle(r.Context())
		}
	})).ServeHTTP(w, r)
	return scope, w.Result(), err
}
