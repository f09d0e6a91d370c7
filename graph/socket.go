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
)

// subprotocol is the one that is spoken.
const subprotocol = "graphql-transport-ws"

// Bounds of one connection.
const (
	maxMessage       = 1 << 20 // bytes; large inputs go by POST
	maxSubscriptions = 100     // and queries in progress
)

// Close codes: those from 4400 on are graphql-transport-ws's, and final for its clients.
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

// socket is one WebSocket. gqlgen's transport speaks through it; what it adds is a deadline for each write, a close with a code of ours that
// nothing overtakes, and the goroutines that live on the connection.
type socket struct {
	timing timing
	conn   *websocket.Conn
	cancel context.CancelFunc // ends what lives on the connection

	reading     sync.Mutex // gqlgen leaves a reader behind when the first message is late
	initialised bool       // a first message came; of the reader

	mu         sync.Mutex
	ended      bool // a close was sent: nothing but its answer is awaited
	gone       bool // nothing starts any more
	operations int
	open       map[string]bool // ids of operations that neither end has completed
	group      sync.WaitGroup
}

var _ interface {
	transport.WebsocketConn
	transport.WebsocketReadLimiter
	transport.WebsocketReadDeadliner
} = (*socket)(nil)

// serveSocket runs one WebSocket until it has closed and everything on it has ended.
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
	c := &socket{timing: s.timing, conn: conn, cancel: cancel, open: map[string]bool{}}
	defer c.finish()
	stop := context.AfterFunc(r.Context(), func() { c.end(closeGoingAway, "The server is going away.") })
	defer stop()
	s.gqlgen.ServeHTTP(w, r.WithContext(context.WithValue(ctx, socketKey, c)))
}

// refusedUpgrade is why a WebSocket was not opened, by the status that its library has chosen.
func refusedUpgrade(status int) *domain.Error {
	if status == http.StatusForbidden {
		return domain.Errorf(domain.CodeForbidden, "The WebSocket cannot be opened by a page of another site; open it from this server's own address.")
	}
	return domain.Errorf(domain.CodeInvalid, "The WebSocket cannot be opened: the request to upgrade is malformed.")
}

// finish waits for the peer's answer to a close, then for what lived on the connection.
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
}

func socketOf(ctx context.Context) *socket {
	c, _ := ctx.Value(socketKey).(*socket)
	return c
}

// spawn runs f on the connection, whose end cancels the context of whatever runs there; false when it has ended already.
func (c *socket) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.group.Go(f)
	return true
}

// end closes the connection with a code of ours, at once. Before anything else that is sent: gqlgen tells each subscription that it is complete when
// its context ends, which a client would take for the end of what it follows.
func (c *socket) end(code int, reason string) {
	c.mu.Lock()
	already := c.ended
	c.ended = true
	c.mu.Unlock()
	if already {
		return
	}
	by := time.Now().Add(c.timing.farewell)
	if err := c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), by); err != nil {
		_ = c.conn.Close() // a peer that takes nothing gets no farewell
	}
	_ = c.conn.SetReadDeadline(by) // fails on a closed connection, which is read no more anyway
	c.cancel()
}

func (c *socket) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// NextReader implements transport.WebsocketConn. After a close of ours, what still comes is dropped until the peer's answer.
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

// breach is the close with which the protocol answers a message that it does not allow, or not now; 0 for one that it does.
func (c *socket) breach(content []byte) (code int, reason string) {
	var m struct{ Type, ID string }
	if json.Unmarshal(content, &m) != nil || !slices.Contains(messageTypes, m.Type) {
		return closeInvalid, "This is not a message of " + subprotocol + "."
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Type == "connection_init" && c.initialised:
		return closeInitialisedOnce, "Too many initialisation requests"
	case m.Type == "connection_init":
		c.initialised = true
	case m.Type == "subscribe" && !c.initialised: // gqlgen reads on only when the first message has been acknowledged
		return closeUnauthenticated, "Unauthorized"
	case m.Type == "subscribe" && c.open[m.ID]:
		return closeSubscriberTaken, short("Subscriber for " + m.ID + " already exists")
	case m.Type == "subscribe":
		c.open[m.ID] = true
	case m.Type == "complete":
		delete(c.open, m.ID)
	}
	return 0, ""
}

// completed notes that a message of ours ends an operation. gqlgen writes the type last.
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
	delete(c.open, m.ID)
}

// initialiseLate is gqlgen's reason to close when the first message is late.
const initialiseLate = "connection initialisation timeout"

// messageTypes are those that a client sends.
var messageTypes = []string{"connection_init", "ping", "pong", "subscribe", "complete"}

// WriteJSON implements transport.WebsocketConn. A peer that does not take a message in time is cut, and what it subscribed to ends.
func (c *socket) WriteJSON(v any) error {
	if c.isEnded() {
		return net.ErrClosed
	}
	message, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.completed(message)                                        // before the peer knows, who may use the id again
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.timing.write)) // the write fails then
	if err := c.conn.WriteMessage(websocket.TextMessage, message); err != nil {
		_ = c.conn.Close() // unblocks the reader
		c.cancel()
		return err
	}
	return nil
}

// WriteClose implements transport.WebsocketConn.
func (c *socket) WriteClose(code int, reason string) error {
	if reason == initialiseLate { // with a code of WebSocket's own
		code = closeInitialiseLate
	}
	c.end(code, reason)
	return nil
}

// Close implements transport.WebsocketConn. serveSocket closes the connection, after the peer has answered.
func (c *socket) Close() error { return nil }

// Subprotocol implements transport.WebsocketConn.
func (c *socket) Subprotocol() string { return c.conn.Subprotocol() }

// SetReadLimit implements transport.WebsocketReadLimiter.
func (c *socket) SetReadLimit(limit int64) { c.conn.SetReadLimit(limit) }

// SetReadDeadline implements transport.WebsocketReadDeadliner. After a close of ours its own deadline stands.
func (c *socket) SetReadDeadline(t time.Time) error {
	if c.isEnded() {
		return nil
	}
	return c.conn.SetReadDeadline(t)
}

// accepted hands gqlgen the connection that serveSocket has opened.
type accepted struct{}

// Accept implements transport.WebsocketImplementation.
func (accepted) Accept(_ http.ResponseWriter, r *http.Request, _ transport.WebsocketAcceptOptions) (transport.WebsocketConn, error) {
	return socketOf(r.Context()), nil
}

func (s *server) webSocket() transport.Websocket {
	limit := int64(maxMessage)
	return transport.Websocket{
		Implementation:   accepted{},
		InitFunc:         s.initSocket,
		InitTimeout:      s.timing.init,
		PingPongInterval: s.timing.ping,
		PayloadReadLimit: &limit,
		ErrorFunc: func(ctx context.Context, err error) {
			s.Log.DebugContext(ctx, "graphql: websocket", "error", err, "request_id", requestID(ctx))
		},
	}
}

// aroundOperation bounds what one WebSocket holds open.
func (s *server) aroundOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	c := socketOf(ctx)
	if c == nil {
		return next(ctx)
	}
	if !c.enter(ctx) {
		return s.oneError(ctx, domain.Errorf(domain.CodeRate, "%d operations are open on this WebSocket, the most there can be; end some of them.", maxSubscriptions))
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
