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

// muxHeader is the size of a yamux frame's header: version, type, flags (2), stream (4), length (4).
const muxHeader = 12

// conn is a WebSocket as a byte stream. Read is called by one goroutine, Write by one other.
//
// Nothing bounds how long a write takes: on a slow link it waits its turn, and a peer that is gone is known by its silence.
type conn struct {
	ws     *websocket.Conn
	timing timing
	reader io.Reader   // of the message being read
	header []byte      // of a data frame, kept back to go out in one message with its body
	pongs  chan string // the answer to the last ping, while it is still to be given

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

// heard moves the moment at which the peer counts as gone.
func (c *conn) heard() error { return c.ws.SetReadDeadline(time.Now().Add(c.timing.pong)) }

// pinged leaves the answer to control, since whoever reads must not wait for a slow link to take what this end has to say.
func (c *conn) pinged(data string) error {
	select {
	case <-c.pongs:
	default:
	}
	c.pongs <- data // never waits: this is the only sender
	return c.heard()
}

// control sends pings, and answers those of the peer.
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

// silence puts into words what an expired read deadline means.
func (c *conn) silence(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("nothing was heard of the other end for %s: %w", c.timing.pong, err)
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

// Write sends p as one message. The multiplexer writes a data frame's header and body apart; they go out as one, which
// halves the system calls and keeps Nagle and delayed acknowledgements out of the way.
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

// bye tells the peer that this end closes on purpose.
func (c *conn) bye() {
	_ = c.fail(errors.New("closed by this end"))
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
}

func (c *conn) Close() error { return c.ws.Close() }

// fail keeps the first error for Err and returns its argument.
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

// unsent is how many bytes wait in the kernel before the connection counts as full. They cannot be overtaken, so on a slow link they would hold up
// heartbeats for as long as they take.
const unsent = 64 << 10

// keepLittleUnsent is a help where it can be had, and not a condition. What the network itself holds it does not bound, nor does it need to: that is what
// is on its way.
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
