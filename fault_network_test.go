package main_test

import (
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire is the network between an agent and the platform: it can be cut, and it can swallow what is sent on it.
type wire struct {
	t      testing.TB
	target string
	addr   string

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	still map[bool]chan struct{} // closed when a direction moves again; true is towards the platform
	after int64                  // bytes after which a connection is cut, in either direction; 0 is never
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

// copy moves bytes in one direction until the connection ends, and then ends all of it.
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
			return // what was on its way is lost, and the connection with it
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

// lead makes new connections go to another server, as a load balancer does.
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

// cutAfter ends every connection after so many bytes in one direction; 0 stops that.
func (w *wire) cutAfter(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = n
}

// swallow lets nothing through any more in the directions given, and neither end notices.
func (w *wire) swallow(up, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for direction, stop := range map[bool]bool{true: up, false: down} {
		if stop {
			w.still[direction] = make(chan struct{})
		}
	}
}

// flow ends what swallow began, for new connections.
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

// onWire is a platform whose agent reaches it over a wire.
func onWire(t *testing.T) (*platform, *wire) {
	p := newPlatform(t, options{noAgent: true})
	w := newWire(t, strings.TrimPrefix(p.servers[0].url, "http://"))
	p.agentByHand(w.addr)
	return p, w
}

// finish opens the gate and holds that the one attempt's log is what it wrote.
func finish(t *testing.T, p *platform, w work, run string, reader *follower) {
	t.Helper()
	w.release(t)
	require.Len(t, p.requireTrueEnd(run, "success"), 1)
	w.requireOneAtATime(t)
	end := w.events(t, "end")[0]
	got, again := reader.end(t), p.readLog(run, 1, newCheck("", w.name))
	require.Equal(t, end.Bytes, got.n)
	require.Equal(t, end.SHA256, got.SHA256())
	require.Equal(t, end.SHA256, again.SHA256())
	require.Zero(t, reader.breaks.Load(), "the reader is on no wire that breaks")
}

// TestConnectionCutAgainAndAgain: wherever in a message the agent's connection breaks, no byte is lost or doubled.
func TestConnectionCutAgainAndAgain(t *testing.T) {
	t.Parallel()
	p, wire := onWire(t)
	w := steady(p, "cut")
	w.block = 40 << 10
	run := p.run(p.job(w.spec(0)))
	p.awaitAttempt(run, 1, "running")
	reader := p.follow(run, 1, newCheck("", w.name))
	for i, at := range []int64{9_000, 70_001, 262_144, 500_007} {
		wire.cutAfter(at)
		before := reader.read.Load()
		await(t, "a connection is cut", func() bool { return wire.wasCut() > 2*i })
		wire.cutAfter(0)
		reader.awaitRead(t, before+100<<10)
	}
	finish(t, p, w, run, reader)
}

// TestNetworkSwallows: a network that lets nothing through in both directions, or in one, and tells nobody.
func TestNetworkSwallows(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string][2]bool{"everything": {true, true}, "what the agent says": {true, false}, "what the platform answers": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, wire := onWire(t)
			w := steady(p, "swallowed")
			run := p.run(p.job(w.spec(0)))
			a := p.awaitAttempt(run, 1, "running")
			reader := p.follow(run, 1, newCheck("", w.name))
			reader.awaitRead(t, 40<<10)
			wire.swallow(direction[0], direction[1])
			p.awaitAgent("disconnected")
			pids, _ := ofAttempt(a.ID)
			require.NotEmpty(t, pids, "the process goes on while the lease runs")
			heard := reader.read.Load()
			require.Greater(t, w.written(1), heard, "it writes on")
			wire.flow()
			reader.awaitRead(t, heard+100<<10)
			finish(t, p, w, run, reader)
		})
	}
}

// TestFailover: a replica is killed and does not come back. Its agent finds the other one, and whoever reads there notices nothing.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{replicas: 2, noAgent: true})
	wire := newWire(t, strings.TrimPrefix(p.servers[0].url, "http://"))
	p.agentByHand(wire.addr)
	w := steady(p, "failover")
	run := p.run(p.job(w.spec(0)))
	p.awaitAttempt(run, 1, "running")
	reader := p.follow(run, 1, newCheck("", w.name))
	reader.awaitRead(t, 40<<10)
	wire.lead(strings.TrimPrefix(p.servers[1].url, "http://"))
	p.servers[0].signal(syscall.SIGKILL)
	reader.awaitRead(t, reader.read.Load()+100<<10)
	next := steady(p, "next")
	after := p.run(p.job(next.spec(0)))
	p.awaitAttempt(after, 1, "running")
	next.release(t)
	p.requireTrueEnd(after, "success")
	finish(t, p, w, run, reader)
}

// TestHelloTellsWhatRuns: a process whose start the platform has not heard of, because the connection broke, is known after the next one.
func TestHelloTellsWhatRuns(t *testing.T) {
	t.Parallel()
	p, wire := onWire(t)
	w := steady(p, "unheard")
	wire.swallow(true, false)
	run := p.run(p.job(w.spec(0)))
	await(t, "the process has started", func() bool { return len(w.events(t, "start")) > 0 })
	require.Equal(t, "starting", p.attempts(run)[0].Status)
	wire.flow()
	wire.cut()
	a := p.awaitAttempt(run, 1, "running")
	require.Equal(t, "running", p.runRow(run).Status)
	require.NotNil(t, a.StartedAt)
	finish(t, p, w, run, p.follow(run, 1, newCheck("", w.name)))
}
