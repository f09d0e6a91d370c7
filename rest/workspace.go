package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// Workspace is a team's tenant of the platform.
type Workspace struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CreatedAt Time   `json:"created_at"`
}

// Overview counts a workspace's runs and agents.
type Overview struct {
	RunningRuns     int `json:"running_runs"`
	PendingRuns     int `json:"pending_runs"`
	SucceededRuns   int `json:"succeeded_runs" doc:"In the last 24 hours."`
	FailedRuns      int `json:"failed_runs" doc:"In the last 24 hours."`
	ConnectedAgents int `json:"connected_agents"`
	Agents          int `json:"agents"`
}

// RemovedSamples is how many sample jobs were removed.
type RemovedSamples struct {
	Removed int `json:"removed"`
}

func showWorkspace(w identity.Workspace) Workspace {
	return Workspace{ID: string(w.ID), Name: w.Name, CreatedAt: Time(w.CreatedAt)}
}

func (a *api) workspaceRoutes() {
	const tag = "Workspace"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/workspace", OperationID: "get-workspace", Tags: []string{tag}, Summary: "Get the caller's workspace",
	}, a.getWorkspace)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/workspace/overview", OperationID: "get-overview", Tags: []string{tag}, Summary: "Count the workspace's runs and agents",
	}, a.getOverview)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/samples", OperationID: "remove-samples", Tags: []string{tag}, DefaultStatus: http.StatusOK,
		Summary: "Remove the sample jobs of a new workspace", Errors: []int{http.StatusConflict},
	}, a.removeSamples)
}

func (a *api) getWorkspace(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Workspace], error) {
	workspace, err := a.Workspaces.Get(ctx, s)
	if err != nil {
		return nil, err
	}
	return &answer[Workspace]{showWorkspace(workspace)}, nil
}

func (a *api) getOverview(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Overview], error) {
	o, err := a.Workspaces.Overview(ctx, s)
	if err != nil {
		return nil, err
	}
	return &answer[Overview]{Overview{
		RunningRuns: o.RunningRuns, PendingRuns: o.PendingRuns, SucceededRuns: o.SucceededRuns, FailedRuns: o.FailedRuns,
		ConnectedAgents: o.ConnectedAgents, Agents: o.Agents,
	}}, nil
}

func (a *api) removeSamples(ctx context.Context, s domain.Scope, _ *nothing) (*answer[RemovedSamples], error) {
	removed, err := a.Samples.Remove(ctx, s)
	if err != nil {
		return nil, err
	}
	return &answer[RemovedSamples]{RemovedSamples{removed}}, nil
}
