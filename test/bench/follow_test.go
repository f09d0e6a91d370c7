package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// receiver receives the bytes of one log in order, with the time of their arrival.
type receiver func(data []byte, at int64) error

// follow opens the log of a task by REST. read passes the bytes to take as they arrive, until the
// log's end.
func (c *client) follow(ctx context.Context, run, key string, take receiver) (read func() error, err error) {
	res, err := c.request(ctx, http.MethodGet, "/runs/"+run+"/tasks/"+key+"/logs?follow=true", nil)
	if err != nil {
		return nil, err
	}
	return func() error {
		defer res.Body.Close()
		buffer := make([]byte, 2<<10)
		for {
			n, err := res.Body.Read(buffer)
			at := now()
			if n > 0 {
				if err := take(buffer[:n], at); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if n == len(buffer) && n < 64<<10 {
				buffer = make([]byte, 4*n) // a fast log is read in larger pieces
			}
		}
	}, nil
}

// socketMost is the number of subscriptions on one WebSocket.
const socketMost = 100

// socket is a WebSocket of the GraphQL API, with the followed logs on it.
type socket struct {
	conn *websocket.Conn

	writing sync.Mutex
	takers  map[string]receiver // by id of the subscription; fixed once reading has begun
}

// message is a message of graphql-transport-ws.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// dial opens a WebSocket.
func (c *client) dial() (*socket, error) {
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}, HandshakeTimeout: 30 * time.Second}
	conn, _, err := dialer.Dial(strings.Replace(c.url, "http", "ws", 1)+"/graphql", nil)
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn, takers: map[string]receiver{}}
	if err := s.send("", "connection_init", map[string]string{"authorization": "Bearer " + c.key}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var m message
	if err := conn.ReadJSON(&m); err != nil || m.Type != "connection_ack" {
		return nil, errors.Join(fmt.Errorf("%s %s: %w", m.Type, m.Payload, err), conn.Close())
	}
	return s, nil
}

func (s *socket) send(id, kind string, payload any) error {
	text, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.conn.WriteJSON(message{ID: id, Type: kind, Payload: text})
}

const logSubscription = `subscription($attempt: ID!) { runLogs(attempt: $attempt) { chunks { offset stream firstLine emittedAt data } nextOffset eof } }`

// subscribe subscribes to the log of an attempt. It must be called before read.
func (s *socket) subscribe(attempt string, take receiver) error {
	id := strconv.Itoa(len(s.takers))
	s.takers[id] = take
	return s.send(id, "subscribe", map[string]any{"query": logSubscription, "variables": map[string]string{"attempt": attempt}})
}

// logEvent is an event of a subscription to a log.
type logEvent struct {
	Data struct {
		RunLogs struct {
			Chunks []struct{ Data []byte }
		}
	}
	Errors json.RawMessage
}

// read passes the bytes of the logs to their receivers until all logs have ended.
func (s *socket) read() error {
	defer s.conn.Close()
	for open := len(s.takers); open > 0; {
		_, text, err := s.conn.ReadMessage()
		at := now()
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		switch m.Type {
		case "next":
			err = s.next(m, at)
		case "complete":
			open--
		case "ping":
			err = s.send("", "pong", nil)
		case "error":
			err = fmt.Errorf("subscription %s: %s", m.ID, m.Payload)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) next(m message, at int64) error {
	var e logEvent
	if err := json.Unmarshal(m.Payload, &e); err != nil {
		return err
	}
	if e.Errors != nil {
		return fmt.Errorf("subscription %s: %s", m.ID, e.Errors)
	}
	for _, c := range e.Data.RunLogs.Chunks {
		if err := s.takers[m.ID](c.Data, at); err != nil {
			return err
		}
	}
	return nil
}

// lines measures the latency of one log's lines from the process to this client.
type lines struct {
	from  *atomic.Int64 // lines written earlier are not counted
	seen  int
	times sample
	rest  []byte

	mark   int           // number of lines
	marked chan struct{} // closed when mark lines were received
}

// newLines returns a measurement that counts every line.
func newLines() *lines { return &lines{from: &atomic.Int64{}, marked: make(chan struct{})} }

func (l *lines) take(data []byte, at int64) error {
	l.rest = append(l.rest, data...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return nil
		}
		written, err := stampOf(l.rest[:i])
		if err != nil {
			return err
		}
		if l.seen++; written >= l.from.Load() {
			l.times = append(l.times, time.Duration(at-written))
		}
		if l.seen == l.mark {
			close(l.marked)
		}
		l.rest = append(l.rest[:0], l.rest[i+1:]...)
	}
}
