package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// two opens two replicas on one database, with one workspace.
func two(t testing.TB) (here, there *store.Store, scope domain.Scope) {
	here, dsn := openDSN(t)
	return here, connect(t, dsn), newTenant(t, here, "one").admin
}

func notify(t testing.TB, s *store.Store, scope domain.Scope, topics ...domain.Topic) {
	in(t, s, scope, func(_ context.Context, tx *store.Tx) error {
		tx.Notify(topics...)
		return nil
	})
}

// settled waits until all earlier notifications have arrived at the store; they arrive in order.
// The mark comes from another store, since a store wakes its own subscribers at once.
func settled(t testing.TB, from, at *store.Store, scope domain.Scope) {
	t.Helper()
	require.NotSame(t, from, at)
	mark := domain.Topic(fmt.Sprintf("mark:%d", time.Now().UnixNano()))
	wake, stop := at.Topics().Subscribe(mark)
	defer stop()
	notify(t, from, scope, mark)
	woken(t, wake, "the mark")
}

func TestAChangeWakesEveryReplica(t *testing.T) {
	here, there, scope := two(t)
	for name, s := range map[string]*store.Store{"here": here, "there": there} {
		wake, stop := s.Topics().Subscribe("a", "b")
		defer stop()
		other, stopOther := s.Topics().Subscribe("c")
		defer stopOther()
		notify(t, here, scope, "a")
		woken(t, wake, name)
		notify(t, here, scope, "b")
		woken(t, wake, name+", the second topic")
		settled(t, here, there, scope)
		settled(t, there, here, scope)
		require.Empty(t, other, "another topic's subscriber is left alone")
	}
}

// A change wakes the subscribers of its own replica once, as it commits: its notification does not
// wake them again.
func TestAChangeWakesItsOwnReplicaOnce(t *testing.T) {
	here, there, scope := two(t)
	near, stop := here.Topics().Subscribe("a")
	defer stop()
	far, stopFar := there.Topics().Subscribe("a")
	defer stopFar()
	notify(t, here, scope, "a", "b", "a")
	woken(t, near, "here")
	woken(t, far, "there")
	settled(t, there, here, scope)
	require.Empty(t, near)
}

func TestNothingWakesBeforeTheCommitOrAfterARollback(t *testing.T) {
	here, there, scope := two(t)
	near, stop := here.Topics().Subscribe("a")
	defer stop()
	far, stopFar := there.Topics().Subscribe("a")
	defer stopFar()
	err := here.In(t.Context(), scope, func(tx *store.Tx) error {
		tx.Notify("a")
		settled(t, here, there, scope)
		settled(t, there, here, scope)
		require.Empty(t, near)
		require.Empty(t, far)
		return errMine
	})
	require.ErrorIs(t, err, errMine)
	settled(t, here, there, scope)
	settled(t, there, here, scope)
	require.Empty(t, near)
	require.Empty(t, far)
}

func TestWakeUpsCoalesce(t *testing.T) {
	here, there, scope := two(t)
	slow, stop := there.Topics().Subscribe("a")
	defer stop()
	quick, stopQuick := there.Topics().Subscribe("a")
	defer stopQuick()
	for range 50 {
		notify(t, here, scope, "a", "a", "a")
		woken(t, quick, "each change")
	}
	settled(t, here, there, scope)
	woken(t, slow, "all of them")
	require.Empty(t, slow, "one wake-up stands for all that were missed")
}

func TestAnUnsubscribedChannelStaysSilent(t *testing.T) {
	here, there, scope := two(t)
	gone, stop := there.Topics().Subscribe("a", "b")
	stays, stopStays := there.Topics().Subscribe("a")
	defer stopStays()
	stop()
	stop() // a second call is harmless
	notify(t, here, scope, "a", "b")
	woken(t, stays, "who is left")
	settled(t, here, there, scope)
	require.Empty(t, gone)
}

// TestWakeOthers wakes the other replicas' subscribers soon, and not its own, which Wake has woken.
func TestWakeOthers(t *testing.T) {
	here, there, scope := two(t)
	own, stop := here.Topics().Subscribe("log:1")
	defer stop()
	others, stopOthers := there.Topics().Subscribe("log:1")
	defer stopOthers()
	began := time.Now()
	here.Topics().WakeOthers("log:1")
	woken(t, others, "another replica")
	require.Less(t, time.Since(began), 10*time.Second, "far below the safety tick")
	settled(t, there, here, scope)
	require.Empty(t, own)
}

// TestWakeOthersIsBounded: however often logs grow, few notifications are sent. None of thousands
// of topics is lost.
func TestWakeOthersIsBounded(t *testing.T) {
	here, dsn := openDSN(t)
	there := connect(t, dsn)
	scope := newTenant(t, here, "one").admin
	const topics = 3000
	wakes := make([]<-chan struct{}, topics)
	name := func(i int) domain.Topic { return domain.Topic("log:" + strings.Repeat("x", 30) + fmt.Sprint(i)) }
	for i := range wakes {
		wake, stop := there.Topics().Subscribe(name(i))
		defer stop()
		wakes[i] = wake
	}
	counted, stop := there.Topics().Subscribe("log:many")
	defer stop()
	began := time.Now()
	for i := range topics {
		here.Topics().WakeOthers(name(i))
	}
	for i, wake := range wakes {
		woken(t, wake, fmt.Sprint(i))
	}
	seen := 0
	for time.Since(began) < 200*time.Millisecond || seen == 0 {
		here.Topics().WakeOthers("log:many")
		select {
		case <-counted:
			seen++
		default:
		}
	}
	settled(t, here, there, scope)
	require.LessOrEqual(t, seen, 2+int(time.Since(began)/(50*time.Millisecond)))
}

// TestALostConnectionWakesEveryone: notifications may have been lost meanwhile.
func TestALostConnectionWakesEveryone(t *testing.T) {
	here, there, scope := two(t)
	var wakes []<-chan struct{}
	for _, s := range []*store.Store{here, there} {
		for _, topic := range []domain.Topic{"a", "b"} {
			wake, stop := s.Topics().Subscribe(topic)
			defer stop()
			wakes = append(wakes, wake)
		}
	}
	storetest.Restart(t)
	for _, wake := range wakes {
		woken(t, wake, "after the restart")
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		wake, stop := there.Topics().Subscribe("c")
		defer stop()
		notify(t, here, scope, "c")
		select {
		case <-wake:
		case <-time.After(2 * time.Second):
			c.Errorf("notifications do not come through again")
		}
	}, 30*time.Second, 10*time.Millisecond)
}

func TestAClosedStoreLeavesNothingBehind(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	before := goleak.IgnoreCurrent()
	s, err := store.Open(t.Context(), dsn, store.Options{MaxConns: 3})
	require.NoError(t, err)
	w := &tenant{t: t, store: s, admin: domain.SystemScope("ws_1", "a test")}
	w.fill(3)
	require.Equal(t, 3, s.Connections())
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, s.Close())
	goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before)...)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	_, err := store.Open(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable&connect_timeout=2", store.Options{})
	require.ErrorContains(t, err, "the database does not answer")
	_, err = store.Open(t.Context(), "postgres://%zz", store.Options{})
	require.ErrorContains(t, err, "the database's address")
	require.ErrorContains(t, store.Migrate(t.Context(), "postgres://%zz"), "the database's address")
}
