package job

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Agents manages a workspace's agents, and the attempts of agents that are lost.
type Agents struct {
	Store   domain.Store[Tx]
	System  System
	Topics  domain.Topics
	Clock   domain.Clock
	Runs    *Runs
	Lease   machine.Lease
	Replica string // this replica's id
}

// List returns the workspace's own agents, oldest first. It omits the agents of machines.
func (a *Agents) List(ctx context.Context, s domain.Scope, p domain.Page) (domain.List[machine.Agent], error) {
	const list = "agents"
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentRead); err != nil {
		return domain.List[machine.Agent]{}, err
	}
	after, limit, err := p.After(list)
	if err != nil {
		return domain.List[machine.Agent]{}, err
	}
	var rows []machine.Agent
	err = a.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Agents(ctx, domain.AgentID(after), limit+1)
		return err
	})
	return domain.PageOf(list, rows, limit, func(a machine.Agent) string { return string(a.ID) }), err
}

// Get returns one agent.
func (a *Agents) Get(ctx context.Context, s domain.Scope, id domain.AgentID) (agent machine.Agent, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentRead); err != nil {
		return machine.Agent{}, err
	}
	err = a.Store.In(ctx, s, func(tx Tx) (err error) {
		agent, err = tx.Agent(ctx, id)
		return err
	})
	return agent, err
}

// ByID returns those agents with the given ids that are in the workspace.
func (a *Agents) ByID(ctx context.Context, s domain.Scope, ids []domain.AgentID) (agents []machine.Agent, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentRead); err != nil {
		return nil, err
	}
	err = a.Store.In(ctx, s, func(tx Tx) (err error) {
		agents, err = tx.AgentsByID(ctx, ids)
		return err
	})
	return agents, err
}

// Watch wakes the channel whenever an agent of the workspace may have changed.
func (a *Agents) Watch(ctx context.Context, s domain.Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentRead); err != nil {
		return nil, nil, err
	}
	wake, stop = a.Topics.Subscribe(domain.AgentsTopic(s.Workspace()))
	return wake, stop, nil
}

// Follow returns a follower of the workspace's own agents.
func (a *Agents) Follow(s domain.Scope) *AgentFollower {
	return &AgentFollower{agents: a, scope: s, sent: map[domain.AgentID]shownAgent{}}
}

// AgentFollower finds changes of agents for one subscriber. It compares all agents, which are few:
// attempts and the clock change what readers see of an agent without a write of its row.
type AgentFollower struct {
	agents *Agents
	scope  domain.Scope
	sent   map[domain.AgentID]shownAgent
}

type shownAgent struct {
	row    domain.Change
	busy   int
	status machine.AgentStatus
}

// Each calls send with each agent that is new or has changed since the last call.
func (f *AgentFollower) Each(ctx context.Context, send func(machine.Agent) error) error {
	now := f.agents.Clock.Now()
	for p := (domain.Page{Limit: domain.MaxLimit}); ; {
		l, err := f.agents.List(ctx, f.scope, p)
		if err != nil {
			return err
		}
		for _, agent := range l.Items {
			shown := shownAgent{agent.Changed, agent.Busy, agent.Status(now)}
			if before, known := f.sent[agent.ID]; known && before == shown {
				continue
			}
			f.sent[agent.ID] = shown
			if err := send(agent); err != nil {
				return err
			}
		}
		if p.Cursor = l.Next; p.Cursor == "" {
			return nil
		}
	}
}

// RotateToken gives the agent a new token and ends the connection made with the old one.
func (a *Agents) RotateToken(ctx context.Context, s domain.Scope, id domain.AgentID) (agent machine.Agent, token string, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.AgentManage); err != nil {
		return machine.Agent{}, "", err
	}
	token = machine.NewAgentToken()
	err = a.Store.In(ctx, s, func(tx Tx) error {
		if agent, err = tx.LockSession(ctx, id); err != nil {
			return err
		}
		if agent.MachineID != "" {
			return domain.Errorf(domain.CodeConflict, "This agent belongs to %s, and gets a token at each start. To rotate it, stop and start that machine.", agent.MachineID)
		}
		agent.Session, agent.Replica = "", ""
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		if err := tx.UpdateAgentToken(ctx, id, domain.HashSecret(token)); err != nil {
			return err
		}
		tx.Notify(domain.AgentTopic(id), domain.AgentsTopic(s.Workspace()))
		return domain.Audited(ctx, tx, s, domain.AgentManage, "agent", id)
	})
	return agent, token, err
}
