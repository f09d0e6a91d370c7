package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/maintenance"
)

// MaintenanceSchedule is when tables are checked.
type MaintenanceSchedule struct {
	Cron     string `json:"cron" example:"0 3 * * *" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly."`
	TimeZone string `json:"time_zone,omitempty" default:"UTC" example:"Europe/Rome" doc:"An IANA name."`
}

// MaintenancePolicy is the maintenance policy of the workspace, a database or a table. Absent and
// null fields are inherited, one by one.
type MaintenancePolicy struct {
	Enabled        *bool                `json:"enabled,omitempty" nullable:"true"`
	Schedule       *MaintenanceSchedule `json:"schedule,omitempty" doc:"When tables are checked. Inherited as a whole."`
	Compact        CompactPolicy        `json:"compact,omitempty"`
	Expire         ExpirePolicy         `json:"expire,omitempty"`
	Orphans        OrphansPolicy        `json:"orphans,omitempty"`
	WarehouseID    *string              `json:"warehouse_id,omitempty" nullable:"true" doc:"Id or name of the warehouse that it runs on. Empty for any: a running warehouse, else the first."`
	StartWarehouse *bool                `json:"start_warehouse,omitempty" nullable:"true" doc:"Whether to start a warehouse if there is work and no warehouse runs."`
}

// CompactPolicy is the policy of compaction, which merges small files and drops deleted rows.
type CompactPolicy struct {
	Enabled       *bool  `json:"enabled,omitempty" nullable:"true"`
	Threshold     *int64 `json:"file_size_threshold,omitempty" nullable:"true" doc:"In bytes, whole MiB from 1 MiB to 10 GiB. Smaller files count as small."`
	MinFiles      *int   `json:"min_files,omitempty" nullable:"true" doc:"Compaction starts after this many new data files since the last one, if files are small on average. At least 2."`
	DeletePercent *int   `json:"delete_percent,omitempty" nullable:"true" doc:"Compaction also starts after new delete files, if this percentage of files or rows is deleted. From 0 to 100."`
}

// ExpirePolicy is the policy of the expiry of old snapshots.
type ExpirePolicy struct {
	Enabled  *bool `json:"enabled,omitempty" nullable:"true"`
	KeepDays *int  `json:"keep_days,omitempty" nullable:"true" doc:"Days to keep a snapshot after it was replaced, from 1 to 3650."`

	MaxSnapshots   *int `json:"max_snapshots,omitempty" nullable:"true" doc:"Maximum number of snapshots, from 10 to 100000. Above it, the oldest expire even if they are younger than keep_days. Snapshots of a branch or a tag, and those replaced within the last hour, are kept."`
	EraseAfterDays *int `json:"erase_after_days,omitempty" nullable:"true" doc:"Days until files that only expired snapshots needed are deleted, from 1 to 30."`
}

// OrphansPolicy is the policy of the removal of files that no snapshot references.
type OrphansPolicy struct {
	Enabled   *bool `json:"enabled,omitempty" nullable:"true"`
	OlderDays *int  `json:"older_than_days,omitempty" nullable:"true" doc:"Minimum age, in days, of files that are removed, from 1 to 3650. It is also the interval between searches for them."`
}

func (p MaintenancePolicy) domain() maintenance.Policy {
	d := maintenance.Policy{
		Enabled: p.Enabled, Compact: maintenance.CompactPolicy(p.Compact), Expire: maintenance.ExpirePolicy(p.Expire), Orphans: maintenance.OrphansPolicy(p.Orphans),
		Warehouse: (*domain.MachineID)(p.WarehouseID), StartWarehouse: p.StartWarehouse,
	}
	if p.Schedule != nil {
		d.Schedule = &maintenance.Schedule{Cron: p.Schedule.Cron, TimeZone: p.Schedule.TimeZone}
	}
	return d
}

func showPolicy(d maintenance.Policy) MaintenancePolicy {
	p := MaintenancePolicy{
		Enabled: d.Enabled, Compact: CompactPolicy(d.Compact), Expire: ExpirePolicy(d.Expire), Orphans: OrphansPolicy(d.Orphans),
		WarehouseID: (*string)(d.Warehouse), StartWarehouse: d.StartWarehouse,
	}
	if d.Schedule != nil {
		p.Schedule = &MaintenanceSchedule{d.Schedule.Cron, d.Schedule.TimeZone}
	}
	return p
}

// Maintenance is a policy, and the settings in effect.
type Maintenance struct {
	Policy    MaintenancePolicy   `json:"policy" doc:"The policy set at this level. Absent fields are inherited: a table's from its database, a database's from the workspace, the workspace's from the built-in defaults."`
	Effective MaintenanceSettings `json:"effective" doc:"The settings in effect."`
	Origins   map[string]string   `json:"origins" example:"{\"enabled\":\"default\",\"compact.min_files\":\"table\"}" doc:"The level that each effective field comes from: default, workspace, database, table or registered. registered: the table's files came from elsewhere, so nothing is removed unless its own policy says so."`
	NextAt    *Time               `json:"next_at" nullable:"true" doc:"When maintenance is next due; null while it is disabled."`
}

// MaintenanceSettings are the settings in effect after inheritance.
type MaintenanceSettings struct {
	Enabled        bool                `json:"enabled"`
	Schedule       MaintenanceSchedule `json:"schedule"`
	Compact        CompactSettings     `json:"compact"`
	Expire         ExpireSettings      `json:"expire"`
	Orphans        OrphansSettings     `json:"orphans"`
	WarehouseID    string              `json:"warehouse_id" doc:"Empty for any."`
	StartWarehouse bool                `json:"start_warehouse"`
}

// CompactSettings are the effective settings of compaction.
type CompactSettings struct {
	Enabled       bool  `json:"enabled"`
	Threshold     int64 `json:"file_size_threshold" example:"134217728"`
	MinFiles      int   `json:"min_files" example:"5"`
	DeletePercent int   `json:"delete_percent" example:"10"`
}

// ExpireSettings are the effective settings of the expiry of old snapshots.
type ExpireSettings struct {
	Enabled  bool `json:"enabled"`
	KeepDays int  `json:"keep_days" example:"7"`

	MaxSnapshots   int `json:"max_snapshots" example:"1000"`
	EraseAfterDays int `json:"erase_after_days" example:"1"`
}

// OrphansSettings are the effective settings of the removal of files that no snapshot references.
type OrphansSettings struct {
	Enabled   bool `json:"enabled"`
	OlderDays int  `json:"older_than_days" example:"7"`
}

func showMaintenance(m maintenance.Maintenance) Maintenance {
	s := m.Settings
	shown := Maintenance{
		Policy: showPolicy(m.Policy), Origins: map[string]string{}, NextAt: optionalTime(m.NextAt), Effective: MaintenanceSettings{
			Enabled: s.Enabled, Schedule: MaintenanceSchedule(s.Schedule), Compact: CompactSettings{s.Compact, s.Threshold, s.MinFiles, s.DeletePercent},
			Expire: ExpireSettings{s.Expire, s.KeepDays, s.MaxSnapshots, s.EraseAfterDays}, Orphans: OrphansSettings{s.Orphans, s.OlderDays}, WarehouseID: string(s.Warehouse), StartWarehouse: s.StartWarehouse,
		},
	}
	for field, level := range s.Origins {
		shown.Origins[field] = string(level)
	}
	return shown
}

// MaintenanceRun is one maintenance run of a table.
type MaintenanceRun struct {
	ID         string                 `json:"id" example:"mnt_01k2v9d3h2f5s8wq6z1y7b4c0e"`
	TableID    string                 `json:"table_id"`
	Database   string                 `json:"database" doc:"Names are those of that time."`
	Schema     string                 `json:"schema"`
	Table      string                 `json:"table"`
	Trigger    string                 `json:"trigger" enum:"schedule,manual"`
	CreatedBy  Actor                  `json:"created_by"`
	CreatedAt  Time                   `json:"created_at"`
	DueAt      Time                   `json:"due_at"`
	State      string                 `json:"state" enum:"queued,running,succeeded,failed,cancelled,skipped" doc:"cancelled: a statement was cancelled, nothing was left to do when the run could start, or it waited too long. Old runs have skipped for the last two."`
	Message    string                 `json:"message" doc:"What it waits for, or why it was postponed, failed or was cancelled; else empty."`
	NextTryAt  *Time                  `json:"next_try_at" nullable:"true" doc:"When a waiting run is tried again."`
	StartedAt  *Time                  `json:"started_at" nullable:"true"`
	FinishedAt *Time                  `json:"finished_at" nullable:"true"`
	Operations []MaintenanceOperation `json:"operations" doc:"Operations that have started, in order."`
}

// MaintenanceOperation is one statement of a maintenance run.
type MaintenanceOperation struct {
	Kind             string           `json:"kind" enum:"compact,expire,orphans"`
	Query            string           `json:"query"`
	StatementID      *string          `json:"statement_id" nullable:"true"`
	WarehouseID      string           `json:"warehouse_id"`
	State            string           `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	StartedAt        Time             `json:"started_at"`
	FinishedAt       *Time            `json:"finished_at" nullable:"true"`
	Before           *TableTotals     `json:"before,omitempty" doc:"The table's totals before the operation."`
	After            *TableTotals     `json:"after,omitempty" doc:"The table's totals after the operation, including commits of others in the meantime."`
	SnapshotsExpired *int64           `json:"snapshots_expired" nullable:"true"`
	FilesRemoved     *int64           `json:"files_removed" nullable:"true" doc:"Files that were removed. For an expiry of snapshots, files that will be deleted later. Null if the engine does not report it."`
	Metrics          map[string]int64 `json:"metrics" doc:"Metrics as the engine reported them."`
	Seconds          float64          `json:"seconds" doc:"How long its statement ran."`
	Cost             *Number          `json:"cost" nullable:"true" doc:"Price of its warehouse for that time, as if the operation used it alone. Null if no price is known."`
	Currency         string           `json:"currency" example:"USD" doc:"Empty if no price is known."`
	Message          string           `json:"message" doc:"Why it failed; else empty."`
}

// TableTotals are the totals of a table. Null means not known.
type TableTotals struct {
	Files       *int64 `json:"files" nullable:"true" doc:"Data files."`
	Bytes       *int64 `json:"bytes" nullable:"true" doc:"Size of all files of the current snapshot."`
	DeleteFiles *int64 `json:"delete_files" nullable:"true"`
	Snapshots   *int64 `json:"snapshots" nullable:"true"`
}

func showMaintenanceRun(r maintenance.Run) MaintenanceRun {
	return MaintenanceRun{
		ID: string(r.ID), TableID: string(r.TableID), Database: r.Database, Schema: r.Schema, Table: r.Table, Trigger: string(r.Trigger), CreatedBy: showActor(r.CreatedBy),
		CreatedAt: Time(r.CreatedAt), DueAt: Time(r.DueAt), State: string(r.State), Message: r.Message, NextTryAt: optionalTime(r.NextTryAt()),
		StartedAt: optionalTime(r.StartedAt()), FinishedAt: optionalTime(r.FinishedAt), Operations: each(r.Started(), showMaintenanceOperation),
	}
}

func showMaintenanceOperation(o maintenance.Operation) MaintenanceOperation {
	st := o.Statement
	shown := MaintenanceOperation{
		Kind: string(o.Kind), Query: st.Query, StatementID: new(string(st.ID)), WarehouseID: string(st.Warehouse), State: string(st.State), StartedAt: Time(o.StartedAt()),
		FinishedAt: optionalTime(st.FinishedAt), Before: (*TableTotals)(o.Before), After: (*TableTotals)(o.After), SnapshotsExpired: o.SnapshotsExpired, FilesRemoved: o.FilesRemoved,
		Metrics: o.Metrics, Seconds: o.Seconds(), Currency: o.Currency, Message: o.Message(),
	}
	if o.Cost != nil {
		shown.Cost = new(Number(o.Cost.String()))
	}
	if shown.Metrics == nil {
		shown.Metrics = map[string]int64{}
	}
	return shown
}

// MaintenanceQueued is how many tables of a database were queued for maintenance.
type MaintenanceQueued struct {
	Queued int `json:"queued" doc:"Number of tables that need maintenance and were not waiting already. GET /maintenance/runs?database= shows them."`
}

// TableIDPath is the path of operations on one table, by its id.
type TableIDPath struct {
	ID string `path:"id" doc:"The table's id." example:"tbl_01k2v9d3h2f5s8wq6z1y7b4c0e"`
}

func (a *api) maintenanceRoutes() {
	const ofDatabase, ofTable = "/databases/{id}/maintenance", "/tables/{id}/maintenance"
	tags, conflict := []string{"Maintenance"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance", OperationID: "get-maintenance", Tags: tags, Summary: "Get the maintenance of the workspace's tables",
		Description: "Tables are maintained automatically: small files are compacted, old snapshots expired, orphaned files removed. SQL statements on a warehouse do this, and everybody can see them.",
	}, a.getMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: "/maintenance", OperationID: "set-maintenance", Tags: tags, Summary: "Replace the workspace's maintenance policy",
		Description: "For admins. Absent fields have the built-in defaults.",
	}, a.setMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: ofDatabase, OperationID: "get-database-maintenance", Tags: tags, Summary: "Get the maintenance of a database's tables",
	}, a.getDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: ofDatabase, OperationID: "set-database-maintenance", Tags: tags, Summary: "Replace a database's maintenance policy",
		Description: "Absent fields are inherited from the workspace.",
	}, a.setDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: ofDatabase + "/run", OperationID: "run-database-maintenance", Tags: tags, Summary: "Maintain a database's tables now", DefaultStatus: http.StatusAccepted,
		Errors: conflict, Description: "Runs the maintenance that the database's tables need, as if they were due. Tables with disabled maintenance are left out.",
	}, a.runDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: ofTable, OperationID: "get-table-maintenance", Tags: tags, Summary: "Get the maintenance of a table",
	}, a.getTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: ofTable, OperationID: "set-table-maintenance", Tags: tags, Summary: "Replace a table's maintenance policy",
		Description: "Absent fields are inherited from its database.",
	}, a.setTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: ofTable + "/run", OperationID: "run-table-maintenance", Tags: tags, Summary: "Maintain a table now", DefaultStatus: http.StatusAccepted,
		Errors: conflict, Description: "Runs each operation that is enabled for the table, needed or not, even while its schedule is disabled. A run that already waits is moved forward. 409 while a run is running, and for a table that was never written.",
	}, a.runTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance/runs", OperationID: "list-maintenance-runs", Tags: tags, Summary: "List past and waiting maintenance runs, newest first",
		Errors: []int{http.StatusNotFound}, Description: "Runs are kept for 90 days. A table that needed nothing when it was due has no run.",
	}, a.listMaintenanceRuns)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance/runs/{id}", OperationID: "get-maintenance-run", Tags: tags, Summary: "Get a maintenance run",
		Description: "To cancel a run that is running, cancel its statement. Operations that have not started are queued statements of the table: GET /sql/statements?purpose=maintenance.",
	}, a.getMaintenanceRun)
}

func (a *api) getMaintenance(ctx context.Context, s domain.Scope, _ *nothing) (*answer[Maintenance], error) {
	return answered(showMaintenance)(a.Maintenance.OfWorkspace(ctx, s))
}

func (a *api) setMaintenance(ctx context.Context, s domain.Scope, in *struct {
	Body MaintenancePolicy `example:"{\"schedule\":{\"cron\":\"0 3 * * *\",\"time_zone\":\"Europe/Rome\"},\"expire\":{\"keep_days\":30}}"`
},
) (*answer[Maintenance], error) {
	return answered(showMaintenance)(a.Maintenance.SetWorkspace(ctx, s, in.Body.domain()))
}

func (a *api) getDatabaseMaintenance(ctx context.Context, s domain.Scope, in *DatabasePath) (*answer[Maintenance], error) {
	d, err := a.Databases.Find(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	return answered(showMaintenance)(a.Maintenance.OfDatabase(ctx, s, d.ID))
}

func (a *api) setDatabaseMaintenance(ctx context.Context, s domain.Scope, in *struct {
	DatabasePath
	Body MaintenancePolicy `example:"{\"compact\":{\"enabled\":false}}"`
},
) (*answer[Maintenance], error) {
	d, err := a.Databases.Find(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	return answered(showMaintenance)(a.Maintenance.SetDatabase(ctx, s, d.ID, in.Body.domain()))
}

func (a *api) runDatabaseMaintenance(ctx context.Context, s domain.Scope, in *struct {
	Once
	DatabasePath
},
) (*answer[MaintenanceQueued], error) {
	d, err := a.Databases.Find(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	queued, err := a.Maintenance.RunDatabase(ctx, s, d.ID, in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &answer[MaintenanceQueued]{MaintenanceQueued{queued}}, nil
}

func (a *api) getTableMaintenance(ctx context.Context, s domain.Scope, in *TableIDPath) (*answer[Maintenance], error) {
	return answered(showMaintenance)(a.Maintenance.OfTable(ctx, s, domain.TableID(in.ID)))
}

func (a *api) setTableMaintenance(ctx context.Context, s domain.Scope, in *struct {
	TableIDPath
	Body MaintenancePolicy `example:"{\"enabled\":false}"`
},
) (*answer[Maintenance], error) {
	return answered(showMaintenance)(a.Maintenance.SetTable(ctx, s, domain.TableID(in.ID), in.Body.domain()))
}

func (a *api) runTableMaintenance(ctx context.Context, s domain.Scope, in *struct {
	Once
	TableIDPath
},
) (*answer[MaintenanceRun], error) {
	return answered(showMaintenanceRun)(a.Maintenance.RunTable(ctx, s, domain.TableID(in.ID), in.Once.domain()))
}

func (a *api) listMaintenanceRuns(ctx context.Context, s domain.Scope, in *struct {
	PageQuery
	Table    string `query:"table" doc:"Id of the table whose runs are listed."`
	Database string `query:"database" doc:"Id or name of the database whose tables' runs are listed."`
},
) (*answer[List[MaintenanceRun]], error) {
	filter := maintenance.Filter{Table: domain.TableID(in.Table)}
	if in.Database != "" {
		d, err := a.Databases.Find(ctx, s, in.Database)
		if err != nil {
			return nil, err
		}
		filter.Database = d.ID
	}
	all, err := a.Maintenance.Runs(ctx, s, filter, in.page())
	if err != nil {
		return nil, err
	}
	return list(all, showMaintenanceRun), nil
}

func (a *api) getMaintenanceRun(ctx context.Context, s domain.Scope, in *struct {
	ID string `path:"id" doc:"The run's id."`
},
) (*answer[MaintenanceRun], error) {
	return answered(showMaintenanceRun)(a.Maintenance.Run(ctx, s, domain.MaintenanceRunID(in.ID)))
}
