package fault_test

import (
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// wire is the network between an agent and the platform. It can be cut, and it can swallow data.
type wire struct {
	t      testing.TB
	target string
	addr   string

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	still map[bool]chan struct{} // closed when a direction moves again; true is towards the platform
	after int64                  // bytes in a direction after which a connection is cut; 0 is never
	cuts  int
}

func newWire(t testing.TB, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{t: t, target: target, addr: "http://" + l.Addr().String(), open: map[net.Conn]struct{}{}, still: map[bool]chan struct{}{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.flow()
		w.cut()
		serving.Wait()
	})
	return w
}

func (w *wire) carry(agent net.Conn) {
	w.mu.Lock()
	target := w.target
	w.mu.Unlock()
	platform, err := net.Dial("tcp", target)
	if err != nil {
		_ = agent.Close()
		return
	}
	w.mu.Lock()
	w.open[agent], w.open[platform] = struct{}{}, struct{}{}
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.copy(platform, agent, true) })
	both.Go(func() { w.copy(agent, platform, false) })
	both.Wait()
	w.mu.Lock()
	delete(w.open, agent)
	delete(w.open, platform)
	w.mu.Unlock()
}

// copy moves bytes in one direction until the connection ends, and then closes both ends.
func (w *wire) copy(to, from net.Conn, up bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
	}()
	var carried int64
	buffer := make([]byte, 8<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		still, after := w.still[up], w.after
		w.mu.Unlock()
		if still != nil {
			<-still
			return // the data and the connection are lost
		}
		if after > 0 && carried+int64(n) > after {
			_, _ = to.Write(buffer[:max(0, after-carried)])
			w.mu.Lock()
			w.cuts++
			w.mu.Unlock()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		carried += int64(n)
	}
}

// lead sends new connections to another server, as a load balancer does.
func (w *wire) lead(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = target
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		_ = c.Close()
	}
}

// cutAfter cuts every connection after n bytes in one direction; 0 stops that.
func (w *wire) cutAfter(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = n
}

// swallow drops all data in the given directions. Neither end notices.
func (w *wire) swallow(up, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for direction, stop := range map[bool]bool{true: up, false: down} {
		if stop {
			w.still[direction] = make(chan struct{})
		}
	}
}

// flow stops swallowing, for new connections.
func (w *wire) flow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for direction, still := range w.still {
		close(still)
		delete(w.still, direction)
	}
}

func (w *wire) wasCut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts
}

// onWire starts a platform whose agent reaches it over a wire.
func onWire(t *testing.T) (*harness.Platform, *wire) {
	p := harness.NewPlatform(t, harness.Options{NoAgent: true})
	w := newWire(t, strings.TrimPrefix(p.Servers[0].URL, "http://"))
	p.AgentByHand(w.addr)
	return p, w
}

// finish opens the gate and requires one attempt with a complete log.
func finish(t *testing.T, p *harness.Platform, w harness.Work, run string, reader *harness.Follower) {
	t.Helper()
	w.Release(t)
	require.Len(t, p.RequireTrueEnd(run, "success"), 1)
	w.RequireOneAtATime(t)
	end := w.Events(t, "end")[0]
	got, again := reader.End(t), p.ReadLog(run, 1, harness.NewCheck("", w.Name))
	require.Equal(t, end.Bytes, got.N)
	require.Equal(t, end.SHA256, got.SHA256())
	require.Equal(t, end.SHA256, again.SHA256())
	require.Zero(t, reader.Breaks.Load(), "the reader's own connection must not break")
}

// TestConnectionCutAgainAndAgain: no byte is lost or doubled, wherever in a message the agent's
// connection breaks.
func TestConnectionCutAgainAndAgain(t *testing.T) {
	t.Parallel()
	p, wire := onWire(t)
	w := steady(p, "cut")
	w.Block = 40 << 10
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	p.AwaitAttempt(run, 1, "running")
	reader := p.Follow(run, 1, harness.NewCheck("", w.Name))
	for i, at := range []int64{9_000, 70_001, 262_144, 500_007} {
		wire.cutAfter(at)
		before := reader.BytesRead.Load()
		harness.Await(t, "a connection is cut", func() bool { return wire.wasCut() > 2*i })
		wire.cutAfter(0)
		reader.AwaitRead(t, before+100<<10)
	}
	finish(t, p, w, run, reader)
}

// TestNetworkSwallows: the network drops all data in both directions or in one, without an error at
// either end.
func TestNetworkSwallows(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string][2]bool{"everything": {true, true}, "what the agent says": {true, false}, "what the platform answers": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, wire := onWire(t)
			w := steady(p, "swallowed")
			run := p.StartRun(p.CreateJob(w.Spec(0)))
			a := p.AwaitAttempt(run, 1, "running")
			reader := p.Follow(run, 1, harness.NewCheck("", w.Name))
			reader.AwaitRead(t, 40<<10)
			wire.swallow(direction[0], direction[1])
			p.AwaitAgent("disconnected")
			pids, _ := harness.ProcessesOf(a.ID)
			require.NotEmpty(t, pids, "the process goes on while the lease runs")
			heard := reader.BytesRead.Load()
			require.Greater(t, w.Written(1), heard, "it writes on")
			wire.flow()
			reader.AwaitRead(t, heard+100<<10)
			finish(t, p, w, run, reader)
		})
	}
}

// TestFailover: a replica is killed and does not come back. Its agent connects to the other one,
// and readers there notice nothing.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Replicas: 2, NoAgent: true})
	wire := newWire(t, strings.TrimPrefix(p.Servers[0].URL, "http://"))
	p.AgentByHand(wire.addr)
	w := steady(p, "failover")
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	p.AwaitAttempt(run, 1, "running")
	reader := p.Follow(run, 1, harness.NewCheck("", w.Name))
	reader.AwaitRead(t, 40<<10)
	wire.lead(strings.TrimPrefix(p.Servers[1].URL, "http://"))
	p.Servers[0].Signal(syscall.SIGKILL)
	reader.AwaitRead(t, reader.BytesRead.Load()+100<<10)
	next := steady(p, "next")
	after := p.StartRun(p.CreateJob(next.Spec(0)))
	p.AwaitAttempt(after, 1, "running")
	next.Release(t)
	p.RequireTrueEnd(after, "success")
	finish(t, p, w, run, reader)
}

// TestHelloTellsWhatRuns: the platform misses a process's start because the connection broke. The
// next hello reports it.
func TestHelloTellsWhatRuns(t *testing.T) {
	t.Parallel()
	p, wire := onWire(t)
	w := steady(p, "unheard")
	wire.swallow(true, false)
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	harness.Await(t, "the process has started", func() bool { return len(w.Events(t, "start")) > 0 })
	require.Equal(t, "starting", p.Attempts(run)[0].Status)
	wire.flow()
	wire.cut()
	a := p.AwaitAttempt(run, 1, "running")
	require.Equal(t, "running", p.RunRow(run).Status)
	require.NotNil(t, a.StartedAt)
	finish(t, p, w, run, p.Follow(run, 1, harness.NewCheck("", w.Name)))
}
