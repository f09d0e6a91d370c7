package domain

import (
	"cmp"
	"context"
)

// NewWorkspace is a workspace with what it starts with. The tokens' hashes are kept, the tokens are shown once.
type NewWorkspace struct {
	Workspace      Workspace
	Agent          Agent
	AgentTokenHash []byte
	Warehouse      Machine
	WarehouseAgent Agent
	Database       Database // with the schema DefaultSchema
	Quotas         map[QuotaName]int
	Invitation     Invitation
	Sample         bool // Runs.CreateSample is to make the sample
}

// InstanceStore is what the operator of an instance does across workspaces, outside any of them.
type InstanceStore interface {
	Workspaces(ctx context.Context) ([]Workspace, error)
	// InsertWorkspace adds a workspace, with its audit row. It refuses a name that is taken with CodeConflict.
	InsertWorkspace(ctx context.Context, n NewWorkspace, row AuditEvent) error
	// InsertInvitation adds a one-time link to a workspace, with its audit row.
	InsertInvitation(ctx context.Context, ws WorkspaceID, i Invitation, row AuditEvent) error
	// HasPasswords says whether anybody can sign in already.
	HasPasswords(ctx context.Context) (bool, error)
}

// Instance is this installation, as its operator sees it on the command line.
type Instance struct {
	Store InstanceStore
	Clock Clock
	// Size is that of the warehouse that a workspace starts with: a flavor. Empty stands for the smallest, cpu.1.
	Size string
	// WriteEngine is that warehouse's; empty stands for duckdb.
	WriteEngine string
}

// Credentials are the secrets that a new workspace comes with. They are shown once and not kept.
type Credentials struct {
	AgentToken string
	SetUpToken string // of the first administrator's one-time link
}

// CreateWorkspace makes a workspace with its agent, its quotas and a one-time link for its first administrator.
func (i *Instance) CreateWorkspace(ctx context.Context, name string) (Workspace, Agent, Credentials, error) {
	return i.create(ctx, name, false)
}

// CreateFirstWorkspace is CreateWorkspace for a new instance. With sample it is kept that Runs.CreateSample is to follow, whatever happens meanwhile.
func (i *Instance) CreateFirstWorkspace(ctx context.Context, name string, sample bool) (Workspace, Agent, Credentials, error) {
	return i.create(ctx, name, sample)
}

func (i *Instance) create(ctx context.Context, name string, sample bool) (Workspace, Agent, Credentials, error) {
	name, err := validName("name", name)
	if err != nil {
		return Workspace{}, Agent{}, Credentials{}, err
	}
	now := i.Clock.Now()
	c := Credentials{AgentToken: NewAgentToken(), SetUpToken: newSecret()}
	n := NewWorkspace{
		Workspace:      Workspace{ID: newID[WorkspaceID](prefixWorkspace), Name: name, CreatedAt: now},
		Agent:          NewAgent(name+" agent", now),
		AgentTokenHash: HashSecret(c.AgentToken),
		Quotas:         DefaultQuotas,
		Invitation:     Invitation{TokenHash: HashSecret(c.SetUpToken), Role: RoleAdmin, ExpiresAt: now.Add(invitationLife)},
		Sample:         sample,
	}
	n.Warehouse, n.WarehouseAgent = i.warehouse(n.Workspace)
	n.Database = newDatabase(DefaultDatabase, SystemScope(n.Workspace.ID, "workspace").actor, now)
	if err := i.Store.InsertWorkspace(ctx, n, operated(n.Workspace.ID, WorkspaceCreate)); err != nil {
		return Workspace{}, Agent{}, Credentials{}, err
	}
	return n.Workspace, n.Agent, c, nil
}

// warehouse is the one that the workspace starts with.
func (i *Instance) warehouse(ws Workspace) (Machine, Agent) {
	by := SystemScope(ws.ID, "workspace").actor
	m := newMachine(KindWarehouse, "default", cmp.Or(i.Size, "cpu.1"), DefaultProvider, by, ws.CreatedAt)
	m.WriteEngine = cmp.Or(i.WriteEngine, EngineDuckDB)
	return m, m.newAgent()
}

// InviteAdmin makes another one-time link for an administrator of the workspace, in place of one that was lost.
func (i *Instance) InviteAdmin(ctx context.Context, ws WorkspaceID) (token string, err error) {
	token = newSecret()
	inv := Invitation{TokenHash: HashSecret(token), Role: RoleAdmin, ExpiresAt: i.Clock.Now().Add(invitationLife)}
	return token, i.Store.InsertInvitation(ctx, ws, inv, operated(ws, AdminInvite))
}

// operated is the audit row of what the operator did to a workspace.
func operated(ws WorkspaceID, a Action) AuditEvent {
	return newAudit(SystemScope(ws, "operator"), a, OutcomeSuccess, "workspace", string(ws))
}

// Workspaces lists every workspace of the instance, oldest first.
func (i *Instance) Workspaces(ctx context.Context) ([]Workspace, error) {
	return i.Store.Workspaces(ctx)
}

// NeedsSetUp says that nobody can sign in yet.
func (i *Instance) NeedsSetUp(ctx context.Context) (bool, error) {
	has, err := i.Store.HasPasswords(ctx)
	return !has, err
}
