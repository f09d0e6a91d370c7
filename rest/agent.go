package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Agent is a process in the customer's cloud that runs the work.
type Agent struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status" enum:"new,connected,disconnected,lost" doc:"lost: disconnected for so long that the attempts on it were declared lost."`
	Version     string `json:"version"`
	Hostname    string `json:"hostname"`
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Slots       int    `json:"slots" doc:"How many tasks it runs at once."`
	Busy        int    `json:"busy" doc:"Slots in use."`
	CreatedAt   Time   `json:"created_at"`
	ConnectedAt *Time  `json:"connected_at" nullable:"true"`
	LastSeenAt  *Time  `json:"last_seen_at" nullable:"true"`
}

// AgentToken is an agent with its new token.
type AgentToken struct {
	Agent
	Token string `json:"token" example:"mp_agt_…" doc:"Shown once and not stored."`
}

// AgentPath is the path of operations on one agent.
type AgentPath struct {
	ID string `path:"id" doc:"The agent's id."`
}

func (a *api) showAgent(g machine.Agent) Agent {
	return Agent{
		ID: string(g.ID), Name: g.Name, Status: string(g.Status(a.Clock.Now())), Version: g.Version, Hostname: g.Hostname, OS: g.OS, Arch: g.Arch,
		Slots: g.Slots, Busy: g.Busy, CreatedAt: Time(g.CreatedAt), ConnectedAt: optionalTime(g.ConnectedAt), LastSeenAt: optionalTime(g.LastSeenAt),
	}
}

func (a *api) agentRoutes() {
	const tag = "Agents"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/agents", OperationID: "list-agents", Tags: []string{tag}, Summary: "List agents, oldest first",
		Description: "The workspace's own agents. Those of compute instances and warehouses are found by their agent_id.",
	}, a.listAgents)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/settings/agents/{id}", OperationID: "get-agent", Tags: []string{tag}, Summary: "Get an agent",
	}, a.getAgent)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/settings/agents/{id}/rotate-token", OperationID: "rotate-agent-token", Tags: []string{tag},
		Summary: "Rotate an agent's token", Description: "The connection of the old token ends. 409 for the agent of a compute instance or a warehouse, which gets its token when the machine starts.",
		Errors: []int{http.StatusConflict},
	}, a.rotateAgentToken)
}

func (a *api) listAgents(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Agent]], error) {
	agents, err := a.Agents.List(ctx, s, in.page())
	if err != nil {
		return nil, err
	}
	return list(agents, a.showAgent), nil
}

func (a *api) getAgent(ctx context.Context, s domain.Scope, in *AgentPath) (*answer[Agent], error) {
	agent, err := a.Agents.Get(ctx, s, domain.AgentID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[Agent]{a.showAgent(agent)}, nil
}

func (a *api) rotateAgentToken(ctx context.Context, s domain.Scope, in *AgentPath) (*answer[AgentToken], error) {
	agent, token, err := a.Agents.RotateToken(ctx, s, domain.AgentID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[AgentToken]{AgentToken{Agent: a.showAgent(agent), Token: token}}, nil
}
