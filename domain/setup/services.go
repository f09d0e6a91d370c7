package setup

import (
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
)

// Services are the platform's services, which both transports call.
type Services struct {
	Instance    *Instance
	Workspaces  *identity.Workspaces
	Members     *identity.Members
	APIKeys     *identity.APIKeys
	Agents      *job.Agents
	Jobs        *job.Jobs
	Runs        *job.Runs
	Samples     *Samples
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
	Version     string // of the binary
}
