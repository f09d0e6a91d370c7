package worker

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

func TestAHeartbeatThatIsNotAnsweredCostsNoLease(t *testing.T) {
	c := newControl(t)
	c.lease, c.beat = 6*time.Second, 500*time.Millisecond
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; exec sleep 1000"})
	pid := c.pids("att_1", 1)[0]
	c.hanging.Store(1)
	until := time.Now().Add(c.lease)
	waitFor(t, func() bool { return time.Now().After(until) })
	require.False(t, gone(pid))
	require.Equal(t, 1, c.hellos, "the session has ended, and there was no need")
	c.cancel("att_1")
	require.Equal(t, agent.ReasonCancelled, c.exited("att_1").Reason)
}

// shimEnds returns a link and the shim's end of it.
func shimEnds(t *testing.T) (*link, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return newLink(ends[0], nil), ends[1]
}

// orders reads the orders to a shim, and the files that come with them.
func orders(t *testing.T, theirs *net.UnixConn) func() shim.Order {
	in := shim.NewLineReader(func(p, oob []byte) (int, int, error) {
		n, oobn, _, _, err := theirs.ReadMsgUnix(p, oob)
		return n, oobn, err
	})
	t.Cleanup(func() {
		for _, fd := range in.TakeFiles() {
			unix.Close(fd)
		}
	})
	return func() (o shim.Order) {
		t.Helper()
		require.NoError(t, theirs.SetReadDeadline(time.Now().Add(waitLimit)))
		for {
			found, err := in.Next(&o)
			require.NoError(t, err)
			if found {
				return o
			}
			require.NoError(t, in.Read())
		}
	}
}

// alone returns a worker without a control plane, with one idle shim.
func alone(t *testing.T, idle *link) *worker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{
		options: Options{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler), attempts: map[string]*attempt{}, starting: map[string]bool{},
		ship: newQueue(), reports: newQueue(), sweep: make(chan struct{}, 1), ctx: ctx,
	}
	for _, dir := range []string{w.attemptsDir(), w.trashDir()} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	w.pool = newPool([]string{"/bin/false"}, filepath.Join(w.options.Dir, "shim.log"), 1, w.log)
	w.pool.idle = []*link{idle}
	t.Cleanup(func() {
		cancel()
		w.supervised.Wait()
		w.closeAll()
	})
	return w
}

// fill sends a shim orders until its socket is full, and returns how many it sent.
func fill(t *testing.T, l *link) (n int) {
	t.Helper()
	line := shim.EncodeLine(shim.Order{Room: true})
	for ; ; n++ {
		require.NoError(t, l.conn.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		if written, _, err := l.conn.WriteMsgUnix(line, nil, nil); err != nil {
			require.Zero(t, written)
			return n
		}
	}
}

// TestALeaseRenewedDuringAStartReachesTheShim: the renewal comes while the start order of a not yet
// listed attempt is sent.
func TestALeaseRenewedDuringAStartReachesTheShim(t *testing.T) {
	idle, theirs := shimEnds(t)
	w := alone(t, idle)
	w.setLease(1000)
	waiting := fill(t, idle)
	started := make(chan error, 1)
	go func() { started <- w.start(agent.Attempt{ID: "att_1", Command: "true"}) }()
	waitFor(t, func() bool {
		if idle.mu.TryLock() {
			idle.mu.Unlock()
			return false
		}
		return true
	})
	w.setLease(2000)
	next := orders(t, theirs)
	for range waiting {
		require.True(t, next().Room)
	}
	require.Equal(t, int64(1000), next().Start.KillAt)
	require.Equal(t, int64(2000), next().KillAt)
	require.NoError(t, <-started)
}

// TestAKillThatWasLostIsSentAgain: the control plane repeats at every heartbeat which attempts to
// forget.
func TestAKillThatWasLostIsSentAgain(t *testing.T) {
	gone, _ := shimEnds(t)
	l, theirs := shimEnds(t)
	w := alone(t, l)
	a := newAttempt(filepath.Join(w.attemptsDir(), "att_1"), shim.Spec{Attempt: agent.Attempt{ID: "att_1"}})
	gone.detach()
	a.setLink(gone)
	w.forget(a)
	a.setLink(l)
	w.forget(a)
	require.True(t, orders(t, theirs)().Kill)
	l.detach()
}

// TestAnAgentThatIsLeftAloneEnds: nothing else would stop the agent of a machine without a server.
func TestAnAgentThatIsLeftAloneEnds(t *testing.T) {
	o := newControl(t).options()
	o.Server, o.Alone = "http://127.0.0.1:1", time.Millisecond
	err := Run(t.Context(), o)
	require.ErrorContains(t, err, "has not answered for 1ms; this agent ends")
}

// TestAnAgentWhoseDirectoryIsRemovedEnds: it could start no attempt, but would still receive them.
func TestAnAgentWhoseDirectoryIsRemovedEnds(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	o := c.options()
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), o) }()
	c.session()
	require.NoError(t, os.Rename(o.Dir, o.Dir+".gone"))
	require.ErrorContains(t, <-ended, "was removed while it ran")
}
