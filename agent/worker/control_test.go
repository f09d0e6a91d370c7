package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/agent/worker/shim"
)

// The test binary is also the shim and, for tests that kill an agent, the agent.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main())
	}
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(agentMain(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "emit" {
		os.Exit(emitMain(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "tick" {
		os.Exit(tickMain(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "connect" {
		os.Exit(connectMain(os.Args[2]))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeTestBinary()
		os.Exit(code)
	}))
}

func agentMain(options string) int {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// control is a control plane that speaks the protocol and stores everything in memory.
type control struct {
	t     testing.TB
	web   *httptest.Server
	lease time.Duration
	beat  time.Duration

	slow    atomic.Int64 // ns before a log batch is answered
	refuse  atomic.Int32 // status to refuse connections with
	silent  atomic.Bool  // heartbeats are not answered
	failing atomic.Int32 // number of log batches to answer with 500
	hanging atomic.Int32 // number of next heartbeats to leave unanswered
	busy    atomic.Int32 // number of hellos to answer with 409
	enroll  atomic.Pointer[func(w http.ResponseWriter, boot string)]
	metrics atomic.Pointer[func(w http.ResponseWriter, m agent.Metrics)]

	sending  sync.WaitGroup // attempts on their way to the agent
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	tunnel   *tunnel.Session
	hellos   int
	last     agent.Hello
	beats    int
	token    string                   // the accepted token; empty means any
	idle     agent.Duration           // as last reported
	engines  []agent.Engine           // as last reported
	settings *agent.WarehouseSettings // said in every Welcome and HeartbeatReply
	extra    []agent.DesiredAttempt   // said in every Welcome and HeartbeatReply
	group    uint32                   // said in every Welcome
	attempts map[string]*record
	chunks   bool // whether chunks are stored
	seen     func(agent.Chunk)
}

// record is the control plane's state of one attempt.
type record struct {
	spec     agent.Attempt
	desire   agent.Desire
	next     int64
	sum      hash.Hash
	head     []byte // the first bytes of the log
	chunks   []agent.Chunk
	statuses []agent.Status
	arrived  time.Time // of the first byte
}

const headBytes = 1 << 20

func newControl(t testing.TB) *control {
	c := &control{t: t, lease: time.Minute, beat: time.Second, attempts: map[string]*record{}, changed: make(chan struct{})}
	c.web = httptest.NewServer(http.HandlerFunc(c.connect))
	t.Cleanup(func() {
		c.cut()
		c.sending.Wait()
		c.web.Close()
	})
	return c
}

func (c *control) connect(w http.ResponseWriter, r *http.Request) {
	if status := int(c.refuse.Load()); status != 0 {
		answer(w, status, "refused by the test")
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if f := c.enroll.Load(); f != nil && r.URL.Path == agent.EnrollPath {
		(*f)(w, token)
		return
	}
	if r.URL.Path != agent.ConnectPath {
		http.NotFound(w, r)
		return
	}
	if !c.accepts(token) {
		answer(w, http.StatusUnauthorized, "no agent has this token")
		return
	}
	s, err := tunnel.Accept(w, r)
	if err != nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+agent.HelloPath, func(w http.ResponseWriter, r *http.Request) { c.hello(w, r, s) })
	mux.HandleFunc("POST "+agent.HeartbeatPath, c.heartbeat)
	mux.HandleFunc("POST "+agent.LogsPath, c.logs)
	if f := c.metrics.Load(); f != nil {
		mux.HandleFunc("POST "+agent.MetricsPath, func(w http.ResponseWriter, r *http.Request) {
			var m agent.Metrics
			assertNoError(c.t, json.NewDecoder(r.Body).Decode(&m))
			(*f)(w, m)
		})
	}
	mux.HandleFunc("PUT "+fmt.Sprintf(agent.StatusPath, "{id}"), c.status)
	server := &http.Server{Handler: mux}
	_ = server.Serve(s)
	s.Close()
	server.Close()
}

func (c *control) accepts(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token == "" || c.token == token
}

func (c *control) hello(w http.ResponseWriter, r *http.Request, s *tunnel.Session) {
	var h agent.Hello
	if json.NewDecoder(r.Body).Decode(&h) != nil || h.Protocol != agent.ProtocolVersion {
		answer(w, http.StatusUpgradeRequired, "another version")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hellos++
	c.last, c.idle, c.engines = h, h.Idle, h.Engines
	c.touch()
	if c.busy.Add(-1) >= 0 {
		answer(w, http.StatusConflict, "Another instance of the agent may still be at work.")
		return
	}
	c.tunnel = s
	welcome := agent.Welcome{AgentID: "agt_1", Lease: agent.Duration(c.lease), HeartbeatEvery: agent.Duration(c.beat), Group: c.group, Warehouse: c.settings}
	named := map[string]bool{}
	for _, a := range h.Attempts {
		named[a.ID] = true
		if known := c.attempts[a.ID]; known != nil {
			d := agent.DesiredAttempt{ID: a.ID, Desire: known.desire, LogNext: known.next}
			if known.final() != nil {
				d.Desire = agent.DesireForget
			} else if a.State != agent.Exited {
				known.statuses = append(known.statuses, a.Status) // a status in Hello is not reported again
			}
			welcome.Attempts = append(welcome.Attempts, d)
		}
	}
	for id, a := range c.attempts {
		if !named[id] && a.final() == nil && a.desire == agent.DesireRun {
			c.sending.Go(func() { _, _ = put(s, id, a.spec) }) // accepted after Welcome; a broken session causes another Hello
		}
	}
	welcome.Attempts = append(welcome.Attempts, c.extra...)
	_ = json.NewEncoder(w).Encode(welcome)
}

func (c *control) heartbeat(w http.ResponseWriter, r *http.Request) {
	var beat agent.Heartbeat
	_ = json.NewDecoder(r.Body).Decode(&beat)
	_, _ = io.Copy(io.Discard, r.Body) // read to its end, so that the end of the request is detected
	if c.silent.Load() || c.hanging.Add(-1) >= 0 {
		<-r.Context().Done()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beats++
	c.idle, c.engines = beat.Idle, beat.Engines
	c.touch()
	reply := agent.HeartbeatReply{Attempts: slices.Clone(c.extra), Warehouse: c.settings}
	for _, id := range beat.Attempts {
		if a := c.attempts[id]; a != nil && a.desire != agent.DesireRun {
			reply.Attempts = append(reply.Attempts, agent.DesiredAttempt{ID: id, Desire: a.desire, LogNext: a.next})
		}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func (c *control) logs(w http.ResponseWriter, r *http.Request) {
	if slow := time.Duration(c.slow.Load()); slow > 0 {
		<-time.After(slow)
	}
	if c.failing.Add(-1) >= 0 {
		answer(w, http.StatusInternalServerError, "failing for the test")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent was killed while it sent
	}
	chunks, err := agent.ReadBatch(bytes.NewReader(body))
	if err != nil {
		c.t.Error("a malformed batch: ", err)
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := agent.LogReply{Next: map[string]int64{}}
	for _, chunk := range chunks {
		a := c.attempts[chunk.Attempt]
		if a == nil {
			reply.Forget = append(reply.Forget, chunk.Attempt)
			continue
		}
		a.take(chunk, c.chunks)
		if c.seen != nil {
			c.seen(chunk)
		}
		reply.Next[chunk.Attempt] = a.next
	}
	c.touch()
	_ = json.NewEncoder(w).Encode(reply)
}

// take appends the new bytes of a chunk, as an idempotent insert would.
func (a *record) take(chunk agent.Chunk, keep bool) {
	if chunk.Offset != a.next {
		return
	}
	if a.next == 0 {
		a.arrived = time.Now()
	}
	a.next += int64(len(chunk.Data))
	a.sum.Write(chunk.Data)
	if room := headBytes - len(a.head); room > 0 {
		a.head = append(a.head, chunk.Data[:min(room, len(chunk.Data))]...)
	}
	if keep {
		a.chunks = append(a.chunks, chunk)
	}
}

func (a *record) final() *agent.Status {
	if n := len(a.statuses); n > 0 && a.statuses[n-1].State == agent.Exited {
		return &a.statuses[n-1]
	}
	return nil
}

func (c *control) status(w http.ResponseWriter, r *http.Request) {
	var s agent.Status
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attempts[r.PathValue("id")]
	if a == nil {
		answer(w, http.StatusNotFound, "no such attempt")
		return
	}
	if s.State == agent.Exited && s.LogEnd != a.next {
		c.t.Errorf("attempt %s: exited with log_end %d while %d bytes have been sent", r.PathValue("id"), s.LogEnd, a.next)
	}
	if a.final() == nil {
		a.statuses = append(a.statuses, s)
	}
	c.touch()
	w.WriteHeader(http.StatusNoContent)
}

func (c *control) touch() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// until waits for a condition. It checks the condition under the lock at every change.
func (c *control) until(what string, within time.Duration, condition func() bool) {
	c.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		ok, changed := condition(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			c.t.Fatalf("%s did not happen within %s", what, within)
		}
	}
}

const waitLimit = 60 * time.Second

// want makes an attempt desired; start also sends it to the agent.
func (c *control) want(a agent.Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[a.ID] = &record{spec: a, desire: agent.DesireRun, sum: sha256.New()}
}

func (c *control) session() *tunnel.Session {
	c.t.Helper()
	c.until("a connection", waitLimit, func() bool { return c.tunnel != nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tunnel
}

func (c *control) start(a agent.Attempt) {
	c.t.Helper()
	c.want(a)
	require.Equal(c.t, http.StatusNoContent, c.put(a.ID, a))
}

func (c *control) put(id string, a any) int {
	c.t.Helper()
	status, err := put(c.session(), id, a)
	require.NoError(c.t, err)
	return status
}

func put(s *tunnel.Session, id string, a any) (status int, err error) {
	body, err := json.Marshal(a)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequest(http.MethodPut, "http://agent"+fmt.Sprintf(agent.AttemptPath, id), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode, nil
}

// desire changes an attempt's desired state. The agent gets it by a heartbeat or at the next Hello.
func (c *control) desire(id string, d agent.Desire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[id].desire = d
}

func (c *control) cancel(id string) {
	c.t.Helper()
	res, err := c.session().Client().Post("http://agent"+fmt.Sprintf(agent.CancelPath, id), "", nil)
	require.NoError(c.t, err)
	res.Body.Close()
	require.Equal(c.t, http.StatusNoContent, res.StatusCode)
}

func (c *control) cut() {
	c.mu.Lock()
	s := c.tunnel
	c.tunnel = nil
	c.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

func (c *control) exited(id string) agent.Status {
	c.t.Helper()
	var final *agent.Status
	c.until("the end of "+id, 3*waitLimit, func() bool { final = c.attempts[id].final(); return final != nil })
	return *final
}

func (c *control) reached(id string, offset int64) {
	c.t.Helper()
	c.until(fmt.Sprintf("byte %d of %s", offset, id), waitLimit, func() bool { return c.attempts[id].next >= offset })
}

func (c *control) contains(id, text string) {
	c.t.Helper()
	c.until(fmt.Sprintf("%q in the log of %s", text, id), waitLimit, func() bool { return bytes.Contains(c.attempts[id].head, []byte(text)) })
}

func (c *control) record(id string) record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := *c.attempts[id]
	r.head = slices.Clone(r.head)
	return r
}

func (r record) sha() string { return hex.EncodeToString(r.sum.Sum(nil)) }

// options are the options of an agent for tests. Task users can reach its directory.
func (c *control) options() Options {
	dir, err := os.MkdirTemp("", "millpond-agent-")
	require.NoError(c.t, err)
	require.NoError(c.t, os.Chmod(dir, 0o711))
	c.t.Cleanup(func() { require.NoError(c.t, removeTree(dir)) })
	o := Options{Server: c.web.URL, Token: "secret", Dir: filepath.Join(dir, "agent"), Slots: 4, Version: "test"}
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return o
}

// agent runs an agent in this process until stop or the test's end.
func (c *control) agent(o Options) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(c.t, <-done)
	})
	c.t.Cleanup(func() { c.killAll(o); stop() })
	c.session()
	return stop
}

// killAll ends the processes that a failed test left.
func (c *control) killAll(o Options) {
	c.mu.Lock()
	clear(c.attempts)
	s := c.tunnel
	c.mu.Unlock()
	if s != nil {
		s.Close() // the next Welcome names no attempt, so the agent kills all
	}
	entries, _ := os.ReadDir(filepath.Join(o.Dir, "attempts"))
	for _, e := range entries {
		name := e.Name()
		waitFor(c.t, func() bool { return !fileExists(filepath.Join(o.Dir, "attempts", name)) })
	}
}

// waitFor polls a condition that has no notification.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, waitLimit, 5*time.Millisecond)
}

func assertNoError(t testing.TB, err error) {
	if err != nil {
		t.Error(err) // may be called by other goroutines than the test's
	}
}

func lines(b []byte) []string { return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") }
