package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
)

// channel is the only channel of notifications. The payload is a topic, or "=", the replica that
// sent it, and its topics, one a line.
const channel = "millpond"

// Intervals of notifications.
const (
	coalesce     = 40 * time.Millisecond // between two NOTIFYs of frequent changes
	safetyTick   = 30 * time.Second      // after which all subscribers wake, in case a notification was lost
	pingEvery    = 10 * time.Second      // between two checks of the listening connection
	pingTime     = 5 * time.Second       // for the answer of a check
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
	maxPayload   = 7000 // bytes; PostgreSQL takes 8,000
)

// Topics fans wake-ups out to the subscribers of this replica. It implements domain.Topics.
type Topics struct {
	origin   string // distinguishes this replica's own notifications from others'
	db       *sqlx.DB
	listener *pq.Listener
	line     *line // the listener's connection
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu          sync.Mutex
	subscribers map[domain.Topic]map[chan struct{}]struct{}

	doubtful atomic.Int64 // until when this replica heeds its own notifications, in Unix nanoseconds

	pendingMu sync.Mutex
	pending   map[domain.Topic]struct{}
	armed     chan struct{}
}

var _ domain.Topics = (*Topics)(nil)

func listen(dsn string, db *sqlx.DB, ping time.Duration) (*Topics, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	t := &Topics{
		origin: hex.EncodeToString(id[:]), db: db, stop: make(chan struct{}), armed: make(chan struct{}, 1),
		subscribers: map[domain.Topic]map[chan struct{}]struct{}{}, pending: map[domain.Topic]struct{}{}, line: &line{},
	}
	t.listener = pq.NewDialListener(t.line, dsn, minReconnect, maxReconnect, nil)
	if err := t.listener.Listen(channel); err != nil {
		_ = t.listener.Close()
		return nil, err
	}
	t.stopped.Go(t.receive)
	t.stopped.Go(t.send)
	t.stopped.Go(func() { t.ping(ping) })
	return t, nil
}

func (t *Topics) close() error {
	close(t.stop)
	t.line.expire(time.Now()) // a waiting ping would delay the listener's end
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

// Wake implements domain.Topics.
func (t *Topics) Wake(topic domain.Topic) { t.wake([]domain.Topic{topic}) }

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

// receive forwards notifications of other replicas. A nil notification follows a lost connection:
// then notifications may be lost.
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

// doubt says that the answer of a commit was lost. If it is committed later than its subscribers
// look, its own notification wakes them.
func (t *Topics) doubt() { t.doubtful.Store(time.Now().Add(safetyTick).UnixNano()) }

// parse reads a payload. It returns nil for one of this replica, whose subscribers were woken when
// it was sent.
func (t *Topics) parse(payload string) []domain.Topic {
	if !strings.HasPrefix(payload, "=") {
		return []domain.Topic{domain.Topic(payload)}
	}
	lines := strings.Split(payload[1:], "\n")
	if lines[0] == t.origin && time.Now().UnixNano() > t.doubtful.Load() {
		return nil
	}
	topics := make([]domain.Topic, 0, len(lines)-1)
	for _, l := range lines[1:] {
		topics = append(topics, domain.Topic(l))
	}
	return topics
}

// send notifies other replicas of frequent changes, at most once per coalescing interval. The
// interval grows while the database does not accept notifications.
func (t *Topics) send() {
	interval := coalesce
	for {
		select {
		case <-t.stop:
			return
		case <-t.armed:
		}
		pause := time.After(interval) // includes the time that sending takes
		if t.flush() {
			interval = coalesce
		} else {
			interval = min(2*interval, maxReconnect)
			nudge(t.armed)
		}
		select {
		case <-t.stop:
			return
		case <-pause:
		}
	}
}

// flush sends the pending topics. On failure the unsent ones stay pending, and flush returns false.
func (t *Topics) flush() bool {
	t.pendingMu.Lock()
	topics := slices.Collect(maps.Keys(t.pending))
	clear(t.pending)
	t.pendingMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
	defer cancel()
	for len(topics) > 0 {
		payload, n := t.payload(topics)
		if _, err := t.db.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, payload); err != nil {
			t.requeue(topics)
			return false
		}
		topics = topics[n:]
	}
	return true
}

// payload is a notification of the first n topics: as many as fit, and at least one.
func (t *Topics) payload(topics []domain.Topic) (payload string, n int) {
	payload = "=" + t.origin
	for n < len(topics) && (n == 0 || len(payload)+len(topics[n])+1 <= maxPayload) {
		payload += "\n" + string(topics[n])
		n++
	}
	return payload, n
}

func (t *Topics) requeue(topics []domain.Topic) {
	t.pendingMu.Lock()
	defer t.pendingMu.Unlock()
	for _, topic := range topics {
		t.pending[topic] = struct{}{}
	}
}
