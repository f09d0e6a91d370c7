package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// client speaks graphql-transport-ws.
type client struct {
	w    *world
	conn *websocket.Conn
	next int
}

type message struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// dial opens a WebSocket without the first message.
func (w *world) dial(who header) *client {
	w.t.Helper()
	h := http.Header{}
	who(h)
	d := websocket.Dialer{Subprotocols: []string{subprotocol}, HandshakeTimeout: 10 * time.Second, NetDialContext: smallBuffer}
	conn, res, err := d.DialContext(w.t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+"/graphql", h)
	require.NoError(w.t, err)
	_ = res.Body.Close()
	c := &client{w: w, conn: conn}
	w.t.Cleanup(func() { _ = conn.Close() })
	return c
}

// smallBuffer makes a stopped reader block the writer soon.
func smallBuffer(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetReadBuffer(64 << 10)
	}
	return conn, err
}

// open dials and initialises the connection.
func (w *world) open(who header, payload map[string]any) *client {
	w.t.Helper()
	c := w.dial(who)
	c.init(payload)
	require.Equal(w.t, "connection_ack", c.read().Type)
	return c
}

func (c *client) init(payload map[string]any) {
	c.w.t.Helper()
	c.write("connection_init", "", payload)
}

func (c *client) write(kind, id string, payload any) {
	c.w.t.Helper()
	m := message{Type: kind, ID: id}
	if payload != nil {
		b, err := json.Marshal(payload)
		require.NoError(c.w.t, err)
		m.Payload = b
	}
	require.NoError(c.w.t, c.conn.WriteJSON(m))
}

// subscribe returns the operation's id.
func (c *client) subscribe(query string, vars map[string]any) string {
	c.w.t.Helper()
	c.next++
	id := fmt.Sprint(c.next)
	c.write("subscribe", id, map[string]any{"query": query, "variables": vars})
	return id
}

const testTimeout = time.Minute

// read returns the next message. It answers pings.
func (c *client) read() message {
	c.w.t.Helper()
	m, err := c.tryRead()
	require.NoError(c.w.t, err)
	return m
}

func (c *client) tryRead() (message, error) {
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(testTimeout))
		var m message
		if err := c.conn.ReadJSON(&m); err != nil {
			return m, err
		}
		if m.Type != "ping" {
			return m, nil
		}
		if err := c.conn.WriteJSON(message{Type: "pong"}); err != nil {
			return m, err
		}
	}
}

// event returns the data of the next event, which must be the operation's.
func (c *client) event(id string) map[string]any {
	c.w.t.Helper()
	m := c.read()
	require.Equal(c.w.t, "next", m.Type, "%s", m.Payload)
	require.Equal(c.w.t, id, m.ID)
	var a answer
	require.NoError(c.w.t, json.Unmarshal(m.Payload, &a))
	require.Empty(c.w.t, a.Errors, "%s", m.Payload)
	return a.Data
}

// failure returns the code of the error that ends the operation, or of its next event. Before it,
// an earlier operation may only complete.
func (c *client) failure(id string) string {
	c.w.t.Helper()
	m := c.read()
	for m.ID != id && m.Type == "complete" {
		m = c.read()
	}
	require.Equal(c.w.t, id, m.ID)
	var a answer
	if m.Type == "error" {
		require.NoError(c.w.t, json.Unmarshal(m.Payload, &a.Errors))
		return a.code()
	}
	require.Equal(c.w.t, "next", m.Type)
	require.NoError(c.w.t, json.Unmarshal(m.Payload, &a))
	return a.code()
}

// closed returns the close code and reason, and the messages that came before it.
func (c *client) closed() (code int, reason string, before []message) {
	c.w.t.Helper()
	for {
		m, err := c.tryRead()
		if err == nil {
			before = append(before, m)
			continue
		}
		e, ok := errors.AsType[*websocket.CloseError](err)
		require.True(c.w.t, ok, "the connection ended without a close frame: %v", err)
		return e.Code, e.Text, before
	}
}
