package domain

import (
	"context"
	"time"
)

// Enroll exchanges a machine's bootstrap token for the token of its agent. A bootstrap token works
// once, for ten minutes.
func (a *Agents) Enroll(ctx context.Context, bootstrap string) (id AgentID, token string, err error) {
	unknown := Errorf(CodeUnauthenticated, "The bootstrap token is invalid, was used, or is older than ten minutes. Start the machine again.")
	hash := HashSecret(bootstrap)
	ref, err := a.System.BootstrapAgent(ctx, hash)
	if IsCode(err, CodeNotFound) {
		return "", "", unknown
	}
	if err != nil {
		return "", "", err
	}
	token = NewAgentToken()
	err = a.Store.In(ctx, SystemScope(ref.Workspace, "enrollment"), func(tx JobModTx) error {
		if _, err := tx.LockSession(ctx, ref.Agent); err != nil {
			return err
		}
		taken, err := tx.TakeBootstrap(ctx, ref.Agent, hash, a.Clock.Now())
		if err != nil {
			return err
		}
		if !taken {
			return unknown
		}
		tx.Notify(AgentTopic(ref.Agent)) // ends a connection that used the previous token
		if err := tx.UpdateAgentToken(ctx, ref.Agent, HashSecret(token)); err != nil {
			return err
		}
		return Audited(ctx, tx, SystemScope(ref.Workspace, "enrollment"), AgentEnroll, "agent", ref.Agent)
	})
	return ref.Agent, token, err
}

// ready records on the agent's machine that the agent is connected.
func (a *Agents) ready(ctx context.Context, tx JobModTx, s Scope, agent Agent, h AgentHello, live []Attempt) (*WarehouseSettings, error) {
	m, _, err := tx.LockMachine(ctx, agent.MachineID)
	if IsCode(err, CodeNotFound) || err == nil && m.resting() {
		return nil, ErrTokenReplaced // nothing of the machine remains
	}
	if err != nil {
		return nil, err
	}
	if err := a.engines(ctx, tx, s, m, h.Engines); err != nil {
		return nil, err
	}
	now := a.Clock.Now()
	if err := m.Apply(EventReady, "", now); err != nil || m.State != MachineRunning {
		return m.settings(), err
	}
	m.Made, m.IdleSince, m.Message = true, nil, ""
	if len(live) == 0 {
		m.IdleSince = new(now.Add(-h.Idle))
	}
	m.DueAt = m.AutoStopAt()
	tx.Notify(MachinesTopic(s.Workspace()), ReconcileTopic)
	return m.settings(), tx.UpdateMachine(ctx, m)
}

// beats stores what a heartbeat of a machine's agent reports besides attempts.
func (a *Agents) beats(ctx context.Context, tx JobModTx, s Scope, id MachineID, h AgentHeartbeat) (*WarehouseSettings, error) {
	m, err := tx.Machine(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.Engines != nil {
		if err := a.engines(ctx, tx, s, m, h.Engines); err != nil {
			return nil, err
		}
	}
	return m.settings(), a.idle(ctx, tx, s, m, h.Idle)
}

// idleSlack is the tolerated error of a machine's IdleSince.
const idleSlack = 5 * time.Second

// idle corrects a machine's IdleSince from the agent's monotonic clock, because this server's clock
// may have been set.
func (a *Agents) idle(ctx context.Context, tx JobModTx, s Scope, m Machine, idle time.Duration) (err error) {
	since := a.Clock.Now().Add(-idle)
	off := func(m Machine) bool {
		return m.State == MachineRunning && idle > 0 && (m.IdleSince == nil || m.IdleSince.Sub(since).Abs() > idleSlack)
	}
	if !off(m) {
		return nil
	}
	if m, _, err = tx.LockMachine(ctx, m.ID); err != nil || !off(m) {
		return err
	}
	m.IdleSince = &since
	if m.LastUsedAt == nil || since.After(*m.LastUsedAt) {
		m.LastUsedAt = &since // the only source of this time for a warehouse
	}
	m.DueAt = m.AutoStopAt()
	tx.Notify(ReconcileTopic, MachinesTopic(s.Workspace()))
	return tx.UpdateMachine(ctx, m)
}

// machineDue makes the reconciler check the machine now.
func (a *Agents) machineDue(ctx context.Context, tx JobModTx, s Scope, id MachineID) error {
	m, _, err := tx.LockMachine(ctx, id)
	if IsCode(err, CodeNotFound) || err == nil && m.resting() {
		return nil
	}
	if err != nil {
		return err
	}
	m.DueAt = new(a.Clock.Now())
	tx.Notify(ReconcileTopic, MachinesTopic(s.Workspace()))
	return tx.UpdateMachine(ctx, m)
}
