package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// shortBodyTime stands for the minute that a body may take.
const shortBodyTime = 500 * time.Millisecond

// instance is the server's own chain of handlers on a database of its own, with an administrator.
type instance struct {
	t      *testing.T
	server *server
	web    *httptest.Server
	token  string
	scope  domain.Scope
	agent  domain.Agent
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	st, err := store.Open(t.Context(), storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	config := &serveCommand{Storage: "file://" + t.TempDir(), Lease: time.Minute}
	s := &server{config: config, log: slog.New(slog.DiscardHandler), store: st, bodyTime: shortBodyTime, closers: []func(){func() { _ = st.Close() }}}
	t.Cleanup(s.close)
	require.NoError(t, s.assemble(t.Context()))
	handler, err := s.routes()
	require.NoError(t, err)
	i := &instance{t: t, server: s, web: httptest.NewServer(handler)}
	t.Cleanup(i.web.Close)
	var credentials domain.Credentials
	_, i.agent, credentials, err = s.services.Instance.CreateWorkspace(t.Context(), "acme")
	require.NoError(t, err)
	in, err := s.auth.SetUp(t.Context(), auth.SetUp{Token: credentials.SetUpToken, Email: "ada@example.com", Password: "correct horse battery"})
	require.NoError(t, err)
	i.token = in.Token
	i.scope, err = s.auth.Bearer(t.Context(), in.Token)
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

// TestABodyThatDoesNotArriveIsGivenUp on every path, read or not: the answer comes, and the connection closes.
func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	i := newInstance(t)
	bearer := "Authorization: Bearer " + i.token
	for name, c := range map[string]struct {
		path, length string
		headers      []string
		status       int
	}{
		"login, by whom nobody knows":   {"/api/v1/auth/login", "Content-Length: 5000", nil, http.StatusRequestTimeout},
		"jobs":                          {"/api/v1/jobs", "Content-Length: 5000", []string{bearer}, http.StatusRequestTimeout},
		"jobs, in chunks":               {"/api/v1/jobs", "Transfer-Encoding: chunked", []string{bearer}, http.StatusRequestTimeout},
		"jobs, refused before its body": {"/api/v1/jobs", "Content-Length: 5000", nil, http.StatusUnauthorized},
		"an operation without a body":   {"/api/v1/runs/run_x/cancel", "Content-Length: 5000", []string{bearer}, http.StatusBadRequest},
		"GraphQL":                       {"/graphql", "Content-Length: 5000", nil, http.StatusRequestTimeout},
		"GraphQL, in chunks":            {"/graphql", "Transfer-Encoding: chunked", nil, http.StatusRequestTimeout},
		"the console":                   {"/login", "Content-Length: 5000", nil, http.StatusMethodNotAllowed},
		"what there is not":             {"/api/v1/nothing", "Content-Length: 5000", nil, http.StatusNotFound},
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

// TestABodyThatTricklesIsGivenUp: each byte in time does not make the whole in time.
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

// TestWhatArrivesInTimeMayTakeItsTime: a log that is followed, and a WebSocket, outlive the time of bodies.
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

	// On the connection that has just carried bodies.
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
