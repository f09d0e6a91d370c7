package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
)

func (w *tenant) get(id domain.AgentID) machine.Agent {
	w.t.Helper()
	a, err := w.services.Agents.Get(w.t.Context(), w.admin, id)
	require.NoError(w.t, err)
	return a
}

func (w *tenant) agentID() domain.AgentID { return domain.AgentID(w.agent.Actor().ID) }

func TestAnAgentsLife(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	status := func() machine.AgentStatus { return w.get(w.agentID()).Status(w.clock.Now()) }
	require.Equal(t, machine.AgentNew, status())
	w.connect("s1", 4)
	require.Equal(t, machine.AgentConnected, status())
	require.NoError(t, w.services.Agents.Disconnected(ctx, w.agent, "s0"), "an older connection's end")
	require.Equal(t, machine.AgentConnected, status())
	require.NoError(t, w.services.Agents.Disconnected(ctx, w.agent, "s1"))
	require.Equal(t, machine.AgentDisconnected, status())
	w.clock.move(machine.DefaultLease.Length)
	require.Equal(t, machine.AgentLost, status())
	w.connect("s2", 4)
	require.Equal(t, machine.AgentConnected, status())

	_, err := w.services.Agents.Heartbeat(ctx, w.agent, job.AgentHeartbeat{Session: "s1"})
	require.ErrorIs(t, err, job.ErrSuperseded)
	_, err = w.services.Agents.Heartbeat(ctx, w.agent, job.AgentHeartbeat{Session: "s2"})
	require.NoError(t, err)
	for _, slots := range []int{0, -1, 4097} {
		_, err = w.services.Agents.Hello(ctx, w.agent, w.hello("s3", slots))
		require.Equal(t, domain.CodeInvalid, code(err))
	}
	_, err = w.services.Agents.Hello(ctx, w.admin, w.hello("s3", 1))
	require.Equal(t, domain.CodeForbidden, code(err), "nobody but an agent")
	old := w.hello("s2", 4)
	current, over, err := w.services.Agents.Current(ctx, w.agent, "s2", old.Token)
	require.NoError(t, err)
	require.True(t, current)
	require.False(t, over)

	_, token, err := w.services.Agents.RotateToken(ctx, w.admin, w.agentID())
	require.NoError(t, err)
	current, over, err = w.services.Agents.Current(ctx, w.agent, "s2", old.Token)
	require.NoError(t, err)
	require.False(t, current)
	require.True(t, over, "the connection made with the old token is to end")
	require.ErrorIs(t, second(w.services.Agents.Hello(ctx, w.agent, old)), job.ErrTokenReplaced, "whenever it says hello")
	scope, err := w.auth.Bearer(ctx, token)
	require.NoError(t, err)
	require.Equal(t, w.agent.Actor().ID, scope.Actor().ID)
}

// TestHelloReconciles: the answer names the desired state of each attempt that agent or server
// knows.
func TestHelloReconciles(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	held, unheld := w.attempt(), w.attempt()
	cancelling := w.attempt()
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, w.attemptsOf(cancelling).RunID)))
	w.start(w.job(job.Spec{Command: "echo lost on the way"}).ID)
	undelivered := w.delivered().Attempt.ID
	w.start(w.job(job.Spec{Command: "true"}).ID)
	cancelledOnTheWay := w.delivered().Attempt.ID
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, w.attemptsOf(cancelledOnTheWay).RunID)))

	desired := map[domain.AttemptID]job.Desired{}
	for _, d := range w.connect("s2", 10, held, cancelling, "att_stranger") {
		desired[d.Attempt] = d
	}
	require.Len(t, desired, 4)
	require.Equal(t, job.Desired{Attempt: held, Desire: job.DesireRun}, desired[held])
	require.Equal(t, job.Desired{Attempt: cancelling, Desire: job.DesireCancel}, desired[cancelling])
	require.Equal(t, job.Desired{Attempt: "att_stranger", Desire: job.DesireForget}, desired["att_stranger"])
	again := w.delivered()
	require.Equal(t, undelivered, again.Attempt.ID)
	require.Equal(t, "echo lost on the way", again.Command)
	require.Equal(t, job.AttemptLost, w.attemptsOf(unheld).Status, "it ran there, and the agent knows nothing of it")
	require.Equal(t, job.Desired{Attempt: cancelledOnTheWay, Desire: job.DesireCancel}, desired[cancelledOnTheWay], "it may still arrive")
	require.Equal(t, job.AttemptStarting, w.attemptsOf(cancelledOnTheWay).Status)
}

// TestHeartbeatCorrects attempts whose desired state differs from the agent's.
func TestHeartbeatCorrects(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	fine, cancelling := w.attempt(), w.attempt()
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, w.attemptsOf(cancelling).RunID)))
	w.start(w.job(job.Spec{Command: "true"}).ID)
	undelivered := w.delivered().Attempt.ID
	beat := func() map[domain.AttemptID]job.Desire {
		orders, err := w.services.Agents.Heartbeat(ctx, w.agent, job.AgentHeartbeat{Session: "s1", Running: []domain.AttemptID{fine, cancelling, "att_stranger"}})
		require.NoError(t, err)
		desires := map[domain.AttemptID]job.Desire{}
		for _, d := range orders.Attempts {
			desires[d.Attempt] = d.Desire
		}
		return desires
	}
	require.Equal(t, map[domain.AttemptID]job.Desire{cancelling: job.DesireCancel, "att_stranger": job.DesireForget}, beat())
	w.start(w.job(job.Spec{Command: "true"}).ID)
	cancelledOnTheWay := w.delivered().Attempt.ID
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, w.attemptsOf(cancelledOnTheWay).RunID)))
	w.clock.move(6 * time.Second)
	asked := map[domain.AttemptID]job.Desire{cancelling: job.DesireCancel, cancelledOnTheWay: job.DesireCancel, "att_stranger": job.DesireForget}
	require.Equal(t, asked, beat())
	require.Equal(t, undelivered, w.delivered().Attempt.ID, "what did not arrive is sent again")
	require.Equal(t, job.AttemptStarting, w.attemptsOf(cancelledOnTheWay).Status, "what may still arrive has not ended")
	require.Equal(t, w.clock.Now().Add(machine.DefaultLease.Length), *w.get(w.agentID()).LeaseExpiresAt)
	require.NoError(t, w.services.Runs.Report(ctx, w.agent, job.AttemptReport{Attempt: cancelledOnTheWay, Exited: true, Reason: job.ReasonCancelled}))
	require.Equal(t, job.AttemptCancelled, w.attemptsOf(cancelledOnTheWay).Status, "its agent says that it does not run")

	w.start(w.job(job.Spec{Command: "true"}).ID)
	unanswered := w.delivered().Attempt.ID
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, w.attemptsOf(unanswered).RunID)))
	w.clock.move(machine.DefaultLease.Length)
	beat()
	require.Equal(t, job.AttemptCancelled, w.attemptsOf(unanswered).Status, "an agent of an earlier version does not say so")
}

// TestAnotherInstanceWaitsForTheLease: attempts of the earlier instance may still run, on another
// machine or from another directory.
func TestAnotherInstanceWaitsForTheLease(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	hello := func(session, instance string) error {
		h := w.hello(session, 10)
		h.Instance = instance
		return second(w.services.Agents.Hello(ctx, w.agent, h))
	}
	require.NoError(t, hello("s1", "first"))
	require.Equal(t, domain.CodeConflict, code(hello("s2", "second")), "the first one is connected")
	require.NoError(t, w.services.Agents.Disconnected(ctx, w.agent, "s1"))
	require.NoError(t, hello("s2", "second"), "nothing of the first one's runs")

	id := w.attempt()
	require.NoError(t, w.services.Agents.Disconnected(ctx, w.agent, "s2"))
	require.Equal(t, domain.CodeConflict, code(hello("s3", "third")), "something of the second one's runs")
	require.Equal(t, job.AttemptRunning, w.attemptsOf(id).Status)
	w.clock.move(machine.DefaultLease.Length)
	require.NoError(t, hello("s3", "third"))
	require.Equal(t, job.AttemptLost, w.attemptsOf(id).Status)
	require.Equal(t, domain.CodeInvalid, code(hello("s4", strings.Repeat("x", 257))))
}

// TestARefusedAttemptFails with the agent's reason: sending it again would change nothing.
func TestARefusedAttemptFails(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s1", 10)
	refused := error(domain.Errorf(domain.CodeInvalid, "the path of a file is too long"))
	w.fleet.refuse.Store(&refused)
	run := w.start(w.job(job.Spec{Command: "true"}).ID)
	require.Eventually(t, func() bool { return w.run(run.ID).Status == job.RunFailed }, time.Minute, time.Millisecond)
	require.Contains(t, w.run(run.ID).Message, "the path of a file is too long")
}

func TestASilentAgentsWorkIsLostAndTriedAgain(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	w.start(w.job(job.Spec{Command: "true", MaxRetries: 1}).ID)
	id := w.delivered().Attempt.ID
	w.begin(id)
	w.clock.move(machine.DefaultLease.Length - time.Second)
	require.NoError(t, w.services.Agents.Sweep(ctx))
	require.Equal(t, job.AttemptRunning, w.attemptsOf(id).Status, "its lease runs")
	w.clock.move(time.Second)
	require.NoError(t, w.services.Agents.Sweep(ctx))
	require.Equal(t, job.AttemptLost, w.attemptsOf(id).Status)
	require.Empty(t, w.get(w.agentID()).Session)
	require.ErrorIs(t, w.exit(id, 0), job.ErrAttemptOver, "it can change nothing more")
	require.NoError(t, w.services.Agents.Sweep(ctx), "nothing is left to do")
	w.clock.move(time.Minute)
	require.NoError(t, second(w.services.Runs.Dispatch(ctx)))
	require.Empty(t, w.fleet.started, "nobody is there to do it")
	desired := w.connect("s2", 10, id)
	require.Equal(t, []job.Desired{{Attempt: id, Desire: job.DesireForget}}, desired)
	require.NoError(t, second(w.services.Runs.Dispatch(ctx)))
	require.Equal(t, 2, w.delivered().Attempt.Number)
}

// TestTheServerWasAwayNotTheAgents: no lease ends at once when the server starts.
func TestTheServerWasAwayNotTheAgents(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	id := w.attempt()
	w.clock.move(time.Hour)
	require.NoError(t, w.system.ExtendLeases(ctx, w.clock.Now(), w.clock.Now().Add(machine.DefaultLease.Length)))
	require.NoError(t, w.services.Agents.Sweep(ctx))
	require.Equal(t, job.AttemptRunning, w.attemptsOf(id).Status)
	expired, err := w.system.ExpiredAgents(ctx, w.clock.Now())
	require.NoError(t, err)
	require.Empty(t, expired)
}

// TestAReplicaThatStartsExtendsNoLeaseWhileAnotherOneListens: a replica in a restart loop would
// keep a dead agent alive forever.
func TestAReplicaThatStartsExtendsNoLeaseWhileAnotherOneListens(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	id := w.attempt()
	w.clock.move(machine.DefaultLease.Length)
	require.NoError(t, w.system.SaveReplica(ctx, "rep_2", "http://two", w.clock.Now()))
	require.NoError(t, w.system.ExtendLeases(ctx, w.clock.Now(), w.clock.Now().Add(machine.DefaultLease.Length)))
	require.NoError(t, w.services.Agents.Sweep(ctx))
	require.Equal(t, job.AttemptLost, w.attemptsOf(id).Status)
}

// TestLeasesBeginAnewWhenTheClockIsSet: leases restart when the clock is set, forward or back.
func TestLeasesBeginAnewWhenTheClockIsSet(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s1", 10)
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
		w.clock.move(step)
		until := w.clock.Now().Add(machine.DefaultLease.Length)
		require.NoError(t, w.system.RenewLeases(t.Context(), until))
		require.Equal(t, until, *w.get(w.agentID()).LeaseExpiresAt)
	}
}

// TestTheSweepAgainstHello: an agent that reconnects while it is declared lost either keeps its
// attempt, or must drop it. The attempt is never both lost and desired.
func TestTheSweepAgainstHello(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s1", 100)
	for range 15 {
		var held []domain.AttemptID
		for range 3 {
			held = append(held, w.attempt())
		}
		w.clock.move(machine.DefaultLease.Length)
		var both sync.WaitGroup
		var desired []job.Desired
		both.Go(func() { desired = w.connect("s2", 100, held...) })
		both.Go(func() { _ = w.services.Agents.Sweep(context.Background()) })
		both.Wait()
		require.Len(t, desired, 3)
		for _, d := range desired {
			status := w.attemptsOf(d.Attempt).Status
			require.Equal(t, d.Desire == job.DesireForget, status == job.AttemptLost, "%s is %s and the desired state is %s", d.Attempt, status, d.Desire)
			if status == job.AttemptRunning {
				require.NoError(t, w.exit(d.Attempt, 0))
			}
		}
	}
}

// TestHelloAgainstDispatch: an agent that reconnects during dispatch gets each attempt once. The
// attempts that it must run are alive.
func TestHelloAgainstDispatch(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(1000)))))
	j := w.job(job.Spec{Command: "true", MaxRetries: 3})
	w.connect("s", 5)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 15 {
				_, _ = w.services.Runs.Start(context.Background(), w.admin, j.ID, nil, domain.Idempotency{})
				_, _ = w.services.Runs.Dispatch(context.Background())
			}
		})
	}
	all.Go(func() {
		for range 30 {
			if desired := w.connect("s", 5); len(desired) > 0 {
				t.Errorf("the agent has no attempt and receives %v", desired)
			}
		}
	})
	all.Wait()
	require.Zero(t, count(t, db, `SELECT count(*) FROM (SELECT FROM attempts WHERE status IN ('starting', 'running') GROUP BY run_id, task_key HAVING count(*) > 1) x`))
	require.LessOrEqual(t, count(t, db, `SELECT count(*) FROM attempts WHERE status IN ('starting', 'running')`), 5)
	require.Zero(t, count(t, db, `SELECT count(*) FROM attempts WHERE status = 'lost'`), "what was on its way was sent again")
	require.Zero(t, count(t, db, `SELECT count(*) FROM tasks t WHERE current IS NOT NULL AND NOT EXISTS
		(SELECT FROM attempts a WHERE a.id = t.current AND a.status IN ('starting', 'running'))`))
}

// TestAnotherAgentsAttempt is over for every other agent.
func TestAnotherAgentsAttempt(t *testing.T) {
	s := open(t)
	w, other := newTenant(t, s, "one"), newTenant(t, s, "two")
	w.connect("s1", 4)
	id := w.attempt()
	other.connect("s1", 4)
	require.Equal(t, domain.CodeNotFound, code(other.exit(id, 0)))
	require.Equal(t, job.AttemptRunning, w.attemptsOf(id).Status)
	desired := other.connect("s2", 4, id)
	require.Equal(t, []job.Desired{{Attempt: id, Desire: job.DesireForget}}, desired)
}

// TestAnEndIsStoredWhateverIsSaidOfIt: a hostile message of a process does not prevent its run from
// ending.
func TestAnEndIsStoredWhateverIsSaidOfIt(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s1", 4)
	id := w.attempt()
	long := make([]byte, 1<<20)
	require.NoError(t, w.services.Runs.Report(t.Context(), w.agent, job.AttemptReport{
		Attempt: id, Exited: true, Reason: job.ReasonStart, Message: "no \x00 such \xff file" + string(long), Signal: "SIG\x00",
	}))
	a := w.attemptsOf(id)
	require.Equal(t, job.AttemptFailed, a.Status)
	require.Equal(t, "no  such  file", a.Message)
	require.Equal(t, job.RunFailed, w.run(a.RunID).Status)
}
