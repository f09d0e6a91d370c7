package domain

// Services are the nouns of the platform, as both transports show them.
type Services struct {
	Instance    *Instance
	Workspaces  *Workspaces
	Members     *Members
	APIKeys     *APIKeys
	Agents      *Agents
	Jobs        *Jobs
	Runs        *Runs
	Logs        *Logs
	Quotas      *Quotas
	Compute     *Machines
	Warehouses  *Machines
	Settings    *Settings
	Statements  *Statements
	Databases   *Databases
	Lineages    *Lineages
	Maintenance *Maintenances
	Clock       Clock
	Version     string // of the binary
}
