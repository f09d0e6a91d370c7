package store_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// init sets a few cases from one seed; `make soak` runs many from others.
func init() {
	if err := errors.Join(flag.Set("rapid.checks", "20"), flag.Set("rapid.seed", "5000")); err != nil {
		panic(err)
	}
}

func open(t testing.TB) *store.Store {
	s, _ := openDSN(t)
	return s
}

func openDSN(t testing.TB) (*store.Store, string) {
	dsn := storetest.Database(t, store.Migrate)
	return connect(t, dsn), dsn
}

func connect(t testing.TB, dsn string) *store.Store {
	s, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// superuser reads and changes rows that no role of ours may.
func superuser(t testing.TB, dsn string) *sql.DB {
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// clock is a clock that stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now().UTC().Truncate(time.Microsecond)} }

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

// fleet records what is sent to agents.
type fleet struct {
	started   chan job.Delivery
	cancelled chan domain.AttemptID
	refuse    atomic.Pointer[error] // the answer to every start
}

func (f *fleet) Start(_ context.Context, _ domain.AgentID, d job.Delivery) error {
	if err := f.refuse.Load(); err != nil {
		return *err
	}
	f.started <- d
	return nil
}

func (f *fleet) Cancel(_ context.Context, _ domain.AgentID, id domain.AttemptID) error {
	f.cancelled <- id
	return nil
}

type tokens struct{ *auth.Keys }

func (tokens) Environment(domain.WorkspaceID, string) map[string]string {
	return map[string]string{"MILLPOND_URL": "http://localhost"}
}

// services are those of one server.
type services struct {
	Instance   *setup.Instance
	Workspaces *identity.Workspaces
	Members    *identity.Members
	APIKeys    *identity.APIKeys
	Agents     *job.Agents
	Jobs       *job.Jobs
	Runs       *job.Runs
	Logs       *job.Logs
	Quotas     *quota.Quotas
	Compute    *machine.Machines
}

// tenant is one workspace: its administrator, its agent, and all services on one store.
type tenant struct {
	t         testing.TB
	store     *store.Store
	clock     *clock
	fleet     *fleet
	admin     domain.Scope
	agent     domain.Scope
	auth      *auth.Service
	services  *services
	scheduler *job.Scheduler
	system    *store.System
}

// replica creates the services of one server on the store.
func replica(t testing.TB, s *store.Store, c *clock) *tenant {
	keys, err := auth.NewKeys(t.Context(), s.System(), c)
	require.NoError(t, err)
	bucket, err := objects.Open("file://" + t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() })
	archive, err := objects.NewArchive()
	require.NoError(t, err)
	f := &fleet{started: make(chan job.Delivery, 10_000), cancelled: make(chan domain.AttemptID, 10_000)}
	outbox := job.NewOutbox(f, func(err error) {
		if refused := f.refuse.Load(); refused == nil || !errors.Is(err, *refused) {
			t.Errorf("a message was not delivered: %v", err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { outbox.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	runs := &job.Runs{Store: store.For[job.Tx](s), System: s.System(), Topics: s.Topics(), Clock: c, Tokens: tokens{keys}, Outbox: outbox}
	return &tenant{
		t: t, store: s, clock: c, fleet: f, system: s.System(), auth: auth.NewService(s.System(), store.For[domain.Tx](s), keys, nil, c),
		scheduler: &job.Scheduler{Store: store.For[job.Tx](s), System: s.System(), Runs: runs, Clock: c},
		services: &services{
			Instance: &setup.Instance{Store: s.System(), Clock: c}, Workspaces: &identity.Workspaces{Store: store.For[identity.Tx](s), Clock: c},
			Members: &identity.Members{Store: store.For[identity.Tx](s), Clock: c}, APIKeys: &identity.APIKeys{Store: store.For[identity.Tx](s), Clock: c}, Jobs: &job.Jobs{Store: store.For[job.Tx](s), Clock: c}, Runs: runs,
			Agents: &job.Agents{Store: store.For[job.Tx](s), System: s.System(), Topics: s.Topics(), Clock: c, Runs: runs, Lease: machine.DefaultLease, Replica: "rep_1"},
			Logs:   &job.Logs{Store: store.For[job.Tx](s), Topics: s.Topics(), Clock: c, Objects: bucket, Archive: archive}, Quotas: &quota.Quotas{Store: store.For[quota.Tx](s)},
		},
	}
}

// newTenant creates a workspace on the store.
func newTenant(t testing.TB, s *store.Store, name string) *tenant {
	w := replica(t, s, newClock())
	w.admin, w.agent = w.workspace(name)
	return w
}

const password = "correct horse battery"

// workspace creates a workspace and returns the scopes of its administrator and its agent.
func (w *tenant) workspace(name string) (admin, agent domain.Scope) {
	ctx := w.t.Context()
	_, _, credentials, err := w.services.Instance.CreateWorkspace(ctx, name)
	require.NoError(w.t, err)
	in, err := w.auth.SetUp(ctx, auth.SetUp{Token: credentials.SetUpToken, Email: name + "@example.com", Name: name, Password: password})
	require.NoError(w.t, err)
	admin, err = w.auth.Bearer(ctx, in.Token)
	require.NoError(w.t, err)
	agent, err = w.auth.Bearer(ctx, credentials.AgentToken)
	require.NoError(w.t, err)
	return admin, agent
}

// workspace creates a workspace and returns the scope of its administrator.
func workspace(t testing.TB, s *store.Store, name string) domain.Scope {
	return newTenant(t, s, name).admin
}

// hello is the agent's hello with its current token.
func (w *tenant) hello(session string, slots int) job.AgentHello {
	w.t.Helper()
	return job.AgentHello{Session: session, Token: w.get(w.agentID()).TokenHash, Version: "1", Hostname: "host", OS: "linux", Arch: "amd64", Slots: slots}
}

// connect sends the agent's hello with its attempts.
func (w *tenant) connect(session string, slots int, held ...domain.AttemptID) []job.Desired {
	w.t.Helper()
	h := w.hello(session, slots)
	for _, id := range held {
		h.Attempts = append(h.Attempts, job.AttemptReport{Attempt: id, Started: true})
	}
	orders, err := w.services.Agents.Hello(w.t.Context(), w.agent, h)
	require.NoError(w.t, err)
	return orders.Attempts
}

func (w *tenant) job(spec job.Spec) job.Job {
	w.t.Helper()
	j, err := w.services.Jobs.Create(w.t.Context(), w.admin, job.NewJob{Name: "job", Spec: spec}, domain.Idempotency{})
	require.NoError(w.t, err)
	return j
}

func (w *tenant) start(j domain.JobID) *job.Run {
	w.t.Helper()
	run, err := w.services.Runs.Start(w.t.Context(), w.admin, j, nil, domain.Idempotency{})
	require.NoError(w.t, err)
	return run
}

func (w *tenant) run(id domain.RunID) job.Run {
	w.t.Helper()
	run, err := w.services.Runs.Get(w.t.Context(), w.admin, id)
	require.NoError(w.t, err)
	return run
}

// begin reports that the attempt's process exists.
func (w *tenant) begin(id domain.AttemptID) {
	w.t.Helper()
	now := w.clock.Now()
	require.NoError(w.t, w.services.Runs.Report(w.t.Context(), w.agent, job.AttemptReport{Attempt: id, Started: true, StartedAt: &now}))
}

// exit reports the attempt's end with the exit code.
func (w *tenant) exit(id domain.AttemptID, code int) error {
	now := w.clock.Now()
	return w.services.Runs.Report(w.t.Context(), w.agent, job.AttemptReport{Attempt: id, Exited: true, ExitCode: &code, StartedAt: &now, FinishedAt: &now})
}

// delivered waits for the next attempt sent to the agent.
func (w *tenant) delivered() job.Delivery {
	w.t.Helper()
	select {
	case d := <-w.fleet.started:
		return d
	case <-time.After(time.Minute):
		w.t.Fatal("nothing was sent to the agent")
		return job.Delivery{}
	}
}

// attempt starts a single-command run on the connected agent and returns its attempt, running.
func (w *tenant) attempt() domain.AttemptID {
	w.t.Helper()
	w.start(w.job(job.Spec{Command: "true"}).ID)
	id := w.delivered().Attempt.ID
	w.begin(id)
	return id
}

func in(t testing.TB, s *store.Store, scope domain.Scope, fn func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	require.NoError(t, s.In(t.Context(), scope, func(tx *store.Tx) error { return fn(t.Context(), tx) }))
}

// woken waits for a wake-up.
func woken(t testing.TB, wake <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Fatalf("no wake-up: %s", why)
	}
}

func code(err error) domain.Code {
	if err == nil {
		return ""
	}
	return domain.AsError(err).Code
}

// accept uses the one-time link and returns the scope of the session.
func (w *tenant) accept(token, email string) domain.Scope {
	w.t.Helper()
	in, err := w.auth.SetUp(w.t.Context(), auth.SetUp{Token: token, Email: email, Password: password})
	require.NoError(w.t, err)
	scope, err := w.auth.Bearer(w.t.Context(), in.Token)
	require.NoError(w.t, err)
	return scope
}
