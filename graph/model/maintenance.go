package model

import (
	"maps"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
)

// Maintenance is what is said of maintenance, and what holds.
type Maintenance struct {
	Policy    domain.MaintenancePolicy
	Effective MaintenanceSettings
	Origins   []MaintenanceOrigin
	NextAt    *time.Time
}

// NewMaintenance shows what holds. Origins are in the order of the fields.
func NewMaintenance(m domain.Maintenance) Maintenance {
	shown := Maintenance{Policy: m.Policy, Effective: newMaintenanceSettings(m.Settings), NextAt: m.NextAt}
	for _, field := range domain.MaintenanceFields {
		shown.Origins = append(shown.Origins, MaintenanceOrigin{field, m.Settings.Origins[field]})
	}
	return shown
}

// MaintenanceOrigin is where a field comes from.
type MaintenanceOrigin struct {
	Field string
	Level domain.MaintenanceLevel
}

// MaintenanceSettings are what holds.
type MaintenanceSettings struct {
	Enabled        bool
	Schedule       domain.MaintenanceSchedule
	Compact        CompactSettings
	Expire         ExpireSettings
	Orphans        OrphansSettings
	WarehouseID    *domain.MachineID
	StartWarehouse bool
}

// CompactSettings are what holds for compaction.
type CompactSettings struct {
	Enabled           bool
	FileSizeThreshold int64
	MinFiles          int
	DeletePercent     int
}

// ExpireSettings are what holds for old snapshots.
type ExpireSettings struct {
	Enabled  bool
	KeepDays int
}

// OrphansSettings are what holds for files that no snapshot names.
type OrphansSettings struct {
	Enabled       bool
	OlderThanDays int
}

func newMaintenanceSettings(s domain.MaintenanceSettings) MaintenanceSettings {
	return MaintenanceSettings{
		Enabled: s.Enabled, Schedule: s.Schedule, Compact: CompactSettings{s.Compact, s.Threshold, s.MinFiles, s.DeletePercent},
		Expire: ExpireSettings{s.Expire, s.KeepDays}, Orphans: OrphansSettings{s.Orphans, s.OlderDays}, WarehouseID: optional(s.Warehouse), StartWarehouse: s.StartWarehouse,
	}
}

// MaintenanceRun is one table's maintenance at one time as the schema shows it: what is empty is null.
type MaintenanceRun struct{ domain.MaintenanceRun }

// NewMaintenanceRun shows a run.
func NewMaintenanceRun(r domain.MaintenanceRun) MaintenanceRun { return MaintenanceRun{r} }

// FullName has the names of the table's database and its schema.
func (r MaintenanceRun) FullName() string {
	return FullName(r.Database, r.Schema, r.MaintenanceRun.Table)
}

// CreatedBy names who wanted it.
func (r MaintenanceRun) CreatedBy() string { return r.MaintenanceRun.CreatedBy.Name }

// Message is what it waits for, or why it ended as it did.
func (r MaintenanceRun) Message() *string { return optional(r.MaintenanceRun.Message) }

// NextTryAt is when it is looked at again.
func (r MaintenanceRun) NextTryAt() *time.Time {
	if r.State != domain.MaintenanceQueued {
		return nil
	}
	return &r.LookAt
}

// Operations are those that have begun.
func (r MaintenanceRun) Operations() []MaintenanceOperation {
	shown := make([]MaintenanceOperation, len(r.MaintenanceRun.Operations))
	for i, o := range r.MaintenanceRun.Operations {
		shown[i] = MaintenanceOperation{o}
	}
	return shown
}

// MaintenanceOperation is one statement of a run: what is not known is null.
type MaintenanceOperation struct{ domain.MaintenanceOperation }

// StatementID is its statement's.
func (o MaintenanceOperation) StatementID() *domain.StatementID { return optional(o.Statement) }

// WarehouseID is that of where it runs.
func (o MaintenanceOperation) WarehouseID() domain.MachineID { return o.Warehouse }

// Metrics are in the order of their names.
func (o MaintenanceOperation) Metrics() []MaintenanceMetric {
	shown := make([]MaintenanceMetric, 0, len(o.MaintenanceOperation.Metrics))
	for _, name := range slices.Sorted(maps.Keys(o.MaintenanceOperation.Metrics)) {
		shown = append(shown, MaintenanceMetric{name, o.MaintenanceOperation.Metrics[name]})
	}
	return shown
}

// Cost is a decimal with all its digits.
func (o MaintenanceOperation) Cost() *string {
	if o.MaintenanceOperation.Cost == nil {
		return nil
	}
	return new(o.MaintenanceOperation.Cost.String())
}

// Currency is that of the cost.
func (o MaintenanceOperation) Currency() *string { return optional(o.MaintenanceOperation.Currency) }

// Message is why it failed.
func (o MaintenanceOperation) Message() *string { return optional(o.MaintenanceOperation.Message) }

// MaintenanceMetric is a number that an engine told.
type MaintenanceMetric struct {
	Name  string
	Value int64
}
