package domain

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// MachineTimes bound the transitions of machines.
type MachineTimes struct {
	Start time.Duration // from the start to an agent that is connected
	Stop  time.Duration // from the stop to nothing left
}

// DefaultMachineTimes leave room for the three minutes that the specification gives a warehouse.
var DefaultMachineTimes = MachineTimes{Start: 5 * time.Minute, Stop: 2 * time.Minute}

// Reconciler makes machines what is wanted of them. Every replica may run one: a machine that is due is claimed in its row, the provider is asked outside
// of any transaction, and what came of it is an event for the machine's state machine. A server that dies in between has forgotten nothing: the machine is
// due again when the claim is over, or when the server is back.
type Reconciler struct {
	Store     Store
	System    System
	Clock     Clock
	Runs      *Runs
	Providers Providers
	Times     MachineTimes
	Heartbeat time.Duration // of agents
	Host      string        // of this server's own machines
	Server    string        // address that machines connect to
	Report    func(error)   // for the log

	mu      sync.Mutex
	busy    map[MachineID]bool
	working sync.WaitGroup
}

// Bounds of the reconciler's work.
const (
	maxSteps     = 16               // machines worked on at once
	stepTime     = 50 * time.Second // for one call of a provider
	claimTime    = time.Minute      // after which another replica takes over; longer than stepTime
	retryPause   = 5 * time.Second  // after a call that failed for a passing reason
	lookAgain    = 5 * time.Second  // at a machine whose agent is not connected
	evictionTime = 15 * time.Second // for what runs to end by itself: longer than the grace of its processes
	bootstrapFor = 10 * time.Minute // the life of a bootstrap token, from the design
)

// Tick works on the machines that are due, each in a goroutine of its own, and returns when the next one will be; the zero time when none will. At rest it
// costs one query, whatever there is.
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
		r.begin(ctx, d.MachineRef)
	}
	return time.Time{}, nil
}

// Wait waits for the work that Tick began.
func (r *Reconciler) Wait() { r.working.Wait() }

func (r *Reconciler) kinds() []ProviderKind {
	kinds := make([]ProviderKind, 0, len(r.Providers))
	for kind := range r.Providers {
		kinds = append(kinds, kind)
	}
	return kinds
}

func (r *Reconciler) begin(ctx context.Context, ref MachineRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy == nil {
		r.busy = map[MachineID]bool{}
	}
	if r.busy[ref.Machine] || len(r.busy) >= maxSteps {
		return // the end of a step wakes the loop
	}
	r.busy[ref.Machine] = true
	r.working.Go(func() {
		if err := r.step(ctx, ref); err != nil && ctx.Err() == nil && !IsCode(err, CodeNotFound) {
			r.Report(fmt.Errorf("machine %s: %w", ref.Machine, err))
		}
		r.mu.Lock()
		delete(r.busy, ref.Machine)
		r.mu.Unlock()
		r.Runs.Topics.Wake(ReconcileTopic)
	})
}

// step looks at one machine, and does with its provider what is to be done.
func (r *Reconciler) step(ctx context.Context, ref MachineRef) error {
	s := SystemScope(ref.Workspace, "machines")
	var do func(context.Context) error
	err := r.change(ctx, s, ref.Machine, func(tx Tx, m *Machine, agent Agent) (err error) {
		do = nil // of an earlier try
		if m.DueAt == nil || m.DueAt.After(r.Clock.Now()) {
			return nil
		}
		do, err = r.decide(ctx, tx, s, m, agent)
		return err
	})
	if err != nil {
		rest(ctx, retryPause) // the machine is due as before, and would be begun again at once
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

// change applies fn to the machine under its lock, and writes it where that changed it.
func (r *Reconciler) change(ctx context.Context, s Scope, id MachineID, fn func(Tx, *Machine, Agent) error) error {
	return r.Store.In(ctx, s, func(tx Tx) error {
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
			tx.Notify(MachinesTopic(s.workspace), DispatchTopic)
		}
		if m.DueAt != nil && m.DueAt != before.DueAt {
			tx.Notify(ReconcileTopic)
		}
		return nil
	})
}

// decide says what is to be done about a machine that is due; nil for nothing. It claims the machine for as long as that may take.
func (r *Reconciler) decide(ctx context.Context, tx Tx, s Scope, m *Machine, agent Agent) (func(context.Context) error, error) {
	now := r.Clock.Now()
	provider, err := r.Providers.of(m.Provider)
	if err != nil {
		return nil, err
	}
	work := errand{r: r, scope: s, provider: provider}
	if m.StateSince.After(now) { // the clock was set back while no server ran
		m.StateSince = now
	}
	m.DueAt = new(now.Add(claimTime))
	switch m.State {
	case MachineStarting:
		return r.starting(ctx, tx, m, agent, work, now)
	case MachineRunning:
		return r.running(ctx, tx, m, agent, work, now)
	case MachineStopping:
		return r.stopping(ctx, tx, m, agent, work, now)
	case MachineFailed:
		if !m.Released {
			work.machine = *m
			return work.clean, nil
		}
	}
	m.DueAt = nil
	return nil, nil
}

func (r *Reconciler) starting(ctx context.Context, tx Tx, m *Machine, agent Agent, work errand, now time.Time) (func(context.Context) error, error) {
	if now.Sub(m.StateSince) >= r.Times.Start {
		return nil, m.Apply(EventLate, fmt.Sprintf("Its agent did not connect within %s. The machine's log may say why.", r.Times.Start), now)
	}
	if m.Provider == ProviderLocal {
		m.Host = r.Host
	}
	if m.Made {
		work.machine = *m
		return work.look, nil
	}
	work.token = NewBootstrapToken()
	if err := tx.SetBootstrap(ctx, agent.ID, HashSecret(work.token), now.Add(bootstrapFor)); err != nil {
		return nil, err
	}
	settings, err := tx.Provider(ctx)
	work.settings, work.machine = settings, *m
	return work.make, err
}

// running finds a machine that has gone, and stops one that was idle for long enough. Whether it was is told by its agent, whose clock nobody sets: after a
// jump of this server's clock nothing is decided before the agent was heard again.
func (r *Reconciler) running(ctx context.Context, tx Tx, m *Machine, agent Agent, work errand, now time.Time) (func(context.Context) error, error) {
	if agent.Session == "" && (agent.LeaseExpiresAt == nil || !agent.LeaseExpiresAt.After(now)) {
		return nil, r.again(ctx, tx, m, agent, "Its agent was not heard of for too long.", now)
	}
	live, err := tx.LiveAttempts(ctx, agent.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := tx.WaitingRuns(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	statements, err := tx.LiveStatements(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	if len(live) > 0 || statements > 0 {
		m.IdleSince = nil
	}
	if m.Message = ""; agent.Session == "" {
		m.Message = "Its agent is not connected. If it is not heard of soon, the machine is made again, and its tasks go on where they can."
	}
	if at := m.AutoStopAt(); at != nil && !at.After(now) && len(waiting) == 0 && agent.LastSeenAt != nil && now.Sub(*agent.LastSeenAt).Abs() <= 3*r.Heartbeat {
		after, _ := m.AutoStop.after()
		if err := m.Apply(EventStop, fmt.Sprintf("It had nothing to do for %s.", after), now); err != nil {
			return nil, err
		}
		return nil, audited(ctx, tx, work.scope, m.Kind.action(verbStop), string(m.Kind), m.ID)
	}
	work.machine = *m
	return work.look, nil
}

// next is when a running machine is to be looked at again; nil at rest.
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

func (r *Reconciler) stopping(ctx context.Context, tx Tx, m *Machine, agent Agent, work errand, now time.Time) (func(context.Context) error, error) {
	live, err := tx.LiveAttempts(ctx, agent.ID)
	if err != nil {
		return nil, err
	}
	passed := now.Sub(m.StateSince)
	work.machine, work.live = *m, live
	switch {
	case passed >= r.Times.Stop:
		return nil, m.Apply(EventLate, fmt.Sprintf("It could not be ended within %s and may still run; that is tried on.", r.Times.Stop), now)
	case len(live) > 0 && passed < evictionTime && agent.Session != "":
		m.DueAt = new(m.StateSince.Add(evictionTime)) // the end of the last one makes it due before
		return work.evict, nil
	}
	return work.release, nil
}

// again makes the machine anew after it went by itself. Its agent's ways in are closed; the new incarnation gets its own.
func (r *Reconciler) again(ctx context.Context, tx Tx, m *Machine, agent Agent, why string, now time.Time) error {
	if err := m.Apply(EventGone, why, now); err != nil {
		return err
	}
	return disconnect(ctx, tx, agent)
}

// disconnect ends an agent's session and takes its token: what was made for it is gone, or is to go.
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
	tx.Notify(AgentTopic(agent.ID))
	return tx.UpdateAgentToken(ctx, agent.ID, HashSecret(NewAgentToken()))
}

// Adopt makes the machines of this host due, as a server does that starts: it does not know what became of them meanwhile.
func (r *Reconciler) Adopt(ctx context.Context) error {
	return r.System.CheckMachines(ctx, r.Host, r.Clock.Now())
}

// Gone is a provider's hint that a machine may have gone.
func (r *Reconciler) Gone(ctx context.Context, ref MachineRef) error {
	return r.change(ctx, SystemScope(ref.Workspace, "machines"), ref.Machine, func(_ Tx, m *Machine, _ Agent) error {
		if m.Incarnation == ref.Incarnation && !m.resting() {
			m.DueAt = new(r.Clock.Now())
		}
		return nil
	})
}
