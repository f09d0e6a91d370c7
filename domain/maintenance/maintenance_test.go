package maintenance

import (
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

// runOf is a run that has begun its first operation.
func runOf(todo ...Kind) Run {
	r := newMaintenanceRun(small().Table, todo, job.TriggerSchedule, domain.Actor{Kind: domain.ActorSystem}, start, start)
	r.begin(system, small().Table, builtIn(), "wh_1", start)
	return r
}

func endedStatement(state statement.State, fault statement.Fault) statement.Statement {
	st := statement.Statement{State: state, StartedAt: &start, FinishedAt: new(start.Add(90 * time.Second))}
	if fault != "" {
		st.Failure = &statement.Failure{Fault: fault, Message: "Why."}
	}
	return st
}

// The state of a run after its statement ends.
func TestWhatBecomesOfARun(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   statement.Statement
		tries int
		todo  int // kinds left of two
		state State
	}{
		{"it is done", endedStatement(statement.Succeeded, ""), 0, 1, Running},
		{"it lost a race", endedStatement(statement.Failed, statement.FaultConflict), 0, 1, Running},
		{"it is refused", endedStatement(statement.Failed, statement.FaultQuery), 0, 1, Running},
		{"it is too large", endedStatement(statement.Failed, statement.FaultResources), 0, 1, Running},
		{"it is too slow", endedStatement(statement.Failed, statement.FaultTimeout), 0, 1, Running},
		{"it may not", endedStatement(statement.Failed, statement.FaultForbidden), 0, 1, Running},
		{"it is cancelled", endedStatement(statement.Cancelled, statement.FaultCancelled), 0, 2, Cancelled},
		{"its engine is lost", endedStatement(statement.Failed, statement.FaultEngine), 0, 2, Queued},
		{"it is gone", statement.Statement{State: statement.Failed}, 0, 2, Queued},
		{"its engine is lost again", endedStatement(statement.Failed, statement.FaultEngine), 1, 2, Queued},
		{"its engine is lost too often", endedStatement(statement.Failed, statement.FaultEngine), 2, 2, Failed},
	} {
		r := runOf(Compact, Expire)
		r.Tries = c.tries
		r.finalize(c.end, large().Table, nil, machine.Price{}, start)
		require.Equal(t, c.state, r.State, c.name)
		require.Len(t, r.Todo, c.todo, c.name)
		require.Equal(t, c.state.Final(), r.FinishedAt != nil, c.name)
		require.Empty(t, r.Statement, c.name)
		require.True(t, r.current().State.Final(), c.name)
		require.Equal(t, c.end.State != statement.Succeeded, r.current().Message != "", c.name)
		if r.State == Queued {
			require.Equal(t, start.Add(time.Duration(c.tries+1)*maintenanceAgain), r.LookAt, c.name)
		}
		if r.State == Running { // the next statement succeeds
			r.begin(system, small().Table, builtIn(), "wh_1", start)
			r.finalize(endedStatement(statement.Succeeded, ""), large().Table, nil, machine.Price{}, start)
			require.Equal(t, c.end.State == statement.Succeeded, r.State == Succeeded, c.name)
			require.Equal(t, c.end.State != statement.Succeeded, r.State == Failed, c.name)
			require.Equal(t, r.State == Failed, r.Message != "", c.name)
		}
	}
}

// The history shows the operation's results and cost.
func TestWhatAnOperationTells(t *testing.T) {
	r := runOf(Expire)
	after := small().Table
	after.Snapshots = new(int64(1))
	told := metrics([]byte(`[["deleted_data_files_count", 7], ["deleted_manifests", 2], ["deleted_bytes", 900], ["kept", 5], ["odd", "x"], [1, 2], ["short"]]`))
	r.finalize(endedStatement(statement.Succeeded, ""), after, told, machine.Price{Hourly: decimal.RequireFromString("0.40"), Currency: "USD"}, start)
	o := r.current()
	require.Equal(t, Succeeded, r.State)
	require.Equal(t, map[string]int64{"deleted_data_files_count": 7, "deleted_manifests": 2, "deleted_bytes": 900, "kept": 5}, o.Metrics)
	require.Equal(t, int64(2), *o.SnapshotsExpired)
	require.Equal(t, int64(9), *o.FilesRemoved)
	require.Equal(t, 90.0, o.Seconds)
	require.Equal(t, "0.01", o.Cost.String())
	require.Equal(t, "USD", o.Currency)
	require.Equal(t, int64(3), *o.Before.Snapshots)
	require.Equal(t, int64(1), *o.After.Snapshots)

	r = runOf(Expire)
	r.finalize(endedStatement(statement.Succeeded, ""), after, map[string]int64{"expired_snapshots": 1}, machine.Price{}, start)
	require.Equal(t, int64(1), *r.current().SnapshotsExpired, "others have committed meanwhile")

	r = runOf(Compact)
	r.finalize(endedStatement(statement.Succeeded, ""), after, metrics([]byte(`nothing`)), machine.Price{}, start)
	require.Nil(t, r.current().Cost)
	require.Nil(t, r.current().SnapshotsExpired)
	require.Nil(t, r.current().FilesRemoved)
}

func TestARunIsPutOffForSixHoursAtMost(t *testing.T) {
	r := newMaintenanceRun(small().Table, Kinds, job.TriggerSchedule, domain.Actor{}, start, start)
	until := start.Add(time.Hour)
	require.True(t, r.waitsForQuiet(start))
	r.putOff(until, "It is written.", start.Add(maintenanceWait-time.Second))
	require.Equal(t, Queued, r.State)
	require.Equal(t, until, r.LookAt)
	require.False(t, r.waitsForQuiet(start.Add(maintenanceWait)), "then it is done all the same")
	r.putOff(until, "No warehouse.", start.Add(maintenanceWait))
	require.Equal(t, Skipped, r.State)
	require.Contains(t, r.Message, "No warehouse.")

	require.False(t, (&Run{Trigger: job.TriggerManual, CreatedAt: start, Todo: Kinds}).waitsForQuiet(start), "somebody wants it now")
	require.False(t, (&Run{Trigger: job.TriggerSchedule, CreatedAt: start, Todo: Kinds[1:]}).waitsForQuiet(start), "it holds nobody up")
}

func TestWhoHurriesARun(t *testing.T) {
	me := domain.Actor{Kind: domain.ActorUser, ID: "usr_1"}
	for _, state := range States {
		r := Run{State: state, Trigger: job.TriggerSchedule, LookAt: start.Add(time.Hour)}
		err := r.expedite(me, Kinds, start)
		require.Equal(t, state == Queued, err == nil, state)
		if err != nil {
			require.True(t, domain.IsCode(err, domain.CodeConflict))
			continue
		}
		require.Equal(t, Run{State: state, Trigger: job.TriggerManual, CreatedBy: me, Todo: Kinds, LookAt: start, Message: r.Message}, r)
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
	} {
		pass := maintenancePass{warehouses: c.all, busy: c.busy}
		got := pass.choose(settingsOf(c.policy, Policy{}, Policy{}))
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
