package job

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// AgentHello is the first message of an agent on every connection.
type AgentHello struct {
	Session  string // new for every connection
	Token    []byte // hash of the token that the connection was opened with
	Instance string // identifies the agent's data directory
	Version  string
	Hostname string
	OS, Arch string
	Slots    int
	Idle     time.Duration // how long nothing has run there, by a monotonic clock
	Engines  []machine.Engine
	Attempts []AttemptReport // the attempts that it holds
}

// Desire is the state that the server wants of an attempt.
type Desire string

// The desires.
const (
	DesireRun    Desire = "run"    // let it run
	DesireCancel Desire = "cancel" // end it and report, or never start it and report
	DesireForget Desire = "forget" // kill it and drop it, without a report
)

// Desired is the desired state of one attempt that the agent holds.
type Desired struct {
	Attempt domain.AttemptID
	Desire  Desire
	LogNext int64 // the first log byte the server does not have
}

// AgentHeartbeat is what an agent reports at each heartbeat, and when its engines change.
type AgentHeartbeat struct {
	Session string
	Running []domain.AttemptID // the attempts that have not exited
	Idle    time.Duration      // as in AgentHello
	Engines []machine.Engine   // as in AgentHello; nil if unchanged
}

// AgentOrders answers an agent's hello or heartbeat.
type AgentOrders struct {
	Attempts  []Desired
	Warehouse *machine.WarehouseSettings // nil if the agent is not a warehouse's
}

// ErrTokenReplaced says that the connection was opened with a token that is no longer valid.
var ErrTokenReplaced = domain.Errorf(domain.CodeUnauthenticated, "This agent's token has been replaced. Start the agent with the new one.")

// Hello makes the connection the agent's only one. It returns the desired state of every attempt
// that the agent holds, and stores what the agent reports of running attempts. Attempts that the
// agent lacks are sent to it.
func (a *Agents) Hello(ctx context.Context, s domain.Scope, h AgentHello) (orders AgentOrders, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentConnect); err != nil {
		return AgentOrders{}, err
	}
	if h.Slots < 1 || h.Slots > machine.MaxSlots {
		return AgentOrders{}, domain.Invalid("slots", "An agent has from 1 to %d slots.", machine.MaxSlots)
	}
	for field, text := range map[string]string{"instance": h.Instance, "version": h.Version, "hostname": h.Hostname, "os": h.OS, "arch": h.Arch} {
		if err := domain.ValidText(field, text, domain.MaxNamed); err != nil {
			return AgentOrders{}, err
		}
	}
	id := domain.AgentID(s.Actor().ID)
	var live []Attempt
	var ends map[domain.AttemptID]LogEnd
	err = a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.LockSession(ctx, id)
		if err != nil {
			return err
		}
		if !bytes.Equal(agent.TokenHash, h.Token) {
			return ErrTokenReplaced
		}
		if live, err = tx.LiveAttempts(ctx, id); err != nil {
			return err
		}
		if err := a.replaces(agent, h, live); err != nil {
			return err
		}
		a.connect(&agent, h)
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		if agent.MachineID != "" {
			if orders.Warehouse, err = a.ready(ctx, tx, s, agent, h, live); err != nil {
				return err
			}
		}
		ends, err = tx.LogEnds(ctx, attemptIDs(live))
		tx.Notify(domain.AgentTopic(id), domain.AgentsTopic(s.Workspace()), domain.DispatchTopic)
		return err
	})
	if err != nil {
		return AgentOrders{}, err
	}
	orders.Attempts, err = a.desired(ctx, s, h, live, ends)
	return orders, err
}

// replaces refuses a second instance of the agent while the lease of the first runs. Otherwise the
// processes of both would run at once.
func (a *Agents) replaces(agent machine.Agent, h AgentHello, live []Attempt) error {
	if agent.Instance == "" || agent.Instance == h.Instance || a.expired(agent) || agent.Session == "" && len(live) == 0 {
		return nil
	}
	return domain.Errorf(domain.CodeConflict, "Another instance of the agent %s, on %s, may still be at work until %s. Start this one with the same data directory, or give each agent its own token.",
		agent.Name, agent.Hostname, agent.LeaseExpiresAt.UTC().Format(time.RFC3339))
}

func (a *Agents) connect(agent *machine.Agent, h AgentHello) {
	now := a.Clock.Now()
	until := now.Add(a.Lease.Length)
	agent.Session, agent.Replica, agent.Instance = h.Session, a.Replica, h.Instance
	agent.Version, agent.Hostname, agent.OS, agent.Arch = h.Version, h.Hostname, h.OS, h.Arch
	agent.Slots = h.Slots
	agent.ConnectedAt, agent.LastSeenAt, agent.LeaseExpiresAt = &now, &now, &until
}

func (a *Agents) desired(ctx context.Context, s domain.Scope, h AgentHello, live []Attempt, ends map[domain.AttemptID]LogEnd) ([]Desired, error) {
	held := map[domain.AttemptID]AttemptReport{}
	for _, r := range h.Attempts {
		held[r.Attempt] = r
	}
	var all []Desired
	alive := map[domain.AttemptID]bool{}
	for _, at := range live {
		alive[at.ID] = true
		rep, holds := held[at.ID]
		if !holds {
			wanted, err := a.absent(ctx, s, at)
			if err != nil {
				return nil, err
			}
			all = append(all, wanted...)
			continue
		}
		if err := a.news(ctx, s, at, rep); err != nil {
			return nil, err
		}
		d := Desired{Attempt: at.ID, Desire: DesireRun, LogNext: ends[at.ID].Offset}
		if at.CancelRequestedAt != nil {
			d.Desire = DesireCancel
		}
		all = append(all, d)
	}
	for _, r := range h.Attempts {
		if !alive[r.Attempt] {
			all = append(all, Desired{Attempt: r.Attempt, Desire: DesireForget})
		}
	}
	return all, nil
}

// news stores what a hello reports of an attempt that has not ended. The agent reports the end
// separately, after the log.
func (a *Agents) news(ctx context.Context, s domain.Scope, at Attempt, rep AttemptReport) error {
	started := rep.Started && at.Status == AttemptStarting
	if rep.Exited || !started && domain.Shown(rep.Held) == at.Held {
		return nil
	}
	if err := a.Runs.Report(ctx, s, rep); !errors.Is(err, ErrAttemptOver) {
		return err
	}
	return nil // it has ended meanwhile; the next heartbeat answers so
}

// absent handles a live attempt that its agent does not hold. An attempt that did not arrive is
// sent again. A cancelled one may still be on its way: the agent is asked to cancel it, and its
// report ends the attempt. An attempt that ran there is lost, because agents keep every attempt
// until its end is acknowledged.
func (a *Agents) absent(ctx context.Context, s domain.Scope, at Attempt) ([]Desired, error) {
	end := AttemptEnd{Status: AttemptLost, Message: "The agent no longer knows this attempt: its data was lost."}
	switch cancelled := at.CancelRequestedAt; {
	case at.Status == AttemptStarting && cancelled == nil:
		a.Runs.redeliver(s, at)
		return nil, nil
	// agents of earlier versions do not report it
	case at.Status == AttemptStarting && a.Clock.Now().Sub(*cancelled) < a.Lease.Length:
		return []Desired{{Attempt: at.ID, Desire: DesireCancel}}, nil
	case cancelled != nil:
		end = AttemptEnd{Status: AttemptCancelled}
	}
	return nil, a.Runs.endAttempt(ctx, s, at.ID, end)
}

// ErrSuperseded says that the connection is no longer the agent's current one.
var ErrSuperseded = domain.Errorf(domain.CodeConflict, "This connection has been replaced by a newer one of the same agent.")

// Heartbeat extends the lease of the agent and of its attempts. It returns the attempts that the
// agent must cancel or forget. Attempts that did not arrive are sent again.
func (a *Agents) Heartbeat(ctx context.Context, s domain.Scope, h AgentHeartbeat) (orders AgentOrders, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentConnect); err != nil {
		return AgentOrders{}, err
	}
	id := domain.AgentID(s.Actor().ID)
	var live []Attempt
	err = a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.LockAgent(ctx, id)
		if err != nil {
			return err
		}
		if agent.Session != h.Session {
			return ErrSuperseded
		}
		now := a.Clock.Now()
		until := now.Add(a.Lease.Length)
		agent.LastSeenAt, agent.LeaseExpiresAt = &now, &until
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		if live, err = tx.LiveAttempts(ctx, id); err != nil || agent.MachineID == "" || len(live) > 0 {
			return err // a warehouse has no attempts
		}
		orders.Warehouse, err = a.beats(ctx, tx, s, agent.MachineID, h)
		return err
	})
	if err != nil {
		return AgentOrders{}, err
	}
	orders.Attempts, err = a.corrections(ctx, s, live, h.Running)
	return orders, err
}

// undelivered is how long an attempt may be in transit before it is sent again.
const undelivered = 5 * time.Second

func (a *Agents) corrections(ctx context.Context, s domain.Scope, live []Attempt, running []domain.AttemptID) ([]Desired, error) {
	var all []Desired
	alive, held := map[domain.AttemptID]bool{}, map[domain.AttemptID]bool{}
	for _, id := range running {
		held[id] = true
	}
	for _, at := range live {
		alive[at.ID] = true
		switch {
		case held[at.ID] && at.CancelRequestedAt != nil:
			all = append(all, Desired{Attempt: at.ID, Desire: DesireCancel})
		case !held[at.ID] && at.Status == AttemptStarting && a.Clock.Now().Sub(at.CreatedAt) > undelivered:
			wanted, err := a.absent(ctx, s, at)
			if err != nil {
				return nil, err
			}
			all = append(all, wanted...)
		}
	}
	for _, id := range running {
		if !alive[id] {
			all = append(all, Desired{Attempt: id, Desire: DesireForget})
		}
	}
	return all, nil
}

// Disconnected records that the connection has ended. The lease continues.
func (a *Agents) Disconnected(ctx context.Context, s domain.Scope, session string) error {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentConnect); err != nil {
		return err
	}
	id := domain.AgentID(s.Actor().ID)
	return a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.LockSession(ctx, id)
		if err != nil || agent.Session != session {
			return err
		}
		now := a.Clock.Now()
		agent.Session, agent.Replica, agent.LastSeenAt = "", "", &now
		tx.Notify(domain.AgentTopic(id), domain.AgentsTopic(s.Workspace()))
		if err := tx.UpdateAgent(ctx, agent); err != nil || agent.MachineID == "" {
			return err
		}
		return a.machineDue(ctx, tx, s, agent.MachineID)
	})
}

// Current reports whether the session is the agent's current one. over is true if the agent's token
// was replaced or the agent was deleted: the connection must then be closed.
func (a *Agents) Current(ctx context.Context, s domain.Scope, session string, token []byte) (current, over bool, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentConnect); err != nil {
		return false, false, err
	}
	err = a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.Agent(ctx, domain.AgentID(s.Actor().ID))
		current = agent.Session == session
		over = !bytes.Equal(agent.TokenHash, token)
		return err
	})
	if domain.IsCode(err, domain.CodeNotFound) {
		return false, true, nil
	}
	return current, over, err
}

// Sweep declares lost all attempts of agents with an expired lease. They can no longer commit
// anything, and are retried if their task allows it.
func (a *Agents) Sweep(ctx context.Context) error {
	expired, err := a.System.ExpiredAgents(ctx, a.Clock.Now())
	if err != nil {
		return err
	}
	var failed []error
	for _, ref := range expired {
		failed = append(failed, a.lose(ctx, ref))
	}
	return errors.Join(failed...)
}

func (a *Agents) lose(ctx context.Context, ref domain.AgentRef) error {
	s := domain.SystemScope(ref.Workspace, "agent lease")
	var live []Attempt
	err := a.Store.In(ctx, s, func(tx Tx) error {
		live = nil // left by an earlier try of the transaction
		agent, err := tx.LockSession(ctx, ref.Agent)
		if err != nil || !a.expired(agent) {
			return err
		}
		agent.Session, agent.Replica = "", ""
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		if agent.MachineID != "" {
			if err := a.machineDue(ctx, tx, s, agent.MachineID); err != nil {
				return err
			}
		}
		tx.Notify(domain.AgentTopic(ref.Agent), domain.AgentsTopic(ref.Workspace))
		live, err = tx.LiveAttempts(ctx, ref.Agent)
		return err
	})
	if err != nil {
		return err
	}
	var failed []error
	for _, at := range live {
		end := AttemptEnd{Status: AttemptLost, Message: "The agent was silent for too long, so this attempt was declared lost."}
		failed = append(failed, a.Runs.endAttemptIf(ctx, s, at.ID, end, func(tx Tx) (bool, error) {
			agent, err := tx.LockAgent(ctx, ref.Agent)
			return a.expired(agent), err
		}))
	}
	return errors.Join(failed...)
}

// expired reports whether the agent's lease has expired. The agent may return at any moment, so
// call it under the agent's lock.
func (a *Agents) expired(agent machine.Agent) bool {
	return agent.LeaseExpiresAt == nil || !agent.LeaseExpiresAt.After(a.Clock.Now())
}

// Measured stores the usage that a machine's agent reports. It returns CodeNotFound for the
// workspace's own agent.
func (a *Agents) Measured(ctx context.Context, s domain.Scope, metrics machine.Metrics) error {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentConnect); err != nil {
		return err
	}
	metrics.At = a.Clock.Now()
	metrics.GPUs = metrics.GPUs[:min(len(metrics.GPUs), machine.MaxGPUs)]
	for i := range metrics.GPUs {
		metrics.GPUs[i].Name = domain.Shown(metrics.GPUs[i].Name)
	}
	var id domain.MachineID
	err := a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.Agent(ctx, domain.AgentID(s.Actor().ID))
		if err != nil {
			return err
		}
		if id = agent.MachineID; id == "" {
			return domain.Errorf(domain.CodeNotFound, "This agent has no machine, so its metrics are not stored.")
		}
		return tx.SaveMetrics(ctx, id, metrics)
	})
	if err == nil {
		a.Topics.Wake(domain.MetricsTopic(id))
		a.Topics.WakeOthers(domain.MetricsTopic(id))
	}
	return err
}

// engines stores the engines that the machine's agent reports, if they changed.
func (a *Agents) engines(ctx context.Context, tx Tx, s domain.Scope, m machine.Machine, reported []machine.Engine) error {
	engines := machine.BoundedEngines(reported)
	if slices.Equal(engines, m.Engines) {
		return nil
	}
	tx.Notify(domain.MachinesTopic(s.Workspace()))
	return tx.SetEngines(ctx, m.AgentID, engines)
}
