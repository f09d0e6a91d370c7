package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const password = "correct horse battery"

// world is a server with its own database, and as many workspaces as a test creates.
type world struct {
	t        testing.TB
	db       *store.Store
	counted  *countingStore
	services Services
	auth     *auth.Service
	keys     *auth.Keys
	url      string
	log      *logBuffer
	cloud    *provisiontest.Simulated // the provider of machines
	lake     *lake.Catalog
	engines  *engines           // of warehouses
	shutdown context.CancelFunc // ends the server's connections, as at its stop
	sockets  atomic.Int64       // requests being served
}

// fewestReads returns how many transactions the query takes. A busy processor can cut what is read
// together, so the fewest of several tries count.
func (w *world) fewestReads(query func()) int64 {
	fewest := int64(math.MaxInt64)
	for range 5 {
		before := w.counted.count.Load()
		query()
		fewest = min(fewest, w.counted.count.Load()-before)
	}
	return fewest
}

// countingStore counts transactions, and fails them on demand.
type countingStore struct {
	store.Transactor
	count atomic.Int64
	fail  atomic.Bool
}

func (c *countingStore) In(ctx context.Context, s domain.Scope, fn func(*store.Tx) error) error {
	c.count.Add(1)
	if c.fail.Load() {
		return errors.New("the database is away")
	}
	return c.Transactor.In(ctx, s, fn)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// idleFleet accepts orders for agents; a test plays the agents through the domain.
type idleFleet struct{}

func (idleFleet) Start(context.Context, domain.AgentID, job.Delivery) error { return nil }
func (idleFleet) Cancel(context.Context, domain.AgentID, domain.AttemptID) error {
	return nil
}

// tokens are tokens of attempts; their processes do not run here.
type tokens struct{ *auth.Keys }

func (tokens) Environment(domain.WorkspaceID, string) map[string]string { return map[string]string{} }

var quick = timing{
	init: 5 * time.Second, ping: 20 * time.Second, write: time.Second, closeWait: time.Second,
	pace: 5 * time.Millisecond, points: 5 * time.Millisecond, retry: 20 * time.Millisecond,
}

func newWorld(t testing.TB, wait timing) *world {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, db: db, counted: &countingStore{Transactor: db}, log: &logBuffer{}}
	clock := domain.SystemClock{}
	w.keys, err = auth.NewKeys(ctx, db.System(), clock)
	require.NoError(t, err)
	w.auth = auth.NewService(db.System(), store.For[domain.Tx](db), w.keys, nil, clock)
	w.auth.Recheck = time.Minute
	w.cloud = provisiontest.NewSimulated(provisiontest.Hooks{})
	require.NoError(t, db.System().InsertPrices(ctx, machine.ProviderLocal, machine.DefaultProvider.Region, time.Unix(0, 0), map[string]machine.Price{
		"cpu.1": {Hourly: decimal.RequireFromString("0.0400"), Currency: "USD"}, "cpu.2": {Hourly: decimal.RequireFromString("0.08"), Currency: "USD"},
	}))
	providers := machine.Providers{machine.ProviderLocal: w.cloud}
	storage := "file://" + t.TempDir()
	bucket, err := objects.Open(storage)
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() })
	archive, err := objects.NewArchive()
	require.NoError(t, err)
	outbox := job.NewOutbox(idleFleet{}, func(err error) { t.Error(err) })
	carry, stop := context.WithCancel(context.Background())
	var carrying sync.WaitGroup
	carrying.Go(func() { outbox.Run(carry) })
	t.Cleanup(func() { stop(); carrying.Wait() })
	runs := &job.Runs{Store: store.For[job.Tx](w.counted), System: db.System(), Topics: db.Topics(), Clock: clock, Tokens: tokens{w.keys}, Outbox: outbox}
	jobs := &job.Jobs{Store: store.For[job.Tx](w.counted), Clock: clock}
	w.services = Services{
		Instance:   &setup.Instance{Store: db.System(), Clock: clock},
		Workspaces: &identity.Workspaces{Store: store.For[identity.Tx](w.counted), Clock: clock},
		Members:    &identity.Members{Store: store.For[identity.Tx](w.counted), Clock: clock},
		APIKeys:    &identity.APIKeys{Store: store.For[identity.Tx](w.counted), Clock: clock},
		Agents:     &job.Agents{Store: store.For[job.Tx](w.counted), System: db.System(), Topics: db.Topics(), Clock: clock, Runs: runs, Lease: machine.DefaultLease, Replica: "here"},
		Jobs:       jobs,
		Runs:       runs,
		Samples:    &setup.Samples{Jobs: jobs, Runs: runs, Clock: clock, Experiments: &tracking.Experiments{Store: store.For[tracking.Tx](w.counted), Clock: clock}},
		Logs:       &job.Logs{Store: store.For[job.Tx](w.counted), Topics: db.Topics(), Clock: clock, Objects: bucket, Archive: archive},
		Quotas:     &quota.Quotas{Store: store.For[quota.Tx](w.counted)},
		Compute:    &machine.Machines{Kind: machine.KindCompute, Store: store.For[machine.Tx](w.counted), Topics: db.Topics(), Clock: clock, Providers: providers, Host: "here"},
		Warehouses: &machine.Machines{Kind: machine.KindWarehouse, Store: store.For[machine.Tx](w.counted), Topics: db.Topics(), Clock: clock, Providers: providers, Host: "here"},
		Settings:   &machine.Settings{Store: store.For[machine.Tx](w.counted), Clock: clock, Providers: providers, Objects: bucket, Storage: storage},
		Databases:  &lake.Databases{Store: store.For[lake.Tx](w.counted), Clock: clock},
		Lineages:   &lineage.Lineages{Store: store.For[lineage.Tx](w.counted), Clock: clock, CatalogURL: "http://localhost/catalog"},

		Experiments:  &tracking.Experiments{Store: store.For[tracking.Tx](w.counted), Clock: clock},
		TrackingRuns: &tracking.Runs{Store: store.For[tracking.Tx](w.counted), Topics: db.Topics(), Clock: clock},

		Clock: clock,
	}
	w.catalog(bucket)
	w.serve(wait)
	return w
}

func (w *world) serve(wait timing) {
	handler := newHandler(Options{
		Services: w.services, Lake: w.lake, Auth: w.auth, Topics: w.db.Topics(), Version: "1.2.3",
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, wait)
	counting := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.sockets.Add(1)
		defer w.sockets.Add(-1)
		handler.ServeHTTP(rw, r)
	})
	srv := httptest.NewUnstartedServer(counting)
	base, end := context.WithCancel(context.Background())
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	w.url, w.shutdown = srv.URL, end
	w.t.Cleanup(func() {
		end()
		srv.Close()
		require.Eventually(w.t, func() bool { return w.sockets.Load() == 0 }, time.Minute, 5*time.Millisecond, "a connection outlives the server")
	})
}

// tenant is a workspace with a member of each role, and its agent.
type tenant struct {
	w                     *world
	name                  string
	workspace             identity.Workspace
	agent                 machine.Agent
	agentToken            string
	admin, editor, viewer person
	worker                domain.Scope
	session               string // of the agent's connection
}

type person struct {
	id     domain.UserID
	scope  domain.Scope
	token  string
	cookie string
}

func (w *world) tenant(name string) *tenant {
	w.t.Helper()
	ctx := w.t.Context()
	ws, agent, credentials, err := w.services.Instance.CreateWorkspace(ctx, name)
	require.NoError(w.t, err)
	n := &tenant{w: w, name: name, workspace: ws, agent: agent, agentToken: credentials.AgentToken}
	n.admin = w.join(credentials.SetUpToken, name+"-admin@example.com")
	n.editor, n.viewer = n.add("editor", domain.RoleEditor), n.add("viewer", domain.RoleViewer)
	n.worker, err = w.auth.Bearer(ctx, n.agentToken)
	require.NoError(w.t, err)
	return n
}

// add creates a member with the role.
func (n *tenant) add(who string, role domain.Role) person {
	email := n.name + "-" + who + "@example.com"
	_, token, err := n.w.services.Members.Add(n.w.t.Context(), n.admin.scope, email, who, role)
	require.NoError(n.w.t, err)
	return n.w.join(token, email)
}

func (w *world) join(token, email string) person {
	in, err := w.auth.SetUp(w.t.Context(), auth.SetUp{Token: token, Email: email, Name: email, Password: password})
	require.NoError(w.t, err)
	return w.person(in)
}

func (w *world) person(in auth.SignedIn) person {
	scope, err := w.auth.Bearer(w.t.Context(), in.Token)
	require.NoError(w.t, err)
	return person{id: in.Session.User.ID, scope: scope, token: in.Token, cookie: in.Secret}
}

// again signs the person in again.
func (w *world) again(p person) person {
	in, err := w.auth.Login(w.t.Context(), auth.Login{Email: p.scope.Actor().Name, Password: password})
	require.NoError(w.t, err)
	return w.person(in)
}

// connect sends the agent's hello.
func (n *tenant) connect(slots int) {
	n.session = domain.RequestID("")
	_, err := n.w.services.Agents.Hello(n.w.t.Context(), n.worker, job.AgentHello{
		Session: n.session, Version: "1.2.3", Hostname: "host", OS: "linux", Arch: "amd64", Slots: slots, Token: domain.HashSecret(n.agentToken),
	})
	require.NoError(n.w.t, err)
}

func (n *tenant) job(spec job.Spec) job.Job {
	j, err := n.w.services.Jobs.Create(n.w.t.Context(), n.editor.scope, job.NewJob{Name: n.name + " job", Spec: spec}, domain.Idempotency{})
	require.NoError(n.w.t, err)
	return j
}

func (n *tenant) run(j job.Job) job.Run {
	run, err := n.w.services.Runs.Start(n.w.t.Context(), n.editor.scope, j.ID, nil, domain.Idempotency{})
	require.NoError(n.w.t, err)
	return *run
}

// attempt returns the run's first live attempt.
func (n *tenant) attempt(run domain.RunID) job.Attempt {
	attempts, err := n.w.services.Runs.Attempts(n.w.t.Context(), n.editor.scope, run)
	require.NoError(n.w.t, err)
	for _, a := range attempts {
		if !a.Status.Final() {
			return a
		}
	}
	n.w.t.Fatal("the run has no live attempt")
	return job.Attempt{}
}

// begin reports, as the agent, that the attempt's process exists.
func (n *tenant) begin(a domain.AttemptID) {
	now := time.Now()
	require.NoError(n.w.t, n.w.services.Runs.Report(n.w.t.Context(), n.worker, job.AttemptReport{Attempt: a, Started: true, StartedAt: &now}))
}

// exit reports, as the agent, the end of the process.
func (n *tenant) exit(a domain.AttemptID, code int, logEnd int64) {
	now := time.Now()
	require.NoError(n.w.t, n.w.services.Runs.Report(n.w.t.Context(), n.worker, job.AttemptReport{
		Attempt: a, Started: true, Exited: true, ExitCode: &code, StartedAt: &now, FinishedAt: &now, LogEnd: logEnd,
	}))
}

// write delivers log bytes as the agent.
func (n *tenant) write(a domain.AttemptID, offset int64, data []byte) {
	chunk := job.LogChunk{Offset: offset, Stream: job.Stdout, EmittedAt: time.Now().UTC(), Data: data}
	receipt, err := n.w.services.Logs.Writer(n.worker, n.session).Append(n.w.t.Context(), []job.LogAppend{{Attempt: a, LogChunk: chunk}})
	require.NoError(n.w.t, err)
	require.Equal(n.w.t, offset+int64(len(data)), receipt.Next[a])
}

// answer is a response of the server.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Data   map[string]any
	Errors []struct {
		Message    string
		Path       []any
		Extensions map[string]any
	}
}

// code returns the code of the first error; empty without an error.
func (a answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// header sets headers of a request.
type header func(http.Header)

func bearer(token string) header {
	return func(h http.Header) { h.Set("Authorization", "Bearer "+token) }
}

func console(secret string) header {
	return func(h http.Header) {
		h.Set("Cookie", auth.CookieName+"="+secret)
		h.Set(auth.ConsoleHeader, "console")
	}
}

func nobody(http.Header) {}

func (w *world) query(who header, query string, vars map[string]any) answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	require.NoError(w.t, err)
	return w.post(who, "application/json", string(body))
}

func (w *world) post(who header, contentType, body string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/graphql", strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", contentType)
	who(req.Header)
	return w.send(req)
}

func (w *world) send(req *http.Request) answer {
	w.t.Helper()
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	a := answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}
	require.NoError(w.t, json.Unmarshal(text, &a), "%s", text)
	return a
}

// ok runs a query that must succeed.
func (w *world) ok(who header, query string, vars map[string]any) map[string]any {
	w.t.Helper()
	a := w.query(who, query, vars)
	require.Equal(w.t, http.StatusOK, a.Status)
	require.Empty(w.t, a.Errors, "%s", a.Body)
	return a.Data
}

// at returns the value at a path of names and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}
