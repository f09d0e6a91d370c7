// Package setup makes workspaces with what they begin with, and their sample.
package setup

import (
	"cmp"
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
)

// NewWorkspace is a workspace with its initial contents. Only hashes of its tokens are stored.
type NewWorkspace struct {
	Workspace      identity.Workspace
	Agent          machine.Agent
	AgentTokenHash []byte
	Warehouse      machine.Machine
	WarehouseAgent machine.Agent
	Database       lake.Database // with the schema DefaultSchema
	Invitation     identity.Invitation
	Sample         bool // Samples.Create must make the sample
}

// InstanceStore holds what the operator of an instance does across workspaces.
type InstanceStore interface {
	Workspaces(ctx context.Context) ([]identity.Workspace, error)
	// InsertWorkspace adds a workspace, with its audit row. It returns CodeConflict if the name is
	// in use.
	InsertWorkspace(ctx context.Context, n NewWorkspace, row domain.AuditEvent) error
	// InsertInvitation adds a one-time link to a workspace, with its audit row.
	InsertInvitation(ctx context.Context, ws domain.WorkspaceID, i identity.Invitation, row domain.AuditEvent) error
	// HasPasswords reports whether any user can sign in.
	HasPasswords(ctx context.Context) (bool, error)
}

// Instance is this installation, as its operator uses it on the command line.
type Instance struct {
	Store InstanceStore
	Clock domain.Clock
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

// CreateWorkspace makes a workspace with its agent and a one-time link for its first
// administrator.
func (i *Instance) CreateWorkspace(ctx context.Context, name string) (identity.Workspace, machine.Agent, Credentials, error) {
	return i.create(ctx, name, false)
}

// CreateFirstWorkspace is CreateWorkspace for a new instance. With sample it also records that
// Samples.Create must follow, even after a restart.
func (i *Instance) CreateFirstWorkspace(ctx context.Context, name string, sample bool) (identity.Workspace, machine.Agent, Credentials, error) {
	return i.create(ctx, name, sample)
}

func (i *Instance) create(ctx context.Context, name string, sample bool) (identity.Workspace, machine.Agent, Credentials, error) {
	name, err := domain.ValidName("name", name)
	if err != nil {
		return identity.Workspace{}, machine.Agent{}, Credentials{}, err
	}
	now := i.Clock.Now()
	c := Credentials{AgentToken: machine.NewAgentToken(), SetUpToken: domain.NewSecret()}
	n := NewWorkspace{
		Workspace:      identity.Workspace{ID: domain.NewID[domain.WorkspaceID](domain.PrefixWorkspace), Name: name, CreatedAt: now},
		Agent:          machine.NewAgent(name+" agent", now),
		AgentTokenHash: domain.HashSecret(c.AgentToken),
		Invitation:     identity.Invitation{TokenHash: domain.HashSecret(c.SetUpToken), Role: domain.RoleAdmin, ExpiresAt: now.Add(identity.InvitationLife)},
		Sample:         sample,
	}
	n.Warehouse, n.WarehouseAgent = i.warehouse(n.Workspace)
	n.Database = lake.NewDatabase{Name: lake.DefaultDatabase}.Database(domain.SystemScope(n.Workspace.ID, "workspace").Actor(), now)
	if err := i.Store.InsertWorkspace(ctx, n, operated(n.Workspace.ID, domain.WorkspaceCreate)); err != nil {
		return identity.Workspace{}, machine.Agent{}, Credentials{}, err
	}
	return n.Workspace, n.Agent, c, nil
}

// warehouse returns the workspace's first warehouse and its agent.
func (i *Instance) warehouse(ws identity.Workspace) (machine.Machine, machine.Agent) {
	by := domain.SystemScope(ws.ID, "workspace").Actor()
	m := machine.New(machine.KindWarehouse, "default", cmp.Or(i.Size, "cpu.1"), machine.DefaultProvider, by, ws.CreatedAt)
	m.WriteEngine = cmp.Or(i.WriteEngine, machine.EngineDuckDB)
	return m, m.NewAgent()
}

// InviteAdmin makes a new one-time link for an administrator of the workspace, to replace a lost
// one.
func (i *Instance) InviteAdmin(ctx context.Context, ws domain.WorkspaceID) (token string, err error) {
	token = domain.NewSecret()
	inv := identity.Invitation{TokenHash: domain.HashSecret(token), Role: domain.RoleAdmin, ExpiresAt: i.Clock.Now().Add(identity.InvitationLife)}
	return token, i.Store.InsertInvitation(ctx, ws, inv, operated(ws, domain.AdminInvite))
}

// operated returns the audit row of an operator's action on a workspace.
func operated(ws domain.WorkspaceID, a domain.Action) domain.AuditEvent {
	return domain.NewAudit(domain.SystemScope(ws, "operator"), a, domain.OutcomeSuccess, "workspace", string(ws), "")
}

// Workspaces lists every workspace of the instance, oldest first.
func (i *Instance) Workspaces(ctx context.Context) ([]identity.Workspace, error) {
	return i.Store.Workspaces(ctx)
}

// NeedsSetUp reports whether nobody can sign in yet.
func (i *Instance) NeedsSetUp(ctx context.Context) (bool, error) {
	has, err := i.Store.HasPasswords(ctx)
	return !has, err
}
