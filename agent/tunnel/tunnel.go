// Package tunnel carries many streams over one WebSocket. The agent dials, the control plane
// accepts, and each end may open streams to the other. A Session is a net.Listener for the peer's
// streams and opens its own, so both ends serve plain HTTP on it.
package tunnel

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/yamux"

	"github.com/millpond/millpond/agent"
)

const (
	streamWindow = 4 << 20  // bytes one stream may have in flight
	frameBuffer  = 64 << 10 // a WebSocket frame is written from a buffer of this size
	frameMost    = 64 << 10 // bytes of one stream that are sent before bytes of another
	readLimit    = 16 << 20 // of one WebSocket message; a yamux frame never exceeds the window
	maxStreams   = 256      // opened and not yet accepted
	answerLimit  = 4 << 10  // of the body of a refused upgrade
	openTimeout  = time.Minute
	sendTimeout  = 5 * time.Minute // for a frame to be sent, on the slowest link
)

// timing sets how fast a session detects that its peer is lost.
type timing struct {
	ping time.Duration // between two pings
	pong time.Duration // the session ends after this time without a byte from the peer
}

var standard = timing{ping: 10 * time.Second, pong: 25 * time.Second}

// FinalError is a refusal that no retry can change: a wrong token or URL, or an unsupported
// version.
type FinalError struct {
	Status  int    // 401, 403 or 426; 0 without an answer
	Message string // a sentence for a person
}

// Error implements error.
func (e *FinalError) Error() string { return e.Message }

// Session is one connection between an agent and the control plane. It implements net.Listener for
// the streams that the peer opens. It ends when either end closes it or when the peer is silent for
// 25 s.
type Session struct {
	mux    *yamux.Session
	conn   *conn
	client *http.Client
	pings  sync.WaitGroup
}

// Dial connects to the control plane at base (its http or https URL) with the agent's token. A
// refusal that is final (401, 403, 426) is a *FinalError; every other error may be retried.
func Dial(ctx context.Context, base, token string, config *tls.Config) (*Session, error) {
	return dial(ctx, base, token, config, standard)
}

func dial(ctx context.Context, base, token string, config *tls.Config, t timing) (*Session, error) {
	address, err := connectURL(base)
	if err != nil {
		return nil, err
	}
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, HandshakeTimeout: 15 * time.Second,
		ReadBufferSize: frameBuffer, WriteBufferSize: frameBuffer,
	}
	ws, answer, err := dialer.DialContext(ctx, address, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return nil, refusal(base, answer, err)
	}
	return newSession(ws, t, yamux.Client)
}

func connectURL(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", &FinalError{Message: fmt.Sprintf("%q is not the address of a control plane; give an http or https URL.", base)}
	}
	u.Scheme = map[string]string{"http": "ws", "https": "wss"}[u.Scheme]
	u.Path = strings.TrimSuffix(u.Path, "/") + agent.ConnectPath
	return u.String(), nil
}

// refusal turns a failed handshake into an error that a person can act on.
func refusal(base string, answer *http.Response, err error) error {
	if answer == nil {
		return fmt.Errorf("connecting to %s: %w", base, err)
	}
	defer answer.Body.Close()
	var said agent.Error
	body, _ := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = answer.Status
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return &FinalError{answer.StatusCode, fmt.Sprintf("The control plane at %s does not accept this agent's token (%s). Make a new token and start the agent with it.", base, said.Error)}
	case http.StatusForbidden:
		return &FinalError{answer.StatusCode, fmt.Sprintf("The control plane at %s does not allow this agent to connect (%s).", base, said.Error)}
	case http.StatusUpgradeRequired:
		return &FinalError{answer.StatusCode, fmt.Sprintf("The control plane at %s does not support this version of the agent (%s). Install the version it names.", base, said.Error)}
	}
	return fmt.Errorf("connecting to %s: answered %d: %s", base, answer.StatusCode, said.Error)
}

// Accept upgrades a request on the control plane to a session. The caller must have authenticated
// the request. On an error, Accept has written the answer.
func Accept(w http.ResponseWriter, r *http.Request) (*Session, error) {
	return accept(w, r, standard)
}

func accept(w http.ResponseWriter, r *http.Request, t timing) (*Session, error) {
	// CheckOrigin stays unset: the upgrader refuses a browser's request from another origin.
	upgrader := websocket.Upgrader{HandshakeTimeout: 15 * time.Second, ReadBufferSize: frameBuffer, WriteBufferSize: frameBuffer}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrading an agent's connection: %w", err)
	}
	return newSession(ws, t, yamux.Server)
}

func newSession(ws *websocket.Conn, t timing, open func(io.ReadWriteCloser, *yamux.Config) (*yamux.Session, error)) (*Session, error) {
	c, err := newConn(ws, t)
	if err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	config := yamux.DefaultConfig()
	config.AcceptBacklog = maxStreams
	config.EnableKeepAlive = false // its pings would wait behind data; for the WebSocket's pings any byte is an answer
	config.ConnectionWriteTimeout = sendTimeout
	config.MaxStreamWindowSize = streamWindow
	config.StreamOpenTimeout = openTimeout
	config.LogOutput, config.Logger = nil, log.New(io.Discard, "", 0) // Err reports why a session ended
	mux, err := open(c, config)
	if err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	s := &Session{mux: mux, conn: c}
	s.client = &http.Client{
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Open(ctx) },
			DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			ReadBufferSize: frameBuffer, WriteBufferSize: frameBuffer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.pings.Go(func() {
		c.control(mux.CloseChan())
		s.client.CloseIdleConnections()
	})
	return s, nil
}

// Accept waits for the next stream that the peer opens. It implements net.Listener.
func (s *Session) Accept() (net.Conn, error) {
	mux, err := s.mux.AcceptStream()
	if err != nil {
		return nil, s.explain(err)
	}
	return stream{mux}, nil
}

// Addr is this end's address. It implements net.Listener.
func (s *Session) Addr() net.Addr { return s.conn.ws.LocalAddr() }

// Close ends the session and every stream on it. It implements net.Listener.
func (s *Session) Close() error {
	s.conn.bye()
	err := s.mux.Close()
	s.pings.Wait()
	return err
}

// Open opens a stream to the peer.
func (s *Session) Open(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type opened struct {
		stream stream
		err    error
	}
	// OpenStream blocks while 256 streams wait for the peer to accept them, or until the session
	// ends.
	result := make(chan opened, 1)
	go func() {
		mux, err := s.mux.OpenStream()
		result <- opened{stream{mux}, err}
	}()
	select {
	case o := <-result:
		if o.err != nil {
			return nil, s.explain(o.err)
		}
		return o.stream, nil
	case <-ctx.Done():
		go func() {
			if o := <-result; o.err == nil {
				o.stream.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// stream splits large writes, because the multiplexer sends a write as one frame, up to the whole
// window. Other streams can send between the parts.
type stream struct{ *yamux.Stream }

// Write implements net.Conn.
func (s stream) Write(p []byte) (int, error) {
	done := 0
	for part := range slices.Chunk(p, frameMost) {
		n, err := s.Stream.Write(part)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Close implements net.Conn. The multiplexer's Close ends only the sending half: a read would block
// until the peer ends its half too.
func (s stream) Close() error {
	err := s.Stream.Close()
	return errors.Join(err, s.SetReadDeadline(time.Unix(1, 0)))
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.mux.CloseChan() }

// Err returns why the session ended; nil while it is open.
func (s *Session) Err() error {
	if !s.mux.IsClosed() {
		return nil
	}
	return s.explain(net.ErrClosed)
}

// explain prefers the connection's own error to the multiplexer's, which has no cause.
func (s *Session) explain(err error) error {
	if cause := s.conn.cause(); cause != nil {
		return fmt.Errorf("the agent's connection ended: %w", cause)
	}
	return fmt.Errorf("the agent's connection ended: %w", err)
}

// Client returns an HTTP client to the peer. It reuses streams of this session as connections, and
// ignores the host of a URL.
func (s *Session) Client() *http.Client { return s.client }
