package domain

// Services are the platform's services, which both transports call.
type Services struct {
	Instance    *Instance
	Workspaces  *Workspaces
	Members     *Members
	APIKeys     *APIKeys
	Agents      *Agents
	Jobs        *Jobs
	Runs        *Runs
	Samples     *Samples
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
