package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// MaintenanceSchedule is when tables are looked at.
type MaintenanceSchedule struct {
	Cron     string `json:"cron" example:"0 3 * * *" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly."`
	TimeZone string `json:"time_zone,omitempty" default:"UTC" example:"Europe/Rome" doc:"IANA name."`
}

// MaintenancePolicy is what the workspace, a database or a table says of maintenance. What is left out, or null, is inherited, field by field.
type MaintenancePolicy struct {
	Enabled        *bool                `json:"enabled,omitempty" nullable:"true"`
	Schedule       *MaintenanceSchedule `json:"schedule,omitempty" doc:"When tables are looked at. Inherited as a whole."`
	Compact        CompactPolicy        `json:"compact,omitempty"`
	Expire         ExpirePolicy         `json:"expire,omitempty"`
	Orphans        OrphansPolicy        `json:"orphans,omitempty"`
	WarehouseID    *string              `json:"warehouse_id,omitempty" nullable:"true" doc:"Id or name of the warehouse that it runs on. Empty stands for any: one that runs, with Trino rather than without."`
	StartWarehouse *bool                `json:"start_warehouse,omitempty" nullable:"true" doc:"Whether a warehouse is started where none runs and there is something to do."`
}

// CompactPolicy is what is said of compaction: small files become few, and deleted rows leave.
type CompactPolicy struct {
	Enabled       *bool  `json:"enabled,omitempty" nullable:"true"`
	Threshold     *int64 `json:"file_size_threshold,omitempty" nullable:"true" doc:"In bytes, whole MiB from 1 MiB to 10 GiB: smaller files are small."`
	MinFiles      *int   `json:"min_files,omitempty" nullable:"true" doc:"It begins when so many data files came since the last time, and files are small on average; at least 2."`
	DeletePercent *int   `json:"delete_percent,omitempty" nullable:"true" doc:"It begins as well when files of deletes came, and they, or the rows in them, are such a share; from 0 to 100."`
}

// ExpirePolicy is what is said of old snapshots.
type ExpirePolicy struct {
	Enabled  *bool `json:"enabled,omitempty" nullable:"true"`
	KeepDays *int  `json:"keep_days,omitempty" nullable:"true" doc:"Snapshots are kept for so many days, from 1 to 3650."`
}

// OrphansPolicy is what is said of files that no snapshot names.
type OrphansPolicy struct {
	Enabled   *bool `json:"enabled,omitempty" nullable:"true"`
	OlderDays *int  `json:"older_than_days,omitempty" nullable:"true" doc:"Only files that are so many days old are removed, from 1 to 3650, and they are looked for as rarely."`
}

func (p MaintenancePolicy) domain() domain.MaintenancePolicy {
	d := domain.MaintenancePolicy{
		Enabled: p.Enabled, Compact: domain.CompactPolicy(p.Compact), Expire: domain.ExpirePolicy(p.Expire), Orphans: domain.OrphansPolicy(p.Orphans),
		Warehouse: (*domain.MachineID)(p.WarehouseID), StartWarehouse: p.StartWarehouse,
	}
	if p.Schedule != nil {
		d.Schedule = &domain.MaintenanceSchedule{Cron: p.Schedule.Cron, TimeZone: p.Schedule.TimeZone}
	}
	return d
}

func showPolicy(d domain.MaintenancePolicy) MaintenancePolicy {
	p := MaintenancePolicy{
		Enabled: d.Enabled, Compact: CompactPolicy(d.Compact), Expire: ExpirePolicy(d.Expire), Orphans: OrphansPolicy(d.Orphans),
		WarehouseID: (*string)(d.Warehouse), StartWarehouse: d.StartWarehouse,
	}
	if d.Schedule != nil {
		p.Schedule = &MaintenanceSchedule{d.Schedule.Cron, d.Schedule.TimeZone}
	}
	return p
}

// Maintenance is what is said here, and what holds.
type Maintenance struct {
	Policy    MaintenancePolicy   `json:"policy" doc:"What is said here. What is missing is inherited: a table's from its database, a database's from the workspace, the workspace's from what is built in."`
	Effective MaintenanceSettings `json:"effective" doc:"What holds."`
	Origins   map[string]string   `json:"origins" example:"{\"enabled\":\"default\",\"compact.min_files\":\"table\"}" doc:"Where each field of what holds comes from: default, workspace, database, table; or registered, for a table whose files came from elsewhere, of which nothing is removed unless its own policy says so."`
	NextAt    *Time               `json:"next_at" nullable:"true" doc:"When it is due next; null while it is turned off."`
}

// MaintenanceSettings are what holds after inheritance.
type MaintenanceSettings struct {
	Enabled        bool                `json:"enabled"`
	Schedule       MaintenanceSchedule `json:"schedule"`
	Compact        CompactSettings     `json:"compact"`
	Expire         ExpireSettings      `json:"expire"`
	Orphans        OrphansSettings     `json:"orphans"`
	WarehouseID    string              `json:"warehouse_id" doc:"Empty for any."`
	StartWarehouse bool                `json:"start_warehouse"`
}

// CompactSettings are what holds for compaction.
type CompactSettings struct {
	Enabled       bool  `json:"enabled"`
	Threshold     int64 `json:"file_size_threshold" example:"134217728"`
	MinFiles      int   `json:"min_files" example:"5"`
	DeletePercent int   `json:"delete_percent" example:"10"`
}

// ExpireSettings are what holds for old snapshots.
type ExpireSettings struct {
	Enabled  bool `json:"enabled"`
	KeepDays int  `json:"keep_days" example:"7"`
}

// OrphansSettings are what holds for files that no snapshot names.
type OrphansSettings struct {
	Enabled   bool `json:"enabled"`
	OlderDays int  `json:"older_than_days" example:"7"`
}

func showMaintenance(m domain.Maintenance) Maintenance {
	s := m.Settings
	shown := Maintenance{
		Policy: showPolicy(m.Policy), Origins: map[string]string{}, NextAt: optionalTime(m.NextAt), Effective: MaintenanceSettings{
			Enabled: s.Enabled, Schedule: MaintenanceSchedule(s.Schedule), Compact: CompactSettings{s.Compact, s.Threshold, s.MinFiles, s.DeletePercent},
			Expire: ExpireSettings{s.Expire, s.KeepDays}, Orphans: OrphansSettings{s.Orphans, s.OlderDays}, WarehouseID: string(s.Warehouse), StartWarehouse: s.StartWarehouse,
		},
	}
	for field, level := range s.Origins {
		shown.Origins[field] = string(level)
	}
	return shown
}

// MaintenanceRun is one table's maintenance at one time.
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
	State      string                 `json:"state" enum:"queued,running,succeeded,failed,cancelled,skipped" doc:"skipped: when its turn came there was nothing to do any more, or it had waited for too long."`
	Message    string                 `json:"message" doc:"What it waits for, or why it was put off, failed or was skipped; else empty."`
	NextTryAt  *Time                  `json:"next_try_at" nullable:"true" doc:"Of one that waits: when it is looked at again."`
	StartedAt  *Time                  `json:"started_at" nullable:"true"`
	FinishedAt *Time                  `json:"finished_at" nullable:"true"`
	Operations []MaintenanceOperation `json:"operations" doc:"Those that have begun, in their order."`
}

// MaintenanceOperation is one statement of a run.
type MaintenanceOperation struct {
	Kind             string           `json:"kind" enum:"compact,expire,orphans"`
	Query            string           `json:"query"`
	StatementID      *string          `json:"statement_id" nullable:"true"`
	WarehouseID      string           `json:"warehouse_id"`
	State            string           `json:"state" enum:"queued,running,succeeded,failed,cancelled"`
	StartedAt        Time             `json:"started_at"`
	FinishedAt       *Time            `json:"finished_at" nullable:"true"`
	Before           *TableTotals     `json:"before,omitempty" doc:"What the table consisted of."`
	After            *TableTotals     `json:"after,omitempty" doc:"And at its end, with what others have committed meanwhile."`
	SnapshotsExpired *int64           `json:"snapshots_expired" nullable:"true"`
	FilesRemoved     *int64           `json:"files_removed" nullable:"true" doc:"Null where the engine does not tell."`
	Metrics          map[string]int64 `json:"metrics" doc:"As the engine told them."`
	Seconds          float64          `json:"seconds" doc:"That its statement ran."`
	Cost             *Number          `json:"cost" nullable:"true" doc:"Of its warehouse in that time, as if it had it alone; null where there is no price."`
	Currency         string           `json:"currency" example:"USD" doc:"Empty where there is no price."`
	Message          string           `json:"message" doc:"Why it failed; else empty."`
}

// TableTotals are what a table consists of. What is null is not known.
type TableTotals struct {
	Files       *int64 `json:"files" nullable:"true" doc:"Of data."`
	Bytes       *int64 `json:"bytes" nullable:"true" doc:"Of all files of the current snapshot."`
	DeleteFiles *int64 `json:"delete_files" nullable:"true"`
	Snapshots   *int64 `json:"snapshots" nullable:"true"`
}

func showMaintenanceRun(r domain.MaintenanceRun) MaintenanceRun {
	shown := MaintenanceRun{
		ID: string(r.ID), TableID: string(r.TableID), Database: r.Database, Schema: r.Schema, Table: r.Table, Trigger: string(r.Trigger), CreatedBy: showActor(r.CreatedBy),
		CreatedAt: Time(r.CreatedAt), DueAt: Time(r.DueAt), State: string(r.State), Message: r.Message, StartedAt: optionalTime(r.StartedAt),
		FinishedAt: optionalTime(r.FinishedAt), Operations: each(r.Operations, showMaintenanceOperation),
	}
	if r.State == domain.MaintenanceQueued {
		shown.NextTryAt = optionalTime(&r.LookAt)
	}
	return shown
}

func showMaintenanceOperation(o domain.MaintenanceOperation) MaintenanceOperation {
	shown := MaintenanceOperation{
		Kind: string(o.Kind), Query: o.Query, WarehouseID: string(o.Warehouse), State: string(o.State), StartedAt: Time(o.StartedAt), FinishedAt: optionalTime(o.FinishedAt),
		Before: (*TableTotals)(o.Before), After: (*TableTotals)(o.After), SnapshotsExpired: o.SnapshotsExpired, FilesRemoved: o.FilesRemoved, Metrics: o.Metrics,
		Seconds: o.Seconds, Currency: o.Currency, Message: o.Message,
	}
	if o.Statement != "" {
		shown.StatementID = new(string(o.Statement))
	}
	if o.Cost != nil {
		shown.Cost = new(Number(o.Cost.String()))
	}
	if shown.Metrics == nil {
		shown.Metrics = map[string]int64{}
	}
	return shown
}

// MaintenanceQueued says how many tables of a database are to be maintained now.
type MaintenanceQueued struct {
	Queued int `json:"queued" doc:"Tables that need something and had not been waiting already. GET /maintenance/runs?database= shows them."`
}

// TableIDPath is the path of what concerns one table, by its id.
type TableIDPath struct {
	ID string `path:"id" doc:"The table's id." example:"tbl_01k2v9d3h2f5s8wq6z1y7b4c0e"`
}

func (a *api) maintenanceRoutes() {
	const ofDatabase, ofTable = "/databases/{id}/maintenance", "/tables/{id}/maintenance"
	tags, conflict := []string{"Maintenance"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance", OperationID: "get-maintenance", Tags: tags, Summary: "Get what holds for the workspace's tables",
		Description: "Tables are kept healthy without being asked: small files compacted, old snapshots expired, orphaned files removed, by SQL statements on a warehouse that everybody can see.",
	}, a.getMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: "/maintenance", OperationID: "set-maintenance", Tags: tags, Summary: "Replace the workspace's policy of maintenance",
		Description: "For admins. What is left out is what is built in.",
	}, a.setMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: ofDatabase, OperationID: "get-database-maintenance", Tags: tags, Summary: "Get what holds for a database's tables",
	}, a.getDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: ofDatabase, OperationID: "set-database-maintenance", Tags: tags, Summary: "Replace a database's policy of maintenance",
		Description: "What is left out is inherited from the workspace.",
	}, a.setDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: ofDatabase + "/run", OperationID: "run-database-maintenance", Tags: tags, Summary: "Maintain a database's tables now", DefaultStatus: http.StatusAccepted,
		Errors: conflict, Description: "Those that need something, as when they are due; those for which it is turned off are left out.",
	}, a.runDatabaseMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: ofTable, OperationID: "get-table-maintenance", Tags: tags, Summary: "Get what holds for a table",
	}, a.getTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPut, Path: ofTable, OperationID: "set-table-maintenance", Tags: tags, Summary: "Replace a table's policy of maintenance",
		Description: "What is left out is inherited from its database.",
	}, a.setTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: ofTable + "/run", OperationID: "run-table-maintenance", Tags: tags, Summary: "Maintain a table now", DefaultStatus: http.StatusAccepted,
		Errors: conflict, Description: "Whatever is turned on for it is done, needed or not, and also while its schedule is turned off. A run that waits already is hurried; 409 while one runs, and for a table that was never written.",
	}, a.runTableMaintenance)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance/runs", OperationID: "list-maintenance-runs", Tags: tags, Summary: "List what maintenance did and is to do, newest first",
		Errors: []int{http.StatusNotFound}, Description: "It is kept for 90 days. A table that needed nothing when it was due has no run.",
	}, a.listMaintenanceRuns)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/maintenance/runs/{id}", OperationID: "get-maintenance-run", Tags: tags, Summary: "Get a run of maintenance",
		Description: "To cancel one that runs, cancel its statement.",
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
	filter := domain.MaintenanceFilter{Table: domain.TableID(in.Table)}
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
