package maintenance

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

var start = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// everything is a policy that sets every field to a value other than the default.
func everything() Policy {
	return Policy{
		Enabled: new(false), Schedule: &Schedule{"@hourly", "Europe/Rome"}, Warehouse: new(domain.MachineID("wh_1")), StartWarehouse: new(false),
		Compact: CompactPolicy{Enabled: new(false), Threshold: new(int64(mib)), MinFiles: new(2), DeletePercent: new(50)},
		Expire:  ExpirePolicy{Enabled: new(false), KeepDays: new(1), MaxSnapshots: new(10), EraseAfterDays: new(30)}, Orphans: OrphansPolicy{Enabled: new(false), OlderDays: new(2)},
	}
}

// Each field is inherited separately, from the nearest level that sets it.
func TestAPolicyIsInheritedFieldByField(t *testing.T) {
	none, all := Policy{}, everything()
	said := Settings{
		Schedule: *all.Schedule, Threshold: mib, MinFiles: 2, DeletePercent: 50, KeepDays: 1, MaxSnapshots: 10, EraseAfterDays: 30, OlderDays: 2, Warehouse: "wh_1",
	}
	for _, c := range []struct {
		name                       string
		workspace, database, table Policy
		origin                     Level
	}{
		{"nobody", none, none, none, BuiltIn},
		{"the workspace", all, none, none, OfWorkspace},
		{"the database", none, all, none, OfDatabase},
		{"the table", none, none, all, OfTable},
		{"all of them", all, all, all, OfTable},
	} {
		got := settingsOf(c.workspace, c.database, c.table)
		require.ElementsMatch(t, Fields, slices.Collect(maps.Keys(got.Origins)), c.name)
		for field, origin := range got.Origins {
			require.Equal(t, c.origin, origin, "%s says %s", c.name, field)
		}
		want := said
		if c.origin == BuiltIn {
			want = builtIn()
		}
		got.Origins, want.Origins = nil, nil
		require.Equal(t, want, got, c.name)
	}
	mixed := settingsOf(Policy{Enabled: new(false), StartWarehouse: new(false)}, Policy{Expire: ExpirePolicy{KeepDays: new(30)}}, Policy{Enabled: new(true)})
	require.True(t, mixed.Enabled)
	require.Equal(t, 30, mixed.KeepDays)
	require.Equal(t, OfTable, mixed.Origins[fieldEnabled])
	require.Equal(t, OfDatabase, mixed.Origins[fieldKeepDays])
	require.Equal(t, OfWorkspace, mixed.Origins[fieldStartWarehouse])
	require.Equal(t, BuiltIn, mixed.Origins[fieldSchedule])
}

// Orphan removal never applies to a registered table. Its snapshots expire only if its own policy
// says so.
func TestFilesFromElsewhereAreSpared(t *testing.T) {
	yes := Policy{Expire: ExpirePolicy{Enabled: new(true)}, Orphans: OrphansPolicy{Enabled: new(true)}}
	for _, c := range []struct {
		registered      bool
		database, table Policy
		want            []Kind
		origin          Level
	}{
		{false, Policy{}, Policy{}, Kinds, BuiltIn},
		{true, Policy{}, Policy{}, []Kind{Compact}, Registered},
		{true, yes, Policy{}, []Kind{Compact}, Registered},
		{true, Policy{}, yes, []Kind{Compact, Expire}, OfTable},
	} {
		l := levels{databases: map[domain.DatabaseID]Holder{"db_1": {Policy: c.database}}}
		s := l.settings(MaintainedTable{Table: lake.Table{DatabaseID: "db_1", Registered: c.registered}, Policy: c.table})
		require.Equal(t, c.want, s.kinds())
		require.Equal(t, c.origin, s.Origins[fieldExpire])
		if c.registered {
			c.origin = Registered
		}
		require.Equal(t, c.origin, s.Origins[fieldOrphans])
	}
}

func TestWhatAPolicyMaySay(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		field  string // the invalid field; empty if valid
	}{
		{Policy{}, ""},
		{everything(), ""},
		{Policy{Schedule: &Schedule{Cron: "0 3 * * *"}}, ""},
		{Policy{Schedule: &Schedule{Cron: "often"}}, "schedule.cron"},
		{Policy{Schedule: &Schedule{}}, "schedule.cron"},
		{Policy{Schedule: &Schedule{Cron: "0 0 30 2 *"}}, "schedule.cron"},
		{Policy{Schedule: &Schedule{Cron: "0 3 * * *", TimeZone: "Mars"}}, "schedule.time_zone"},
		{Policy{Compact: CompactPolicy{Threshold: new(int64(mib - 1))}}, fieldThreshold},
		{Policy{Compact: CompactPolicy{Threshold: new(int64(mib + 1))}}, fieldThreshold},
		{Policy{Compact: CompactPolicy{Threshold: new(int64(maxThreshold + mib))}}, fieldThreshold},
		{Policy{Compact: CompactPolicy{MinFiles: new(1)}}, fieldMinFiles},
		{Policy{Compact: CompactPolicy{DeletePercent: new(101)}}, fieldDeletePercent},
		{Policy{Compact: CompactPolicy{DeletePercent: new(-1)}}, fieldDeletePercent},
		{Policy{Expire: ExpirePolicy{KeepDays: new(0)}}, fieldKeepDays},
		{Policy{Expire: ExpirePolicy{MaxSnapshots: new(9)}}, fieldMaxSnapshots},
		{Policy{Expire: ExpirePolicy{EraseAfterDays: new(0)}}, fieldEraseAfterDays},
		{Policy{Expire: ExpirePolicy{EraseAfterDays: new(31)}}, fieldEraseAfterDays},
		{Policy{Orphans: OrphansPolicy{OlderDays: new(0)}}, fieldOlderDays},
		{Policy{Orphans: OrphansPolicy{OlderDays: new(maxKeepDays + 1)}}, fieldOlderDays},
	} {
		_, err := c.policy.normal(start)
		if c.field == "" {
			require.NoError(t, err)
			continue
		}
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%+v: %v", c.policy, err)
		require.Equal(t, c.field, domain.AsError(err).Field)
	}
	kept, err := Policy{Schedule: &Schedule{Cron: " @daily "}}.normal(start)
	require.NoError(t, err)
	require.Equal(t, Schedule{"@daily", "UTC"}, *kept.Schedule)
}

// A table is due at the time of the nearest level with a schedule, and never while maintenance is
// turned off.
func TestWhenATableIsDue(t *testing.T) {
	at := func(hours int) *time.Time { return new(start.Add(time.Duration(hours) * time.Hour)) }
	own := Policy{Schedule: &Schedule{"@hourly", "UTC"}}
	off := Policy{Enabled: new(false)}
	for _, c := range []struct {
		name                       string
		workspace, database, table Holder
		want                       *time.Time
	}{
		{"a new workspace", Holder{}, Holder{}, Holder{}, builtIn().Schedule.next(start)},
		{"the workspace's time", Holder{NextAt: at(1)}, Holder{}, Holder{}, at(1)},
		{"the database's", Holder{NextAt: at(1)}, Holder{Policy: own, NextAt: at(2)}, Holder{}, at(2)},
		{"the table's", Holder{NextAt: at(1)}, Holder{Policy: own, NextAt: at(2)}, Holder{Policy: own, NextAt: at(3)}, at(3)},
		{"turned off", Holder{NextAt: at(1), Policy: off}, Holder{}, Holder{}, nil},
		{"turned off below", Holder{NextAt: at(1)}, Holder{Policy: off}, Holder{}, nil},
		{"turned on below", Holder{NextAt: at(1), Policy: off}, Holder{Policy: Policy{Enabled: new(true)}}, Holder{}, at(1)},
	} {
		l := levels{workspace: c.workspace, databases: map[domain.DatabaseID]Holder{"db_1": c.database}}
		table := MaintainedTable{Table: lake.Table{DatabaseID: "db_1"}, Policy: c.table.Policy, NextAt: c.table.NextAt}
		require.Equal(t, c.want, l.ofTable(table, start).NextAt, c.name)
	}
}

// A missed time does not repeat. A due time stays as long as its schedule does.
func TestAHolderIsArmed(t *testing.T) {
	hourly := Policy{Schedule: &Schedule{"0 * * * *", "UTC"}}
	next := start.Truncate(time.Hour).Add(time.Hour)
	h := Holder{Table: "tbl_1", SweepAfter: "tbl_0"}
	h.replace(hourly, start)
	require.Equal(t, Holder{Table: "tbl_1", Policy: hourly, NextAt: &next}, h)
	h.arm(start.Add(72 * time.Hour))
	require.Equal(t, next.Add(72*time.Hour), *h.NextAt)
	h.replace(Policy{Schedule: &Schedule{"0 * * * *", "UTC"}, Enabled: new(false)}, start)
	require.Equal(t, next.Add(72*time.Hour), *h.NextAt)
	h.replace(Policy{}, start)
	require.Nil(t, h.NextAt)
	workspace := Holder{}
	workspace.replace(Policy{}, start)
	require.Equal(t, builtIn().Schedule.next(start), workspace.NextAt)
}

// small is a table of many small files, just created.
func small() MaintainedTable {
	return MaintainedTable{Table: lake.Table{
		Kind: lake.KindTable, Snapshot: &lake.TableSnapshot{}, CreatedAt: start, Version: 3, DataFiles: new(int64(10)), DataBytes: new(int64(1000)), RowCount: new(int64(100)),
		DeleteFiles: new(int64(0)), DeletedRows: new(int64(0)), Snapshots: new(int64(3)),
	}}
}

// large is a table of few files of the target size.
func large() MaintainedTable {
	t := small()
	t.DataFiles, t.DataBytes = new(int64(100)), new(int64(100*128*mib))
	return t
}

func TestWhatATableNeeds(t *testing.T) {
	compact, expire, orphans := []Kind{Compact}, []Kind{Expire}, []Kind{Orphans}
	for _, c := range []struct {
		name   string
		table  MaintainedTable
		change func(*MaintainedTable)
		want   []Kind
		after  time.Duration // since its creation
	}{
		{"small files", small(), func(*MaintainedTable) {}, compact, 0},
		{"a view", small(), func(t *MaintainedTable) { t.Kind = lake.KindView }, nil, 0},
		{"never written", small(), func(t *MaintainedTable) { t.Snapshot = nil }, nil, 365 * 24 * time.Hour},
		{"as many as it takes", small(), func(t *MaintainedTable) { t.DataFiles = new(int64(5)) }, compact, 0},
		{"one less", small(), func(t *MaintainedTable) { t.DataFiles = new(int64(4)) }, nil, 0},
		{"none", small(), func(t *MaintainedTable) { t.DataFiles = new(int64(0)) }, nil, 0},
		{"not known", small(), func(t *MaintainedTable) { t.DataFiles = nil }, nil, 0},
		{"files of a size that is not known", large(), func(t *MaintainedTable) { t.DataBytes = nil }, compact, 0},
		{"few of them", small(), func(t *MaintainedTable) { t.DataFiles, t.DataBytes = new(int64(4)), nil }, nil, 0},
		{"large files", large(), func(*MaintainedTable) {}, nil, 0},
		{"a little less than large", large(), func(t *MaintainedTable) { *t.DataBytes -= 100 }, compact, 0},
		{"compacted, and few since", small(), func(t *MaintainedTable) { t.Done.CompactedFiles = 6 }, nil, 0},
		{"compacted, and enough since", small(), func(t *MaintainedTable) { t.Done.CompactedFiles = 5 }, compact, 0},
		{"compacted, and replaced since", small(), func(t *MaintainedTable) { t.Done.CompactedFiles = 100 }, compact, 0},
		{"few deletes", large(), func(t *MaintainedTable) { t.DeleteFiles, t.DeletedRows = new(int64(9)), new(int64(11)) }, nil, 0},
		{"many files of deletes", large(), func(t *MaintainedTable) { t.DeleteFiles = new(int64(10)) }, compact, 0},
		{"many deletes in one", large(), func(t *MaintainedTable) { t.DeleteFiles, t.DeletedRows = new(int64(1)), new(int64(12)) }, compact, 0},
		{"deletes that hide rows", large(), func(t *MaintainedTable) { t.DeleteFiles, t.RowCount = new(int64(1)), nil }, compact, 0},
		{"deletes that compaction left", large(), func(t *MaintainedTable) { t.DeleteFiles, t.Done.CompactedDeletes = new(int64(50)), 50 }, nil, 0},
		{"young snapshots", large(), func(t *MaintainedTable) { t.ExpirableAt, t.Done.CleanedVersion = &start, 3 }, nil, 7*24*time.Hour - time.Second},
		{"old snapshots", large(), func(t *MaintainedTable) { t.ExpirableAt, t.Done.CleanedVersion = &start, 3 }, expire, 7 * 24 * time.Hour},
		{"old ones that stay", large(), func(t *MaintainedTable) { t.Done.CleanedVersion = 3 }, nil, 365 * 24 * time.Hour},
		{"snapshots that were not noted", large(), func(t *MaintainedTable) { t.Snapshots, t.Done.CleanedVersion = nil, 3 }, expire, 7 * 24 * time.Hour},
		{"those, tried", large(), func(t *MaintainedTable) { t.Snapshots, t.Done.CleanedVersion, t.Done.ExpiredAt = nil, 3, &start }, nil, 7 * 24 * time.Hour},
		{"orphans, too early", large(), func(*MaintainedTable) {}, nil, 7*24*time.Hour - time.Second},
		{"orphans", large(), func(*MaintainedTable) {}, orphans, 7 * 24 * time.Hour},
		{"orphans, looked for since", large(), func(t *MaintainedTable) { t.Done.CleanedAt, t.Done.CleanedVersion = new(start.Add(24*time.Hour)), 2 }, nil, 7 * 24 * time.Hour},
		{"orphans, long ago", large(), func(t *MaintainedTable) { t.Done.CleanedAt, t.Done.CleanedVersion = new(start.Add(24*time.Hour)), 2 }, orphans, 8 * 24 * time.Hour},
		{"orphans of what nobody wrote since", large(), func(t *MaintainedTable) { t.Done.CleanedAt, t.Done.CleanedVersion = &start, 3 }, nil, 365 * 24 * time.Hour},
		{"all of it", small(), func(t *MaintainedTable) { t.ExpirableAt = &start }, Kinds, 7 * 24 * time.Hour},
	} {
		c.change(&c.table)
		now := start.Add(c.after)
		if len(c.want) == 0 {
			require.Empty(t, c.table.needs(builtIn(), now), c.name)
		} else {
			require.Equal(t, c.want, c.table.needs(builtIn(), now), c.name)
		}
		require.Empty(t, c.table.needs(settingsOf(Policy{}, Policy{}, everything()), now), "%s, but turned off", c.name)
	}
}

func TestTheStatementsOfMaintenance(t *testing.T) {
	table := lake.Table{Database: "lake", Schema: "a.b", Name: `wei"rd`}
	for kind, want := range map[Kind]string{
		Compact: `ALTER TABLE "lake"."a.b"."wei""rd" EXECUTE optimize(file_size_threshold => '128MB')`,
		Expire:  `ALTER TABLE "lake"."a.b"."wei""rd" EXECUTE expire_snapshots(retention_threshold => '7d', max_snapshots => 1000, erase_after => '1d')`,
		Orphans: `ALTER TABLE "lake"."a.b"."wei""rd" EXECUTE remove_orphan_files(retention_threshold => '7d')`,
	} {
		require.Equal(t, want, kind.sql(table, builtIn()))
	}
}

var system = domain.SystemScope("ws_1", "maintenance")

// runOf is a run whose first operation runs.
func runOf(todo ...Kind) Run {
	r := newRun(system, small().Table, builtIn(), todo, job.TriggerSchedule, start, start)
	r.begun()
	return r
}

// begun starts the run's next operation.
func (r *Run) begun() {
	r.head().Before, r.head().Statement.Warehouse = totalsOf(small().Table), "wh_1"
	r.derive(start)
}

// ended ends the current operation's statement.
func (r *Run) ended(state statement.State, fault statement.Fault) {
	st := &r.Operations[r.current()].Statement
	st.State, st.StartedAt, st.FinishedAt = state, &start, new(start.Add(90*time.Second))
	if fault != "" {
		st.Failure = &statement.Failure{Fault: fault, Message: "Why."}
	}
	if fault == statement.FaultCancelled {
		st.CancelRequestedAt = &start
	}
}

// A run's state is that of its statements.
func TestTheStateOfARun(t *testing.T) {
	r := newRun(system, small().Table, builtIn(), []Kind{Compact, Expire}, job.TriggerSchedule, start, start)
	require.Equal(t, []any{Queued, waitsForTurn, &start, []Kind{Compact, Expire}}, []any{r.State, r.Message, r.NextTryAt(), r.Todo()})
	require.Nil(t, r.StartedAt())
	for _, o := range r.Operations {
		require.True(t, o.held())
		require.Equal(t, []any{statement.Maintenance, r.TableID, domain.ActorSystem}, []any{o.Statement.Purpose, o.Statement.TableID, o.Statement.CreatedBy.Kind})
	}
	require.Equal(t, waitsForEarlier, r.Operations[1].Statement.Message)
	require.Nil(t, r.Operations[1].Statement.NotBefore)
	r.begun()
	require.Equal(t, []any{Running, "", []Kind{Expire}}, []any{r.State, r.Message, r.Todo()})
	require.Nil(t, r.NextTryAt())
	require.Equal(t, &start, r.StartedAt())
	r.ended(statement.Succeeded, "")
	r.line(start)
	r.derive(start)
	require.Equal(t, []any{Queued, waitsForTurn, &start}, []any{r.State, r.Message, r.NextTryAt()})
	require.Nil(t, r.FinishedAt)
	r.begun()
	r.ended(statement.Succeeded, "")
	r.derive(start)
	require.Equal(t, []any{Succeeded, &start}, []any{r.State, r.FinishedAt})
}

// The state of a run after the ends of its statements.
func TestWhatBecomesOfARun(t *testing.T) {
	type end struct {
		state statement.State
		fault statement.Fault
	}
	ok, lost, notNeeded := end{statement.Succeeded, ""}, end{statement.Failed, statement.FaultEngine}, end{statement.Cancelled, "withdrawn"}
	for _, c := range []struct {
		name string
		ends []end
		want State
	}{
		{"it is done", []end{ok, ok}, Succeeded},
		{"it lost a race", []end{{statement.Failed, statement.FaultConflict}, ok}, Failed},
		{"it is refused", []end{{statement.Failed, statement.FaultQuery}, ok}, Failed},
		{"it is too large", []end{{statement.Failed, statement.FaultResources}, ok}, Failed},
		{"it is too slow", []end{{statement.Failed, statement.FaultTimeout}, ok}, Failed},
		{"it may not", []end{{statement.Failed, statement.FaultForbidden}, ok}, Failed},
		{"it is cancelled", []end{ok, {statement.Cancelled, statement.FaultCancelled}}, Cancelled},
		{"another is cancelled while it fails", []end{{statement.Failed, statement.FaultQuery}, {statement.Cancelled, statement.FaultCancelled}}, Cancelled},
		{"it was not needed", []end{notNeeded, notNeeded}, Cancelled},
		{"one was not needed", []end{ok, notNeeded}, Succeeded},
		{"its engine was lost, and not again", []end{lost, lost, ok}, Succeeded},
		{"its engine was lost too often", []end{lost, lost, lost, notNeeded}, Failed},
	} {
		r := Run{}
		for _, e := range c.ends {
			r.Operations = append(r.Operations, Operation{Statement: statement.Statement{Warehouse: "wh_1", State: statement.Running}})
			if e.fault == "withdrawn" {
				r.ended(e.state, "")
				r.Operations[r.current()].Statement.Failure = &statement.Failure{Fault: statement.FaultCancelled, Message: "Why."}
				continue
			}
			r.ended(e.state, e.fault)
		}
		r.derive(start)
		require.Equal(t, c.want, r.State, c.name)
		require.True(t, r.Message != "" || c.want == Succeeded, c.name)
	}
}

// After a lost engine the operation comes once more, before those after it.
func TestALostOperationIsRetried(t *testing.T) {
	r := runOf(Compact, Expire)
	for tries := 1; tries < maintenanceTries; tries++ {
		r.ended(statement.Failed, statement.FaultEngine)
		again := r.retry(system, start)
		r.derive(start)
		require.Equal(t, tries, r.lost())
		require.Equal(t, []any{Queued, "It is retried: Why.", start.Add(time.Duration(tries) * maintenanceAgain)}, []any{r.State, r.Message, *r.NextTryAt()})
		require.Equal(t, []Kind{Compact, Expire}, r.Todo())
		require.Equal(t, []any{again.Statement.ID, again.Statement.Query}, []any{r.head().Statement.ID, r.Operations[0].Statement.Query})
		r.begun()
	}
}

// The history shows the operation's results and cost.
func TestWhatAnOperationTells(t *testing.T) {
	recorded := func(kind Kind, reported map[string]int64, price machine.Price) Operation {
		r, after := runOf(kind), small().Table
		after.Snapshots = new(int64(1))
		r.ended(statement.Succeeded, "")
		r.Operations[0].record(after, reported, price)
		return r.Operations[0]
	}
	told := metrics([]byte(`[["deleted_data_files_count", 7], ["deleted_manifests", 2], ["deleted_bytes", 900], ["kept", 5], ["odd", "x"], [1, 2], ["short"]]`))
	o := recorded(Expire, told, machine.Price{Hourly: decimal.RequireFromString("0.40"), Currency: "USD"})
	require.Equal(t, map[string]int64{"deleted_data_files_count": 7, "deleted_manifests": 2, "deleted_bytes": 900, "kept": 5}, o.Metrics)
	require.Equal(t, int64(2), *o.SnapshotsExpired)
	require.Equal(t, int64(9), *o.FilesRemoved)
	require.Equal(t, 90.0, o.Seconds())
	require.Equal(t, "0.01", o.Cost.String())
	require.Equal(t, "USD", o.Currency)
	require.Equal(t, int64(3), *o.Before.Snapshots)
	require.Equal(t, int64(1), *o.After.Snapshots)

	require.Equal(t, int64(1), *recorded(Expire, map[string]int64{"expired_snapshots": 1}, machine.Price{}).SnapshotsExpired, "others have committed meanwhile")

	o = recorded(Compact, metrics([]byte(`nothing`)), machine.Price{})
	require.Nil(t, o.Cost)
	require.Nil(t, o.SnapshotsExpired)
	require.Nil(t, o.FilesRemoved)
}

func TestARunWaitsForSixHoursAtMost(t *testing.T) {
	r := newRun(system, small().Table, builtIn(), Kinds, job.TriggerSchedule, start, start)
	require.True(t, r.waitsForQuiet(start))
	require.False(t, r.waited(start.Add(maintenanceWait-time.Second)))
	require.True(t, r.waited(start.Add(maintenanceWait)))
	require.False(t, r.waitsForQuiet(start.Add(maintenanceWait)), "then it is done all the same")

	require.False(t, newRun(system, small().Table, builtIn(), Kinds, job.TriggerManual, start, start).waitsForQuiet(start), "somebody wants it now")
	require.False(t, newRun(system, small().Table, builtIn(), Kinds[1:], job.TriggerSchedule, start, start).waitsForQuiet(start), "it holds nobody up")
}

func TestWhoHurriesARun(t *testing.T) {
	me := domain.Actor{Kind: domain.ActorUser, ID: "usr_1"}
	now := start.Add(time.Hour)
	all := newRun(system, small().Table, builtIn(), Kinds, job.TriggerManual, now, now).Operations
	for _, state := range States {
		r := newRun(system, small().Table, builtIn(), []Kind{Expire}, job.TriggerSchedule, start, start)
		waits := r.Operations[0].Statement.ID
		r.State = state
		added, err := r.expedite(me, all, now)
		require.Equal(t, state == Queued, err == nil, state)
		if err != nil {
			require.True(t, domain.IsCode(err, domain.CodeConflict))
			continue
		}
		require.Len(t, added, 2)
		require.Equal(t, []any{Kinds, waits, job.TriggerManual, me, Queued, now}, []any{r.Todo(), r.Operations[1].Statement.ID, r.Trigger, r.CreatedBy, r.State, *r.NextTryAt()})
		require.Nil(t, r.Operations[1].Statement.NotBefore, "it comes after the compaction")
	}
}

// The choice of a warehouse, by their states and their current maintenance.
func TestWhereMaintenanceRuns(t *testing.T) {
	duck := func(id domain.MachineID, s machine.State) machine.Machine {
		return machine.Machine{ID: id, State: s, WriteEngine: machine.EngineDuckDB}
	}
	trino := func(id domain.MachineID, s machine.State) machine.Machine {
		return machine.Machine{ID: id, State: s, WriteEngine: machine.EngineTrino}
	}
	held := func(m machine.Machine, at time.Time) machine.Machine {
		m.HeldAt = &at
		return m
	}
	named, asleep := Policy{Warehouse: new(domain.MachineID("wh_2"))}, Policy{StartWarehouse: new(false)}
	for _, c := range []struct {
		name   string
		all    []machine.Machine
		busy   []domain.MachineID
		policy Policy
		want   domain.MachineID
		not    string // busy, wait or fail
	}{
		{"none", nil, nil, Policy{}, "", "fail"},
		{"one that is stopped", []machine.Machine{duck("wh_1", machine.Stopped)}, nil, Policy{}, "wh_1", ""},
		{"and is not to be started", []machine.Machine{duck("wh_1", machine.Stopped)}, nil, asleep, "", "wait"},
		{"one that runs, and is not to be started", []machine.Machine{duck("wh_1", machine.Running)}, nil, asleep, "wh_1", ""},
		{"one that runs goes before Trino that does not", []machine.Machine{trino("wh_1", machine.Stopped), duck("wh_2", machine.Running)}, nil, Policy{}, "wh_2", ""},
		{"of two that run, the first", []machine.Machine{duck("wh_1", machine.Running), trino("wh_2", machine.Running)}, nil, Policy{}, "wh_1", ""},
		{"of two that are stopped, the first", []machine.Machine{duck("wh_1", machine.Stopped), trino("wh_2", machine.Stopped)}, nil, Policy{}, "wh_1", ""},
		{"one that starts goes before one that does not", []machine.Machine{trino("wh_1", machine.Stopped), duck("wh_2", machine.Starting)}, nil, Policy{}, "wh_2", ""},
		{"one that has failed goes last", []machine.Machine{trino("wh_1", machine.Failed), duck("wh_2", machine.Stopped)}, nil, Policy{}, "wh_2", ""},
		{"of two that run, the other one", []machine.Machine{duck("wh_1", machine.Running), trino("wh_2", machine.Running)}, []domain.MachineID{"wh_2"}, Policy{}, "wh_1", ""},
		{"one is at work", []machine.Machine{duck("wh_1", machine.Running)}, []domain.MachineID{"wh_1"}, Policy{}, "", "busy"},
		{"no other one is started beside it", []machine.Machine{duck("wh_1", machine.Running), trino("wh_2", machine.Stopped)}, []domain.MachineID{"wh_1"}, Policy{}, "", "busy"},
		{"it is being started for another", []machine.Machine{duck("wh_1", machine.Stopped), duck("wh_2", machine.Stopped)}, []domain.MachineID{"wh_1"}, Policy{}, "", "busy"},
		{"the one that is named", []machine.Machine{trino("wh_1", machine.Running), duck("wh_2", machine.Stopped)}, nil, named, "wh_2", ""},
		{"the one that is named, beside another at work", []machine.Machine{trino("wh_1", machine.Running), duck("wh_2", machine.Stopped)}, []domain.MachineID{"wh_1"}, named, "wh_2", ""},
		{"the one that is named is at work", []machine.Machine{trino("wh_1", machine.Running), duck("wh_2", machine.Running)}, []domain.MachineID{"wh_2"}, named, "", "busy"},
		{"the one that is named is gone", []machine.Machine{trino("wh_1", machine.Running)}, nil, named, "", "fail"},
		{"a person stopped it before", []machine.Machine{held(duck("wh_1", machine.Stopped), start.Add(-1))}, nil, Policy{}, "wh_1", ""},
		{"a person stopped it at that time", []machine.Machine{held(duck("wh_1", machine.Stopped), start)}, nil, Policy{}, "", "wait"},
		{"another is stopped", []machine.Machine{held(duck("wh_1", machine.Stopped), start), duck("wh_2", machine.Stopped)}, nil, Policy{}, "wh_2", ""},
	} {
		p := pass{warehouses: c.all, busy: c.busy}
		got := p.choose(settingsOf(c.policy, Policy{}, Policy{}), start)
		require.Equal(t, c.want, got.id, c.name)
		require.Equal(t, c.not == "busy", got.busy, c.name)
		require.Equal(t, c.not == "wait", got.wait != "", c.name)
		require.Equal(t, c.not == "fail", got.fail != "", c.name)
	}
}

// A table with more snapshots than its maximum needs an expiry, whatever their age. Ten percent
// above it, the expiry does not wait for the schedule.
func TestATableWithTooManySnapshots(t *testing.T) {
	s := settingsOf(Policy{}, Policy{}, Policy{Expire: ExpirePolicy{MaxSnapshots: new(100)}})
	for snapshots, want := range map[int64][]bool{100: {false, false}, 101: {true, false}, 110: {true, false}, 111: {true, true}} {
		table := MaintainedTable{Table: lake.Table{Kind: lake.KindTable, Snapshot: &lake.TableSnapshot{ID: 1}, Snapshots: &snapshots, CreatedAt: start}}
		require.Equal(t, want, []bool{slices.Contains(table.needs(s, start), Expire), table.overcrowded(s)}, "%d", snapshots)
		table.Done.ExpiredSnapshots = 111
		require.False(t, table.overcrowded(s), "the last expiry had to leave as many")
	}
}

// asked is a System that counts how many due items it is asked for.
type asked struct{ limit int }

func (*asked) CrowdedTables(context.Context, int, lake.TableRef, int) ([]lake.TableRef, error) {
	return nil, nil
}

func (a *asked) DueMaintenance(_ context.Context, _ time.Time, limit int) ([]Due, error) {
	a.limit = limit
	return nil, nil
}

// One item more than a tick takes says that there is more.
func TestATickSeesThatMoreIsDue(t *testing.T) {
	var a asked
	_, err := (&Maintenances{System: &a}).Due(t.Context(), time.Time{}, 200)
	require.NoError(t, err)
	require.Equal(t, 201, a.limit)
}
