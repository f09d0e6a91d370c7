package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

func TestATableIsMaintainedAtNight(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	require.NoError(t, w.system.InsertPrices(t.Context(), machine.ProviderLocal, "local", time.Unix(0, 0), map[string]machine.Price{"cpu.1": {Hourly: decimal.RequireFromString("0.40"), Currency: "USD"}}))
	table := w.table("events", func(l *lake.Table) {
		l.CreatedAt = w.clock.Now().Add(-aWeek)
		l.ExpirableAt = &l.CreatedAt
	})
	w.table("quiet", func(l *lake.Table) { l.DataFiles = new(int64(1)) })
	w.table("empty", func(l *lake.Table) { l.Snapshot, l.CreatedAt = nil, w.clock.Now().Add(-aWeek) })
	w.table("view", func(l *lake.Table) { l.Kind = lake.KindView })
	w.engines.takes = 90 * time.Second
	w.tick()
	require.Empty(t, w.history(), "not yet")

	w.night()
	due := w.clock.Now()
	w.until(w.over)
	require.Equal(t, []string{
		optimize("events"), `ALTER TABLE "lake"."public"."events" EXECUTE expire_snapshots(retention_threshold => '7d', max_snapshots => 1000, erase_after => '1d')`,
		`ALTER TABLE "lake"."public"."events" EXECUTE remove_orphan_files(retention_threshold => '7d')`,
	}, w.engines.statements())
	require.Len(t, w.history(), 1, "what needs nothing has no history")
	run := w.latest()
	require.Equal(t, []any{maintenance.Succeeded, due, job.TriggerSchedule, table.ID, "events", domain.ActorSystem, "maintenance"},
		[]any{run.State, run.DueAt, run.Trigger, run.TableID, run.Table, run.CreatedBy.Kind, run.CreatedBy.Name})
	compact, expire, orphans := run.Operations[0], run.Operations[1], run.Operations[2]
	require.Equal(t, []int64{10, 1, 3, 4}, []int64{*compact.Before.Files, *compact.After.Files, *compact.Before.Snapshots, *compact.After.Snapshots})
	require.Equal(t, []int64{5000, 1000}, []int64{*compact.Before.Bytes, *compact.After.Bytes})
	require.Equal(t, int64(3), *expire.SnapshotsExpired)
	require.Equal(t, map[string]int64{"deleted_data_files_count": 4}, orphans.Metrics)
	require.Equal(t, int64(4), *orphans.FilesRemoved)
	require.Equal(t, []any{90.0, "0.01", "USD"}, []any{compact.Seconds(), compact.Cost.String(), compact.Currency})

	st, err := w.server.statements.Get(t.Context(), w.admin, compact.Statement.ID)
	require.NoError(t, err)
	require.Equal(t, []any{domain.ActorSystem, "maintenance", domain.RoleEditor, statement.Succeeded}, []any{st.CreatedBy.Kind, st.CreatedBy.Name, st.Role, st.State})
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM audit_events WHERE action = 'statement.run' AND actor_kind = 'system' AND actor_name = 'maintenance'`))

	w.night()
	w.tick()
	require.Len(t, w.history(), 1, "the next night there is nothing to do")
	w.change(t.Context(), "events", func(l *lake.Table) { l.DataFiles = new(int64(6)) })
	w.night()
	w.until(w.over)
	require.Len(t, w.engines.statements(), 4, "five files came since, and nothing is old yet")
	require.Len(t, w.history(), 2)
}

// With any number of servers and tables, each table is done once: one at a time on a warehouse, two
// in a workspace.
func TestMaintenanceOnTwoServers(t *testing.T) {
	w := newUpkeep(t)
	for _, name := range []string{"second", "third"} {
		w.runs(w.warehouse(name))
	}
	var want []string
	for i := range 12 {
		name := fmt.Sprint("t", i)
		w.table(name)
		want = append(want, optimize(name))
	}
	other := w.replica(connect(t, w.dsn))
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 2 }, w.server, other, w.server, other)
	for range 3 {
		require.Equal(t, map[domain.Code]int{"": 2}, atOnce(2, func(i int) error { return second([]*upkeeper{w.server, other}[i].Tick(t.Context())) }))
	}
	require.Len(t, w.engines.statements(), 2, "people's statements are not held up")
	release()
	w.until(w.over, w.server, other, w.server, other)
	require.ElementsMatch(t, want, w.engines.statements())
	require.Equal(t, 2, w.engines.most)
	require.False(t, w.engines.worse, "one on each")
	for _, run := range w.history() {
		require.Equal(t, maintenance.Succeeded, run.State)
		require.Len(t, run.Operations, 1)
	}
}

// Missed nights are made up for once.
func TestMissedNightsComeOnce(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.night()
	w.clock.move(5*24*time.Hour + time.Hour)
	w.tick()
	of, err := w.server.OfWorkspace(t.Context(), w.admin)
	require.NoError(t, err)
	require.True(t, of.NextAt.After(w.clock.Now()), "none of them is left to come")
	w.until(w.over)
	require.Len(t, w.history(), 1)
	next, err := w.server.Tick(t.Context())
	require.NoError(t, err)
	require.Equal(t, *of.NextAt, next, "it knows when to look again")
}

// flaky rolls one transaction back at its end: the nth from now on.
type flaky struct {
	store.Transactor
	n atomic.Int64
}

func (f *flaky) In(ctx context.Context, s domain.Scope, fn func(*store.Tx) error) error {
	dies := f.n.Add(-1) == 0
	return f.Transactor.In(ctx, s, func(tx *store.Tx) error {
		if err := fn(tx); err != nil || !dies {
			return err
		}
		return errors.New("the server is killed")
	})
}

// A server that is killed at any point leaves no work undone, and no work is done twice. Another
// server adopts the statement that it has queued.
func TestMaintenanceGoesOnWhereAServerWasKilled(t *testing.T) {
	for n := int64(1); n <= 3; n++ {
		w := newUpkeep(t)
		w.table("events")
		dying := &flaky{Transactor: w.store}
		killed := w.replica(connect(t, w.dsn))
		killed.Store = store.For[maintenance.Tx](dying)
		w.night()
		dying.n.Store(n)
		db := superuser(t, w.dsn)
		step := func() [3]int {
			failed := map[bool]int{true: 1}[second(killed.Tick(t.Context())) != nil]
			const waiting = `SELECT count(*) FROM statements WHERE replica = '' AND warehouse_id `
			return [3]int{failed, count(t, db, waiting+`= ''`), count(t, db, waiting+`<> ''`)}
		}
		require.Equal(t, map[int64][2][3]int{1: {{1, 0, 0}, {0, 1, 0}}, 2: {{0, 1, 0}, {1, 1, 0}}, 3: {{0, 1, 0}, {0, 0, 1}}}[n], [2][3]int{step(), step()},
			"the statement comes with its run, and is released with its step, or not at all")
		w.until(w.over)
		require.Equal(t, []string{optimize("events")}, w.engines.statements(), n)
		require.Equal(t, maintenance.Succeeded, w.latest().State, n)
	}
}

// Thousands of tables are visited in pages, each table once.
func TestManyTablesAreGoneThrough(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	table := w.table("t0", func(l *lake.Table) { l.DataFiles = new(int64(1)) })
	execute(t, db, `INSERT INTO lake_tables SELECT (jsonb_populate_record(l, jsonb_build_object('id', l.id || lpad(i::text, 5, '0'), 'name', 't' || i, 'name_key', 't' || i,
		'data_files', CASE WHEN i % 600 = 0 THEN 10 ELSE 1 END))).* FROM lake_tables l, generate_series(1, 1200) i WHERE l.id = $1`, table.ID)
	w.night()
	counted := &flaky{Transactor: w.store}
	server := upkeeper{Maintenances: w.server.Maintenances}
	server.Store = store.For[maintenance.Tx](counted)
	release := w.engines.hold()
	defer release()
	counted.n.Store(1000)
	_, err := server.Tick(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(3), 1000-counted.n.Load(), "transactions: a page of 500 each")
	require.Len(t, w.history(), 2)
	require.Equal(t, []string{"t1200", "t600"}, []string{w.history()[0].Table, w.history()[1].Table})
}

// A server restarts while a statement runs: the run is retried a few minutes later.
func TestAServerRestartsInTheMiddle(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	other := w.replica(connect(t, w.dsn))
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	w.server.statements.Close()
	w.until(func() bool { return w.latest().State == maintenance.Queued }, other)
	require.Contains(t, w.latest().Message, "It is retried")
	require.Equal(t, w.clock.Now().Add(5*time.Minute), *w.latest().NextTryAt())
	release()
	w.clock.move(5 * time.Minute)
	w.until(w.over, other)
	run := w.latest()
	require.Equal(t, maintenance.Succeeded, run.State, run.Message)
	require.Equal(t, []statement.State{statement.Failed, statement.Succeeded}, []statement.State{run.Operations[0].Statement.State, run.Operations[1].Statement.State})
}

func TestAStoppedWarehouseIsStartedOnlyForWork(t *testing.T) {
	w := newUpkeep(t)
	warehouse := w.warehouse("default")
	w.rests(warehouse)
	w.table("quiet", func(l *lake.Table) { l.DataFiles = new(int64(1)) })
	w.night()
	w.tick()
	require.Equal(t, machine.Stopped, w.warehouse("default").State, "there is nothing to do")
	w.table("events")
	w.night()
	w.until(func() bool { return w.warehouse("default").State == machine.Starting })
	require.Equal(t, maintenance.Running, w.latest().State)
	w.runs(w.warehouse("default"))
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State)
}

func TestAWarehouseThatIsNotToBeStarted(t *testing.T) {
	w := newUpkeep(t)
	w.rests(w.warehouse("default"))
	table := w.table("events")
	of, err := w.server.SetTable(t.Context(), w.admin, table.ID, maintenance.Policy{StartWarehouse: new(false), Warehouse: new(domain.MachineID("default"))})
	require.NoError(t, err)
	require.Equal(t, w.warehouse("default").ID, of.Settings.Warehouse, "it is kept by its id")
	w.night()
	w.tick()
	w.tick()
	run := w.latest()
	require.Equal(t, maintenance.Queued, run.State)
	require.Contains(t, run.Message, "No warehouse is running")
	_, err = w.server.SetTable(t.Context(), w.admin, table.ID, maintenance.Policy{Warehouse: new(domain.MachineID("default"))})
	require.NoError(t, err)
	w.until(func() bool { return w.warehouse("default").State == machine.Starting })
	w.runs(w.warehouse("default"))
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State)

	_, err = w.server.SetTable(t.Context(), w.admin, table.ID, maintenance.Policy{StartWarehouse: new(false)})
	require.NoError(t, err)
	w.rests(w.warehouse("default"))
	w.change(t.Context(), "events", func(l *lake.Table) { l.DataFiles = new(int64(20)) })
	w.night()
	w.tick()
	w.clock.move(6 * time.Hour)
	w.until(w.over)
	require.Equal(t, maintenance.Cancelled, w.latest().State)
	require.Contains(t, w.latest().Message, "It has waited for six hours")
	require.Len(t, w.engines.statements(), 1)

	w.night()
	w.tick()
	w.tick()
	require.Contains(t, w.latest().Message, "No warehouse is running")
	require.NoError(t, second(w.server.SetWorkspace(t.Context(), w.admin, maintenance.Policy{Enabled: new(false)})))
	w.tick()
	require.Equal(t, []any{maintenance.Cancelled, "Maintenance was turned off meanwhile."}, []any{w.latest().State, w.latest().Message}, "at once")
}

// A warehouse that runs lets what waits for it start.
func TestAWarehouseThatRunsWakesMaintenance(t *testing.T) {
	r := newRigOf(t, machine.KindWarehouse)
	run := maintained("mnt_1", "tbl_1", "stm_1")
	run.Operations[0].Statement.NotBefore = new(r.clock.Now().Add(10 * time.Minute))
	in(t, r.store, r.admin, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.InsertMaintenanceRuns(ctx, []maintenance.Run{run}))
	})
	wake, stop := r.store.Topics().Subscribe(domain.MaintenanceTopic)
	defer stop()
	agent := r.running()
	require.Eventually(t, func() bool { return len(wake) > 0 }, 10*time.Second, time.Millisecond)
	<-wake
	in(t, r.store, r.admin, func(ctx context.Context, tx *store.Tx) error {
		st, err := tx.Statement(ctx, "stm_1")
		require.False(t, st.NotBefore.After(r.clock.Now()))
		return err
	})
	require.NoError(t, agent.hello("s2"))
	require.Empty(t, wake, "it ran before")
}

// A change of the policy does not shorten the pause before a retry.
func TestThePauseBeforeARetry(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.engines.fails = func(string) *statement.Failure {
		w.clock.move(time.Second)
		return &statement.Failure{Fault: statement.FaultEngine, Message: "It was lost."}
	}
	w.night()
	w.until(func() bool { return len(w.latest().Operations) == 2 })
	w.engines.fails = nil
	paused := w.latest()
	require.NoError(t, second(w.server.SetWorkspace(t.Context(), w.admin, maintenance.Policy{})))
	w.tick()
	require.Equal(t, []any{maintenance.Queued, paused.Message, paused.NextTryAt()}, []any{w.latest().State, w.latest().Message, w.latest().NextTryAt()})
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State)
}

func TestALostRaceIsTriedAgainTheNextNight(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.engines.fails = func(string) *statement.Failure {
		return &statement.Failure{Fault: statement.FaultConflict, Message: "Another writer was first."}
	}
	w.night()
	w.until(w.over)
	run := w.latest()
	require.Equal(t, []any{maintenance.Failed, statement.FaultConflict}, []any{run.State, run.Operations[0].Statement.Failure.Fault})
	require.Contains(t, run.Message, "Another writer was first.")
	w.tick()
	require.Len(t, w.engines.statements(), 1, "not before")
	w.engines.fails = nil
	w.night()
	w.until(w.over)
	require.Len(t, w.history(), 2)
	require.Equal(t, maintenance.Succeeded, w.latest().State)
}

func TestATableThatIsWrittenIsPutOff(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	write := func() { w.change(t.Context(), "events", func(l *lake.Table) { *l.DataFiles += 10 }) }
	w.night()
	write()
	w.tick()
	w.tick()
	run := w.latest()
	require.Equal(t, []any{maintenance.Queued, w.clock.Now().Add(5 * time.Minute)}, []any{run.State, *run.NextTryAt()})
	require.Contains(t, run.Message, "is being written")
	next, err := w.server.Tick(t.Context())
	require.NoError(t, err)
	require.Equal(t, *run.NextTryAt(), next)
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State, "it is quiet")

	w.night()
	for i := range 100 {
		write()
		w.tick()
		w.tick()
		if w.latest().State != maintenance.Queued || len(w.history()) < 2 {
			t.Fatalf("after %d: %+v", i, w.latest())
		}
		if w.clock.Now().Sub(w.latest().CreatedAt) >= 6*time.Hour-4*time.Minute {
			break
		}
		w.clock.move(4 * time.Minute)
	}
	w.clock.move(4 * time.Minute)
	write()
	w.clock.move(4 * time.Minute)
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State, "after six hours it is done all the same")
	require.Len(t, w.engines.statements(), 2)
}

// A long write statement would lose to a compaction that commits before it.
func TestATableThatAStatementIsAtIsPutOff(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	st := statement.Statement{ID: "stm_long", Warehouse: "wh_1", Query: "MERGE", CreatedBy: w.admin.Actor(), Role: domain.RoleEditor, CreatedAt: w.clock.Now(), State: statement.Running, Write: true, Kind: "MERGE"}
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, st))
		require.NoError(t, tx.UpdateStatement(ctx, st, nil))
		actor := domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID)}
		return tx.InsertLineage(ctx, []lake.LineageEntry{{At: w.clock.Now(), Actor: actor, Direction: lake.LineageRead, TableID: table.ID, Database: "lake", Schema: "public", Name: "events"}})
	})
	w.night()
	w.tick()
	w.tick()
	require.Contains(t, w.latest().Message, "A statement that writes")
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		st.State = statement.Succeeded
		return tx.UpdateStatement(ctx, st, nil)
	})
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State)
}

// The policy and facts of a dropped table are deleted with its row; its history stays for ninety
// days.
func TestMaintenanceOfADroppedTable(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	db := superuser(t, w.dsn)
	table := w.table("events")
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, table.ID, maintenance.Policy{Compact: maintenance.CompactPolicy{MinFiles: new(3)}})))
	require.NoError(t, second(w.server.SetDatabase(ctx, w.admin, w.database, maintenance.Policy{Expire: maintenance.ExpirePolicy{KeepDays: new(3)}})))
	w.night()
	w.until(w.over)
	w.change(ctx, "events", func(l *lake.Table) { l.DataFiles = new(int64(50)) })
	w.night()
	w.change(ctx, "events", func(*lake.Table) {})
	w.tick()
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.DropLakeTable(ctx, table.ID, w.clock.Now(), w.clock.Now(), false))
	})
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, []any{maintenance.Cancelled, "The table was dropped."}, []any{w.latest().State, w.latest().Message})
	require.Equal(t, domain.CodeNotFound, code(second(w.server.OfTable(ctx, w.admin, table.ID))))
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.ForgetLakeTable(ctx, table.ID))
		return tx.DeleteDatabase(ctx, w.database)
	})
	require.Equal(t, 1, count(t, db, `SELECT (SELECT count(*) FROM maintenance_policies) + (SELECT count(*) FROM maintenance_tables)`), "the workspace's own stays")
	require.Len(t, w.history(), 2)
	require.NoError(t, w.system.Housekeep(ctx, w.clock.Now().Add(88*24*time.Hour)))
	require.Len(t, w.history(), 2)
	require.NoError(t, w.system.Housekeep(ctx, w.clock.Now().Add(91*24*time.Hour)))
	require.Empty(t, w.history())
}

// The roles that may see, run and change maintenance.
func TestWhoMaintains(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	table := w.table("events")
	scope := func(role domain.Role) domain.Scope {
		_, token, err := w.services.Members.Add(ctx, w.admin, string(role)+"@example.com", "x", role)
		require.NoError(t, err)
		return w.accept(token, string(role)+"@example.com")
	}
	for role, want := range map[domain.Role][]domain.Code{
		domain.RoleViewer: {"", "", domain.CodeForbidden, domain.CodeForbidden, domain.CodeForbidden, domain.CodeForbidden, domain.CodeForbidden},
		domain.RoleEditor: {"", "", "", "", "", "", domain.CodeForbidden},
		domain.RoleAdmin:  {"", "", "", "", "", "", ""},
	} {
		s := scope(role)
		require.Equal(t, want, []domain.Code{
			code(second(w.server.OfTable(ctx, s, table.ID))), code(second(w.server.Runs(ctx, s, maintenance.Filter{}, domain.Page{}))),
			code(second(w.server.SetTable(ctx, s, table.ID, maintenance.Policy{}))), code(second(w.server.SetDatabase(ctx, s, w.database, maintenance.Policy{}))),
			code(second(w.server.RunTable(ctx, s, table.ID, domain.Idempotency{}))), code(second(w.server.RunDatabase(ctx, s, w.database, domain.Idempotency{}))),
			code(second(w.server.SetWorkspace(ctx, s, maintenance.Policy{}))),
		}, role)
	}
}

// Maintenance of a table is not part of its lineage.
func TestMaintenanceIsNoLineage(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	typed := statement.Statement{ID: "stm_typed", Query: "INSERT", CreatedBy: w.admin.Actor(), Role: domain.RoleEditor, CreatedAt: w.clock.Now(), State: statement.Running}
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, typed))
		for _, id := range []domain.StatementID{w.latest().Operations[0].Statement.ID, typed.ID} {
			require.NoError(t, tx.InsertLineage(ctx, []lake.LineageEntry{{
				At: w.clock.Now(), Actor: domain.Actor{Kind: domain.ActorStatement, ID: string(id)}, Direction: lake.LineageWritten, TableID: table.ID, Database: "lake",
				Schema: "public", Name: "events", SnapshotID: 7,
			}}))
		}
		edges, err := tx.ProcessesOf(ctx, []domain.TableID{table.ID}, lake.LineageWritten, w.clock.Now().Add(time.Hour), 10)
		require.Len(t, edges, 1)
		require.Equal(t, string(typed.ID), edges[0].Actor.ID)
		return err
	})
	release()
	w.until(w.over)
}

// TestATableWithManySnapshotsDoesNotWait for the night: snapshots are expired, and nothing else is
// done.
func TestATableWithManySnapshotsDoesNotWait(t *testing.T) {
	w := newUpkeep(t)
	snapshots := func(n int64) func(*lake.Table) {
		return func(l *lake.Table) { l.Snapshots = &n }
	}
	for i := range 500 { // as many as one page has
		w.table(fmt.Sprint("registered", i), snapshots(2000), func(l *lake.Table) { l.Registered = true })
	}
	w.table("crowded", snapshots(1101))
	w.table("enough", snapshots(1100))
	w.table("registered", snapshots(2000), func(l *lake.Table) { l.Registered = true })
	off := w.table("off", snapshots(2000))
	require.NoError(t, second(w.server.SetTable(t.Context(), w.admin, off.ID, maintenance.Policy{Enabled: new(false)})))
	for range 2 {
		require.NoError(t, w.server.Relieve(t.Context()))
	}
	w.until(w.over)
	require.Equal(t, []string{`ALTER TABLE "lake"."public"."crowded" EXECUTE expire_snapshots(retention_threshold => '7d', max_snapshots => 1000, erase_after => '1d')`}, w.engines.statements())
	require.NoError(t, w.server.Relieve(t.Context()))
	require.Len(t, w.history(), 1)
}
