package domain

import "context"

// Agents manages a workspace's agents, and the attempts of agents that are lost.
type Agents struct {
	Store   Store[JobModTx]
	System  JobModSystem
	Topics  Topics
	Clock   Clock
	Runs    *Runs
	Lease   Lease
	Replica string // this replica's id
}

// List returns the workspace's own agents, oldest first. It omits the agents of machines.
func (a *Agents) List(ctx context.Context, s Scope, p Page) (List[Agent], error) {
	const list = "agents"
	if err := Authorize(ctx, a.Store, s, AgentRead); err != nil {
		return List[Agent]{}, err
	}
	after, limit, err := p.After(list)
	if err != nil {
		return List[Agent]{}, err
	}
	var rows []Agent
	err = a.Store.In(ctx, s, func(tx JobModTx) (err error) {
		rows, err = tx.Agents(ctx, AgentID(after), limit+1)
		return err
	})
	return PageOf(list, rows, limit, func(a Agent) string { return string(a.ID) }), err
}

// Get returns one agent.
func (a *Agents) Get(ctx context.Context, s Scope, id AgentID) (agent Agent, err error) {
	if err := Authorize(ctx, a.Store, s, AgentRead); err != nil {
		return Agent{}, err
	}
	err = a.Store.In(ctx, s, func(tx JobModTx) (err error) {
		agent, err = tx.Agent(ctx, id)
		return err
	})
	return agent, err
}

// ByID returns those agents with the given ids that are in the workspace.
func (a *Agents) ByID(ctx context.Context, s Scope, ids []AgentID) (agents []Agent, err error) {
	if err := Authorize(ctx, a.Store, s, AgentRead); err != nil {
		return nil, err
	}
	err = a.Store.In(ctx, s, func(tx JobModTx) (err error) {
		agents, err = tx.AgentsByID(ctx, ids)
		return err
	})
	return agents, err
}

// Watch wakes the channel whenever an agent of the workspace may have changed.
func (a *Agents) Watch(ctx context.Context, s Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := Authorize(ctx, a.Store, s, AgentRead); err != nil {
		return nil, nil, err
	}
	wake, stop = a.Topics.Subscribe(AgentsTopic(s.Workspace()))
	return wake, stop, nil
}

// RotateToken gives the agent a new token and ends the connection made with the old one.
func (a *Agents) RotateToken(ctx context.Context, s Scope, id AgentID) (agent Agent, token string, err error) {
	if err := Authorize(ctx, a.Store, s, AgentManage); err != nil {
		return Agent{}, "", err
	}
	token = NewAgentToken()
	err = a.Store.In(ctx, s, func(tx JobModTx) error {
		if agent, err = tx.LockSession(ctx, id); err != nil {
			return err
		}
		if agent.MachineID != "" {
			return Errorf(CodeConflict, "This agent belongs to %s, and gets a token at each start. To rotate it, stop and start that machine.", agent.MachineID)
		}
		agent.Session, agent.Replica = "", ""
		if err := tx.UpdateAgent(ctx, agent); err != nil {
			return err
		}
		if err := tx.UpdateAgentToken(ctx, id, HashSecret(token)); err != nil {
			return err
		}
		tx.Notify(AgentTopic(id), AgentsTopic(s.Workspace()))
		return Audited(ctx, tx, s, AgentManage, "agent", id)
	})
	return agent, token, err
}
