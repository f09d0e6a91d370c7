package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"
)

// muxHeader is the size of a yamux frame's header: version, type, flags (2), stream (4), length
// (4).
const muxHeader = 12

// conn is a WebSocket as a byte stream. Read is called by one goroutine, Write by one other.
//
// A write has no deadline: on a slow link it may wait for long. A lost peer is detected by its
// silence.
type conn struct {
	ws     *websocket.Conn
	timing timing
	reader io.Reader   // of the message being read
	header []byte      // of a data frame, buffered to be sent in one message with its body
	pongs  chan string // the pending answer to the last ping

	mu    sync.Mutex
	ended error // the first error of reading or writing
}

func newConn(ws *websocket.Conn, t timing) (*conn, error) {
	c := &conn{ws: ws, timing: t, header: make([]byte, 0, muxHeader), pongs: make(chan string, 1)}
	ws.SetReadLimit(readLimit)
	ws.SetPongHandler(func(string) error { return c.heard() })
	ws.SetPingHandler(c.pinged)
	keepLittleUnsent(ws.NetConn())
	return c, c.heard()
}

// heard extends the deadline at which the peer counts as lost.
func (c *conn) heard() error { return c.ws.SetReadDeadline(time.Now().Add(c.timing.pong)) }

// pinged passes the answer to control, because the reader must not wait for a slow link to send.
func (c *conn) pinged(data string) error {
	select {
	case <-c.pongs:
	default:
	}
	c.pongs <- data // never waits: this is the only sender
	return c.heard()
}

// control sends pings, and answers the peer's pings.
func (c *conn) control(done <-chan struct{}) {
	tick := time.NewTicker(c.timing.ping)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-tick.C:
			err = c.ws.WriteControl(websocket.PingMessage, nil, time.Time{})
		case data := <-c.pongs:
			err = c.ws.WriteControl(websocket.PongMessage, []byte(data), time.Time{})
		case <-done:
			return
		}
		_ = c.fail(err) // the next read or write ends the session
	}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		if c.reader == nil {
			if err := c.next(); err != nil {
				return 0, c.fail(c.silence(err))
			}
		}
		n, err := c.reader.Read(p)
		if errors.Is(err, io.EOF) {
			c.reader, err = nil, nil
		}
		if n > 0 && err == nil {
			err = c.heard()
		}
		if n > 0 || err != nil {
			return n, c.fail(c.silence(err))
		}
	}
}

// silence explains an expired read deadline.
func (c *conn) silence(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("nothing was received from the other end for %s: %w", c.timing.pong, err)
	}
	return err
}

func (c *conn) next() error {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return err
	}
	if kind != websocket.BinaryMessage {
		return errors.New("the peer sent a text message, which this protocol does not have")
	}
	c.reader = r
	return nil
}

// Write sends p as one message. The multiplexer writes a data frame's header and body separately.
// Write sends both as one message, which halves the system calls and avoids delays by Nagle and
// delayed acknowledgements.
func (c *conn) Write(p []byte) (int, error) {
	if len(c.header) == 0 && startsBody(p) {
		c.header = append(c.header, p...)
		return len(p), nil
	}
	w, err := c.ws.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return 0, c.fail(err)
	}
	_, err = w.Write(c.header)
	c.header = c.header[:0]
	if err != nil {
		return 0, c.fail(err)
	}
	n, err := w.Write(p)
	if err != nil {
		return n, c.fail(err)
	}
	return n, c.fail(w.Close())
}

// startsBody reports whether p is the header of a data frame (type 0) with a body to follow.
func startsBody(p []byte) bool {
	return len(p) == muxHeader && p[1] == 0 && binary.BigEndian.Uint32(p[8:]) > 0
}

// bye sends the peer a normal close.
func (c *conn) bye() {
	_ = c.fail(errors.New("closed by this end"))
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
}

func (c *conn) Close() error { return c.ws.Close() }

// fail stores the first error for Err and returns its argument.
func (c *conn) fail(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = err
	}
	return err
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// unsent is how many unsent bytes the kernel may buffer before the connection counts as full. On a
// slow link, heartbeats wait behind these bytes.
const unsent = 64 << 10

// keepLittleUnsent sets the bound unsent if the connection supports it. It does not bound the bytes
// in flight.
func keepLittleUnsent(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := s.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent) })
	}
}
