package domain

import (
	"cmp"
	"context"
)

// NewWorkspace is a workspace with its initial contents. Only hashes of its tokens are stored.
type NewWorkspace struct {
	Workspace      Workspace
	Agent          Agent
	AgentTokenHash []byte
	Warehouse      Machine
	WarehouseAgent Agent
	Database       Database // with the schema DefaultSchema
	Quotas         map[QuotaName]int
	Invitation     Invitation
	Sample         bool // Samples.Create must make the sample
}

// InstanceStore holds what the operator of an instance does across workspaces.
type InstanceStore interface {
	Workspaces(ctx context.Context) ([]Workspace, error)
	// InsertWorkspace adds a workspace, with its audit row. It returns CodeConflict if the name is
	// in use.
	InsertWorkspace(ctx context.Context, n NewWorkspace, row AuditEvent) error
	// InsertInvitation adds a one-time link to a workspace, with its audit row.
	InsertInvitation(ctx context.Context, ws WorkspaceID, i Invitation, row AuditEvent) error
	// HasPasswords reports whether any user can sign in.
	HasPasswords(ctx context.Context) (bool, error)
}

// Instance is this installation, as its operator uses it on the command line.
type Instance struct {
	Store InstanceStore
	Clock Clock
	// Size is the flavor of a new workspace's warehouse. Empty stands for the smallest, cpu.1.
	Size string
	// WriteEngine is the engine of that warehouse; empty stands for duckdb.
	WriteEngine string
}

// Credentials are the secrets of a new workspace. They are shown once and not stored.
type Credentials struct {
	AgentToken string
	SetUpToken string // of the first administrator's one-time link
}

// CreateWorkspace makes a workspace with its agent, its quotas and a one-time link for its first
// administrator.
func (i *Instance) CreateWorkspace(ctx context.Context, name string) (Workspace, Agent, Credentials, error) {
	return i.create(ctx, name, false)
}

// CreateFirstWorkspace is CreateWorkspace for a new instance. With sample it also records that
// Samples.Create must follow, even after a restart.
func (i *Instance) CreateFirstWorkspace(ctx context.Context, name string, sample bool) (Workspace, Agent, Credentials, error) {
	return i.create(ctx, name, sample)
}

func (i *Instance) create(ctx context.Context, name string, sample bool) (Workspace, Agent, Credentials, error) {
	name, err := ValidName("name", name)
	if err != nil {
		return Workspace{}, Agent{}, Credentials{}, err
	}
	now := i.Clock.Now()
	c := Credentials{AgentToken: NewAgentToken(), SetUpToken: NewSecret()}
	n := NewWorkspace{
		Workspace:      Workspace{ID: NewID[WorkspaceID](PrefixWorkspace), Name: name, CreatedAt: now},
		Agent:          NewAgent(name+" agent", now),
		AgentTokenHash: HashSecret(c.AgentToken),
		Quotas:         DefaultQuotas,
		Invitation:     Invitation{TokenHash: HashSecret(c.SetUpToken), Role: RoleAdmin, ExpiresAt: now.Add(invitationLife)},
		Sample:         sample,
	}
	n.Warehouse, n.WarehouseAgent = i.warehouse(n.Workspace)
	n.Database = newDatabase(DefaultDatabase, SystemScope(n.Workspace.ID, "workspace").Actor(), now)
	if err := i.Store.InsertWorkspace(ctx, n, operated(n.Workspace.ID, WorkspaceCreate)); err != nil {
		return Workspace{}, Agent{}, Credentials{}, err
	}
	return n.Workspace, n.Agent, c, nil
}

// warehouse returns the workspace's first warehouse and its agent.
func (i *Instance) warehouse(ws Workspace) (Machine, Agent) {
	by := SystemScope(ws.ID, "workspace").Actor()
	m := newMachine(KindWarehouse, "default", cmp.Or(i.Size, "cpu.1"), DefaultProvider, by, ws.CreatedAt)
	m.WriteEngine = cmp.Or(i.WriteEngine, EngineDuckDB)
	return m, m.newAgent()
}

// InviteAdmin makes a new one-time link for an administrator of the workspace, to replace a lost
// one.
func (i *Instance) InviteAdmin(ctx context.Context, ws WorkspaceID) (token string, err error) {
	token = NewSecret()
	inv := Invitation{TokenHash: HashSecret(token), Role: RoleAdmin, ExpiresAt: i.Clock.Now().Add(invitationLife)}
	return token, i.Store.InsertInvitation(ctx, ws, inv, operated(ws, AdminInvite))
}

// operated returns the audit row of an operator's action on a workspace.
func operated(ws WorkspaceID, a Action) AuditEvent {
	return NewAudit(SystemScope(ws, "operator"), a, OutcomeSuccess, "workspace", string(ws), "")
}

// Workspaces lists every workspace of the instance, oldest first.
func (i *Instance) Workspaces(ctx context.Context) ([]Workspace, error) {
	return i.Store.Workspaces(ctx)
}

// NeedsSetUp reports whether nobody can sign in yet.
func (i *Instance) NeedsSetUp(ctx context.Context) (bool, error) {
	has, err := i.Store.HasPasswords(ctx)
	return !has, err
}
