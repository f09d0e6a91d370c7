// Package maintenance keeps tables small and fast: policies, their schedules, and the runs that
// compact, expire and clean up.
package maintenance

import (
	"context"
	"encoding/json"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/statement"
)

// Kind is a kind of work that keeps a table efficient.
type Kind string

// The kinds, in the order of their execution.
const (
	// merge small files and remove deleted rows
	Compact Kind = "compact"
	// remove old snapshots, and the files that no other snapshot needs
	Expire Kind = "expire"
	// remove files that no snapshot names
	Orphans Kind = "orphans"
)

// Kinds lists the kinds in the order of their execution.
var Kinds = []Kind{Compact, Expire, Orphans}

// Level is where a setting comes from.
type Level string

// The levels, from the lowest precedence to the highest.
const (
	BuiltIn     Level = "default"
	OfWorkspace Level = "workspace"
	OfDatabase  Level = "database"
	OfTable     Level = "table"
	// the table's files came from elsewhere and are never removed
	Registered Level = "registered"
)

// Levels lists the levels.
var Levels = []Level{BuiltIn, OfWorkspace, OfDatabase, OfTable, Registered}

// Schedule is when tables are checked.
type Schedule struct {
	Cron     string
	TimeZone string // IANA name; empty stands for UTC
}

// Policy is the policy of one level. Nil fields are inherited, each separately.
type Policy struct {
	Enabled        *bool
	Schedule       *Schedule
	Compact        CompactPolicy
	Expire         ExpirePolicy
	Orphans        OrphansPolicy
	Warehouse      *domain.MachineID // empty stands for any
	StartWarehouse *bool
}

// CompactPolicy is one level's policy for compaction.
type CompactPolicy struct {
	Enabled       *bool
	Threshold     *int64 // bytes: smaller files are small
	MinFiles      *int   // small files from which compaction starts
	DeletePercent *int   // share of deletes, in files or rows, from which compaction starts
}

// ExpirePolicy is one level's policy for old snapshots.
type ExpirePolicy struct {
	Enabled  *bool
	KeepDays *int

	MaxSnapshots   *int // snapshots above this number expire even if they are younger
	EraseAfterDays *int // delay before the files that only they needed are erased
}

// OrphansPolicy is one level's policy for files that no snapshot names.
type OrphansPolicy struct {
	Enabled   *bool
	OlderDays *int
}

// Settings are the effective settings of a table, a database or the workspace, after
// inheritance.
type Settings struct {
	Enabled        bool
	Schedule       Schedule
	Compact        bool
	Threshold      int64
	MinFiles       int
	DeletePercent  int
	Expire         bool
	KeepDays       int
	MaxSnapshots   int
	EraseAfterDays int
	Orphans        bool
	OlderDays      int
	Warehouse      domain.MachineID
	StartWarehouse bool
	Origins        map[string]Level // by Fields
}

// The fields of a policy, which are the keys of Origins.
const (
	fieldEnabled        = "enabled"
	fieldSchedule       = "schedule"
	fieldCompact        = "compact.enabled"
	fieldThreshold      = "compact.file_size_threshold"
	fieldMinFiles       = "compact.min_files"
	fieldDeletePercent  = "compact.delete_percent"
	fieldExpire         = "expire.enabled"
	fieldKeepDays       = "expire.keep_days"
	fieldMaxSnapshots   = "expire.max_snapshots"
	fieldEraseAfterDays = "expire.erase_after_days"
	fieldOrphans        = "orphans.enabled"
	fieldOlderDays      = "orphans.older_than_days"
	fieldWarehouse      = "warehouse_id"
	fieldStartWarehouse = "start_warehouse"
)

// Fields lists the fields of a policy.
var Fields = []string{
	fieldEnabled, fieldSchedule, fieldCompact, fieldThreshold, fieldMinFiles, fieldDeletePercent, fieldExpire, fieldKeepDays, fieldMaxSnapshots, fieldEraseAfterDays,
	fieldOrphans, fieldOlderDays,
	fieldWarehouse, fieldStartWarehouse,
}

// mib is the unit of thresholds.
const mib = 1 << 20

// builtIn returns the default settings.
func builtIn() Settings {
	s := Settings{
		Enabled: true, Schedule: Schedule{Cron: "0 3 * * *", TimeZone: "UTC"}, Compact: true, Threshold: 128 * mib, MinFiles: 5, DeletePercent: 10,
		Expire: true, KeepDays: 7, MaxSnapshots: 1000, EraseAfterDays: 1, Orphans: true, OlderDays: 7, StartWarehouse: true, Origins: map[string]Level{},
	}
	for _, field := range Fields {
		s.Origins[field] = BuiltIn
	}
	return s
}

// override applies the level's policy.
func (s *Settings) override(level Level, p Policy) {
	inherit(s, level, fieldEnabled, &s.Enabled, p.Enabled)
	inherit(s, level, fieldSchedule, &s.Schedule, p.Schedule)
	inherit(s, level, fieldCompact, &s.Compact, p.Compact.Enabled)
	inherit(s, level, fieldThreshold, &s.Threshold, p.Compact.Threshold)
	inherit(s, level, fieldMinFiles, &s.MinFiles, p.Compact.MinFiles)
	inherit(s, level, fieldDeletePercent, &s.DeletePercent, p.Compact.DeletePercent)
	inherit(s, level, fieldExpire, &s.Expire, p.Expire.Enabled)
	inherit(s, level, fieldKeepDays, &s.KeepDays, p.Expire.KeepDays)
	inherit(s, level, fieldMaxSnapshots, &s.MaxSnapshots, p.Expire.MaxSnapshots)
	inherit(s, level, fieldEraseAfterDays, &s.EraseAfterDays, p.Expire.EraseAfterDays)
	inherit(s, level, fieldOrphans, &s.Orphans, p.Orphans.Enabled)
	inherit(s, level, fieldOlderDays, &s.OlderDays, p.Orphans.OlderDays)
	inherit(s, level, fieldWarehouse, &s.Warehouse, p.Warehouse)
	inherit(s, level, fieldStartWarehouse, &s.StartWarehouse, p.StartWarehouse)
}

func inherit[T any](s *Settings, level Level, field string, to, from *T) {
	if from != nil {
		*to, s.Origins[field] = *from, level
	}
}

// settingsOf returns the effective settings of the three levels. For a database or the workspace,
// the policies of the levels below are empty.
func settingsOf(workspace, database, table Policy) Settings {
	s := builtIn()
	s.override(OfWorkspace, workspace)
	s.override(OfDatabase, database)
	s.override(OfTable, table)
	return s
}

// sparing turns off the removal of files for a registered table: orphans always, expiry unless the
// table's own policy turns it on.
func (s *Settings) sparing(t lake.Table) {
	if !t.Registered {
		return
	}
	for field, on := range map[string]*bool{fieldExpire: &s.Expire, fieldOrphans: &s.Orphans} {
		if field == fieldOrphans || s.Origins[field] != OfTable {
			*on, s.Origins[field] = false, Registered
		}
	}
}

// does reports whether the kind is turned on.
func (s Settings) does(k Kind) bool {
	return map[Kind]bool{Compact: s.Compact, Expire: s.Expire, Orphans: s.Orphans}[k]
}

// kinds returns the kinds that are turned on.
func (s Settings) kinds() (all []Kind) {
	for _, k := range Kinds {
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
	minSnapshots = 10
	maxSnapshots = 100_000
	maxEraseDays = int(lake.MaxEraseAfter / (24 * time.Hour))
)

// validate refuses values out of bounds and invalid schedules.
func (p Policy) validate(now time.Time) error {
	if t := p.Compact.Threshold; t != nil && (*t < minThreshold || *t > maxThreshold || *t%mib != 0) {
		return domain.Invalid(fieldThreshold, "%s is %d; it must be whole MiB (1048576 bytes), from 1 MiB to 10 GiB.", fieldThreshold, *t)
	}
	for _, b := range []struct {
		field      string
		value      *int
		least, max int
	}{
		{fieldMinFiles, p.Compact.MinFiles, 2, maxMinFiles},
		{fieldDeletePercent, p.Compact.DeletePercent, 0, 100},
		{fieldKeepDays, p.Expire.KeepDays, 1, maxKeepDays},
		{fieldMaxSnapshots, p.Expire.MaxSnapshots, minSnapshots, maxSnapshots},
		{fieldEraseAfterDays, p.Expire.EraseAfterDays, 1, maxEraseDays},
		{fieldOlderDays, p.Orphans.OlderDays, 1, maxKeepDays},
	} {
		if b.value != nil && (*b.value < b.least || *b.value > b.max) {
			return domain.Invalid(b.field, "%s is %d; it must be from %d to %d.", b.field, *b.value, b.least, b.max)
		}
	}
	if p.Schedule == nil {
		return nil
	}
	_, err := job.NewSchedule{Cron: p.Schedule.Cron, TimeZone: p.Schedule.TimeZone}.Schedule(now)
	return err
}

// next returns the first time after now at which the schedule is due.
func (s Schedule) next(now time.Time) *time.Time {
	made, err := job.NewSchedule{Cron: s.Cron, TimeZone: s.TimeZone}.Schedule(now)
	if err != nil {
		return nil
	}
	return made.NextAt
}

// Holder is the policy of one level, and its next due time.
type Holder struct {
	Database   domain.DatabaseID // of a database's policy
	Table      domain.TableID    // of a table's policy; both are empty for the workspace
	Policy     Policy
	NextAt     *time.Time     // nil without an own schedule; the workspace always has one
	SweepAfter domain.TableID // where the sweep of due tables was interrupted
}

// Subject returns the id of the policy's database or table; empty for the workspace.
func (h Holder) Subject() string { return string(h.Database) + string(h.Table) }

// arm sets the holder's next due time.
func (h *Holder) arm(now time.Time) {
	h.NextAt, h.SweepAfter = nil, ""
	switch {
	case h.Policy.Schedule != nil:
		h.NextAt = h.Policy.Schedule.next(now)
	case h.Subject() == "":
		h.NextAt = builtIn().Schedule.next(now)
	}
}

// Maintained records a table's past maintenance.
type Maintained struct {
	CompactedAt      *time.Time
	CompactedFiles   int64 // data files after it
	CompactedDeletes int64 // delete files after it
	ExpiredAt        *time.Time
	ExpiredSnapshots int64      // snapshots after it
	CleanedAt        *time.Time // when orphans were removed
	CleanedVersion   int        // the table's version right after
}

// MaintainedTable is a table with everything that decides about its maintenance.
type MaintainedTable struct {
	lake.Table
	Policy Policy     // the table's own
	NextAt *time.Time // when its own schedule is due
	Done   Maintained
	Open   bool // it has a queued or running run
}

// Maintenance is the policy and the effective settings of the workspace, a database or a table.
type Maintenance struct {
	Policy   Policy // of this level
	Settings Settings
	NextAt   *time.Time // nil while turned off
}

// State is the state of a maintenance run.
type State string

// The states, see Run.derive. The last four are final.
const (
	Queued    State = "queued" // its message says what it waits for
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"    // its message says why
	Cancelled State = "cancelled" // a statement was cancelled, or none was needed; its message says why
	Skipped   State = "skipped"   // like Cancelled, in runs from before their operations were statements
)

// States lists the states.
var States = []State{
	Queued, Running, Succeeded, Failed, Cancelled, Skipped,
}

// Final reports whether the state never changes again.
func (s State) Final() bool { return s != Queued && s != Running }

// Run is one execution of a table's maintenance. Names are those of that time.
type Run struct {
	ID         domain.MaintenanceRunID
	TableID    domain.TableID
	DatabaseID domain.DatabaseID
	Database   string
	Schema     string
	Table      string
	Trigger    job.Trigger // schedule or manual
	CreatedBy  domain.Actor
	CreatedAt  time.Time
	DueAt      time.Time

	State      State
	Message    string
	FinishedAt *time.Time
	Operations []Operation   // in the order in which they run
	Changed    domain.Change // with its statements; set when read
}

// LastChange implements domain.Changing.
func (r Run) LastChange() (domain.Change, string) { return r.Changed, string(r.ID) }

// Operation is one statement of a run.
type Operation struct {
	Kind             Kind
	Statement        statement.Statement
	Before           *TableTotals
	After            *TableTotals // including other writers' commits
	SnapshotsExpired *int64
	FilesRemoved     *int64           // nil if the engine does not report it
	Metrics          map[string]int64 // as the engine reports them
	Cost             *decimal.Decimal // cost of its warehouse for the run time of its statement; nil without a price
	Currency         string
}

// TableTotals is the contents of a table. Nil fields are unknown.
type TableTotals struct {
	Files       *int64 // data files
	Bytes       *int64 // size of all files of the current snapshot
	DeleteFiles *int64
	Snapshots   *int64
}

func totalsOf(t lake.Table) *TableTotals {
	return &TableTotals{Files: t.DataFiles, Bytes: t.DataBytes, DeleteFiles: t.DeleteFiles, Snapshots: t.Snapshots}
}

// Filter narrows a list of runs. Zero fields are ignored.
type Filter struct {
	Table    domain.TableID    `json:"t,omitempty"`
	Database domain.DatabaseID `json:"d,omitempty"`
	States   []State           `json:"s,omitempty"`
}

// maintenanceTx reads and writes maintenance policies and runs.
type maintenanceTx interface {
	// SharedMaintenance returns the holders above tables: the workspace's and the databases'.
	SharedMaintenance(ctx context.Context) ([]Holder, error)
	// LockMaintenance locks and returns the holder's row. If there is none, it returns and locks an
	// empty one.
	LockMaintenance(ctx context.Context, h Holder) (Holder, error)
	UpdateMaintenance(ctx context.Context, h Holder) error
	// MaintainedTables returns the holder's live tables in the order of their ids. Without all, it
	// omits tables with a schedule at a lower level.
	MaintainedTables(ctx context.Context, h Holder, all bool, after domain.TableID, limit int) ([]MaintainedTable, error)
	MaintainedByID(ctx context.Context, ids []domain.TableID) ([]MaintainedTable, error)
	SetMaintained(ctx context.Context, id domain.TableID, m Maintained) error
	// BeingWritten reports whether a live statement that writes has opened the table.
	BeingWritten(ctx context.Context, id domain.TableID) (bool, error)
	// InsertMaintenanceRuns adds the runs of tables without a queued or running run, with their
	// statements, and returns their number.
	InsertMaintenanceRuns(ctx context.Context, runs []Run) (int, error)
	MaintenanceRun(ctx context.Context, id domain.MaintenanceRunID) (Run, error)
	LockMaintenanceRun(ctx context.Context, id domain.MaintenanceRunID) (Run, error)
	// UpdateMaintenanceRun stores the run without its statements.
	UpdateMaintenanceRun(ctx context.Context, r Run) error
	// MaintenanceRuns returns runs, newest first.
	MaintenanceRuns(ctx context.Context, f Filter, before domain.MaintenanceRunID, limit int) ([]Run, error)
	// ChangedMaintenanceRuns returns a page of changed runs, and whether there may be more.
	ChangedMaintenanceRuns(ctx context.Context, p domain.Position) ([]Run, bool, error)
	// RunningMaintenance returns the running runs.
	RunningMaintenance(ctx context.Context) ([]Run, error)
	// WaitingMaintenance returns the runs with a held statement to cancel, and those whose next
	// statement may start, longest waiting first.
	WaitingMaintenance(ctx context.Context, now time.Time, limit int) ([]Run, error)
}

// Due is a workspace whose runs, or whose tables of one holder, must be checked at a
// time.
type Due struct {
	Workspace domain.WorkspaceID
	Runs      bool
	Database  domain.DatabaseID // the holder's
	Table     domain.TableID    // the holder's
	At        time.Time
}

// metrics parses an engine's answer: rows of a name and a number, as a JSON array of arrays. It
// skips other rows.
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
		found[domain.Shown(name)] = value
	}
	return found
}
