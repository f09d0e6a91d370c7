package job

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Enroll exchanges a machine's bootstrap token for the token of its agent. A bootstrap token works
// once, for ten minutes.
func (a *Agents) Enroll(ctx context.Context, bootstrap string) (id domain.AgentID, token string, err error) {
	unknown := domain.Errorf(domain.CodeUnauthenticated, "The bootstrap token is invalid, was used, or is older than ten minutes. Start the machine again.")
	hash := domain.HashSecret(bootstrap)
	ref, err := a.System.BootstrapAgent(ctx, hash)
	if domain.IsCode(err, domain.CodeNotFound) {
		return "", "", unknown
	}
	if err != nil {
		return "", "", err
	}
	token = machine.NewAgentToken()
	err = a.Store.In(ctx, domain.SystemScope(ref.Workspace, "enrollment"), func(tx Tx) error {
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
		tx.Notify(domain.AgentTopic(ref.Agent)) // ends a connection that used the previous token
		if err := tx.UpdateAgentToken(ctx, ref.Agent, domain.HashSecret(token)); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, domain.SystemScope(ref.Workspace, "enrollment"), domain.AgentEnroll, "agent", ref.Agent)
	})
	return ref.Agent, token, err
}

// ready records on the agent's machine that the agent is connected.
func (a *Agents) ready(ctx context.Context, tx Tx, s domain.Scope, agent machine.Agent, h AgentHello, live []Attempt) (*machine.WarehouseSettings, error) {
	m, _, err := tx.LockMachine(ctx, agent.MachineID)
	if domain.IsCode(err, domain.CodeNotFound) || err == nil && m.Resting() {
		return nil, ErrTokenReplaced // nothing of the machine remains
	}
	if err != nil {
		return nil, err
	}
	if err := a.engines(ctx, tx, s, m, h.Engines); err != nil {
		return nil, err
	}
	now, ran := a.Clock.Now(), m.State == machine.Running
	if err := m.Apply(machine.EventReady, "", now); err != nil || m.State != machine.Running {
		return m.Settings(), err
	}
	if m.Kind == machine.KindWarehouse && !ran {
		if err := tx.HurryHeld(ctx, now); err != nil {
			return nil, err
		}
		tx.Notify(domain.MaintenanceTopic)
	}
	m.Made, m.IdleSince, m.Message = true, nil, ""
	if len(live) == 0 {
		m.IdleSince = new(now.Add(-h.Idle))
	}
	m.DueAt = m.AutoStopAt()
	tx.Notify(domain.MachinesTopic(s.Workspace()), domain.ReconcileTopic)
	return m.Settings(), tx.UpdateMachine(ctx, m)
}

// beats stores what a heartbeat of a machine's agent reports besides attempts.
func (a *Agents) beats(ctx context.Context, tx Tx, s domain.Scope, id domain.MachineID, h AgentHeartbeat) (*machine.WarehouseSettings, error) {
	m, err := tx.Machine(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.Engines != nil {
		if err := a.engines(ctx, tx, s, m, h.Engines); err != nil {
			return nil, err
		}
	}
	return m.Settings(), a.idle(ctx, tx, s, m, h.Idle)
}

// idleSlack is the tolerated error of a machine's IdleSince.
const idleSlack = 5 * time.Second

// idle corrects a machine's IdleSince from the agent's monotonic clock, because this server's clock
// may have been set.
func (a *Agents) idle(ctx context.Context, tx Tx, s domain.Scope, m machine.Machine, idle time.Duration) (err error) {
	since := a.Clock.Now().Add(-idle)
	off := func(m machine.Machine) bool {
		return m.State == machine.Running && idle > 0 && (m.IdleSince == nil || m.IdleSince.Sub(since).Abs() > idleSlack)
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
	tx.Notify(domain.ReconcileTopic, domain.MachinesTopic(s.Workspace()))
	return tx.UpdateMachine(ctx, m)
}

// machineDue makes the reconciler check the machine now.
func (a *Agents) machineDue(ctx context.Context, tx Tx, s domain.Scope, id domain.MachineID) error {
	m, _, err := tx.LockMachine(ctx, id)
	if domain.IsCode(err, domain.CodeNotFound) || err == nil && m.Resting() {
		return nil
	}
	if err != nil {
		return err
	}
	m.DueAt = new(a.Clock.Now())
	tx.Notify(domain.ReconcileTopic, domain.MachinesTopic(s.Workspace()))
	return tx.UpdateMachine(ctx, m)
}
