package domain

import (
	"context"
	"encoding/json"
	"time"

	"github.com/shopspring/decimal"
)

// MaintenanceKind is one thing that is done to keep a table healthy.
type MaintenanceKind string

// The kinds, in the order in which they are done.
const (
	MaintenanceCompact MaintenanceKind = "compact" // small files become few, and rows that are deleted leave
	MaintenanceExpire  MaintenanceKind = "expire"  // old snapshots go, with the files that no other one needs
	MaintenanceOrphans MaintenanceKind = "orphans" // files that no snapshot names go
)

// MaintenanceKinds lists the kinds in the order in which they are done.
var MaintenanceKinds = []MaintenanceKind{MaintenanceCompact, MaintenanceExpire, MaintenanceOrphans}

// MaintenanceLevel is where a setting comes from.
type MaintenanceLevel string

// The levels, of which each goes before those above it.
const (
	MaintenanceBuiltIn     MaintenanceLevel = "default"
	MaintenanceOfWorkspace MaintenanceLevel = "workspace"
	MaintenanceOfDatabase  MaintenanceLevel = "database"
	MaintenanceOfTable     MaintenanceLevel = "table"
	MaintenanceRegistered  MaintenanceLevel = "registered" // the table's files came from elsewhere, so that nothing of it is removed unless its own policy says so
)

// MaintenanceLevels lists the levels.
var MaintenanceLevels = []MaintenanceLevel{MaintenanceBuiltIn, MaintenanceOfWorkspace, MaintenanceOfDatabase, MaintenanceOfTable, MaintenanceRegistered}

// MaintenanceSchedule is when tables are looked at.
type MaintenanceSchedule struct {
	Cron     string `json:"cron"`
	TimeZone string `json:"time_zone"` // IANA name; empty stands for UTC
}

// MaintenancePolicy is what one level says of maintenance. What is nil is inherited, field by field.
type MaintenancePolicy struct {
	Enabled        *bool                `json:"enabled,omitempty"`
	Schedule       *MaintenanceSchedule `json:"schedule,omitempty"`
	Compact        CompactPolicy        `json:"compact"`
	Expire         ExpirePolicy         `json:"expire"`
	Orphans        OrphansPolicy        `json:"orphans"`
	Warehouse      *MachineID           `json:"warehouse,omitempty"` // where it runs; one that is empty stands for any
	StartWarehouse *bool                `json:"start_warehouse,omitempty"`
}

// CompactPolicy is what one level says of compaction.
type CompactPolicy struct {
	Enabled       *bool  `json:"enabled,omitempty"`
	Threshold     *int64 `json:"threshold,omitempty"`      // bytes: smaller files are small
	MinFiles      *int   `json:"min_files,omitempty"`      // small ones, which it begins with
	DeletePercent *int   `json:"delete_percent,omitempty"` // of files or rows that are deletes, which it begins with
}

// ExpirePolicy is what one level says of old snapshots.
type ExpirePolicy struct {
	Enabled  *bool `json:"enabled,omitempty"`
	KeepDays *int  `json:"keep_days,omitempty"`
}

// OrphansPolicy is what one level says of files that no snapshot names.
type OrphansPolicy struct {
	Enabled   *bool `json:"enabled,omitempty"`
	OlderDays *int  `json:"older_days,omitempty"`
}

// MaintenanceSettings are what holds for a table, a database or the workspace after inheritance.
type MaintenanceSettings struct {
	Enabled        bool
	Schedule       MaintenanceSchedule
	Compact        bool
	Threshold      int64
	MinFiles       int
	DeletePercent  int
	Expire         bool
	KeepDays       int
	Orphans        bool
	OlderDays      int
	Warehouse      MachineID
	StartWarehouse bool
	Origins        map[string]MaintenanceLevel // by the fields' names in MaintenanceFields
}

// The fields of a policy, by which Origins tells where each comes from.
const (
	fieldEnabled        = "enabled"
	fieldSchedule       = "schedule"
	fieldCompact        = "compact.enabled"
	fieldThreshold      = "compact.file_size_threshold"
	fieldMinFiles       = "compact.min_files"
	fieldDeletePercent  = "compact.delete_percent"
	fieldExpire         = "expire.enabled"
	fieldKeepDays       = "expire.keep_days"
	fieldOrphans        = "orphans.enabled"
	fieldOlderDays      = "orphans.older_than_days"
	fieldWarehouse      = "warehouse_id"
	fieldStartWarehouse = "start_warehouse"
)

// MaintenanceFields lists the fields of a policy.
var MaintenanceFields = []string{
	fieldEnabled, fieldSchedule, fieldCompact, fieldThreshold, fieldMinFiles, fieldDeletePercent, fieldExpire, fieldKeepDays, fieldOrphans, fieldOlderDays,
	fieldWarehouse, fieldStartWarehouse,
}

// mib is the unit of thresholds.
const mib = 1 << 20

// builtIn is what holds where no level says anything.
func builtIn() MaintenanceSettings {
	s := MaintenanceSettings{
		Enabled: true, Schedule: MaintenanceSchedule{Cron: "0 3 * * *", TimeZone: "UTC"}, Compact: true, Threshold: 128 * mib, MinFiles: 5, DeletePercent: 10,
		Expire: true, KeepDays: 7, Orphans: true, OlderDays: 7, StartWarehouse: true, Origins: map[string]MaintenanceLevel{},
	}
	for _, field := range MaintenanceFields {
		s.Origins[field] = MaintenanceBuiltIn
	}
	return s
}

// override takes what the level says.
func (s *MaintenanceSettings) override(level MaintenanceLevel, p MaintenancePolicy) {
	inherit(s, level, fieldEnabled, &s.Enabled, p.Enabled)
	inherit(s, level, fieldSchedule, &s.Schedule, p.Schedule)
	inherit(s, level, fieldCompact, &s.Compact, p.Compact.Enabled)
	inherit(s, level, fieldThreshold, &s.Threshold, p.Compact.Threshold)
	inherit(s, level, fieldMinFiles, &s.MinFiles, p.Compact.MinFiles)
	inherit(s, level, fieldDeletePercent, &s.DeletePercent, p.Compact.DeletePercent)
	inherit(s, level, fieldExpire, &s.Expire, p.Expire.Enabled)
	inherit(s, level, fieldKeepDays, &s.KeepDays, p.Expire.KeepDays)
	inherit(s, level, fieldOrphans, &s.Orphans, p.Orphans.Enabled)
	inherit(s, level, fieldOlderDays, &s.OlderDays, p.Orphans.OlderDays)
	inherit(s, level, fieldWarehouse, &s.Warehouse, p.Warehouse)
	inherit(s, level, fieldStartWarehouse, &s.StartWarehouse, p.StartWarehouse)
}

func inherit[T any](s *MaintenanceSettings, level MaintenanceLevel, field string, to, from *T) {
	if from != nil {
		*to, s.Origins[field] = *from, level
	}
}

// settingsOf are what holds for the workspace; with a database's policy, for that, and with a table's, for that.
func settingsOf(workspace, database, table MaintenancePolicy) MaintenanceSettings {
	s := builtIn()
	s.override(MaintenanceOfWorkspace, workspace)
	s.override(MaintenanceOfDatabase, database)
	s.override(MaintenanceOfTable, table)
	return s
}

// sparing takes back what would remove files of a table that came from elsewhere, unless its own policy says it.
func (s *MaintenanceSettings) sparing(t LakeTable) {
	if !t.Registered {
		return
	}
	for field, on := range map[string]*bool{fieldExpire: &s.Expire, fieldOrphans: &s.Orphans} {
		if s.Origins[field] != MaintenanceOfTable {
			*on, s.Origins[field] = false, MaintenanceRegistered
		}
	}
}

// does says whether the kind is turned on.
func (s MaintenanceSettings) does(k MaintenanceKind) bool {
	return map[MaintenanceKind]bool{MaintenanceCompact: s.Compact, MaintenanceExpire: s.Expire, MaintenanceOrphans: s.Orphans}[k]
}

// kinds are those that are turned on.
func (s MaintenanceSettings) kinds() (all []MaintenanceKind) {
	for _, k := range MaintenanceKinds {
		if s.does(k) {
			all = append(all, k)
		}
	}
	return all
}

// Bounds of a policy.
const (
	minThreshold = mib
	maxThreshold = 10 << 30
	maxMinFiles  = 1_000_000
	maxKeepDays  = 3650
)

// validate refuses what no level can say.
func (p MaintenancePolicy) validate(now time.Time) error {
	if t := p.Compact.Threshold; t != nil && (*t < minThreshold || *t > maxThreshold || *t%mib != 0) {
		return Invalid(fieldThreshold, "%s is %d; it must be whole MiB (1048576 bytes), from 1 MiB to 10 GiB.", fieldThreshold, *t)
	}
	for _, b := range []struct {
		field      string
		value      *int
		least, max int
	}{
		{fieldMinFiles, p.Compact.MinFiles, 2, maxMinFiles},
		{fieldDeletePercent, p.Compact.DeletePercent, 0, 100},
		{fieldKeepDays, p.Expire.KeepDays, 1, maxKeepDays},
		{fieldOlderDays, p.Orphans.OlderDays, 1, maxKeepDays},
	} {
		if b.value != nil && (*b.value < b.least || *b.value > b.max) {
			return Invalid(b.field, "%s is %d; it must be from %d to %d.", b.field, *b.value, b.least, b.max)
		}
	}
	if p.Schedule == nil {
		return nil
	}
	_, err := NewSchedule{Cron: p.Schedule.Cron, TimeZone: p.Schedule.TimeZone}.schedule(now)
	return err
}

// next is the first time after now at which the schedule is due.
func (s MaintenanceSchedule) next(now time.Time) *time.Time {
	made, err := NewSchedule{Cron: s.Cron, TimeZone: s.TimeZone}.schedule(now)
	if err != nil {
		return nil
	}
	return made.NextAt
}

// MaintenanceHolder is the policy of one level, and when it is due, where it has a schedule.
type MaintenanceHolder struct {
	Database   DatabaseID // of a database
	Table      TableID    // of a table; of the workspace both are empty
	Policy     MaintenancePolicy
	NextAt     *time.Time // nil without a schedule of its own; the workspace always has one
	SweepAfter TableID    // the table at which going through those that are due was left
}

// Subject names whose policy it is: the id of a database or a table, and empty for the workspace.
func (h MaintenanceHolder) Subject() string { return string(h.Database) + string(h.Table) }

// arm sets when the holder is due next.
func (h *MaintenanceHolder) arm(now time.Time) {
	h.NextAt, h.SweepAfter = nil, ""
	switch {
	case h.Policy.Schedule != nil:
		h.NextAt = h.Policy.Schedule.next(now)
	case h.Subject() == "":
		h.NextAt = builtIn().Schedule.next(now)
	}
}

// Maintained is what is remembered of a table's maintenance.
type Maintained struct {
	CompactedAt      *time.Time
	CompactedFiles   int64 // data files that were left then
	CompactedDeletes int64 // files of deletes that were left then
	ExpiredAt        *time.Time
	CleanedAt        *time.Time // when orphans were looked for
	CleanedVersion   int        // of the table, right after that
}

// MaintainedTable is a table with what decides about its maintenance.
type MaintainedTable struct {
	LakeTable
	Policy MaintenancePolicy // the table's own
	NextAt *time.Time        // of its own schedule
	Done   Maintained
	Open   bool // a run of it waits or runs
}

// Maintenance is what holds for the workspace, a database or a table.
type Maintenance struct {
	Policy   MaintenancePolicy // of this level
	Settings MaintenanceSettings
	NextAt   *time.Time // nil while it is turned off
}

// MaintenanceState is how far a run of maintenance is.
type MaintenanceState string

// The states. The last four are final.
const (
	MaintenanceQueued    MaintenanceState = "queued" // it waits; its message says what for
	MaintenanceRunning   MaintenanceState = "running"
	MaintenanceSucceeded MaintenanceState = "succeeded"
	MaintenanceFailed    MaintenanceState = "failed"    // its message says why
	MaintenanceCancelled MaintenanceState = "cancelled" // its statement was
	MaintenanceSkipped   MaintenanceState = "skipped"   // when its turn came there was nothing to do; its message says why
)

// MaintenanceStates lists the states.
var MaintenanceStates = []MaintenanceState{
	MaintenanceQueued, MaintenanceRunning, MaintenanceSucceeded, MaintenanceFailed, MaintenanceCancelled, MaintenanceSkipped,
}

// Final says that nothing comes after the state.
func (s MaintenanceState) Final() bool { return s != MaintenanceQueued && s != MaintenanceRunning }

// MaintenanceRun is one table's maintenance at one time. Names are those of that time.
type MaintenanceRun struct {
	ID         MaintenanceRunID
	TableID    TableID
	DatabaseID DatabaseID
	Database   string
	Schema     string
	Table      string
	Trigger    Trigger // schedule or manual
	CreatedBy  Actor
	CreatedAt  time.Time
	DueAt      time.Time

	State      MaintenanceState
	Message    string
	Todo       []MaintenanceKind // what is left, in its order
	Operations []MaintenanceOperation
	Statement  StatementID // that runs now
	Warehouse  MachineID   // on which
	Tries      int         // that were lost with an engine or a server
	LookAt     time.Time   // when it is looked at again: while it waits, or has no statement yet
	StartedAt  *time.Time
	FinishedAt *time.Time
}

// MaintenanceOperation is one statement of a run.
type MaintenanceOperation struct {
	Kind             MaintenanceKind  `json:"kind"`
	Query            string           `json:"query"`
	Warehouse        MachineID        `json:"warehouse"`
	Statement        StatementID      `json:"statement"` // empty until it is submitted
	State            StatementState   `json:"state"`
	StartedAt        time.Time        `json:"started_at"`
	FinishedAt       *time.Time       `json:"finished_at,omitempty"`
	Before           *TableTotals     `json:"before,omitempty"`
	After            *TableTotals     `json:"after,omitempty"` // with what others have committed meanwhile
	SnapshotsExpired *int64           `json:"snapshots_expired,omitempty"`
	FilesRemoved     *int64           `json:"files_removed,omitempty"` // where the engine tells
	Metrics          map[string]int64 `json:"metrics,omitempty"`       // as the engine told them
	Seconds          float64          `json:"seconds"`                 // that its statement ran
	Cost             *decimal.Decimal `json:"cost,omitempty"`          // of its warehouse in that time; nil where there is no price
	Currency         string           `json:"currency,omitempty"`
	Fault            Fault            `json:"fault,omitempty"`
	Message          string           `json:"message,omitempty"` // why it failed
}

// TableTotals are what a table consisted of. What is nil was not known.
type TableTotals struct {
	Files       *int64 `json:"files"` // of data
	Bytes       *int64 `json:"bytes"` // of all files of the current snapshot
	DeleteFiles *int64 `json:"delete_files"`
	Snapshots   *int64 `json:"snapshots"`
}

func (t LakeTable) totals() *TableTotals {
	return &TableTotals{Files: t.DataFiles, Bytes: t.DataBytes, DeleteFiles: t.DeleteFiles, Snapshots: t.Snapshots}
}

// MaintenanceFilter narrows a list of runs. Zero fields do not.
type MaintenanceFilter struct {
	Table    TableID            `json:"t,omitempty"`
	Database DatabaseID         `json:"d,omitempty"`
	States   []MaintenanceState `json:"s,omitempty"`
}

// MaintenanceTx reads and writes policies of maintenance and its runs.
type MaintenanceTx interface {
	// SharedMaintenance are the holders above tables: the workspace's, and those of databases.
	SharedMaintenance(ctx context.Context) ([]MaintenanceHolder, error)
	// LockMaintenance is the holder's row, locked; one without a policy where there is none, which is locked as well.
	LockMaintenance(ctx context.Context, h MaintenanceHolder) (MaintenanceHolder, error)
	UpdateMaintenance(ctx context.Context, h MaintenanceHolder) error
	// MaintainedTables are live tables in the order of their ids: the holder's own, without those that have a schedule nearer to them unless all are asked for.
	MaintainedTables(ctx context.Context, h MaintenanceHolder, all bool, after TableID, limit int) ([]MaintainedTable, error)
	MaintainedByID(ctx context.Context, ids []TableID) ([]MaintainedTable, error)
	SetMaintained(ctx context.Context, id TableID, m Maintained) error
	// BeingWritten says that a statement which writes, and is not over, has opened the table.
	BeingWritten(ctx context.Context, id TableID) (bool, error)
	// InsertMaintenanceRuns adds those whose table has none that waits or runs, and returns how many these were.
	InsertMaintenanceRuns(ctx context.Context, runs []MaintenanceRun) (int, error)
	MaintenanceRun(ctx context.Context, id MaintenanceRunID) (MaintenanceRun, error)
	LockMaintenanceRun(ctx context.Context, id MaintenanceRunID) (MaintenanceRun, error)
	UpdateMaintenanceRun(ctx context.Context, r MaintenanceRun) error
	// MaintenanceRuns are newest first.
	MaintenanceRuns(ctx context.Context, f MaintenanceFilter, before MaintenanceRunID, limit int) ([]MaintenanceRun, error)
	// RunningMaintenance are the runs that have a statement, or are to get one.
	RunningMaintenance(ctx context.Context) ([]MaintenanceRun, error)
	// WaitingMaintenance are the runs that wait and may be looked at, those that wait for the longest first.
	WaitingMaintenance(ctx context.Context, now time.Time, limit int) ([]MaintenanceRun, error)
}

// DueMaintenance is a workspace that maintenance is to look at, and when: the tables of one holder, or its runs.
type DueMaintenance struct {
	Workspace WorkspaceID
	Runs      bool
	Database  DatabaseID // of the holder
	Table     TableID    // of the holder
	At        time.Time
}

// metrics reads what an engine answers: rows of a name and a number, as a JSON array of arrays. What is none of that is passed over.
func metrics(answered []byte) map[string]int64 {
	var rows [][]json.RawMessage
	if json.Unmarshal(answered, &rows) != nil {
		return nil
	}
	var found map[string]int64
	for _, row := range rows {
		var name string
		var value int64
		if len(row) != 2 || json.Unmarshal(row[0], &name) != nil || json.Unmarshal(row[1], &value) != nil {
			continue
		}
		if found == nil {
			found = map[string]int64{}
		}
		found[shown(name)] = value
	}
	return found
}
