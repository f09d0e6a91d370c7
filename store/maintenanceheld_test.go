package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// old is a table that needs all operations.
func (w *upkeep) old(name string) lake.Table {
	return w.table(name, func(l *lake.Table) {
		l.CreatedAt = w.clock.Now().Add(-aWeek)
		l.ExpirableAt = &l.CreatedAt
	})
}

// operations are the states of the statements of the latest run.
func (w *upkeep) operations() (states []statement.State) {
	for _, o := range w.latest().Operations {
		states = append(states, o.Statement.State)
	}
	return states
}

// The statements of a run are queued with it. No server has them before their turn, and one runs
// after the other.
func TestTheStatementsOfARunAreHeld(t *testing.T) {
	w := newUpkeep(t)
	w.old("events")
	w.night()
	w.tick()
	require.NoError(t, w.server.statements.Sweep(t.Context()))
	require.Empty(t, w.engines.statements())
	listed, err := w.server.statements.List(t.Context(), w.admin, statement.Filter{Purpose: statement.Maintenance}, domain.Page{})
	require.NoError(t, err)
	require.Len(t, listed.Items, 3)
	for _, st := range listed.Items {
		require.Equal(t, []any{true, w.latest().TableID, ""}, []any{st.Held(), st.TableID, st.Replica})
		require.Contains(t, st.Message, "Waits for")
	}
	all, err := w.server.statements.List(t.Context(), w.admin, statement.Filter{}, domain.Page{})
	require.NoError(t, err)
	require.Empty(t, all.Items)
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	require.Equal(t, []maintenance.Kind{maintenance.Expire, maintenance.Orphans}, w.latest().Todo())
	due, err := w.system.DueMaintenance(t.Context(), w.clock.Now(), 10)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(due, func(d maintenance.Due) bool { return d.Runs }), "what waits for an earlier operation is not due")
	release()
	w.until(w.over)
	require.Len(t, w.engines.statements(), 3)
}

// A cancelled operation that has not started is left out; the others run.
func TestAHeldOperationIsCancelled(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	w.old("events")
	_, token, err := w.services.Members.Add(ctx, w.admin, "viewer@example.com", "x", domain.RoleViewer)
	require.NoError(t, err)
	viewer := w.accept(token, "viewer@example.com")
	w.night()
	w.tick()
	expire := w.latest().Operations[1].Statement.ID
	require.Equal(t, domain.CodeForbidden, code(second(w.server.statements.Cancel(ctx, viewer, expire))))
	require.NoError(t, second(w.server.statements.Cancel(ctx, w.admin, expire)))
	w.tick()
	require.Equal(t, []statement.State{statement.Running, statement.Cancelled, statement.Queued}, func() []statement.State {
		release := w.engines.hold()
		defer release()
		w.until(func() bool { return w.operations()[0] == statement.Running })
		return w.operations()
	}())
	w.until(w.over)
	require.Equal(t, []any{maintenance.Cancelled, "Its statement was cancelled."}, []any{w.latest().State, w.latest().Message})
	require.Len(t, w.engines.statements(), 2, "compaction and the removal of orphans")
}

// A cancelled operation ends at once, also while the workspace's places are taken.
func TestAHeldOperationIsCancelledWhileOthersRun(t *testing.T) {
	w := newUpkeep(t)
	w.runs(w.warehouse("second"))
	for _, name := range []string{"one", "two", "three"} {
		w.table(name)
	}
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == maintenance.AtOnce })
	waits := func() (runs []maintenance.Run) {
		for _, r := range w.history() {
			if r.State == maintenance.Queued {
				runs = append(runs, r)
			}
		}
		return runs
	}
	require.Len(t, waits(), 1)
	require.NoError(t, second(w.server.statements.Cancel(t.Context(), w.admin, waits()[0].Operations[0].Statement.ID)))
	w.tick()
	require.Empty(t, waits())
	release()
	w.until(w.over)
	require.Len(t, w.engines.statements(), 2)
}

// The end of the operation that runs ends the run.
func TestTheRunningOperationIsCancelled(t *testing.T) {
	w := newUpkeep(t)
	w.old("events")
	w.night()
	release := w.engines.hold()
	defer release()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	require.NoError(t, second(w.server.statements.Cancel(t.Context(), w.admin, w.latest().Operations[0].Statement.ID)))
	w.until(w.over)
	require.Equal(t, []any{maintenance.Cancelled, "Its statement was cancelled."}, []any{w.latest().State, w.latest().Message})
	require.Equal(t, []statement.State{statement.Cancelled, statement.Cancelled, statement.Cancelled}, w.operations())
	require.Len(t, w.engines.statements(), 1)
}

// An operation that is not needed any more when its turn comes is cancelled and says why.
func TestAnOperationThatIsNotNeededAnyMore(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	execute(t, db, `INSERT INTO lineage_receiver (wanted_until) VALUES (now() + interval '1 hour')`)
	w.old("events")
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	require.NoError(t, second(w.server.SetWorkspace(t.Context(), w.admin, maintenance.Policy{Expire: maintenance.ExpirePolicy{Enabled: new(false)}})))
	release()
	w.until(w.over)
	require.Equal(t, []statement.State{statement.Succeeded, statement.Cancelled, statement.Succeeded}, w.operations())
	require.Contains(t, w.latest().Operations[1].Message(), "turned off before its turn")
	require.Equal(t, []any{maintenance.Succeeded, ""}, []any{w.latest().State, w.latest().Message})
	for i, ran := range []bool{true, false, true} {
		events := count(t, db, `SELECT count(*) FROM lineage_outbox WHERE subject_id = '`+string(w.latest().Operations[i].Statement.ID)+`'`)
		require.Equal(t, ran, events > 0, "what never ran has no event of lineage")
	}
}

// Who follows statements is woken when a held one is put off.
func TestAHeldStatementThatIsPutOffWakes(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.night()
	w.change(t.Context(), "events", func(*lake.Table) {})
	w.tick()
	wake, stop := w.store.Topics().Subscribe(domain.StatementsTopic(w.admin.Workspace()))
	defer stop()
	one, stopOne := w.store.Topics().Subscribe(domain.StatementTopic(w.latest().Operations[0].Statement.ID))
	defer stopOne()
	w.tick()
	require.Contains(t, w.latest().Message, "is being written")
	woken(t, wake, "the list")
	woken(t, one, "the statement")
}

// stopped marks the warehouse as stopped by a person just now.
func (w *upkeep) stopped(m machine.Machine) {
	m.HeldAt = new(w.clock.Now())
	w.rests(m)
}

// A warehouse that a person stopped after a run was asked for is not started by it, nor by the
// retry of the operation that the stop has ended. Another request for the run starts it.
func TestMaintenanceLeavesAWarehouseStopped(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	_, err := w.server.SetTable(t.Context(), w.admin, table.ID, maintenance.Policy{Expire: maintenance.ExpirePolicy{Enabled: new(false)}, Orphans: maintenance.OrphansPolicy{Enabled: new(false)}})
	require.NoError(t, err)
	w.engines.fails = func(string) *statement.Failure {
		w.clock.move(time.Minute)
		w.stopped(w.warehouse("default"))
		return &statement.Failure{Fault: statement.FaultEngine, Message: "The warehouse was ended."}
	}
	run, err := w.server.RunTable(t.Context(), w.admin, table.ID, domain.Idempotency{})
	require.NoError(t, err)
	w.until(func() bool { return len(w.latest().Operations) == 2 })
	w.engines.fails = nil
	w.clock.move(5 * time.Minute)
	w.tick()
	require.Equal(t, []any{maintenance.Queued, "Waits: the warehouse default was stopped by a person; start it, or run the maintenance again."}, []any{w.latest().State, w.latest().Message})
	require.Equal(t, machine.Stopped, w.warehouse("default").State)

	again, err := w.server.RunTable(t.Context(), w.admin, table.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, run.ID, again.ID)
	w.until(func() bool { return w.warehouse("default").State == machine.Starting })
	w.runs(w.warehouse("default"))
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State)
}

// A run uses a stopped warehouse that no person has stopped, rather than wait.
func TestMaintenanceStartsAnotherWarehouse(t *testing.T) {
	w := newUpkeep(t)
	w.rests(w.warehouse("second"))
	w.table("events")
	w.night()
	w.tick()
	w.stopped(w.warehouse("default"))
	w.until(func() bool { return w.warehouse("second").State == machine.Starting })
	require.Equal(t, machine.Stopped, w.warehouse("default").State)
}

// With tens of thousands of held statements, servers read only what they need.
func TestHeldStatementsAreNotScanned(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	held := statement.ForTable(w.admin, "tbl_1", statement.NewStatement{Query: "OPTIMIZE"}, w.clock.Now())
	held.ID = "stm_zheld"
	mine := held
	mine.ID, mine.Purpose, mine.TableID, mine.State = "stm_mine", "", "", statement.Succeeded
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, mine))
		return tx.InsertStatement(ctx, held)
	})
	execute(t, db, `INSERT INTO statements SELECT (jsonb_populate_record(s, jsonb_build_object('id', s.id || i, 'not_before', now() + interval '1 year'))).*
		FROM statements s, generate_series(1, 30000) i WHERE s.id = 'stm_zheld'`)
	execute(t, db, `ANALYZE statements`)
	// Each connection counts its reads, and reports them at its end at the latest.
	rowsRead := func() int {
		execute(t, db, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		return count(t, db, `SELECT (idx_tup_fetch + seq_tup_read)::int FROM pg_stat_user_tables WHERE relname = 'statements'`)
	}
	for name, work := range map[string]func() error{
		"a sweep": func() error { return w.server.statements.Sweep(t.Context()) },
		"a tick":  func() error { return second(w.server.Tick(t.Context())) },
		"a list": func() error {
			return second(w.server.statements.List(t.Context(), w.admin, statement.Filter{}, domain.Page{}))
		},
		"a list of a warehouse": func() error {
			return second(w.server.statements.List(t.Context(), w.admin, statement.Filter{Warehouse: "wh_none"}, domain.Page{}))
		},
	} {
		before := rowsRead()
		require.Eventually(t, func() bool { return work() == nil }, time.Minute, time.Millisecond, name) // its connection has ended
		require.Less(t, rowsRead()-before, 100, name)
	}
}
