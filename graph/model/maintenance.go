package model

import (
	"maps"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
)

// Maintenance is a maintenance policy, and the settings in effect.
type Maintenance struct {
	Policy    maintenance.Policy
	Effective MaintenanceSettings
	Origins   []MaintenanceOrigin
	NextAt    *time.Time
}

// NewMaintenance shows maintenance. Origins are in the order of the fields.
func NewMaintenance(m maintenance.Maintenance) Maintenance {
	shown := Maintenance{Policy: m.Policy, Effective: newMaintenanceSettings(m.Settings), NextAt: m.NextAt}
	for _, field := range maintenance.Fields {
		shown.Origins = append(shown.Origins, MaintenanceOrigin{field, m.Settings.Origins[field]})
	}
	return shown
}

// MaintenanceOrigin is the level that a field comes from.
type MaintenanceOrigin struct {
	Field string
	Level maintenance.Level
}

// MaintenanceSettings are the settings in effect.
type MaintenanceSettings struct {
	Enabled        bool
	Schedule       maintenance.Schedule
	Compact        CompactSettings
	Expire         ExpireSettings
	Orphans        OrphansSettings
	WarehouseID    *domain.MachineID
	StartWarehouse bool
}

// CompactSettings are the effective settings of compaction.
type CompactSettings struct {
	Enabled           bool
	FileSizeThreshold int64
	MinFiles          int
	DeletePercent     int
}

// ExpireSettings are the effective settings of the expiry of old snapshots.
type ExpireSettings struct {
	Enabled  bool
	KeepDays int

	MaxSnapshots   int
	EraseAfterDays int
}

// OrphansSettings are the effective settings of the removal of files that no snapshot references.
type OrphansSettings struct {
	Enabled       bool
	OlderThanDays int
}

func newMaintenanceSettings(s maintenance.Settings) MaintenanceSettings {
	return MaintenanceSettings{
		Enabled: s.Enabled, Schedule: s.Schedule, Compact: CompactSettings{s.Compact, s.Threshold, s.MinFiles, s.DeletePercent},
		Expire: ExpireSettings{s.Expire, s.KeepDays, s.MaxSnapshots, s.EraseAfterDays}, Orphans: OrphansSettings{s.Orphans, s.OlderDays}, WarehouseID: optional(s.Warehouse), StartWarehouse: s.StartWarehouse,
	}
}

// MaintenanceRun is one maintenance run of a table as the schema shows it. Empty fields are null.
type MaintenanceRun struct{ maintenance.Run }

// NewMaintenanceRun shows a run.
func NewMaintenanceRun(r maintenance.Run) MaintenanceRun { return MaintenanceRun{r} }

// FullName returns the names of the database, the schema and the table.
func (r MaintenanceRun) FullName() string {
	return FullName(r.Database, r.Schema, r.Run.Table)
}

// CreatedBy returns the name of the run's originator.
func (r MaintenanceRun) CreatedBy() string { return r.Run.CreatedBy.Name }

// Message returns what the run waits for, or why it ended as it did.
func (r MaintenanceRun) Message() *string { return optional(r.Run.Message) }

// Operations returns the operations that have started.
func (r MaintenanceRun) Operations() []MaintenanceOperation {
	started := r.Started()
	shown := make([]MaintenanceOperation, len(started))
	for i, o := range started {
		shown[i] = MaintenanceOperation{o}
	}
	return shown
}

// MaintenanceOperation is one statement of a run. Unknown fields are null.
type MaintenanceOperation struct {
	maintenance.Operation
}

// Query returns the statement's text.
func (o MaintenanceOperation) Query() string { return o.Statement.Query }

// StatementID returns the operation's statement.
func (o MaintenanceOperation) StatementID() *domain.StatementID { return &o.Statement.ID }

// WarehouseID returns the operation's warehouse.
func (o MaintenanceOperation) WarehouseID() domain.MachineID { return o.Statement.Warehouse }

// State returns the statement's state.
func (o MaintenanceOperation) State() statement.State { return o.Statement.State }

// FinishedAt returns when the statement ended.
func (o MaintenanceOperation) FinishedAt() *time.Time { return o.Statement.FinishedAt }

// Metrics returns the metrics in the order of their names.
func (o MaintenanceOperation) Metrics() []MaintenanceMetric {
	shown := make([]MaintenanceMetric, 0, len(o.Operation.Metrics))
	for _, name := range slices.Sorted(maps.Keys(o.Operation.Metrics)) {
		shown = append(shown, MaintenanceMetric{name, o.Operation.Metrics[name]})
	}
	return shown
}

// Cost returns a decimal with all its digits.
func (o MaintenanceOperation) Cost() *string {
	if o.Operation.Cost == nil {
		return nil
	}
	return new(o.Operation.Cost.String())
}

// Currency returns the cost's currency.
func (o MaintenanceOperation) Currency() *string { return optional(o.Operation.Currency) }

// Message returns why the operation failed.
func (o MaintenanceOperation) Message() *string { return optional(o.Operation.Message()) }

// MaintenanceMetric is a number that an engine reported.
type MaintenanceMetric struct {
	Name  string
	Value int64
}
