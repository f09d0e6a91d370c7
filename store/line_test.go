package store

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store/storetest"
)

// wire is a network to the database that can go silent without an error, or be cut.
type wire struct {
	t        *testing.T
	listener net.Listener
	backend  func() (net.Conn, error)
	cut      atomic.Bool
	made     atomic.Int64

	mu      sync.Mutex
	conns   []net.Conn
	silence chan struct{} // closed: data on the connections made so far is lost
	group   sync.WaitGroup
}

func newWire(t *testing.T, dsn string) (w *wire, through string) {
	cfg, err := pq.NewConfig(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w = &wire{t: t, listener: listener, silence: make(chan struct{}), backend: func() (net.Conn, error) {
		if cfg.Host != "" && cfg.Host[0] == '/' {
			return net.Dial("unix", fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port))
		}
		return net.Dial("tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)))
	}}
	w.group.Go(w.accept)
	t.Cleanup(w.close)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: listener.Addr().String(), Path: "/" + cfg.Database, RawQuery: "sslmode=disable"}
	return w, u.String()
}

func (w *wire) accept() {
	for {
		front, err := w.listener.Accept()
		if err != nil {
			return
		}
		back, err := w.backend()
		if err != nil || w.cut.Load() {
			_ = front.Close()
			continue
		}
		w.made.Add(1)
		w.mu.Lock()
		silence := w.silence
		w.conns = append(w.conns, front, back)
		w.mu.Unlock()
		w.group.Go(func() { w.carry(front, back, silence) })
		w.group.Go(func() { w.carry(back, front, silence) })
	}
}

func (w *wire) carry(from, to net.Conn, silence <-chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-silence:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// fallSilent loses all data on the existing connections.
func (w *wire) fallSilent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.silence)
	w.silence = make(chan struct{})
}

// sever closes the existing connections, and refuses others while cut is set.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.sever()
	w.group.Wait()
}

func topics(t *testing.T, dsn string, ping time.Duration) *Topics {
	db, err := connect(dsn, appRole, 2)
	require.NoError(t, err)
	found, err := listen(dsn, db, ping)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = found.close()
		require.NoError(t, db.Close())
	})
	return found
}

func awoken(t *testing.T, wake <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nobody was woken", what)
	}
}

// TestASilentNetworkIsNoticed: notifications lost on a silent connection are recovered.
func TestASilentNetworkIsNoticed(t *testing.T) {
	dsn := storetest.Database(t, Migrate)
	w, through := newWire(t, dsn)
	here, there := topics(t, through, 100*time.Millisecond), topics(t, dsn, pingEvery)
	wake, stop := here.Subscribe("log:1")
	defer stop()
	there.WakeOthers("log:1")
	awoken(t, wake, "while the network works")
	w.fallSilent()
	there.WakeOthers("log:1")
	awoken(t, wake, "after the silence")
	made := w.made.Load()
	require.Eventually(t, func() bool {
		there.WakeOthers("log:1")
		select {
		case <-wake:
			return true
		case <-time.After(200 * time.Millisecond):
			return false
		}
	}, 20*time.Second, time.Millisecond, "notifications come again")
	require.LessOrEqual(t, w.made.Load()-made, int64(1), "a connection that answers is kept")
}

// TestATopicOutlivesTheDatabasesAbsence: other replicas are notified as soon as the database is
// back.
func TestATopicOutlivesTheDatabasesAbsence(t *testing.T) {
	dsn := storetest.Database(t, Migrate)
	w, through := newWire(t, dsn)
	here, there := topics(t, through, pingEvery), topics(t, dsn, pingEvery)
	wake, stop := there.Subscribe(domain.Topic("log:1"))
	defer stop()
	w.cut.Store(true)
	w.sever()
	here.WakeOthers("log:1")
	require.Eventually(t, func() bool { return len(here.armed) == 0 }, 10*time.Second, time.Millisecond, "it is being sent")
	require.Eventually(t, func() bool {
		here.pendingMu.Lock()
		defer here.pendingMu.Unlock()
		return len(here.pending) == 1 && len(here.armed) == 1
	}, 10*time.Second, time.Millisecond, "what was not sent is kept")
	require.Empty(t, wake)
	w.cut.Store(false)
	awoken(t, wake, "when the database is back")
}
