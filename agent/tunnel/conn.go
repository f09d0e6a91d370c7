package tunnel

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// muxHeader is the size of a yamux frame's header: version, type, flags (2), stream (4), length (4).
const muxHeader = 12

// conn is a WebSocket as a byte stream. Read is called by one goroutine, Write by one other.
type conn struct {
	ws     *websocket.Conn
	timing timing
	reader io.Reader // of the message being read
	header []byte    // of a data frame, kept back to go out in one message with its body

	mu    sync.Mutex
	ended error // the first error of reading or writing
}

func newConn(ws *websocket.Conn, t timing) *conn {
	c := &conn{ws: ws, timing: t, header: make([]byte, 0, muxHeader)}
	ws.SetReadLimit(readLimit)
	ws.SetPongHandler(func(string) error { return c.heard() })
	answer := ws.PingHandler()
	ws.SetPingHandler(func(data string) error { return errors.Join(c.heard(), answer(data)) })
	return c
}

// heard moves the moment at which the peer counts as gone.
func (c *conn) heard() error { return c.ws.SetReadDeadline(time.Now().Add(c.timing.pong)) }

func (c *conn) pingUntil(done <-chan struct{}) {
	tick := time.NewTicker(c.timing.ping)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// A ping that finds the writer busy is no loss: the read deadline decides.
			_ = c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.timing.ping))
		case <-done:
			return
		}
	}
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		if c.reader == nil {
			if err := c.next(); err != nil {
				return 0, c.fail(err)
			}
		}
		n, err := c.reader.Read(p)
		if errors.Is(err, io.EOF) {
			c.reader, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, c.fail(err)
		}
	}
}

func (c *conn) next() error {
	if err := c.heard(); err != nil {
		return err
	}
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return err
	}
	if kind != websocket.BinaryMessage {
		return errors.New("the peer sent a text message, which this protocol does not have")
	}
	c.reader = r
	return c.heard()
}

// Write sends p as one message. The multiplexer writes a data frame's header and body apart; they go out as one, which
// halves the system calls and keeps Nagle and delayed acknowledgements out of the way.
func (c *conn) Write(p []byte) (int, error) {
	if len(c.header) == 0 && startsBody(p) {
		c.header = append(c.header, p...)
		return len(p), nil
	}
	if err := c.ws.SetWriteDeadline(time.Now().Add(c.timing.write)); err != nil {
		return 0, c.fail(err)
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
