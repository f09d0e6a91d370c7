package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
)

// channel is the one channel of notifications; the payload is a topic, or a list of topics of another replica's.
const channel = "millpond"

// Intervals of notifications.
const (
	coalesce     = 50 * time.Millisecond // between two NOTIFYs of what changes often
	safetyTick   = 30 * time.Second      // after which everyone is woken, whatever was missed
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
	maxPayload   = 7000 // bytes; PostgreSQL takes 8,000
)

// Topics fans wake-ups out to the subscribers of this replica. It implements domain.Topics.
type Topics struct {
	origin   string // tells this replica's own bulk notifications from others'
	db       *sqlx.DB
	listener *pq.Listener
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu          sync.Mutex
	subscribers map[domain.Topic]map[chan struct{}]struct{}

	pendingMu sync.Mutex
	pending   map[domain.Topic]struct{}
	armed     chan struct{}
}

var _ domain.Topics = (*Topics)(nil)

func listen(dsn string, db *sqlx.DB) (*Topics, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	t := &Topics{
		origin: hex.EncodeToString(id[:]), db: db, stop: make(chan struct{}), armed: make(chan struct{}, 1),
		subscribers: map[domain.Topic]map[chan struct{}]struct{}{}, pending: map[domain.Topic]struct{}{},
		listener: pq.NewListener(dsn, minReconnect, maxReconnect, nil),
	}
	if err := t.listener.Listen(channel); err != nil {
		_ = t.listener.Close()
		return nil, err
	}
	t.stopped.Go(t.receive)
	t.stopped.Go(t.send)
	return t, nil
}

func (t *Topics) close() error {
	close(t.stop)
	err := t.listener.Close()
	t.stopped.Wait()
	return err
}

// Subscribe implements domain.Topics.
func (t *Topics) Subscribe(topics ...domain.Topic) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range topics {
		if t.subscribers[topic] == nil {
			t.subscribers[topic] = map[chan struct{}]struct{}{}
		}
		t.subscribers[topic][wake] = struct{}{}
	}
	return wake, func() { t.unsubscribe(wake, topics) }
}

func (t *Topics) unsubscribe(wake chan struct{}, topics []domain.Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range topics {
		delete(t.subscribers[topic], wake)
		if len(t.subscribers[topic]) == 0 {
			delete(t.subscribers, topic)
		}
	}
}

// WakeOthers implements domain.Topics.
func (t *Topics) WakeOthers(topic domain.Topic) {
	t.pendingMu.Lock()
	t.pending[topic] = struct{}{}
	t.pendingMu.Unlock()
	select {
	case t.armed <- struct{}{}:
	default:
	}
}

func (t *Topics) wake(topics []domain.Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range topics {
		for c := range t.subscribers[topic] {
			nudge(c)
		}
	}
}

func (t *Topics) wakeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, subscribers := range t.subscribers {
		for c := range subscribers {
			nudge(c)
		}
	}
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// receive passes on what other replicas, and this one's own transactions, notify. A nil notification follows a lost connection: then
// anything may have been missed.
func (t *Topics) receive() {
	tick := time.NewTicker(safetyTick)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			t.wakeAll()
		case n, open := <-t.listener.Notify:
			if !open {
				return
			}
			if n == nil {
				t.wakeAll()
				continue
			}
			t.wake(t.parse(n.Extra))
		}
	}
}

// parse reads a payload: a topic, or "=origin" and topics, one a line.
func (t *Topics) parse(payload string) []domain.Topic {
	if !strings.HasPrefix(payload, "=") {
		return []domain.Topic{domain.Topic(payload)}
	}
	lines := strings.Split(payload[1:], "\n")
	if lines[0] == t.origin {
		return nil
	}
	topics := make([]domain.Topic, 0, len(lines)-1)
	for _, l := range lines[1:] {
		topics = append(topics, domain.Topic(l))
	}
	return topics
}

// send tells other replicas what changes often, at most once in the coalescing interval.
func (t *Topics) send() {
	for {
		select {
		case <-t.stop:
			return
		case <-t.armed:
		}
		pause := time.After(coalesce) // the time that sending takes is a part of it
		t.flush()
		select {
		case <-t.stop:
			return
		case <-pause:
		}
	}
}

func (t *Topics) flush() {
	t.pendingMu.Lock()
	topics := t.pending
	t.pending = map[domain.Topic]struct{}{}
	t.pendingMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	payload := "=" + t.origin
	for topic := range topics {
		if len(payload)+len(topic)+1 > maxPayload {
			t.notify(ctx, payload)
			payload = "=" + t.origin
		}
		payload += "\n" + string(topic)
	}
	if strings.Contains(payload, "\n") {
		t.notify(ctx, payload)
	}
}

// notify may fail with the connection. Others then notice by their safety tick, or by the nil that follows their own reconnect.
func (t *Topics) notify(ctx context.Context, payload string) {
	_, _ = t.db.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, payload)
}
