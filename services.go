package main

import (
	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/rest"
)

// services are all services of the platform. Each of its faces declares those that it calls.
type services struct {
	Instance    *setup.Instance
	Workspaces  *identity.Workspaces
	Members     *identity.Members
	APIKeys     *identity.APIKeys
	Agents      *job.Agents
	Jobs        *job.Jobs
	Runs        *job.Runs
	Samples     *setup.Samples
	Logs        *job.Logs
	Quotas      *quota.Quotas
	Compute     *machine.Machines
	Warehouses  *machine.Machines
	Settings    *machine.Settings
	Statements  *statement.Statements
	Databases   *lake.Databases
	Lineages    *lineage.Lineages
	Maintenance *maintenance.Maintenances
	Clock       domain.Clock
}

func (s services) rest() rest.Services {
	return rest.Services{
		Workspaces:  s.Workspaces,
		Members:     s.Members,
		APIKeys:     s.APIKeys,
		Agents:      s.Agents,
		Jobs:        s.Jobs,
		Runs:        s.Runs,
		Samples:     s.Samples,
		Logs:        s.Logs,
		Quotas:      s.Quotas,
		Compute:     s.Compute,
		Warehouses:  s.Warehouses,
		Settings:    s.Settings,
		Statements:  s.Statements,
		Databases:   s.Databases,
		Lineages:    s.Lineages,
		Maintenance: s.Maintenance,
		Clock:       s.Clock,
	}
}

func (s services) graph() graph.Services {
	return graph.Services{
		Instance:    s.Instance,
		Workspaces:  s.Workspaces,
		Members:     s.Members,
		APIKeys:     s.APIKeys,
		Agents:      s.Agents,
		Jobs:        s.Jobs,
		Runs:        s.Runs,
		Samples:     s.Samples,
		Logs:        s.Logs,
		Quotas:      s.Quotas,
		Compute:     s.Compute,
		Warehouses:  s.Warehouses,
		Settings:    s.Settings,
		Statements:  s.Statements,
		Databases:   s.Databases,
		Lineages:    s.Lineages,
		Maintenance: s.Maintenance,
		Clock:       s.Clock,
	}
}

func (s services) agents() hub.Services {
	return hub.Services{
		Agents: s.Agents,
		Runs:   s.Runs,
		Logs:   s.Logs,
		Clock:  s.Clock,
	}
}
