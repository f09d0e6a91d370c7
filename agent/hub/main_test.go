package hub_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// waitLimit is far longer than any step of these tests.
const waitLimit = time.Minute

// world is an instance with one workspace on its own database. A test creates its replicas.
type world struct {
	t         *testing.T
	dsn       string
	sql       *sql.DB // bypasses the domain's rules
	first     *replica
	workspace identity.Workspace
	agent     machine.Agent
	token     string // of the agent
	setUp     string // token of the first administrator's link
	system    domain.Scope
}

// newWorld creates the instance and its first replica. It checks that no goroutine is left at the
// end of the test.
func newWorld(t *testing.T) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	lingering := goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait") // half a second, after a body that was too large
	t.Cleanup(func() { goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before, lingering)...) })
	w := &world{t: t, dsn: storetest.Database(t, store.Migrate)}
	var err error
	w.sql, err = sql.Open("postgres", w.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.sql.Close() })
	w.first = w.replica("first")
	var credentials setup.Credentials
	w.workspace, w.agent, credentials, err = w.first.instance.CreateWorkspace(t.Context(), "acme")
	require.NoError(t, err)
	w.token, w.setUp = credentials.AgentToken, credentials.SetUpToken
	w.system = domain.SystemScope(w.workspace.ID, "test")
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.sql.ExecContext(w.t.Context(), query, args...)
	require.NoError(w.t, err)
}

func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, waitLimit, 2*time.Millisecond, what)
}

// replica is one server of the instance: its sessions behind the platform's routes.
type replica struct {
	w        *world
	id       string
	db       *store.Store
	keys     *auth.Keys
	auth     *auth.Service
	sessions *hub.Sessions
	services hub.Services
	instance *setup.Instance
	apiKeys  *identity.APIKeys
	jobs     *job.Jobs
	url      string
	log      *logBuffer
}

// tokens implements job.Tokens with an empty environment.
type tokens struct{ *auth.Keys }

// Environment implements job.Tokens.
func (tokens) Environment(domain.WorkspaceID, string) map[string]string { return map[string]string{} }

func (w *world) replica(id string) *replica {
	w.t.Helper()
	ctx, t := w.t.Context(), w.t
	db, err := store.Open(ctx, w.dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	clock, system := domain.SystemClock{}, db.System()
	r := &replica{w: w, id: id, db: db, log: &logBuffer{}}
	r.keys, err = auth.NewKeys(ctx, system, clock)
	require.NoError(t, err)
	r.auth = auth.NewService(system, store.For[domain.Tx](db), r.keys, nil, clock)
	bucket, err := objects.Open("file://" + t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() })
	archive, err := objects.NewArchive()
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.sessions = hub.NewSessions(hub.Options{Replicas: system, Tokens: r.keys, Replica: id, Clock: clock})
	outbox := job.NewOutbox(r.sessions, func(err error) { log.Warn("undelivered", "error", err) })
	runs := &job.Runs{Store: store.For[job.Tx](db), System: system, Topics: db.Topics(), Clock: clock, Tokens: tokens{r.keys}, Outbox: outbox}
	r.instance = &setup.Instance{Store: system, Clock: clock}
	r.apiKeys = &identity.APIKeys{Store: store.For[identity.Tx](db), Clock: clock}
	r.jobs = &job.Jobs{Store: store.For[job.Tx](db), Clock: clock}
	r.services = hub.Services{
		Clock: clock, Runs: runs,
		Agents: &job.Agents{Store: store.For[job.Tx](db), System: system, Topics: db.Topics(), Clock: clock, Runs: runs, Lease: machine.DefaultLease, Replica: id},
		Logs:   &job.Logs{Store: store.For[job.Tx](db), Topics: db.Topics(), Clock: clock, Objects: bucket, Archive: archive},
	}
	carry, stop := context.WithCancel(context.Background())
	var carrying sync.WaitGroup
	carrying.Go(func() { outbox.Run(carry) })
	t.Cleanup(func() { stop(); carrying.Wait() })
	r.serve(hub.Handler{
		Sessions: r.sessions, Services: r.services, Topics: db.Topics(), Scope: auth.FromAgent, Log: log,
		Storage: func(domain.WorkspaceID) string { return "file:///lake/" },
	})
	return r
}

func (r *replica) serve(agents hub.Handler) {
	mux := chi.NewRouter()
	mux.With(r.auth.Middleware(auth.NoCookies)).Get(agent.ConnectPath, agents.Connect)
	mux.Get(hub.RelayPath, r.sessions.Relay)
	srv := httptest.NewServer(mux)
	r.url = srv.URL
	r.w.t.Cleanup(func() { r.sessions.Close(); srv.Close() })
	require.NoError(r.w.t, r.db.System().SaveReplica(r.w.t.Context(), r.id, srv.URL, time.Now()))
}

// get sends the replica a plain GET without an upgrade.
func (r *replica) get(path, token string) (status int, body string) {
	r.w.t.Helper()
	req, err := http.NewRequestWithContext(r.w.t.Context(), http.MethodGet, r.url+path, http.NoBody)
	require.NoError(r.w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.w.t, err)
	defer res.Body.Close()
	require.NotEqual(r.w.t, http.StatusSwitchingProtocols, res.StatusCode)
	text, err := io.ReadAll(res.Body)
	require.NoError(r.w.t, err)
	return res.StatusCode, string(text)
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

// client is an agent's end of one connection.
type client struct {
	t    *testing.T
	link *tunnel.Session
	got  chan message
}

// message is a request of the control plane.
type message struct {
	method, path string
	body         []byte
}

// connect dials the replica with the agent's token. The agent accepts every message and answers
// 204.
func (r *replica) connect() *client {
	return r.connectWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
}

// connectWith is connect with a handler for the messages.
func (r *replica) connectWith(then http.HandlerFunc) *client {
	r.w.t.Helper()
	link, err := tunnel.Dial(r.w.t.Context(), r.url, r.w.token, nil)
	require.NoError(r.w.t, err)
	c := &client{t: r.w.t, link: link, got: make(chan message, 64)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		c.got <- message{req.Method, req.URL.Path, body}
		then(w, req)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(link) })
	c.t.Cleanup(func() { _ = link.Close(); _ = server.Close(); serving.Wait() })
	return c
}

// send makes one request and returns its answer.
func (c *client) send(method, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	res, err := c.link.Client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// ok is send for requests that must succeed. It decodes the answer into out unless that is nil.
func (c *client) ok(method, path string, in, out any) {
	c.t.Helper()
	body, raw := in.([]byte)
	if !raw {
		var err error
		body, err = json.Marshal(in)
		require.NoError(c.t, err)
	}
	status, answer, err := c.send(method, path, body)
	require.NoError(c.t, err)
	require.Less(c.t, status, 300, "%s", answer)
	if out != nil {
		require.NoError(c.t, json.Unmarshal(answer, out))
	}
}

// refused is send for requests that must be refused with the status. It returns the message.
func (c *client) refused(status int, method, path string, body []byte) string {
	c.t.Helper()
	got, answer, err := c.send(method, path, body)
	require.NoError(c.t, err)
	require.Equal(c.t, status, got, "%s", answer)
	var said agent.Error
	require.NoError(c.t, json.Unmarshal(answer, &said), "%s", answer)
	require.NotEmpty(c.t, said.Error)
	return said.Error
}

// hello sends Hello with the agent's attempts.
func (c *client) hello(held ...agent.HelloAttempt) (w agent.Welcome) {
	c.t.Helper()
	hello := greeting()
	hello.Attempts = held
	c.ok(http.MethodPost, agent.HelloPath, hello, &w)
	return w
}

func greeting() agent.Hello {
	return agent.Hello{Protocol: agent.ProtocolVersion, Version: "1.2.3", Hostname: "host", Instance: "i1", OS: "linux", Arch: "amd64", Slots: 4}
}

// running is a running attempt of an agent.
func running(id string) agent.HelloAttempt {
	return agent.HelloAttempt{ID: id, Status: agent.Status{State: agent.Running, StartedAt: new(time.Now())}}
}

func (c *client) beat() (r agent.HeartbeatReply) {
	c.t.Helper()
	c.ok(http.MethodPost, agent.HeartbeatPath, agent.Heartbeat{}, &r)
	return r
}

// ended waits for the end of the connection.
func (c *client) ended() {
	c.t.Helper()
	select {
	case <-c.link.Done():
	case <-time.After(waitLimit):
		c.t.Fatal("the connection goes on")
	}
}

// next waits for a message of the control plane.
func (c *client) next() message {
	c.t.Helper()
	select {
	case m := <-c.got:
		return m
	case <-time.After(waitLimit):
		c.t.Fatal("no message came")
		return message{}
	}
}

// attempt starts a run on the connected agent and returns the delivered attempt.
func (c *client) attempt(r *replica) agent.Attempt {
	c.t.Helper()
	ctx, w := c.t.Context(), r.w
	j, err := r.jobs.Create(ctx, w.system, job.NewJob{Name: "job", Spec: job.Spec{
		Command: "true", Files: []job.File{{Path: "bin/run.sh", Executable: true, Content: []byte("exit")}, {Path: "data", Content: []byte{0, 255}}},
	}}, domain.Idempotency{})
	require.NoError(c.t, err)
	_, err = r.services.Runs.Start(ctx, w.system, j.ID, nil, domain.Idempotency{})
	require.NoError(c.t, err)
	m := c.next()
	require.Equal(c.t, http.MethodPut, m.method)
	var a agent.Attempt
	require.NoError(c.t, json.Unmarshal(m.body, &a))
	require.Equal(c.t, "/v1/attempts/"+a.ID, m.path)
	return a
}

// stored is the attempt's log in the platform's storage.
func (r *replica) stored(id string) string {
	r.w.t.Helper()
	page, err := r.services.Logs.Read(r.w.t.Context(), r.w.system, domain.AttemptID(id), 0, job.MaxLogPage)
	require.NoError(r.w.t, err)
	var log []byte
	for _, c := range page.Chunks {
		log = append(log, c.Data...)
	}
	return string(log)
}

// chunk is one chunk of an attempt's log on the wire.
func chunk(attempt string, offset int64, data string) []byte {
	return agent.AppendChunk(nil, agent.Chunk{Attempt: attempt, Offset: offset, Stream: agent.Stdout, Time: time.Now(), Data: []byte(data)})
}

func final(t *testing.T, err error) *tunnel.FinalError {
	t.Helper()
	var f *tunnel.FinalError
	require.True(t, errors.As(err, &f), "%v", err)
	return f
}
