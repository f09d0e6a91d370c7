package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// subprotocol is the only supported subprotocol.
const subprotocol = "graphql-transport-ws"

// Bounds of one connection.
const (
	maxMessage       = 1 << 20 // bytes of one message of a known caller; large inputs use POST
	maxSubscriptions = 100     // including queries in progress
)

// Close codes. Those from 4400 on belong to graphql-transport-ws, and its clients do not reconnect.
const (
	closeGoingAway       = 1001
	closeTryAgain        = 1013
	closeInvalid         = 4400
	closeUnauthenticated = 4401
	closeForbidden       = 4403
	closeInitialiseLate  = 4408
	closeSubscriberTaken = 4409
	closeInitialisedOnce = 4429
)

// socket is one WebSocket, which gqlgen's transport uses. It adds a deadline for each write, a
// close with our own code before any other message, and the goroutines of the connection.
type socket struct {
	timing timing
	conn   *websocket.Conn
	cancel context.CancelFunc // ends the connection's goroutines

	reading     sync.Mutex // gqlgen leaves a reader behind if the first message is late
	initialised bool       // the first message arrived; only the reader uses it

	mu         sync.Mutex
	ended      bool // a close was sent: only its answer is awaited
	gone       bool // nothing starts any more
	operations int
	open       map[string]*httpx.Lease // leases of unfinished operations, by their ids
	caller     context.Context         // has the credential's scope once the caller is known
	group      sync.WaitGroup
}

var _ interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
} = (*socket)(nil)

// serveSocket runs one WebSocket until it is closed and all its goroutines have ended.
func (s *server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(websocket.Subprotocols(r), subprotocol) {
		s.refuse(w, r, http.StatusBadRequest, domain.Errorf(domain.CodeInvalid, "Open the WebSocket with the subprotocol %s.", subprotocol))
		return
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: s.timing.write,
		Subprotocols:     []string{subprotocol},
		Error: func(w http.ResponseWriter, r *http.Request, status int, reason error) {
			s.refuse(w, r, status, refusedUpgrade(status).Because(reason))
		},
	}
	conn, err := upgrader.Upgrade(w, r, nil) // refuses the origin of another site
	if err != nil {
		return // Error has answered
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	c := &socket{timing: s.timing, conn: conn, cancel: cancel, open: map[string]*httpx.Lease{}, caller: ctx}
	defer c.finish()
	stop := context.AfterFunc(r.Context(), func() { c.end(closeGoingAway, "The server is going away.") })
	defer stop()
	s.gqlgen.ServeHTTP(w, r.WithContext(context.WithValue(ctx, socketKey, c)))
}

// refusedUpgrade returns why a WebSocket was not opened, from the library's status.
func refusedUpgrade(status int) *domain.Error {
	if status == http.StatusForbidden {
		return domain.Errorf(domain.CodeForbidden, "The WebSocket cannot be opened by a page of another site; open it from this server's own address.")
	}
	return domain.Errorf(domain.CodeInvalid, "The WebSocket cannot be opened: the request to upgrade is malformed.")
}

// finish waits for the peer's answer to a close, then for the connection's goroutines.
func (c *socket) finish() {
	c.cancel()
	for err := error(nil); err == nil && c.isEnded(); {
		_, _, err = c.NextReader()
	}
	_ = c.conn.Close() // it is over either way
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lease := range c.open { // of operations that have not ended yet
		lease.Release()
	}
}

// known admits larger messages, now that the caller is known. Meanwhile the reader waits for the
// answer to its first message.
func (c *socket) known(ctx context.Context) {
	c.mu.Lock()
	c.caller = ctx
	c.mu.Unlock()
	c.conn.SetReadLimit(maxMessage)
}

func socketOf(ctx context.Context) *socket {
	c, _ := ctx.Value(socketKey).(*socket)
	return c
}

// spawn runs f in a goroutine of the connection. The connection's end cancels its context. It
// returns false if the connection has already ended.
func (c *socket) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.group.Go(f)
	return true
}

// end closes the connection at once with our own code, before any other message. Else gqlgen would
// send complete to each subscription when its context ends, and a client would take that for the
// real end.
func (c *socket) end(code int, reason string) {
	c.mu.Lock()
	already := c.ended
	c.ended = true
	c.mu.Unlock()
	if already {
		return
	}
	by := time.Now().Add(c.timing.closeWait)
	if err := c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), by); err != nil {
		_ = c.conn.Close() // a peer that does not read gets no close
	}
	_ = c.conn.SetReadDeadline(by) // fails on a closed connection, which is not read any more
	c.cancel()
}

func (c *socket) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// NextReader implements transport.WebsocketConn. After our close, it drops messages until the
// peer's answer.
func (c *socket) NextReader() (int, io.Reader, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		kind, content, err := c.conn.ReadMessage()
		switch {
		case err != nil && (c.isEnded() || websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived)):
			return kind, nil, transport.ErrWebsocketClosed
		case err != nil:
			return kind, nil, err
		}
		if code, reason := c.breach(content); code != 0 {
			c.end(code, reason)
		}
		if !c.isEnded() {
			return kind, bytes.NewReader(content), nil
		}
	}
}

// breach returns the protocol's close code for a message that is not allowed, or not allowed now; 0
// for an allowed message.
func (c *socket) breach(content []byte) (code int, reason string) {
	var m struct{ Type, ID string }
	if json.Unmarshal(content, &m) != nil || !slices.Contains(messageTypes, m.Type) {
		return closeInvalid, "This is not a message of " + subprotocol + "."
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lease, err := c.admit(content)
	if err != nil {
		return refusedMessage(err)
	}
	kept := false
	defer func() {
		if !kept {
			lease.Release()
		}
	}()
	switch {
	case m.Type == "connection_init" && c.initialised:
		return closeInitialisedOnce, "Too many initialisation requests"
	case m.Type == "connection_init":
		c.initialised = true
	case m.Type == "subscribe" && !c.initialised: // gqlgen reads on only after it has acknowledged the first message
		return closeUnauthenticated, "Unauthorized"
	case m.Type == "subscribe" && c.open[m.ID] != nil:
		return closeSubscriberTaken, short("Subscriber for " + m.ID + " already exists")
	case m.Type == "subscribe":
		c.open[m.ID], kept = lease, true
	case m.Type == "complete":
		c.release(m.ID)
	}
	return 0, ""
}

// admit counts a message, and the values decoded from it.
func (c *socket) admit(content []byte) (*httpx.Lease, error) {
	ctx, lease := httpx.WithLease(c.caller)
	err := lease.HoldRequest(ctx, int64(len(content)))
	if err == nil {
		err = httpx.Count(ctx, content, httpx.MaxDepth, httpx.MaxValues)
	}
	if err != nil {
		lease.Release()
	}
	return lease, err
}

// refusedMessage returns the close for a message that is too large, now or always.
func refusedMessage(err error) (code int, reason string) {
	e := domain.AsError(err)
	if e.Code == domain.CodeRate || e.Code == domain.CodeUnavailable {
		return closeTryAgain, short(e.Message)
	}
	return closeInvalid, short(e.Message)
}

// release ends an operation.
func (c *socket) release(id string) {
	if lease := c.open[id]; lease != nil {
		lease.Release()
	}
	delete(c.open, id)
}

// completed records that our message ends an operation. gqlgen writes the type last.
func (c *socket) completed(content []byte) {
	if !bytes.HasSuffix(content, []byte(`"type":"complete"}`)) && !bytes.HasSuffix(content, []byte(`"type":"error"}`)) {
		return
	}
	var m struct{ ID string }
	if err := json.Unmarshal(content, &m); err != nil {
		panic(err) // it was just marshalled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(m.ID)
}

// initialiseLate is gqlgen's close reason if the first message is late.
const initialiseLate = "connection initialisation timeout"

// messageTypes are a client's types of messages.
var messageTypes = []string{"connection_init", "ping", "pong", "subscribe", "complete"}

// WriteJSON implements transport.WebsocketConn. A peer that does not receive a message in time is
// cut, and its subscriptions end.
func (c *socket) WriteJSON(v any) error {
	if c.isEnded() {
		return net.ErrClosed
	}
	message, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.completed(message) // before the peer knows it, because it may reuse the id
	if err := c.write(message); err != nil {
		_ = c.conn.Close() // unblocks the reader
		c.cancel()
		return err
	}
	return nil
}

// pieceBytes is the size of a message's piece. With the time for each, a reader of 7 kB/s is not
// cut.
const pieceBytes = 64 << 10

// write sends a message in pieces, each with a deadline: a slow reader is not cut.
func (c *socket) write(message []byte) error {
	w, err := c.conn.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	if _, err := (httpx.Pieces{To: w, Size: pieceBytes, Deadline: c.conn.SetWriteDeadline, Time: c.timing.write}).Write(message); err != nil {
		return err
	}
	return w.Close()
}

// WriteClose implements transport.WebsocketConn.
func (c *socket) WriteClose(code int, reason string) error {
	if reason == initialiseLate { // with a code of the WebSocket protocol
		code = closeInitialiseLate
	}
	c.end(code, reason)
	return nil
}

// Close implements transport.WebsocketConn. serveSocket closes the connection, after the peer's
// answer.
func (c *socket) Close() error { return nil }

// Subprotocol implements transport.WebsocketConn.
func (c *socket) Subprotocol() string { return c.conn.Subprotocol() }

// SetReadLimit implements transport.WebsocketReadLimiter.
func (c *socket) SetReadLimit(limit int64) { c.conn.SetReadLimit(limit) }

// SetReadDeadline implements transport.WebsocketReadDeadliner. After our close, the close's
// deadline stays.
func (c *socket) SetReadDeadline(t time.Time) error {
	if c.isEnded() {
		return nil
	}
	return c.conn.SetReadDeadline(t)
}

// accepted passes gqlgen the connection that serveSocket opened.
type accepted struct{}

// Accept implements transport.WebsocketImplementation.
func (accepted) Accept(_ http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	return socketOf(r.Context()), nil
}

func (s *server) webSocket() transport.Websocket {
	limit := int64(httpx.AnonymousBytes)
	return transport.Websocket{
		Implementation:   accepted{},
		InitFunc:         s.initSocket,
		InitTimeout:      s.timing.init,
		PingPongInterval: s.timing.ping,
		PayloadReadLimit: &limit,
		ErrorFunc: func(ctx context.Context, err error) {
			s.Log.DebugContext(ctx, "graphql: websocket", "error", err, "request_id", httpx.RequestID(ctx))
		},
	}
}

// aroundOperation bounds the operations of one WebSocket.
func (s *server) aroundOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	c := socketOf(ctx)
	if c == nil {
		return next(ctx)
	}
	ctx, lease := httpx.WithLease(ctx)
	context.AfterFunc(ctx, lease.Release)
	if !c.enter(ctx) {
		return s.oneError(ctx, domain.Errorf(domain.CodeRate, "%d operations are open on this WebSocket, which is the maximum; end some of them.", maxSubscriptions))
	}
	return next(ctx)
}

// enter counts an operation until its context ends.
func (c *socket) enter(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operations >= maxSubscriptions {
		return false
	}
	c.operations++
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		c.operations--
		c.mu.Unlock()
	})
	return true
}

func (s *server) oneError(ctx context.Context, err error) graphql.ResponseHandler {
	return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{s.presenter.present(ctx, err)}})
}
