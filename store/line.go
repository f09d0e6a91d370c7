package store

import (
	"net"
	"sync"
	"time"

	"github.com/lib/pq"
)

// line dials for the listener and holds its connection. A listener that only waits does not notice
// a silent network, and its own ping would wait as long.
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

// expire makes the connection fail unless data arrives before at. The zero time removes the
// deadline.
func (l *line) expire(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetReadDeadline(at) // an error means that the connection is closed already
	}
}

// ping pings the database on the listening connection at every interval. Without an answer the
// connection fails. Then pq reconnects and sends nil to receive: notifications may be lost.
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
		_ = t.listener.Ping() // an error means that the connection has failed or was replaced
		t.line.expire(time.Time{})
	}
}
