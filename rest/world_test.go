package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
	"github.com/millpond/millpond/rest/httpx"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// testTimeout bounds how long a test waits.
const testTimeout = time.Minute

// clock can be moved forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return domain.SystemClock{}.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// cloud stands for the agents' end: orders to an agent arrive in a channel.
type cloud struct{ starts chan job.Delivery }

func (c cloud) Start(ctx context.Context, _ domain.AgentID, d job.Delivery) error {
	select {
	case c.starts <- d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (cloud) Cancel(context.Context, domain.AgentID, domain.AttemptID) error { return nil }

type tokens struct{ *auth.Keys }

func (tokens) Environment(domain.WorkspaceID, string) map[string]string { return map[string]string{} }

// world is a server with two workspaces behind the API.
type world struct {
	t        *testing.T
	url      string
	services Services
	instance *setup.Instance
	auth     *auth.Service
	clock    *clock
	cloud    cloud
	machines *machines
	lake     *lake.Catalog
	engines  *engines // of warehouses
	victims  string   // id of the database in which the matrix creates tables
	storage  string   // the server's own storage
	logged   *buffer
	ours     tenant
	theirs   tenant
}

// tenant is a workspace with a member of each role.
type tenant struct {
	id                    domain.WorkspaceID
	agent                 machine.Agent
	agentToken            string
	admin, editor, viewer string // access tokens
	scope                 domain.Scope
}

// buffer collects the log of several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before)...)
	})
	w := &world{t: t, clock: &clock{}, cloud: cloud{make(chan job.Delivery, 1000)}, logged: &buffer{}}
	st, err := store.Open(t.Context(), storetest.Database(t, populate), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	w.assemble(st)
	log := slog.New(slog.NewJSONHandler(w.logged, nil))
	handler, err := Handler(Options{Services: w.services, Lake: w.lake, Auth: w.auth, Log: log, MaxBody: 1 << 20})
	require.NoError(t, err)
	mounted := chi.NewRouter() // mounted like the server
	mounted.Handle("/api/*", handler)
	mounted.MethodNotAllowed(handler.ServeHTTP) // for methods unknown to chi
	server := httptest.NewServer(mounted)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.ours, w.theirs = populated.ours, populated.theirs
	return w
}

func (w *world) assemble(st *store.Store) {
	system := st.System()
	keys, err := auth.NewKeys(w.t.Context(), system, w.clock)
	require.NoError(w.t, err)
	w.storage = "file://" + w.t.TempDir()
	blobs, err := objects.Open(w.storage)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, blobs.Close()) })
	archive, err := objects.NewArchive()
	require.NoError(w.t, err)
	requests := quota.NewRequests(store.For[quota.Tx](st), w.clock)
	w.auth = auth.NewService(system, store.For[domain.Tx](st), keys, requests, w.clock)
	w.auth.Recheck = time.Minute
	outbox := job.NewOutbox(w.cloud, func(err error) { w.t.Log("undelivered:", err) })
	ctx, cancel := context.WithCancel(context.Background())
	var carrier sync.WaitGroup
	carrier.Go(func() { outbox.Run(ctx) })
	w.t.Cleanup(func() { cancel(); carrier.Wait() })
	runs := &job.Runs{Store: store.For[job.Tx](st), System: system, Topics: st.Topics(), Clock: w.clock, Tokens: tokens{keys}, Outbox: outbox}
	w.machines = newMachines(st, w.clock, runs)
	machinesOf := func(kind machine.Kind) *machine.Machines {
		return &machine.Machines{Kind: kind, Store: store.For[machine.Tx](st), Topics: st.Topics(), Clock: w.clock, Providers: w.machines.Providers, Host: w.machines.Host}
	}
	jobs := &job.Jobs{Store: store.For[job.Tx](st), Clock: w.clock}
	experiments := &tracking.Experiments{Store: store.For[tracking.Tx](st), Clock: w.clock}
	w.instance = &setup.Instance{Store: system, Clock: w.clock}
	w.services = Services{
		Clock:      w.clock,
		Workspaces: &identity.Workspaces{Store: store.For[identity.Tx](st), Clock: w.clock}, Members: &identity.Members{Store: store.For[identity.Tx](st), Clock: w.clock},
		APIKeys: &identity.APIKeys{Store: store.For[identity.Tx](st), Clock: w.clock}, Jobs: jobs, Runs: runs, Samples: &setup.Samples{Jobs: jobs, Runs: runs, Clock: w.clock, Experiments: experiments},
		Agents: &job.Agents{Store: store.For[job.Tx](st), System: system, Topics: st.Topics(), Clock: w.clock, Runs: runs, Lease: machine.DefaultLease, Replica: "r1"},
		Logs:   &job.Logs{Store: store.For[job.Tx](st), Topics: st.Topics(), Clock: w.clock, Objects: blobs, Archive: archive}, Quotas: &quota.Quotas{Store: store.For[quota.Tx](st), Requests: requests},
		Compute: machinesOf(machine.KindCompute), Warehouses: machinesOf(machine.KindWarehouse),
		Lineages:     &lineage.Lineages{Store: store.For[lineage.Tx](st), Clock: w.clock, CatalogURL: "http://here/api/v1/iceberg"},
		Experiments:  experiments,
		TrackingRuns: &tracking.Runs{Store: store.For[tracking.Tx](st), Topics: st.Topics(), Clock: w.clock},
		Settings:     &machine.Settings{Store: store.For[machine.Tx](st), Clock: w.clock, Providers: w.machines.Providers, Objects: blobs, Storage: w.storage},
	}
	w.catalog(st, keys, blobs)
}

const password = "correct horse battery"

// populated are the tenants of the database that each world clones. Passwords are hashed once for
// it, not for every test. The tokens are as old as the first test; renewed returns new ones.
var populated struct{ ours, theirs tenant }

// populate creates that database.
func populate(ctx context.Context, dsn string) error {
	if err := store.Migrate(ctx, dsn); err != nil {
		return err
	}
	st, err := store.Open(ctx, dsn, store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(found(ctx, st), st.Close())
}

func found(ctx context.Context, st *store.Store) error {
	clock := domain.SystemClock{}
	keys, err := auth.NewKeys(ctx, st.System(), clock)
	if err != nil {
		return err
	}
	f := founder{&setup.Instance{Store: st.System(), Clock: clock}, &identity.Members{Store: store.For[identity.Tx](st), Clock: clock}, auth.NewService(st.System(), store.For[domain.Tx](st), keys, nil, clock)}
	populated.ours, err = f.tenant(ctx, "ours")
	if err == nil {
		populated.theirs, err = f.tenant(ctx, "theirs")
	}
	return err
}

// founder creates tenants and their members.
type founder struct {
	instance *setup.Instance
	members  *identity.Members
	auth     *auth.Service
}

func (f founder) tenant(ctx context.Context, name string) (t tenant, err error) {
	workspace, agent, credentials, err := f.instance.CreateWorkspace(ctx, name)
	if err != nil {
		return t, err
	}
	in, err := f.auth.SetUp(ctx, auth.SetUp{Token: credentials.SetUpToken, Email: "admin@" + name + ".example", Password: password})
	if err != nil {
		return t, err
	}
	scope, err := f.auth.Bearer(ctx, in.Token)
	if err != nil {
		return t, err
	}
	t = tenant{id: workspace.ID, agent: agent, agentToken: credentials.AgentToken, admin: in.Token, scope: scope}
	if t.editor, err = f.member(ctx, t, "editor", domain.RoleEditor); err == nil {
		t.viewer, err = f.member(ctx, t, "viewer", domain.RoleViewer)
	}
	return t, err
}

func (f founder) member(ctx context.Context, t tenant, name string, role domain.Role) (token string, err error) {
	email := name + "@" + string(t.id) + ".example"
	_, invitation, err := f.members.Add(ctx, t.scope, email, name, role)
	if err != nil {
		return "", err
	}
	in, err := f.auth.SetUp(ctx, auth.SetUp{Token: invitation, Email: email, Name: name, Password: password})
	return in.Token, err
}

func (w *world) member(t tenant, name string, role domain.Role) string {
	w.t.Helper()
	token, err := founder{w.instance, w.services.Members, w.auth}.member(w.t.Context(), t, name, role)
	require.NoError(w.t, err)
	return token
}

// reply is a completely read answer.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// call sends a request; a body that is not a string is sent as JSON. Headers come in pairs.
func (w *world) call(token, method, path string, body any, headers ...string) reply {
	w.t.Helper()
	r := w.request(w.t.Context(), token, method, path, body, headers...)
	res, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	answered := reply{w.t, res.StatusCode, res.Header, string(b)}
	requireDescribed(w.t, method, path, answered)
	return answered
}

func (w *world) request(ctx context.Context, token, method, path string, body any, headers ...string) *http.Request {
	w.t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	case io.Reader:
		content = b
	default:
		encoded, err := json.Marshal(b)
		require.NoError(w.t, err)
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.url+Prefix+path, content)
	require.NoError(w.t, err)
	if content != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return r
}

// object returns the body of an answer with that status.
func (r reply) object(status int) map[string]any {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.body)
	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// refused checks that the body is only an error, and returns its sentence.
func (r reply) refused(status int) string {
	r.t.Helper()
	v := r.object(status)
	require.Len(r.t, v, 1, r.body)
	require.Equal(r.t, "application/json", r.header.Get("Content-Type"))
	require.NotEmpty(r.t, r.header.Get(httpx.RequestIDHeader))
	message, _ := v["error"].(string)
	require.NotEmpty(r.t, message, r.body)
	return message
}

func (r reply) data(status int) []any {
	r.t.Helper()
	v := r.object(status)
	list, ok := v["data"].([]any)
	require.True(r.t, ok, r.body)
	return list
}

// worker plays an agent.
type worker struct {
	w       *world
	scope   domain.Scope
	session string
	log     *job.LogWriter
}

// connect connects the workspace's agent.
func (w *world) connect(t tenant) *worker {
	w.t.Helper()
	return w.connectWith(t.agentToken)
}

func (w *world) connectWith(token string) *worker {
	w.t.Helper()
	scope, err := w.auth.Bearer(w.t.Context(), token)
	require.NoError(w.t, err)
	k := &worker{w: w, scope: scope, session: fmt.Sprintf("session-%d", time.Now().UnixNano())}
	_, err = w.services.Agents.Hello(w.t.Context(), scope, job.AgentHello{
		Session: k.session, Token: domain.HashSecret(token), Version: "1", Hostname: "host", OS: "linux", Arch: "amd64", Slots: 100,
		Engines: []machine.Engine{{Name: "duckdb", Version: "1.5.5"}},
	})
	require.NoError(w.t, err)
	k.log = w.services.Logs.Writer(scope, k.session)
	return k
}

// next returns the next attempt for the agent, and starts it.
func (k *worker) next() job.Attempt {
	k.w.t.Helper()
	select {
	case d := <-k.w.cloud.starts:
		now := k.w.clock.Now()
		require.NoError(k.w.t, k.w.services.Runs.Report(k.w.t.Context(), k.scope, job.AttemptReport{Attempt: d.Attempt.ID, Started: true, StartedAt: &now}))
		return d.Attempt
	case <-time.After(testTimeout):
		require.Fail(k.w.t, "no attempt was delivered")
		return job.Attempt{}
	}
}

func (k *worker) writes(a job.Attempt, offset int64, stream job.LogStream, text string) int64 {
	k.w.t.Helper()
	chunk := job.LogChunk{Offset: offset, Stream: stream, EmittedAt: k.w.clock.Now(), Data: []byte(text)}
	_, err := k.log.Append(k.w.t.Context(), []job.LogAppend{{Attempt: a.ID, LogChunk: chunk}})
	require.NoError(k.w.t, err)
	return offset + int64(len(text))
}

func (k *worker) ends(a job.Attempt, exit int, size int64) {
	k.w.t.Helper()
	now := k.w.clock.Now()
	require.NoError(k.w.t, k.w.services.Runs.Report(k.w.t.Context(), k.scope, job.AttemptReport{
		Attempt: a.ID, Exited: true, Started: true, ExitCode: &exit, StartedAt: &now, FinishedAt: &now, LogEnd: size,
	}))
}

// job creates a job and returns its id.
func (w *world) job(token string, body map[string]any) string {
	w.t.Helper()
	id, _ := w.call(token, "POST", "/jobs", body).object(http.StatusCreated)["id"].(string)
	return id
}

func (w *world) start(token, job string) string {
	w.t.Helper()
	id, _ := w.call(token, "POST", "/jobs/"+job+"/run", nil).object(http.StatusCreated)["run_id"].(string)
	return id
}
