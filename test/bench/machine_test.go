package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
)

const machineRepeats = 10

// BenchmarkMachine measures a local machine as a client sees it. It measures from the start request
// until the agent is connected, and from the stop request until nothing is left. The reference is
// an agent started by hand: from its start to its connection, and from SIGTERM to its end.
func BenchmarkMachine(b *testing.B) {
	p := newPlatform(b, 0)
	var made struct{ ID string }
	require.NoError(b, p.do(http.MethodPost, "/compute", map[string]string{"name": "bench", "flavor": "cpu.1"}, &made))
	path := "/compute/" + made.ID
	var ready, gone, bareReady, bareGone sample
	for i := range machineRepeats + 1 {
		started := p.machineUntil(path, "start", "running")
		stopped := p.machineUntil(path, "stop", "stopped")
		up, down := p.bareAgent()
		if i == 0 { // the first start pins the image
			b.ReportMetric(ms(started), "first-start-ms")
			continue
		}
		ready, gone, bareReady, bareGone = append(ready, started), append(gone, stopped), append(bareReady, up), append(bareGone, down)
	}
	b.ReportMetric(ms(ready.median()), "ready-ms")
	b.ReportMetric(ms(bareReady.median()), "bare-ready-ms")
	b.ReportMetric(float64(ready.median())/float64(bareReady.median()), "ready-ratio")
	b.ReportMetric(ms(gone.median()), "gone-ms")
	b.ReportMetric(ms(bareGone.median()), "bare-gone-ms")
	b.ReportMetric(float64(gone.median())/float64(bareGone.median()), "gone-ratio")
	quiet(b)
}

// machineUntil sends a request for the verb, waits for the status, and returns the time that it
// took.
func (p *platform) machineUntil(path, verb, status string) time.Duration {
	p.b.Helper()
	start := time.Now()
	require.NoError(p.b, p.do(http.MethodPost, path+"/"+verb, nil, nil))
	var m struct{ Status, State, Message string } // instances have a status, warehouses a state
	await(p.b, "the machine is "+status, 2*time.Millisecond, func() bool {
		require.NoError(p.b, p.do(http.MethodGet, path, nil, &m))
		require.NotEqual(p.b, "failed", m.Status+m.State, m.Message)
		return m.Status+m.State == status
	})
	return time.Since(start)
}

// bareAgent starts the workspace's agent by hand, ends it, and returns both times.
func (p *platform) bareAgent() (up, down time.Duration) {
	p.b.Helper()
	agent := func() (status string) {
		var all struct{ Data []struct{ Status string } }
		require.NoError(p.b, p.do(http.MethodGet, "/settings/agents", nil, &all))
		return all.Data[0].Status
	}
	cmd := exec.Command(binary(p.b), "agent", "--server", p.url, "--token-file", filepath.Join(p.dir, "agent.token"), "--data-dir", filepath.Join(p.dir, "bare"))
	log, err := os.OpenFile(filepath.Join(p.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.b, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	start := time.Now()
	require.NoError(p.b, cmd.Start())
	await(p.b, "the agent connects", 2*time.Millisecond, func() bool { return agent() == "connected" })
	up = time.Since(start)
	start = time.Now()
	require.NoError(p.b, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // the exit status does not matter
	down = time.Since(start)
	await(p.b, "the agent has gone", 2*time.Millisecond, func() bool { return agent() != "connected" })
	return up, down
}

// counted counts the reconciler's transactions and queries of due machines.
type counted struct {
	store.Transactor
	machine.System
	queries *atomic.Int64
}

func (c counted) In(ctx context.Context, s domain.Scope, fn func(*store.Tx) error) error {
	c.queries.Add(1)
	return c.Transactor.In(ctx, s, fn)
}

func (c counted) DueMachines(ctx context.Context, p []machine.ProviderKind, host string, limit int) ([]machine.Due, error) {
	c.queries.Add(1)
	return c.System.DueMachines(ctx, p, host, limit)
}

// The parameters of BenchmarkMachinesAtRest. lookEvery wakes the reconciler when nothing else does.
const (
	lookEvery   = 30 * time.Second
	restMinutes = 1
	restLooks   = 200
)

// BenchmarkMachinesAtRest measures the reconciler with idle running machines of a simulated
// provider. The figures are its queries in a minute, woken as the server wakes it, the time of one
// tick, and its share of a core. The reports of the machines' agents are not included. Five hundred
// machines must cost far less than five hundred times one machine.
func BenchmarkMachinesAtRest(b *testing.B) {
	p := newPlatform(b, 0, "--no-local-machines")
	var one time.Duration
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			f := newSimulatedFleet(b, p, n)
			f.queries.Store(0)
			used := cpuUsed()
			f.live(b, restMinutes*time.Minute)
			used = cpuUsed() - used
			queries := f.queries.Load()
			before := cpuUsed()
			for range restLooks {
				f.tick(b)
			}
			look := (cpuUsed() - before) / restLooks
			if n == 1 {
				one = look
			}
			b.ReportMetric(float64(queries)/restMinutes, "queries/min")
			b.ReportMetric(100*float64(used)/float64(restMinutes*time.Minute), "%core")
			b.ReportMetric(float64(look.Microseconds()), "us-cpu/look")
			if n > 1 && one > 0 {
				b.ReportMetric(float64(look)/float64(one), "look-ratio-to-1")
				require.Less(b, float64(look)/float64(one), float64(n)/10)
			}
			b.ReportMetric(float64(f.took.Milliseconds())/float64(n), "start-ms/machine")
			quiet(b)
		})
	}
}

func (f simulatedFleet) tick(b *testing.B) (next time.Time) {
	next, err := f.reconciler.Tick(b.Context())
	require.NoError(b, err)
	f.reconciler.Wait()
	return next
}

// live runs the reconciler for a time as the server does: when it is woken, and at an interval.
func (f simulatedFleet) live(b *testing.B, d time.Duration) {
	wake, stop := f.topics.Subscribe(domain.ReconcileTopic)
	defer stop()
	look, end := time.NewTicker(lookEvery), time.NewTimer(d)
	defer look.Stop()
	defer end.Stop()
	for {
		f.tick(b)
		select {
		case <-wake:
		case <-look.C:
		case <-end.C:
			return
		}
	}
}

func cpuUsed() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// simulatedFleet is a workspace with only running machines.
type simulatedFleet struct {
	reconciler *machine.Reconciler
	queries    *atomic.Int64
	topics     domain.Topics
	took       time.Duration // time to start all of them
}

func newSimulatedFleet(b *testing.B, p *platform, n int) simulatedFleet {
	s, err := store.Open(b.Context(), p.database, store.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	clock := domain.SystemClock{}
	provider := provisiontest.NewSimulated(provisiontest.Hooks{})
	providers := machine.Providers{machine.ProviderLocal: provider}
	instance := &setup.Instance{Store: s.System(), Clock: clock}
	ws, _, _, err := instance.CreateWorkspace(b.Context(), fmt.Sprintf("fleet of %d", n))
	require.NoError(b, err)
	runs := &job.Runs{Store: store.For[job.Tx](s), System: s.System(), Topics: s.Topics(), Clock: clock}
	agents := &job.Agents{Store: store.For[job.Tx](s), System: s.System(), Topics: s.Topics(), Clock: clock, Runs: runs, Lease: machine.DefaultLease, Replica: "bench"}
	keys, err := auth.NewKeys(b.Context(), s.System(), clock)
	require.NoError(b, err)
	f := simulatedFleet{queries: &atomic.Int64{}, topics: s.Topics()}
	c := counted{s, s.System(), f.queries}
	f.reconciler = &machine.Reconciler{
		Store: store.For[machine.Tx](c), System: c, Clock: clock, Topics: s.Topics(), Work: job.TaskWork{Runs: runs}, Providers: providers, Times: machine.DefaultTimes, Heartbeat: 10 * time.Second, Host: ws.Name,
		Server: p.url, Report: func(err error) { b.Error(err) },
	}
	machines := &machine.Machines{Kind: machine.KindCompute, Store: store.For[machine.Tx](s), Topics: s.Topics(), Clock: clock, Providers: providers}
	scope := domain.SystemScope(ws.ID, "benchmark")
	start := time.Now()
	for i := range n {
		m, err := machines.Create(b.Context(), scope, machine.NewMachine{Name: fmt.Sprint(i), Flavor: "cpu.1"}, domain.Idempotency{})
		require.NoError(b, err)
		_, err = machines.Start(b.Context(), scope, m.ID, domain.Idempotency{})
		require.NoError(b, err)
	}
	signIn := auth.NewService(s.System(), store.For[domain.Tx](s), keys, nil, clock)
	connected := map[string]bool{}
	connect := func(spec machine.Spec) {
		_, token, err := agents.Enroll(b.Context(), spec.Bootstrap)
		require.NoError(b, err)
		agent, err := signIn.Bearer(b.Context(), token)
		require.NoError(b, err)
		_, err = agents.Hello(b.Context(), agent, job.AgentHello{Session: string(spec.Machine), Token: domain.HashSecret(token), Instance: "disk", Slots: 4})
		require.NoError(b, err)
		connected[string(spec.Machine)] = true
	}
	for len(connected) < n {
		f.tick(b)
		made, err := provider.Machines(b.Context())
		require.NoError(b, err)
		for _, m := range made {
			if !connected[string(m.Machine)] {
				connect(provider.Spec(m.Machine))
			}
		}
	}
	f.took = time.Since(start)
	await(b, "nothing is due", time.Millisecond, func() bool {
		next := f.tick(b)
		return !next.IsZero() && time.Until(next) > time.Minute
	})
	return f
}
