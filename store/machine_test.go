package store_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/store"
)

// rig is a workspace with a simulated provider, a reconciler, and one compute instance.
type rig struct {
	*tenant
	provider   *provisiontest.Simulated
	reconciler *machine.Reconciler
	id         domain.MachineID
	fails      atomic.Pointer[func(provisiontest.Operation) error] // called before an operation
	loses      atomic.Pointer[func(provisiontest.Operation) error] // called after it
	reported   atomic.Int64
}

func newRig(t *testing.T) *rig { return newRigOf(t, machine.KindCompute) }

// newRigOf is newRig with a machine of the kind. services.Compute manages its machines, whatever
// their kind.
func newRigOf(t *testing.T, kind machine.Kind) *rig {
	r := &rig{tenant: newTenant(t, open(t), "acme")}
	failing := func(f *atomic.Pointer[func(provisiontest.Operation) error]) func(context.Context, provisiontest.Operation, machine.Ref) error {
		return func(_ context.Context, op provisiontest.Operation, _ machine.Ref) error {
			if fail := f.Load(); fail != nil {
				return (*fail)(op)
			}
			return nil
		}
	}
	r.provider = provisiontest.NewSimulated(provisiontest.Hooks{
		Before: failing(&r.fails), After: failing(&r.loses),
	})
	providers := machine.Providers{machine.ProviderLocal: r.provider}
	r.services.Compute = &machine.Machines{Kind: kind, Store: store.For[machine.Tx](r.store), Topics: r.store.Topics(), Clock: r.clock, Providers: providers}
	r.restart()
	r.connect("workspace", 4)
	r.id = r.machine("m").ID
	return r
}

// restart creates another reconciler, like a starting server.
func (r *rig) restart() {
	r.reconciler = &machine.Reconciler{
		Store: store.For[machine.Tx](r.store), System: r.system, Clock: r.clock, Topics: r.store.Topics(), Work: job.TaskWork{Runs: r.services.Runs}, Providers: machine.Providers{machine.ProviderLocal: r.provider},
		Times: machine.DefaultTimes, Heartbeat: 10 * time.Second, Host: "here", Server: "http://localhost",
		Report: func(error) { r.reported.Add(1) },
	}
	require.NoError(r.t, r.reconciler.Adopt(r.t.Context()))
}

func (r *rig) machine(name string) machine.Machine {
	r.t.Helper()
	m, err := r.services.Compute.Create(r.t.Context(), r.admin, machine.NewMachine{Name: name, Flavor: "cpu.1"}, domain.Idempotency{})
	require.NoError(r.t, err)
	return m
}

func (r *rig) get() machine.Machine {
	r.t.Helper()
	m, err := r.services.Compute.Get(r.t.Context(), r.admin, r.id)
	require.NoError(r.t, err)
	return m
}

// settle runs the reconciler until nothing is due.
func (r *rig) settle() machine.Machine {
	r.t.Helper()
	for range 20 {
		next, err := r.reconciler.Tick(r.t.Context())
		require.NoError(r.t, err)
		r.reconciler.Wait()
		if m := r.get(); (next.IsZero() || next.After(r.clock.Now())) && (m.DueAt == nil || m.DueAt.After(r.clock.Now())) {
			return m
		}
	}
	r.t.Fatal("there is always something due")
	return machine.Machine{}
}

func (r *rig) start() {
	r.t.Helper()
	_, err := r.services.Compute.Start(r.t.Context(), r.admin, r.id, domain.Idempotency{})
	require.NoError(r.t, err)
}

func (r *rig) stop() {
	r.t.Helper()
	_, err := r.services.Compute.Stop(r.t.Context(), r.admin, r.id)
	require.NoError(r.t, err)
}

// machineAgent is the machine's agent, enrolled.
type machineAgent struct {
	*rig
	scope domain.Scope
	token string
}

func (r *rig) enroll() machineAgent {
	r.t.Helper()
	_, token, err := r.services.Agents.Enroll(r.t.Context(), r.provider.Spec(r.id).Bootstrap)
	require.NoError(r.t, err)
	scope, err := r.auth.Bearer(r.t.Context(), token)
	require.NoError(r.t, err)
	return machineAgent{r, scope, token}
}

func (a machineAgent) hello(session string) error {
	_, err := a.services.Agents.Hello(a.t.Context(), a.scope, job.AgentHello{
		Session: session, Token: domain.HashSecret(a.token), Instance: "disk", Slots: 2, Engines: []machine.Engine{{Name: "duckdb", Version: "1.5.5"}},
	})
	return err
}

func (a machineAgent) beat(session string, idle time.Duration, running ...domain.AttemptID) {
	a.t.Helper()
	_, err := a.services.Agents.Heartbeat(a.t.Context(), a.scope, job.AgentHeartbeat{Session: session, Running: running, Idle: idle})
	require.NoError(a.t, err)
}

// running starts the machine and connects its agent.
func (r *rig) running() machineAgent {
	r.t.Helper()
	r.start()
	r.settle()
	a := r.enroll()
	require.NoError(r.t, a.hello("s1"))
	require.Equal(r.t, machine.Running, r.settle().State)
	return a
}

func TestMachineFromStartToStopped(t *testing.T) {
	r := newRig(t)
	require.Equal(t, machine.Stopped, r.get().State)
	r.start()
	m := r.settle()
	require.Equal(t, machine.Starting, m.State)
	require.NotEmpty(t, m.ImageRef, "pinned at the first start")
	require.Len(t, r.provider.Instances(r.id), 1)
	agent := r.enroll()
	_, _, err := r.services.Agents.Enroll(t.Context(), r.provider.Spec(r.id).Bootstrap)
	require.Equal(t, domain.CodeUnauthenticated, code(err), "it is good for one time")
	require.NoError(t, agent.hello("s1"))
	m = r.settle()
	require.Equal(t, machine.Running, m.State)
	require.Equal(t, []machine.Engine{{Name: "duckdb", Version: "1.5.5"}}, m.Engines)
	require.Equal(t, r.clock.Now().Add(time.Hour), *m.AutoStopAt())
	r.stop()
	m = r.settle()
	require.Equal(t, machine.Stopped, m.State)
	require.Empty(t, r.provider.Instances(r.id))
	require.Nil(t, m.DueAt)
	_, err = r.auth.Bearer(t.Context(), agent.token)
	require.Equal(t, domain.CodeUnauthenticated, code(err), "the agent's token ends with the machine")
	require.NoError(t, r.services.Compute.Delete(t.Context(), r.admin, r.id))
	require.NoError(t, r.reconciler.Sweep(t.Context()))
	left, err := r.provider.Machines(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBootstrapTokenLivesTenMinutes(t *testing.T) {
	r := newRig(t)
	r.start()
	r.settle()
	r.clock.move(10 * time.Minute)
	_, _, err := r.services.Agents.Enroll(t.Context(), r.provider.Spec(r.id).Bootstrap)
	require.Equal(t, domain.CodeUnauthenticated, code(err))
}

// TestAutoStop counts from the end of the last work, by the agent's clock, which nobody sets.
func TestAutoStop(t *testing.T) {
	r := newRig(t)
	agent := r.running()
	r.clock.move(59 * time.Minute)
	agent.beat("s1", 59*time.Minute)
	require.Equal(t, machine.Running, r.settle().State)

	// Running and waiting work prevents the stop.
	first := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID)
	attempt := r.delivered().Attempt.ID
	require.Nil(t, r.settle().AutoStopAt())
	r.clock.move(5 * time.Hour)
	agent.beat("s1", 0, attempt)
	require.Equal(t, machine.Running, r.settle().State)
	zero, now := 0, r.clock.Now()
	require.NoError(t, r.services.Runs.Report(t.Context(), agent.scope, job.AttemptReport{
		Attempt: attempt, Exited: true, ExitCode: &zero, StartedAt: &now, FinishedAt: &now,
	}))
	require.Equal(t, job.RunSuccess, r.run(first.ID).Status)
	require.Equal(t, now.Add(time.Hour), *r.settle().AutoStopAt())

	// The clock is set forward. The agent has not reported since, and then reports its idle time.
	r.clock.move(3 * time.Hour)
	require.Equal(t, machine.Running, r.settle().State)
	agent.beat("s1", 10*time.Minute)
	require.Equal(t, r.clock.Now().Add(50*time.Minute), *r.settle().AutoStopAt())
	// And back.
	r.clock.move(-time.Hour)
	agent.beat("s1", 20*time.Minute)
	require.Equal(t, r.clock.Now().Add(40*time.Minute), *r.settle().AutoStopAt())
	// A restart changes nothing.
	r.restart()
	require.Equal(t, r.clock.Now().Add(40*time.Minute), *r.settle().AutoStopAt())

	r.clock.move(40*time.Minute - time.Second)
	agent.beat("s1", time.Hour-time.Second)
	require.Equal(t, machine.Running, r.settle().State)
	r.clock.move(time.Second)
	m := r.settle()
	require.Equal(t, machine.Stopped, m.State)
	require.Nil(t, m.HeldAt, "a task starts it again")
	require.Empty(t, r.provider.Instances(r.id))
}

func TestAutoStopNever(t *testing.T) {
	r := newRig(t)
	agent := r.running()
	_, err := r.services.Compute.Update(t.Context(), r.admin, r.id, machine.Change{AutoStop: new("never")})
	require.NoError(t, err)
	r.clock.move(24 * time.Hour)
	agent.beat("s1", 24*time.Hour)
	m := r.settle()
	require.Equal(t, machine.Running, m.State)
	require.Nil(t, m.AutoStopAt())
	require.Nil(t, m.DueAt, "there is nothing to look at")
}

// TestMachineGoesByItself: a machine that disappears is created again, and the earlier one has no
// rights.
func TestMachineGoesByItself(t *testing.T) {
	r := newRig(t)
	old := r.running()
	r.provider.Kill(r.id, "killed by signal 9")
	require.NoError(t, machine.Gone(t.Context(), store.For[machine.Tx](r.store), r.clock, machine.Ref{Workspace: r.admin.Workspace(), Machine: r.id, Incarnation: 1}))
	m := r.settle()
	require.Equal(t, machine.Starting, m.State)
	require.Contains(t, m.Message, "killed by signal 9")
	require.Equal(t, 2, m.Incarnation)
	require.Equal(t, domain.CodeUnauthenticated, code(old.hello("s2")))
	require.NoError(t, r.enroll().hello("s3"))
	require.Equal(t, machine.Running, r.settle().State)
}

// TestMachineThatFallsSilent exists at the provider, but its agent is gone. When its lease expires
// it is created again.
func TestMachineThatFallsSilent(t *testing.T) {
	r := newRig(t)
	agent := r.running()
	require.NoError(t, r.services.Agents.Disconnected(t.Context(), agent.scope, "s1"))
	require.Equal(t, machine.Running, r.settle().State, "its lease runs on")
	r.clock.move(machine.DefaultLease.Length)
	m := r.settle()
	require.Equal(t, 2, m.Incarnation)
	require.Equal(t, machine.Starting, m.State)
	require.Len(t, r.provider.Instances(r.id), 1)
}

// TestMachineThatIsLate fails, reports that to the waiting tasks, leaves nothing behind, and can be
// started again.
func TestMachineThatIsLate(t *testing.T) {
	r := newRig(t)
	fails := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID)
	falls := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m", ComputeFallback: true}).ID)
	require.Equal(t, machine.Starting, r.settle().State)
	require.Contains(t, r.run(fails.ID).Message, "Waits for the compute instance m, which is")
	r.clock.move(machine.DefaultTimes.Start)
	m := r.settle()
	require.Equal(t, machine.Failed, m.State)
	require.True(t, m.Released)
	require.Contains(t, m.Message, "did not connect within 5m0s")
	require.Empty(t, r.provider.Instances(r.id))
	require.Equal(t, job.RunFailed, r.run(fails.ID).Status)
	require.Contains(t, r.run(fails.ID).Message, "The compute instance m failed.")
	require.Equal(t, falls.ID, r.delivered().Attempt.RunID, "it falls to the workspace's agent")
	r.running()
}

// TestProviderThatRefuses: a final refusal fails at once, with the reason.
func TestProviderThatRefuses(t *testing.T) {
	r := newRig(t)
	r.fails.Store(new(func(op provisiontest.Operation) error {
		if op == provisiontest.OpEnsure {
			return domain.Invalid("image", "There is no such image.")
		}
		return nil
	}))
	r.start()
	m := r.settle()
	require.Equal(t, machine.Failed, m.State)
	require.Equal(t, "There is no such image.", m.Message)
}

// TestMachineThatHasNoRoom waits for room, says so to the waiting tasks, and fails when its time is
// over.
func TestMachineThatHasNoRoom(t *testing.T) {
	r := newRig(t)
	full := func(op provisiontest.Operation) error {
		if op == provisiontest.OpEnsure {
			return domain.Errorf(domain.CodeConflict, "The host is full.")
		}
		return nil
	}
	r.fails.Store(&full)
	run := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID)
	r.settle()
	r.clock.move(10 * time.Second)
	m := r.settle()
	require.Equal(t, machine.Starting, m.State)
	require.Equal(t, "The host is full.", m.Message)
	require.Equal(t, "Waits for the compute instance m, which is starting. The host is full.", r.run(run.ID).Message)
	r.fails.Store(nil)
	r.clock.move(10 * time.Second)
	r.settle()
	require.NoError(t, r.enroll().hello("s1"))
	m = r.settle()
	require.Equal(t, machine.Running, m.State)
	require.Empty(t, m.Message)
	r.stop()
	r.settle()
	r.fails.Store(&full)
	r.start()
	r.settle()
	r.clock.move(machine.DefaultTimes.Start)
	m = r.settle()
	require.Equal(t, machine.Failed, m.State)
	require.Equal(t, "It could not be made within 5m0s. The host is full.", m.Message, "no agent was ever there to connect")
}

// TestCallsThatFail are retried, however often. A call with a lost answer is not done twice.
func TestCallsThatFail(t *testing.T) {
	for _, op := range []provisiontest.Operation{provisiontest.OpResolve, provisiontest.OpEnsure, provisiontest.OpAlive, provisiontest.OpRelease, provisiontest.OpFlavors} {
		for name, hook := range map[string]func(*rig) *atomic.Pointer[func(provisiontest.Operation) error]{
			"before": func(r *rig) *atomic.Pointer[func(provisiontest.Operation) error] { return &r.fails },
			"after":  func(r *rig) *atomic.Pointer[func(provisiontest.Operation) error] { return &r.loses },
		} {
			t.Run(string(op)+" "+name, func(t *testing.T) {
				r := newRig(t)
				r.start()
				failing := errors.New("the cloud is away")
				hook(r).Store(new(func(called provisiontest.Operation) error {
					if called == op {
						return failing
					}
					return nil
				}))
				r.settle()
				r.restart() // the server dies and loses its memory
				r.settle()
				hook(r).Store(nil)
				r.clock.move(time.Minute)
				require.Equal(t, machine.Starting, r.settle().State)
				require.Len(t, r.provider.Instances(r.id), 1)
				require.NoError(t, r.enroll().hello("s1"))
				require.Equal(t, machine.Running, r.settle().State)
				hook(r).Store(new(func(called provisiontest.Operation) error {
					if called == op {
						return failing
					}
					return nil
				}))
				r.stop()
				r.settle()
				hook(r).Store(nil)
				r.clock.move(time.Minute)
				require.Equal(t, machine.Stopped, r.settle().State)
				require.Empty(t, r.provider.Instances(r.id))
			})
		}
	}
}

// TestMachineThatCannotBeStopped fails when the time is over, and is stopped once nothing of it is
// left.
func TestMachineThatCannotBeStopped(t *testing.T) {
	r := newRig(t)
	r.running()
	r.fails.Store(new(func(op provisiontest.Operation) error {
		if op == provisiontest.OpRelease {
			return errors.New("a process in state D")
		}
		return nil
	}))
	r.stop()
	require.Equal(t, machine.Stopping, r.settle().State)
	r.clock.move(machine.DefaultTimes.Stop)
	m := r.settle()
	require.Equal(t, machine.Failed, m.State)
	require.Contains(t, m.Message, "may still run")
	require.False(t, m.Released)
	require.Equal(t, domain.CodeConflict, code(r.services.Compute.Delete(t.Context(), r.admin, r.id)))
	require.Positive(t, r.reported.Load())
	r.fails.Store(nil)
	r.clock.move(time.Minute)
	require.Equal(t, machine.Stopped, r.settle().State)
}

// TestStopCancelsWhatRuns, and ends it with the machine if it does not stop.
func TestStopCancelsWhatRuns(t *testing.T) {
	r := newRig(t)
	r.running()
	run := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID)
	attempt := r.delivered().Attempt.ID
	r.stop()
	require.Equal(t, machine.Stopping, r.settle().State)
	require.Equal(t, attempt, <-r.fleet.cancelled)
	require.Equal(t, job.RunPending, r.run(run.ID).Status)
	r.clock.move(15 * time.Second)
	require.Equal(t, machine.Stopped, r.settle().State)
	require.Equal(t, job.RunFailed, r.run(run.ID).Status)
	require.Contains(t, r.run(run.ID).Message, "The compute instance m was stopped while this ran. Stopped by")
}

// TestDeletedMachineFailsWhatWaits: tasks that wait for it fail.
func TestDeletedMachineFailsWhatWaits(t *testing.T) {
	r := newRig(t)
	r.running()
	run := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m", MaxRetries: 1}).ID)
	r.delivered()
	r.stop()
	r.settle()
	r.clock.move(15 * time.Second)
	require.Equal(t, machine.Stopped, r.settle().State)
	_, err := r.services.Runs.Dispatch(t.Context())
	require.NoError(t, err)
	require.Equal(t, machine.Stopped, r.settle().State, "a person has stopped it: what was there then does not start it")
	require.NoError(t, r.services.Compute.Delete(t.Context(), r.admin, r.id))
	r.clock.move(time.Minute)
	_, err = r.services.Runs.Dispatch(t.Context())
	require.NoError(t, err)
	require.Equal(t, job.RunFailed, r.run(run.ID).Status)
	require.Contains(t, r.run(run.ID).Message, "was deleted")
}

// TestShiftMachines moves the times of transitions, so that setting the clock ends none of them.
func TestShiftMachines(t *testing.T) {
	r := newRig(t)
	r.start()
	r.settle()
	for _, by := range []time.Duration{3 * time.Hour, -time.Hour} {
		r.clock.move(by)
		require.NoError(t, r.system.ShiftMachines(t.Context(), "here", by))
		require.Equal(t, machine.Starting, r.settle().State)
		require.Equal(t, r.clock.Now(), r.get().StateSince)
	}
}

// TestTwoReconcilers create one machine: each skips machines that the other has claimed.
func TestTwoReconcilers(t *testing.T) {
	r := newRig(t)
	r.start()
	first := r.reconciler
	r.restart()
	for _, one := range []*machine.Reconciler{first, r.reconciler} {
		_, err := one.Tick(t.Context())
		require.NoError(t, err)
	}
	first.Wait()
	r.reconciler.Wait()
	require.Equal(t, 1, r.provider.Calls(provisiontest.OpEnsure))
}
