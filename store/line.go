package store

import (
	"net"
	"sync"
	"time"

	"github.com/lib/pq"
)

// line dials for the listener and keeps hold of its connection: a network that has gone silent is an error to nobody who only waits for notifications, and a
// ping of the listener's own waits as long as they do.
type line struct {
	mu   sync.Mutex
	conn net.Conn
}

var _ pq.Dialer = (*line)(nil)

// Dial implements pq.Dialer.
func (l *line) Dial(network, address string) (net.Conn, error) {
	return l.DialTimeout(network, address, 0)
}

// DialTimeout implements pq.Dialer.
func (l *line) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	return conn, nil
}

// expire fails the connection unless something is heard on it before at; the zero time lets it wait for as long as it wants.
func (l *line) expire(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetReadDeadline(at) // of a connection that is closed: it has failed already
	}
}

// ping asks the database for an answer on the listening connection, every interval. Where none comes the connection fails, and pq makes another and tells
// receive, by nil, that anything may have been missed.
func (t *Topics) ping(interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
		}
		t.line.expire(time.Now().Add(min(interval, pingTime)))
		_ = t.listener.Ping() // where it fails the connection is given up already, or there is another by now
		t.line.expire(time.Time{})
	}
}
