package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

// end reports the attempt's success.
func (a machineAgent) end(id domain.AttemptID) error {
	zero, now := 0, a.clock.Now()
	return a.services.Runs.Report(a.t.Context(), a.scope, job.AttemptReport{Attempt: id, Exited: true, ExitCode: &zero, StartedAt: &now, FinishedAt: &now})
}

// TestMachinesAndTheWorkspaceAgentAreLockedInOneOrder: ends on a machine that start tasks elsewhere
// do not deadlock with starts that need both.
func TestMachinesAndTheWorkspaceAgentAreLockedInOneOrder(t *testing.T) {
	r := newRig(t)
	_, err := r.services.Quotas.Update(t.Context(), r.admin, quota.MaxRunningRuns, new(int64(1000)))
	require.NoError(t, err)
	agent := r.running()
	_, err = r.services.Agents.Hello(t.Context(), agent.scope, job.AgentHello{Session: "s2", Token: domain.HashSecret(agent.token), Instance: "disk", Slots: 500})
	require.NoError(t, err)
	r.connect("workspace", 500)
	chain := r.job(job.Spec{Tasks: []job.TaskSpec{{Key: "a", Command: "true", Compute: "m"}, {Key: "b", Command: "true", DependsOn: []string{"a"}}}})
	wide := r.job(job.Spec{Tasks: []job.TaskSpec{{Key: "a", Command: "true", Compute: "m"}, {Key: "b", Command: "true"}}})
	var attempts []domain.AttemptID
	for range 12 {
		r.tenant.start(chain.ID)
		attempts = append(attempts, r.delivered().Attempt.ID)
	}
	failed := make(chan error, 2*len(attempts))
	var group sync.WaitGroup
	for _, id := range attempts {
		group.Go(func() { failed <- agent.end(id) })
		group.Go(func() {
			_, err := r.services.Runs.Start(t.Context(), r.admin, wide.ID, nil, domain.Idempotency{})
			failed <- err
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}

// TestSlotsOfAMachine bound its concurrent tasks. Waiting tasks say so, and start in order.
func TestSlotsOfAMachine(t *testing.T) {
	r := newRig(t)
	agent := r.running() // with two slots
	var runs []*job.Run
	for range 3 {
		runs = append(runs, r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID))
	}
	first := r.delivered()
	require.Equal(t, runs[0].ID, first.Attempt.RunID)
	require.Equal(t, runs[1].ID, r.delivered().Attempt.RunID)
	require.Equal(t, "Waits for a free slot of the compute instance m, which has 2.", r.run(runs[2].ID).Message)
	require.NoError(t, agent.end(first.Attempt.ID))
	_, err := r.services.Runs.Dispatch(t.Context())
	require.NoError(t, err)
	require.Equal(t, runs[2].ID, r.delivered().Attempt.RunID)
}

// TestBusyMachineThatIsMadeAgain shows no countdown while its task is running.
func TestBusyMachineThatIsMadeAgain(t *testing.T) {
	r := newRig(t)
	r.running()
	r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID)
	attempt := r.delivered().Attempt.ID
	r.provider.Kill(r.id, "killed")
	require.NoError(t, machine.Gone(t.Context(), store.For[machine.Tx](r.store), r.clock, machine.Ref{Workspace: r.admin.Workspace(), Machine: r.id, Incarnation: 1}))
	r.settle()
	next := r.enroll()
	_, err := r.services.Agents.Hello(t.Context(), next.scope, job.AgentHello{
		Session: "s2", Token: domain.HashSecret(next.token), Instance: "disk", Slots: 2, Attempts: []job.AttemptReport{{Attempt: attempt, Started: true}},
	})
	require.NoError(t, err)
	m := r.settle()
	require.Equal(t, machine.Running, m.State)
	require.Nil(t, m.AutoStopAt())
	require.NoError(t, next.end(attempt))
	require.NotNil(t, r.settle().AutoStopAt())
}

// TestNothingOfAStoppedMachineCanConnect: neither with an unused bootstrap token nor with the
// agent's own token.
func TestNothingOfAStoppedMachineCanConnect(t *testing.T) {
	r := newRig(t)
	r.start()
	r.settle()
	unused := r.provider.Spec(r.id).Bootstrap
	r.stop()
	require.Equal(t, machine.Stopped, r.settle().State)
	_, _, err := r.services.Agents.Enroll(t.Context(), unused)
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	r.start()
	r.settle()
	agent := r.enroll()
	r.stop()
	r.settle()
	require.Equal(t, domain.CodeUnauthenticated, code(agent.hello("s1")))
}

// TestFailedMachineIsStartedWhenNothingOfItIsLeft, and not earlier: otherwise two of it would
// exist.
func TestFailedMachineIsStartedWhenNothingOfItIsLeft(t *testing.T) {
	r := newRig(t)
	r.start()
	r.settle()
	r.fails.Store(new(func(op provisiontest.Operation) error {
		if op == provisiontest.OpRelease {
			return domain.Errorf(domain.CodeUnavailable, "the cloud is away")
		}
		return nil
	}))
	r.clock.move(machine.DefaultTimes.Start)
	require.Equal(t, machine.Failed, r.settle().State)
	_, err := r.services.Compute.Start(t.Context(), r.admin, r.id, domain.Idempotency{})
	require.Equal(t, domain.CodeConflict, code(err))
	require.ErrorContains(t, err, "its remains are being removed")
	r.fails.Store(nil)
	r.clock.move(time.Minute)
	r.settle()
	r.start()
}

// TestMachineThatNoServerTakesUp: its start fails in the end, with the tasks that wait for it. So
// does its stop.
func TestMachineThatNoServerTakesUp(t *testing.T) {
	r := newRig(t)
	run := r.tenant.start(r.job(job.Spec{Command: "true", Compute: "m"}).ID) // and no reconciler has the provider
	without := &machine.Reconciler{
		Store: store.For[machine.Tx](r.store), System: r.system, Clock: r.clock, Topics: r.store.Topics(), Work: job.TaskWork{Runs: r.services.Runs}, Times: machine.DefaultTimes, Host: "elsewhere", Report: func(error) {},
	}
	require.NoError(t, without.Abandoned(t.Context()))
	require.Equal(t, machine.Starting, r.get().State)
	r.clock.move(machine.DefaultTimes.Start + 2*time.Minute)
	require.NoError(t, without.Abandoned(t.Context()))
	m := r.get()
	require.Equal(t, machine.Failed, m.State)
	require.Equal(t, "No server with the provider local handled it.", m.Message)
	require.True(t, m.Released)
	require.Equal(t, job.RunFailed, r.run(run.ID).Status)

	r.start()
	r.stop()
	r.clock.move(machine.DefaultTimes.Stop + 2*time.Minute)
	require.NoError(t, without.Abandoned(t.Context()))
	require.Equal(t, machine.Stopped, r.get().State)
	require.NoError(t, r.services.Compute.Delete(t.Context(), r.admin, r.id))
}

// TestClockSetBackWhileNoServerRan lengthens no transition.
func TestClockSetBackWhileNoServerRan(t *testing.T) {
	r := newRig(t)
	r.start()
	r.settle()
	r.clock.move(-time.Hour)
	r.restart()
	r.settle()
	r.clock.move(machine.DefaultTimes.Start)
	require.Equal(t, machine.Failed, r.settle().State)
}

// TestShiftOfOneHostsClock does not affect machines of other hosts.
func TestShiftOfOneHostsClock(t *testing.T) {
	r := newRig(t)
	r.start()
	before := r.settle()
	require.NoError(t, r.system.ShiftMachines(t.Context(), "elsewhere", time.Hour))
	require.Equal(t, before, r.get())
}

// TestRepairStartsTheMachine: repairing a run starts its machine, even one that a person stopped,
// and also for a task that fell back.
func TestRepairStartsTheMachine(t *testing.T) {
	r := newRig(t)
	agent := r.running()
	j := r.job(job.Spec{Command: "true", Compute: "m", ComputeFallback: true, MaxRetries: 1})
	run := r.tenant.start(j.ID)
	r.delivered()
	r.stop()
	r.settle()
	r.clock.move(15 * time.Second)
	require.Equal(t, machine.Stopped, r.settle().State)
	r.clock.move(time.Minute)
	_, err := r.services.Runs.Dispatch(t.Context())
	require.NoError(t, err)
	fell := r.delivered()
	require.NotEqual(t, domain.AgentID(agent.scope.Actor().ID), fell.Attempt.AgentID, "it runs on the workspace's agent")
	r.begin(fell.Attempt.ID)
	require.NoError(t, r.exit(fell.Attempt.ID, 1))
	require.Equal(t, job.RunFailed, r.run(run.ID).Status)
	_, err = r.services.Runs.Repair(t.Context(), r.admin, run.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, machine.Starting, r.get().State)
}

// TestMachineThatWasRefusedIsNotPinned: the image is pinned at the first start, which has not
// happened.
func TestMachineThatWasRefusedIsNotPinned(t *testing.T) {
	r := newRig(t)
	r.fails.Store(new(func(op provisiontest.Operation) error {
		if op == provisiontest.OpEnsure {
			return domain.Invalid("image", "There is no such image.")
		}
		return nil
	}))
	r.start()
	require.Empty(t, r.settle().ImageRef)
	r.fails.Store(nil)
	r.start()
	require.NotEmpty(t, r.settle().ImageRef)
}
