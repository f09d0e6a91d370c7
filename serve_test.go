package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// TestMain runs the tests' PostgreSQL.
func TestMain(m *testing.M) { storetest.Main(m) }

// shortBodyTime replaces the minute that a body may take.
const shortBodyTime = 500 * time.Millisecond

// instance is the server's handler chain on its own database, with an administrator.
type instance struct {
	t      *testing.T
	server *server
	web    *httptest.Server
	token  string
	scope  domain.Scope
	agent  machine.Agent
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	st, err := store.Open(t.Context(), storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	var closing closers
	t.Cleanup(func() { closing.close() })
	closing.add(func() { _ = st.Close() })
	config := &serveCommand{DataDir: t.TempDir(), Storage: "file://" + t.TempDir(), Lease: time.Minute, LocalMachines: new(false), bodyTime: shortBodyTime}
	log := slog.New(slog.DiscardHandler)
	s, err := newServer(t.Context(), config, &database{Store: st, log: log}, "http://test", log, &closing)
	require.NoError(t, err)
	handler, err := s.site.handler()
	require.NoError(t, err)
	i := &instance{t: t, server: s, web: httptest.NewServer(handler)}
	t.Cleanup(i.web.Close)
	var credentials setup.Credentials
	_, i.agent, credentials, err = s.services.Instance.CreateWorkspace(t.Context(), "acme")
	require.NoError(t, err)
	in, err := s.site.auth.SetUp(t.Context(), auth.SetUp{Token: credentials.SetUpToken, Email: "ada@example.com", Password: "correct horse battery"})
	require.NoError(t, err)
	i.token = in.Token
	i.scope, err = s.site.auth.Bearer(t.Context(), in.Token)
	require.NoError(t, err)
	return i
}

// stalled sends a request whose body stops after some bytes, and returns the answer.
func (i *instance) stalled(method, path, sent string, headers ...string) *http.Response {
	i.t.Helper()
	conn := i.dial()
	_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n%s\r\n%s", method, path, strings.Join(append(headers, ""), "\r\n"), sent)
	require.NoError(i.t, err)
	return i.answer(conn, method)
}

func (i *instance) dial() net.Conn {
	i.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(i.t.Context(), "tcp", i.web.Listener.Addr().String())
	require.NoError(i.t, err)
	i.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(i.t, conn.SetDeadline(time.Now().Add(20*shortBodyTime)))
	return conn
}

// answer reads the answer and requires that the connection then closes.
func (i *instance) answer(conn net.Conn, method string) *http.Response {
	i.t.Helper()
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, &http.Request{Method: method})
	require.NoError(i.t, err, "no answer came")
	body, err := io.ReadAll(res.Body)
	require.NoError(i.t, err)
	require.NoError(i.t, res.Body.Close())
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	_, err = reader.ReadByte()
	require.ErrorIs(i.t, err, io.EOF, "the connection stays open")
	return res
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

// TestABodyThatDoesNotArriveIsGivenUp on every path, read or not: the answer arrives, and the
// connection closes.
func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	i := newInstance(t)
	bearer := "Authorization: Bearer " + i.token
	for name, c := range map[string]struct {
		path, length string
		headers      []string
		status       int
	}{
		"login, by an unknown user":     {"/api/v1/auth/login", "Content-Length: 5000", nil, http.StatusRequestTimeout},
		"jobs":                          {"/api/v1/jobs", "Content-Length: 5000", []string{bearer}, http.StatusRequestTimeout},
		"jobs, in chunks":               {"/api/v1/jobs", "Transfer-Encoding: chunked", []string{bearer}, http.StatusRequestTimeout},
		"jobs, refused before its body": {"/api/v1/jobs", "Content-Length: 5000", nil, http.StatusUnauthorized},
		"an operation without a body":   {"/api/v1/runs/run_x/cancel", "Content-Length: 5000", []string{bearer}, http.StatusBadRequest},
		"GraphQL":                       {"/graphql", "Content-Length: 5000", nil, http.StatusRequestTimeout},
		"GraphQL, in chunks":            {"/graphql", "Transfer-Encoding: chunked", nil, http.StatusRequestTimeout},
		"the console":                   {"/login", "Content-Length: 5000", nil, http.StatusMethodNotAllowed},
		"an unknown path":               {"/api/v1/nothing", "Content-Length: 5000", nil, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := &instance{t: t, server: i.server, web: i.web}
			sent := "{"
			if strings.HasPrefix(c.length, "Transfer") {
				sent = "5\r\n{"
			}
			res := i.stalled(http.MethodPost, c.path, sent, append(c.headers, c.length)...)
			require.Equal(t, c.status, res.StatusCode, text(t, res))
		})
	}
}

// TestABodyThatTricklesIsGivenUp: single bytes in time do not extend the bound of the whole body.
func TestABodyThatTricklesIsGivenUp(t *testing.T) {
	i := newInstance(t)
	for _, path := range []string{"/api/v1/auth/login", "/graphql"} {
		conn := i.dial()
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n", path)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(shortBodyTime / 20)
			defer tick.Stop()
			for {
				if _, err := conn.Write([]byte(" ")); err != nil {
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		cancel()
		<-done
		require.NoError(t, err, path)
		require.Equal(t, http.StatusRequestTimeout, res.StatusCode, path)
		require.NoError(t, res.Body.Close())
	}
}

// TestWhatArrivesInTimeMayTakeItsTime: a followed log and a WebSocket outlive the bound of bodies.
func TestWhatArrivesInTimeMayTakeItsTime(t *testing.T) {
	i := newInstance(t)
	post := func(path, body string) map[string]any {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.web.URL+"/api/v1"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+i.token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		var v map[string]any
		require.NoError(t, json.NewDecoder(res.Body).Decode(&v))
		return v
	}
	job := post("/jobs", `{"name":"waits","command":"true"}`)
	run := post(fmt.Sprintf("/jobs/%s/run", job["id"]), "")

	// The same connection has just carried bodies.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/runs/%s/logs?follow=true", i.web.URL, run["run_id"]), nil)
	require.NoError(t, err)
	follow.Header.Set("Authorization", "Bearer "+i.token)
	log, err := http.DefaultClient.Do(follow)
	require.NoError(t, err)
	defer func() { _ = log.Body.Close() }()
	require.Equal(t, http.StatusOK, log.StatusCode)

	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	socket, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(i.web.URL, "http")+"/graphql", http.Header{"Authorization": {"Bearer " + i.token}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	defer func() { _ = socket.Close() }()
	require.NoError(t, socket.WriteJSON(map[string]string{"type": "connection_init"}))
	var message map[string]any
	require.NoError(t, socket.ReadJSON(&message))

	began := time.Now()
	require.Eventually(t, func() bool { return time.Since(began) > 3*shortBodyTime }, time.Minute, shortBodyTime/4)
	require.NoError(t, socket.WriteJSON(map[string]string{"type": "ping"}))
	require.NoError(t, socket.ReadJSON(&message))
	require.Equal(t, "pong", message["type"])
	post(fmt.Sprintf("/runs/%s/cancel", run["run_id"]), "")
	all, err := io.ReadAll(log.Body)
	require.NoError(t, err, "the log was cut")
	require.Empty(t, all)
}

// TestHourlyWorkIsHourly: no event wakes it, not even a lost connection or the safety tick, which
// wake every topic.
func TestHourlyWorkIsHourly(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	opened, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	r := repeater{opened.Topics(), slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	var hourly, woken atomic.Int32
	var loops sync.WaitGroup
	loops.Go(func() {
		r.every(ctx, "hourly", time.Hour, func(context.Context) error { hourly.Add(1); return nil })
	})
	loops.Go(func() {
		r.loop(ctx, "woken", time.Hour, "topic", func(context.Context) (time.Time, error) { woken.Add(1); return time.Time{}, nil })
	})
	require.Eventually(t, func() bool { return hourly.Load() == 1 && woken.Load() == 1 }, time.Minute, time.Millisecond)
	for n := range int32(3) {
		_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return woken.Load() >= n+2 }, time.Minute, time.Millisecond)
	}
	require.EqualValues(t, 1, hourly.Load())
	stop()
	loops.Wait()
}

// TestTheAgentsTokenIsMadeGood: beside the embedded database, a missing or wrong token is replaced,
// but not while the agent runs elsewhere.
func TestTheAgentsTokenIsMadeGood(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	opened, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	clock := domain.SystemClock{}
	token := agentToken{
		file: filepath.Join(t.TempDir(), agentTokenFile), own: true, system: opened.System(), instance: &setup.Instance{Store: opened.System(), Clock: clock},
		agents: &job.Agents{Store: store.For[job.Tx](opened), System: opened.System(), Topics: opened.Topics(), Clock: clock, Lease: machine.DefaultLease}, log: slog.New(slog.DiscardHandler),
	}
	_, agent, credentials, err := token.instance.CreateFirstWorkspace(t.Context(), "one", false)
	require.NoError(t, err)
	read := func() string {
		b, err := os.ReadFile(token.file)
		require.NoError(t, err)
		return string(b)
	}
	opens := func(token string) bool {
		ref, _, err := opened.System().Agent(t.Context(), domain.HashSecret(token))
		return err == nil && ref.Agent == agent.ID
	}

	require.NoError(t, token.ensure(t.Context()), "the first start was cut off before it stored the token")
	fresh := read()
	require.True(t, opens(fresh))
	require.False(t, opens(credentials.AgentToken))
	require.NoError(t, token.ensure(t.Context()))
	require.Equal(t, fresh, read(), "a valid token stays")

	all, err := token.instance.Workspaces(t.Context())
	require.NoError(t, err)
	_, elsewhere, err := token.agents.RotateToken(t.Context(), domain.SystemScope(all[0].ID, "test"), agent.ID)
	require.NoError(t, err)
	_, err = db.Exec(`UPDATE agents SET session = 'x', hostname = 'far.example.com'`)
	require.NoError(t, err)
	require.ErrorContains(t, token.ensure(t.Context()), "far.example.com")
	require.True(t, opens(elsewhere), "a running agent is not cut off")
	_, err = db.Exec(`UPDATE agents SET session = ''`)
	require.NoError(t, err)
	require.NoError(t, token.ensure(t.Context()))
	require.True(t, opens(read()))

	token.own = false
	require.NoError(t, os.WriteFile(token.file, []byte("mp_agt_unknown"), 0o600))
	require.ErrorContains(t, token.ensure(t.Context()), "does not hold an agent's token", "with --database the server does not own the agent")
	require.Equal(t, "mp_agt_unknown", read())
}

func TestTheFirstWarehouseIsOfHalfTheHostAndWritesWithTrinoWhereItIs(t *testing.T) {
	cloud := provisiontest.NewSimulated(provisiontest.Hooks{})
	first := func() []string {
		size, engine := firstWarehouse(t.Context(), machine.Providers{machine.ProviderLocal: cloud})
		return []string{size, engine}
	}
	require.Equal(t, []string{"cpu.32", "duckdb"}, first())
	cloud.InstallTrino(true)
	require.Equal(t, []string{"cpu.32", "trino"}, first())
	size, engine := firstWarehouse(t.Context(), machine.Providers{})
	require.Equal(t, []string{"", ""}, []string{size, engine})
}

func TestTrinoStartsOnTheSmallestMachineThatMayHaveIt(t *testing.T) {
	c := agentCommand{Memory: local.TrinoMemory}
	require.GreaterOrEqual(t, c.trino().Memory, int64(trino.MinMemory))
}
