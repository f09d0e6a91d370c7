package main

import (
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/rest"
)

// restServices are those of the REST face.
func restServices(s graph.Services) rest.Services {
	return rest.Services{
		Workspaces:   s.Workspaces,
		Members:      s.Members,
		APIKeys:      s.APIKeys,
		Agents:       s.Agents,
		Jobs:         s.Jobs,
		Runs:         s.Runs,
		Samples:      s.Samples,
		Logs:         s.Logs,
		Quotas:       s.Quotas,
		Compute:      s.Compute,
		Warehouses:   s.Warehouses,
		Settings:     s.Settings,
		Statements:   s.Statements,
		Databases:    s.Databases,
		Lineages:     s.Lineages,
		Maintenance:  s.Maintenance,
		Experiments:  s.Experiments,
		TrackingRuns: s.TrackingRuns,
		Clock:        s.Clock,
	}
}

// agentServices are those of the agents' channel.
func agentServices(s graph.Services) hub.Services {
	return hub.Services{
		Agents: s.Agents,
		Runs:   s.Runs,
		Logs:   s.Logs,
		Clock:  s.Clock,
	}
}
