package domain

import (
	"context"
	"slices"
)

// Action is something a role may or may not do: a noun and a verb.
type Action string

// The actions. Permissions lists the roles that may do them.
const (
	WorkspaceRead   Action = "workspace.read"
	MemberRead      Action = "member.read"
	MemberManage    Action = "member.manage"
	PasswordChange  Action = "password.change"
	APIKeyRead      Action = "api_key.read"
	APIKeyCreate    Action = "api_key.create"
	APIKeyRevoke    Action = "api_key.revoke"
	APIKeyManage    Action = "api_key.manage" // others' keys
	AgentRead       Action = "agent.read"
	AgentManage     Action = "agent.manage"
	AgentConnect    Action = "agent.connect"
	JobRead         Action = "job.read"
	JobCreate       Action = "job.create"
	JobUpdate       Action = "job.update"
	JobDelete       Action = "job.delete"
	RunRead         Action = "run.read"
	RunStart        Action = "run.start"
	RunCancel       Action = "run.cancel"
	RunRepair       Action = "run.repair"
	ComputeRead     Action = "compute.read"
	ComputeCreate   Action = "compute.create"
	ComputeUpdate   Action = "compute.update"
	ComputeStart    Action = "compute.start"
	ComputeStop     Action = "compute.stop"
	ComputeDelete   Action = "compute.delete"
	WarehouseRead   Action = "warehouse.read"
	WarehouseCreate Action = "warehouse.create"
	WarehouseUpdate Action = "warehouse.update"
	WarehouseStart  Action = "warehouse.start"
	WarehouseStop   Action = "warehouse.stop"
	WarehouseDelete Action = "warehouse.delete"
	StatementRead   Action = "statement.read"
	StatementRun    Action = "statement.run"    // a writing statement also needs CatalogWrite
	StatementCancel Action = "statement.cancel" // others' statements; one's own needs StatementRun
	SettingsRead    Action = "settings.read"
	ProviderUpdate  Action = "provider.update"
	StorageUpdate   Action = "storage.update"
	QuotaRead       Action = "quota.read"
	QuotaUpdate     Action = "quota.update"
	SampleRemove    Action = "sample.remove"
	CatalogRead     Action = "catalog.read"  // databases, schemas, tables and their contents
	CatalogWrite    Action = "catalog.write" // schemas, tables and views; each change is audited under a separate action
	DatabaseCreate  Action = "database.create"
	DatabaseDelete  Action = "database.delete"
	LineageShow     Action = "lineage.read"
	LineageReport   Action = "lineage.report"

	MaintenanceRead    Action = "maintenance.read"
	MaintenanceUpdate  Action = "maintenance.update"  // policies of databases and tables
	MaintenanceStart   Action = "maintenance.run"     // outside of its schedule
	MaintenanceDefault Action = "maintenance.default" // the workspace's own policy

	ExperimentRead    Action = "experiment.read"
	ExperimentCreate  Action = "experiment.create"
	ExperimentUpdate  Action = "experiment.update"
	ExperimentTag     Action = "experiment.tag"
	ExperimentDelete  Action = "experiment.delete"
	ExperimentRestore Action = "experiment.restore"

	TrackingRunRead    Action = "tracking_run.read"
	TrackingRunCreate  Action = "tracking_run.create"
	TrackingRunUpdate  Action = "tracking_run.update" // its name and state
	TrackingRunLog     Action = "tracking_run.log"    // points, parameters, tags and datasets
	TrackingRunDelete  Action = "tracking_run.delete"
	TrackingRunRestore Action = "tracking_run.restore"
)

var (
	readers  = []Role{RoleViewer, RoleEditor, RoleAdmin, RoleSystem}
	editors  = []Role{RoleEditor, RoleAdmin, RoleSystem}
	admins   = []Role{RoleAdmin, RoleSystem}
	machines = []Role{RoleAgent}
)

// Permissions is the only table of roles' permissions. docs/permissions.md is generated from it.
var Permissions = map[Action][]Role{
	WorkspaceRead:   readers,
	MemberRead:      readers,
	MemberManage:    admins,
	PasswordChange:  readers,
	APIKeyRead:      readers,
	APIKeyCreate:    readers,
	APIKeyRevoke:    readers,
	APIKeyManage:    admins,
	AgentRead:       readers,
	AgentManage:     admins,
	AgentConnect:    machines,
	JobRead:         readers,
	JobCreate:       editors,
	JobUpdate:       editors,
	JobDelete:       editors,
	RunRead:         readers,
	RunStart:        editors,
	RunCancel:       editors,
	RunRepair:       editors,
	ComputeRead:     readers,
	ComputeCreate:   editors,
	ComputeUpdate:   editors,
	ComputeStart:    editors,
	ComputeStop:     editors,
	ComputeDelete:   editors,
	WarehouseRead:   readers,
	WarehouseCreate: editors,
	WarehouseUpdate: editors,
	WarehouseStart:  editors,
	WarehouseStop:   editors,
	WarehouseDelete: editors,
	StatementRead:   readers,
	StatementRun:    readers,
	StatementCancel: editors,
	SettingsRead:    readers,
	ProviderUpdate:  admins,
	StorageUpdate:   admins,
	QuotaRead:       readers,
	QuotaUpdate:     admins,
	SampleRemove:    admins,
	CatalogRead:     readers,
	CatalogWrite:    editors,
	DatabaseCreate:  editors,
	DatabaseDelete:  admins,
	LineageShow:     readers,
	LineageReport:   editors,

	MaintenanceRead:    readers,
	MaintenanceUpdate:  editors,
	MaintenanceStart:   editors,
	MaintenanceDefault: admins,

	ExperimentRead:    readers,
	ExperimentCreate:  editors,
	ExperimentUpdate:  editors,
	ExperimentTag:     editors,
	ExperimentDelete:  editors,
	ExperimentRestore: editors,

	TrackingRunRead:    readers,
	TrackingRunCreate:  editors,
	TrackingRunUpdate:  editors,
	TrackingRunLog:     editors,
	TrackingRunDelete:  editors,
	TrackingRunRestore: editors,
}

// Allows reports whether the role may do the action.
func (r Role) Allows(a Action) bool { return slices.Contains(Permissions[a], r) }

// Authorize refuses a scope whose role does not allow the action, and writes an audit row of the
// denial.
func Authorize[T AuditTx](ctx context.Context, store Store[T], s Scope, a Action) error {
	if err := s.Valid(); err != nil {
		return err
	}
	if s.Role().Allows(a) {
		return nil
	}
	denied := Errorf(CodeForbidden, "Your role, %s, may not do this (%s). Ask an admin of the workspace.", s.Role(), a)
	err := store.In(ctx, s, func(tx T) error { return tx.InsertAudit(ctx, NewAudit(s, a, OutcomeDenied, "", "", "")) })
	if err != nil {
		return AsError(err)
	}
	return denied
}

// The audit actions for changes of the catalog. Their permission is CatalogWrite.
const (
	SchemaCreate  Action = "schema.create"
	SchemaUpdate  Action = "schema.update"
	SchemaDrop    Action = "schema.drop"
	TableCreate   Action = "table.create"
	TableRegister Action = "table.register"
	TableCommit   Action = "table.commit"
	TableRename   Action = "table.rename"
	TableDrop     Action = "table.drop"
	TableUndrop   Action = "table.undrop"
	TablePurge    Action = "table.purge"
	ViewCreate    Action = "view.create"
	ViewCommit    Action = "view.commit"
	ViewRename    Action = "view.rename"
	ViewDrop      Action = "view.drop"
	ViewUndrop    Action = "view.undrop"
)
