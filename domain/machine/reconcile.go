package machine

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// Times bounds the transitions of machines.
type Times struct {
	Start time.Duration // from the start until the agent is connected
	Stop  time.Duration // from the stop until nothing remains
}

// DefaultTimes include the three minutes that the specification gives a warehouse.
var DefaultTimes = Times{Start: 5 * time.Minute, Stop: 2 * time.Minute}

// Reconciler drives each machine toward its desired state. Every replica may run one. It claims a
// due machine in its row, calls the provider outside of transactions, and applies the result as an
// event. If the server ends in between, the machine is due again after the claim, or when the
// server is back.
type Reconciler struct {
	Store     domain.Store[Tx]
	System    System
	Clock     domain.Clock
	Topics    domain.Topics
	Work      Work
	Providers Providers
	Times     Times
	Heartbeat time.Duration // interval of agents
	Host      string        // the host of this server's own machines
	Server    string        // address that machines connect to
	Report    func(error)   // for the log

	mu      sync.Mutex
	busy    map[domain.MachineID]bool
	working sync.WaitGroup
}

// Bounds of the reconciler's work.
const (
	maxSteps     = 16               // concurrent machine steps
	stepTime     = 50 * time.Second // timeout of one step
	claimTime    = time.Minute      // until another replica takes over; longer than stepTime
	retryPause   = 5 * time.Second  // after a passing failure
	lookAgain    = 5 * time.Second  // interval of checks while the agent is not connected
	evictionTime = 15 * time.Second // for attempts to end after a cancel; longer than their processes' grace
	bootstrapFor = 10 * time.Minute // lifetime of a bootstrap token
)

// Tick starts a step for each due machine, in its own goroutine. It returns when the next machine
// is due, or the zero time if none is. At rest it costs one query.
func (r *Reconciler) Tick(ctx context.Context) (next time.Time, err error) {
	due, err := r.System.DueMachines(ctx, r.kinds(), r.Host, 2*maxSteps)
	if err != nil {
		return time.Time{}, err
	}
	now := r.Clock.Now()
	for _, d := range due {
		if d.At.After(now) {
			return d.At, nil
		}
		r.begin(ctx, d.Ref)
	}
	return time.Time{}, nil
}

// Wait waits for the steps that Tick started.
func (r *Reconciler) Wait() { r.working.Wait() }

func (r *Reconciler) kinds() []ProviderKind {
	kinds := make([]ProviderKind, 0, len(r.Providers))
	for kind := range r.Providers {
		kinds = append(kinds, kind)
	}
	return kinds
}

func (r *Reconciler) begin(ctx context.Context, ref Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = map[domain.MachineID]bool{}
	}
	if r.busy[ref.Machine] || len(r.busy) >= maxSteps {
		return // the end of a step wakes the loop
	}
	r.busy[ref.Machine] = true
	r.working.Go(func() {
		if err := r.step(ctx, ref); err != nil && ctx.Err() == nil && !domain.IsCode(err, domain.CodeNotFound) {
			r.Report(fmt.Errorf("machine %s: %w", ref.Machine, err))
		}
		r.mu.Lock()
		delete(r.busy, ref.Machine)
		r.mu.Unlock()
		r.Topics.Wake(domain.ReconcileTopic)
	})
}

// step checks one machine and performs the next step with its provider.
func (r *Reconciler) step(ctx context.Context, ref Ref) error {
	s := domain.SystemScope(ref.Workspace, "machines")
	var do func(context.Context) error
	err := changeMachine(ctx, r.Store, s, ref.Machine, func(tx Tx, m *Machine, agent Agent) (err error) {
		do = nil // left by an earlier try of the transaction
		if m.DueAt == nil || m.DueAt.After(r.Clock.Now()) {
			return nil
		}
		do, err = r.decide(ctx, tx, s, m, agent)
		return err
	})
	if err != nil {
		rest(ctx, retryPause) // the machine is still due and would be retried at once
	}
	if err != nil || do == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	return do(ctx)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// changeMachine applies fn to the machine under its lock, and writes the machine if it changed.
func changeMachine(ctx context.Context, store domain.Store[Tx], s domain.Scope, id domain.MachineID, fn func(Tx, *Machine, Agent) error) error {
	return store.In(ctx, s, func(tx Tx) error {
		m, agent, err := tx.LockMachine(ctx, id)
		if err != nil {
			return err
		}
		before := m
		if err := fn(tx, &m, agent); err != nil {
			return err
		}
		if reflect.DeepEqual(before, m) {
			return nil
		}
		if err := tx.UpdateMachine(ctx, m); err != nil {
			return err
		}
		if before.State != m.State || before.Message != m.Message || before.ImageRef != m.ImageRef {
			tx.Notify(domain.MachinesTopic(s.Workspace()), domain.DispatchTopic)
		}
		if m.DueAt != nil && m.DueAt != before.DueAt {
			tx.Notify(domain.ReconcileTopic)
		}
		return nil
	})
}

// decide returns the next step for a due machine; nil if there is none. It claims the machine for
// the duration of the step.
func (r *Reconciler) decide(ctx context.Context, tx Tx, s domain.Scope, m *Machine, agent Agent) (func(context.Context) error, error) {
	now := r.Clock.Now()
	provider, err := r.Providers.of(m.Provider)
	if err != nil {
		return nil, err
	}
	work := machineStep{r: r, scope: s, provider: provider}
	if m.StateSince.After(now) { // the clock was set back while no server ran
		m.StateSince = now
	}
	m.DueAt = new(now.Add(claimTime))
	switch m.State {
	case Starting:
		return r.starting(ctx, tx, m, agent, work, now)
	case Running:
		return r.running(ctx, tx, m, agent, work, now)
	case Stopping:
		return r.stopping(ctx, tx, m, agent, work, now)
	case Failed:
		if !m.Released {
			work.machine = *m
			return work.clean, nil
		}
	}
	m.DueAt = nil
	return nil, nil
}

func (r *Reconciler) starting(ctx context.Context, tx Tx, m *Machine, agent Agent, work machineStep, now time.Time) (func(context.Context) error, error) {
	if now.Sub(m.StateSince) >= r.Times.Start {
		return nil, m.Apply(EventLate, m.late(r.Times.Start), now)
	}
	if m.Provider == ProviderLocal {
		m.Host = r.Host
	}
	if m.Made {
		work.machine = *m
		return work.look, nil
	}
	work.token = NewBootstrapToken()
	if err := tx.SetBootstrap(ctx, agent.ID, domain.HashSecret(work.token), now.Add(bootstrapFor)); err != nil {
		return nil, err
	}
	settings, err := tx.Provider(ctx)
	work.settings, work.machine = settings, *m
	return work.make, err
}

// late returns why a starting machine has failed. Its message is the reason why the provider has
// not created it yet.
func (m *Machine) late(within time.Duration) string {
	if !m.Made {
		return fmt.Sprintf("It could not be made within %s. %s", within, m.Message)
	}
	return fmt.Sprintf("Its agent did not connect within %s. The machine's log may say why.", within)
}

// running detects a machine that has gone, and stops one that was idle for too long. The idle time
// comes from the agent's monotonic clock: after a jump of this server's clock, it decides only
// after the next heartbeat.
func (r *Reconciler) running(ctx context.Context, tx Tx, m *Machine, agent Agent, work machineStep, now time.Time) (func(context.Context) error, error) {
	if agent.Session == "" && (agent.LeaseExpiresAt == nil || !agent.LeaseExpiresAt.After(now)) {
		return nil, r.again(ctx, tx, m, agent, "Its agent was silent for too long.", now)
	}
	busy, err := tx.Busy(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	if busy.Attempts > 0 || busy.Statements > 0 {
		m.IdleSince = nil
	}
	if m.Message = ""; agent.Session == "" {
		m.Message = "Its agent is not connected. If it stays silent, the machine restarts, and its tasks are retried where possible."
	}
	if at := m.AutoStopAt(); at != nil && !at.After(now) && !busy.Waiting && agent.LastSeenAt != nil && now.Sub(*agent.LastSeenAt).Abs() <= 3*r.Heartbeat {
		after, _ := m.AutoStop.after()
		if err := m.Apply(EventStop, fmt.Sprintf("It had nothing to do for %s.", after), now); err != nil {
			return nil, err
		}
		return nil, domain.Audited(ctx, tx, work.scope, m.Kind.action(verbStop), string(m.Kind), m.ID)
	}
	work.machine = *m
	return work.look, nil
}

// next returns when to check a running machine again; nil at rest.
func (r *Reconciler) next(m *Machine, agent Agent, now time.Time) *time.Time {
	at := m.AutoStopAt()
	switch {
	case agent.Session == "":
		return new(now.Add(lookAgain))
	case at != nil && at.Before(now.Add(r.Heartbeat)):
		return new(now.Add(r.Heartbeat))
	}
	return at
}

func (r *Reconciler) stopping(ctx context.Context, tx Tx, m *Machine, agent Agent, work machineStep, now time.Time) (func(context.Context) error, error) {
	busy, err := tx.Busy(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	passed := now.Sub(m.StateSince)
	work.machine = *m
	switch {
	case passed >= r.Times.Stop:
		return nil, m.Apply(EventLate, fmt.Sprintf("It could not be ended within %s and may still run; the server keeps trying.", r.Times.Stop), now)
	case busy.Attempts > 0 && passed < evictionTime && agent.Session != "":
		m.DueAt = new(m.StateSince.Add(evictionTime)) // due earlier if the last attempt ends before
		return work.evict, nil
	}
	return work.release, nil
}

// again restarts a machine that ended by itself. It invalidates the agent's token; the new
// incarnation gets a new one.
func (r *Reconciler) again(ctx context.Context, tx Tx, m *Machine, agent Agent, why string, now time.Time) error {
	if err := m.Apply(EventGone, why, now); err != nil {
		return err
	}
	return disconnect(ctx, tx, agent)
}

// disconnect ends an agent's session and invalidates its token, because its incarnation is gone or
// ending.
func disconnect(ctx context.Context, tx Tx, agent Agent) error {
	if _, err := tx.LockSession(ctx, agent.ID); err != nil {
		return err
	}
	if err := tx.SetBootstrap(ctx, agent.ID, nil, time.Time{}); err != nil {
		return err
	}
	agent.Session, agent.Replica, agent.Instance = "", "", ""
	if err := tx.UpdateAgent(ctx, agent); err != nil {
		return err
	}
	tx.Notify(domain.AgentTopic(agent.ID))
	return tx.UpdateAgentToken(ctx, agent.ID, domain.HashSecret(NewAgentToken()))
}

// Adopt makes the machines of this host due. A starting server calls it because it does not know
// their state.
func (r *Reconciler) Adopt(ctx context.Context) error {
	return r.System.CheckMachines(ctx, r.Host, r.Clock.Now())
}

// Gone makes a machine due after a provider's hint that it may have ended. It needs no
// Reconciler, because a Reconciler needs the providers.
func Gone(ctx context.Context, store domain.Store[Tx], clock domain.Clock, ref Ref) error {
	return changeMachine(ctx, store, domain.SystemScope(ref.Workspace, "machines"), ref.Machine, func(_ Tx, m *Machine, _ Agent) error {
		if m.Incarnation == ref.Incarnation && !m.Resting() {
			m.DueAt = new(clock.Now())
		}
		return nil
	})
}
