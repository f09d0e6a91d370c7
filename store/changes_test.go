package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// changes returns the ids of all that has changed.
func changes[T domain.Changing](t testing.TB, f *domain.Follower[T]) (ids []string) {
	t.Helper()
	require.NoError(t, f.Each(t.Context(), func(item T) error {
		_, id := item.LastChange()
		ids = append(ids, id)
		return nil
	}))
	return ids
}

// TestALateCommitIsNotMissed: a reader that continued after the last change it has seen would miss
// the change of a transaction that began earlier and is committed later.
func TestALateCommitIsNotMissed(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	j := w.job(job.Spec{Command: "true"}).ID
	late, quick := w.start(j).ID, w.start(j).ID
	f := w.services.Runs.Follow(w.admin, job.RunFilter{})
	require.ElementsMatch(t, []string{string(late), string(quick)}, changes(t, f))

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`UPDATE runs SET message = 'late' WHERE id = $1`, late)
	require.NoError(t, err)
	_, err = w.services.Runs.Cancel(t.Context(), w.admin, quick)
	require.NoError(t, err)
	require.Equal(t, []string{string(quick)}, changes(t, f), "an open transaction delays nothing")
	require.Empty(t, changes(t, f), "what is read twice is told once")
	require.NoError(t, tx.Commit())
	require.Equal(t, []string{string(late)}, changes(t, f))
	require.Empty(t, changes(t, f))
}

// TestTheFirstRoundOfRuns has the active ones, however old they are, and those that have just
// ended.
func TestTheFirstRoundOfRuns(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s1", 100)
	_, err := w.services.Quotas.Update(t.Context(), w.admin, quota.MaxRunningRuns, new(int64(100)))
	require.NoError(t, err)
	old := w.start(w.job(job.Spec{Command: "true"}).ID).ID
	attempt := w.delivered().Attempt.ID
	w.begin(attempt)
	require.NoError(t, w.exit(w.attempt(), 0))
	seedRuns(t, db, w.admin.Workspace(), 450)
	execute(t, db, `UPDATE runs SET finished_at = $1 WHERE status NOT IN ('pending', 'running') AND finished_at IS NULL`, w.clock.Now())
	w.clock.move(2 * time.Minute)
	running := w.services.Runs.Follow(w.admin, job.RunFilter{Status: []job.RunStatus{job.RunRunning}})
	require.Len(t, changes(t, running), 450/50+1)
	require.NoError(t, w.exit(w.attempt(), 0))
	active := changes(t, w.services.Runs.Follow(w.admin, job.RunFilter{}))
	require.Len(t, active, 2*450/50+1+1)
	require.Contains(t, active, string(old))

	require.NoError(t, w.exit(attempt, 0))
	require.Equal(t, []string{string(old)}, changes(t, running), "it leaves the filter; the other was never sent")
	require.Empty(t, changes(t, running))
}

// TestARepairedRunIsTold however old it is.
func TestARepairedRunIsTold(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s1", 10)
	failed := w.start(w.job(job.Spec{Command: "false"}).ID).ID
	attempt := w.delivered().Attempt.ID
	w.begin(attempt)
	require.NoError(t, w.exit(attempt, 1))
	seedRuns(t, db, w.admin.Workspace(), 500)
	execute(t, db, `UPDATE runs SET status = 'success' WHERE status IN ('pending', 'running')`)
	w.clock.move(time.Hour)
	f := w.services.Runs.Follow(w.admin, job.RunFilter{})
	require.Empty(t, changes(t, f))
	_, err := w.services.Runs.Repair(t.Context(), w.admin, failed, domain.Idempotency{})
	require.NoError(t, err)
	_, err = w.services.Runs.Cancel(t.Context(), w.admin, failed)
	require.NoError(t, err)
	require.Equal(t, []string{string(failed)}, changes(t, f), "it started and ended between two reads")
}

// TestManyChangesComeInPages, each once, and those of other workspaces never.
func TestManyChangesComeInPages(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	f := w.services.Runs.Follow(w.admin, job.RunFilter{})
	require.Empty(t, changes(t, f))
	seedRuns(t, db, w.admin.Workspace(), 450) // in one transaction
	got := changes(t, f)
	require.Len(t, got, 450)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(got))), 450)
	execute(t, db, `UPDATE runs SET message = 'x' WHERE id > 'run_000000200'`)
	require.Len(t, changes(t, f), 250)
}

// TestLargeStatementsComeInSmallPages: a page is bounded in bytes too.
func TestLargeStatementsComeInSmallPages(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	for i := range 10 {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertStatement(ctx, statement.Statement{ID: domain.StatementID(fmt.Sprintf("stm_%d", i)), Warehouse: "wh_1", Query: "SELECT " + strings.Repeat("x", 1<<20), State: statement.Queued, CreatedAt: now})
		})
	}
	statements := statement.New(statement.Options{Store: store.For[statement.Tx](s), System: s.System(), Topics: s.Topics(), Clock: w.clock})
	page, err := statements.ChangedSince(t.Context(), w.admin, statement.Filter{}, domain.Position{From: now})
	require.NoError(t, err)
	require.True(t, page.More)
	require.Less(t, len(page.Items), 6)
	all := statements.Follow(w.admin, statement.Filter{})
	require.Len(t, changes(t, all), 10)
	some := statements.Follow(w.admin, statement.Filter{States: []statement.State{statement.Queued}, Text: "select X"})
	require.Len(t, changes(t, some), 10)
	values := make([]json.RawMessage, 1000)
	for i := range values {
		values[i] = json.RawMessage(`"` + strings.Repeat("x", 1<<10) + `"`)
	}
	for i := range 9 { // the bytes of commas and brackets count too
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertStatement(ctx, statement.Statement{
				ID: domain.StatementID(fmt.Sprintf("stm_v%d", i)), Warehouse: "wh_1", Query: "SELECT 1", Parameters: values, State: statement.Queued, CreatedAt: now,
			})
		})
	}
	require.Len(t, changes(t, all), 9)
	listed := map[domain.StatementID]bool{}
	for p := (domain.Page{Limit: 200}); len(listed) == 0 || p.Cursor != ""; {
		l, err := statements.List(t.Context(), w.admin, statement.Filter{}, p)
		require.NoError(t, err)
		for _, st := range l.Items {
			listed[st.ID] = true
		}
		p.Cursor = l.Next
	}
	require.Len(t, listed, 19, "no page ends the list before its end")
	execute(t, db, `UPDATE statements SET state = 'succeeded' WHERE id LIKE 'stm_v%'`)
	changes(t, all)
	changes(t, some)
	none := statements.Follow(w.admin, statement.Filter{Warehouse: "wh_none"})
	execute(t, db, `UPDATE statements SET state = 'succeeded' WHERE id = 'stm_3'`)
	execute(t, db, `UPDATE statements SET bytes = 3, scanned = 3 WHERE id = 'stm_4'`)
	require.Equal(t, []string{"stm_3"}, changes(t, all))
	require.Equal(t, []string{"stm_3"}, changes(t, some))
	require.Empty(t, changes(t, none))
}

// TestMachinesAndAgentsAreFollowed: a heartbeat and a check of the platform are no changes.
func TestMachinesAndAgentsAreFollowed(t *testing.T) {
	s := open(t)
	w := newTenant(t, s, "one")
	b := w.furnish()
	compute := &machine.Machines{Kind: machine.KindCompute, Store: store.For[machine.Tx](s), Topics: s.Topics(), Clock: w.clock}
	f := compute.Follow(w.admin)
	require.Equal(t, []string{string(b.machine)}, changes(t, f))
	update := func(change func(*machine.Machine)) {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, b.machine)
			require.NoError(t, err)
			change(&m)
			return tx.UpdateMachine(ctx, m)
		})
	}
	update(func(m *machine.Machine) { m.DueAt = &now })
	require.Empty(t, changes(t, f))
	update(func(m *machine.Machine) { m.State = machine.Starting })
	require.Equal(t, []string{string(b.machine)}, changes(t, f))
	engines := func(state machine.EngineState) {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			return tx.SetEngines(ctx, b.machineAgent, []machine.Engine{{Name: "trino", State: state}})
		})
	}
	engines("ready")
	require.Equal(t, []string{string(b.machine)}, changes(t, f), "its agent reports engines")
	engines("ready")
	require.Empty(t, changes(t, f))

	agents := w.services.Agents.Follow(w.admin)
	shown := func() (all []string) {
		require.NoError(t, agents.Each(t.Context(), func(a machine.Agent) error {
			all = append(all, fmt.Sprint(a.Status(w.clock.Now()), " ", a.Busy))
			return nil
		}))
		return all
	}
	require.Equal(t, []string{"connected 1"}, shown())
	_, err := w.services.Agents.Heartbeat(t.Context(), w.agent, job.AgentHeartbeat{Session: "s1", Running: []domain.AttemptID{b.attempt}})
	require.NoError(t, err)
	require.Empty(t, shown(), "a heartbeat")
	require.NoError(t, w.exit(b.attempt, 0))
	require.Equal(t, []string{"connected 0"}, shown())
	require.NoError(t, w.services.Agents.Disconnected(t.Context(), w.agent, "s1"))
	require.Equal(t, []string{"disconnected 0"}, shown())
	w.clock.move(time.Hour)
	require.Equal(t, []string{"lost 0"}, shown(), "its lease has expired")
	require.Empty(t, shown())
}

// countedColumns are the columns that a reader sees change, each with a new value. uncountedColumns
// are the others that change.
var (
	countedColumns = map[string]map[string]string{
		"runs": {"status": "'failed'", "message": "'x'", "started_at": "now()", "finished_at": "now()", "cancel_requested_at": "now()"},
		"statements": {
			"warehouse_id": "'x'", "query": "'x'", "not_before": "now()", "state": "'failed'", "message": "'x'", "progress": "0.5", "kind": "'x'", "engine": "'x'", "routing_reason": "'x'", "schema_message": "'x'", "rows": "7",
			"chunks": `'[{"rows":1}]'`, "started_at": "now()", "finished_at": "now()", "cancel_requested_at": "now()",
		},
		"maintenance_runs": {
			"run_trigger": "'manual'", "created_by_name": "'x'", "due_at": "now()", "state": "'failed'", "message": "'x'", "operations": `'[{"kind": "expire", "statement": "x"}]'`,
			"finished_at": "now()",
		},
		"machines": {
			"name": "'x'", "flavor": "'x'", "image": "'x'", "image_ref": "'x'", "auto_stop": "'2h'", "slots": "7", "write_engine": "'x'", "nodes": "7",
			"trino_start": "'with_warehouse'", "last_used_at": "now()", "desired": "'running'", "state": "'failed'", "message": "'x'", "state_since": "now() + interval '1s'",
			"incarnation": "7", "restarts": "7", "idle_since": "now()",
		},
		"agents": {"name": "'x'", "version": "'x'", "hostname": "'x'", "os": "'x'", "arch": "'x'", "slots": "7", "session": "'x'"},
		"tracking_runs": {
			"name": "'x'", "state": "'failed'", "user_name": "'x'", "started_at": "now() + interval '1s'", "finished_at": "now()", "deleted_at": "now()",
		},
	}
	uncountedColumns = map[string]map[string]string{
		"runs": {"admitted": "NOT admitted"},
		"statements": {
			"write": "NOT write", "fault": "'x'", "failure": "'x'", "failure_line": "7", "failure_column": "7", "bytes": "7", "scanned": "7", "truncated": "NOT truncated",
			"result": "'x'", "result_until": "now()", "replica": "'x'", "lineage": "'none'", "detached": "NOT detached", "sent": "NOT sent", "committed": "NOT committed",
		},
		"maintenance_runs": {"created_by_kind": "'x'", "created_by_id": "'x'"},
		"machines":         {"host": "'x'", "made": "NOT made", "released": "NOT released", "held_at": "now()", "due_at": "now()"},
		"agents": {
			"token_hash": "'x'", "instance": "'x'", "replica": "'x'", "connected_at": "now()", "last_seen_at": "now()", "lease_expires_at": "now()",
			"bootstrap_hash": "'x'", "bootstrap_expires_at": "now()", "engines": `'[{}]'`,
		},
	}
	// fixedColumns are the columns that never change.
	fixedColumns = map[string]string{
		"runs": "workspace_id id job_id job_name spec spec_size task_count max_concurrent_runs parameters parameters_size run_trigger started_by_kind started_by_id started_by_name created_at",
		"statements": "workspace_id id parameters database_name schema_name requested_engine row_limit byte_limit timeout_ms created_by_kind created_by_id created_by_name " +
			"role run_id task_key purpose table_id created_at idempotency_key",
		"maintenance_runs": "workspace_id id table_id database_id database schema name created_at",
		"machines":         "workspace_id id kind provider region agent_id created_by_kind created_by_id created_by_name created_at",
		"agents":           "workspace_id id created_at machine_id",
		"tracking_runs":    "workspace_id id number experiment created_by_kind created_by_id created_by_name job_run_id task_key attempt_id created_at",
	}
)

// TestWhatCountsAsAChange has every column of the tables.
func TestWhatCountsAsAChange(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	b := w.furnish()
	in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, statement.Statement{ID: "stm_1", State: statement.Queued, CreatedAt: now}))
		return second(tx.InsertMaintenanceRuns(ctx, []maintenance.Run{maintained("mnt_1", "tbl_1", "stm_2")}))
	})
	tracked := newLab(t, s, "two").run(tracking.NewRun{}).ID
	for table, id := range map[string]string{
		"runs": string(b.run), "statements": "stm_1", "maintenance_runs": "mnt_1", "machines": string(b.machine), "agents": string(b.machineAgent), "tracking_runs": string(tracked),
	} {
		all := append(slices.Collect(maps.Keys(countedColumns[table])), slices.Collect(maps.Keys(uncountedColumns[table]))...)
		all = append(append(all, strings.Fields(fixedColumns[table])...), "changed")
		var columns string
		require.NoError(t, db.QueryRow(`SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`, table).Scan(&columns))
		require.ElementsMatch(t, strings.Fields(columns), all, "%s has other columns: say here which of them readers see change", table)
		for counts, values := range map[bool]map[string]string{true: countedColumns[table], false: uncountedColumns[table]} {
			for column, value := range values {
				require.Equal(t, counts, marks(t, db, table, id, column, value), "%s.%s", table, column)
			}
		}
	}
}

// maintained returns a queued run of maintenance with one statement.
func maintained(id domain.MaintenanceRunID, table domain.TableID, st domain.StatementID) maintenance.Run {
	held := statement.ForTable(domain.SystemScope("ws", "maintenance"), table, statement.NewStatement{Query: "OPTIMIZE"}, now)
	held.ID = st
	return maintenance.Run{
		ID: id, TableID: table, Trigger: job.TriggerSchedule, CreatedAt: now, DueAt: now, State: maintenance.Queued,
		Operations: []maintenance.Operation{{Kind: maintenance.Compact, Statement: held}},
	}
}

// TestARunOfMaintenanceChangesWithItsStatements, in what it shows of them. Other runs do not.
func TestARunOfMaintenanceChangesWithItsStatements(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	runs := maintenance.Maintenances{Store: store.For[maintenance.Tx](s), Clock: w.clock}
	all, one := runs.Follow(w.admin, maintenance.Filter{}), runs.Follow(w.admin, maintenance.Filter{Table: "tbl_1"})
	in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.InsertMaintenanceRuns(ctx, []maintenance.Run{maintained("mnt_1", "tbl_1", "stm_1"), maintained("mnt_2", "tbl_2", "stm_2")}))
	})
	require.Equal(t, []string{"mnt_1", "mnt_2"}, changes(t, all))
	require.Equal(t, []string{"mnt_1"}, changes(t, one))
	for column, value := range map[string]string{
		"message": "'x'", "progress": "0.5", "kind": "'x'", "engine": "'x'", "bytes": "7", "chunks": `'[{"rows":1}]'`, "result_until": "now()", "replica": "'x'", "sent": "true",
		"cancel_requested_at": "now()",
	} {
		execute(t, db, `UPDATE statements SET `+column+` = `+value+` WHERE id = 'stm_1'`)
		require.Empty(t, changes(t, all), column)
	}
	for column, value := range map[string]string{
		"warehouse_id": "'x'", "query": "'x'", "not_before": "now()", "state": "'failed'", "failure": "'x'", "started_at": "now()", "finished_at": "now()",
	} {
		execute(t, db, `UPDATE statements SET `+column+` = `+value+` WHERE id IN ('stm_1', 'stm_2') AND table_id = 'tbl_1'`)
		require.Equal(t, []string{"mnt_1"}, changes(t, all), column)
		require.Equal(t, []string{"mnt_1"}, changes(t, one), column)
	}
	execute(t, db, `UPDATE maintenance_runs SET state = 'failed', finished_at = now() WHERE id = 'mnt_1'`)
	execute(t, db, `UPDATE maintenance_runs SET state = 'failed', finished_at = now() - interval '1 hour' WHERE id = 'mnt_2'`)
	require.Equal(t, []string{"mnt_1"}, changes(t, one))
	require.Equal(t, []string{"mnt_1", "mnt_2"}, changes(t, all))
	w.clock.move(time.Since(w.clock.Now()))
	require.Equal(t, []string{"mnt_1"}, changes(t, runs.Follow(w.admin, maintenance.Filter{})), "it ended while its reader was away")
}

// TestWhoFollowsMaintenanceIsWoken by its statement's start and end.
func TestWhoFollowsMaintenanceIsWoken(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.night()
	release := w.engines.hold()
	w.tick()
	w.tick()
	wake, stop := w.store.Topics().Subscribe(domain.MaintenanceRunsTopic(w.admin.Workspace()))
	defer stop()
	require.NoError(t, w.server.statements.Sweep(t.Context()))
	for _, state := range []statement.State{statement.Running, statement.Succeeded} {
		require.Eventually(t, func() bool { return w.operations()[0] == state }, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return len(wake) > 0 }, 10*time.Second, time.Millisecond, state)
		for len(wake) > 0 {
			<-wake
		}
		if state == statement.Running {
			release()
		}
	}
}

// marks reports whether the new value of the column marks the row as changed. It keeps the old one.
func marks(t testing.TB, db *sql.DB, table, id, column, value string) (marked bool) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	var different bool
	require.NoError(t, tx.QueryRow(`SELECT (`+column+`)::text IS DISTINCT FROM (`+value+`)::text FROM `+table+` WHERE id = $1`, id).Scan(&different))
	require.True(t, different, "%s.%s is %s before", table, column, value)
	require.NoError(t, tx.QueryRow(`UPDATE `+table+` SET `+column+` = `+value+` WHERE id = $1 RETURNING changed = pg_current_xact_id()`, id).Scan(&marked))
	return marked
}

// TestChangesGoByIndex, as app, under its policies: a round reads what has changed and not the
// table.
func TestChangesGoByIndex(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	seedRuns(t, db, w.admin.Workspace(), 8000)
	execute(t, db, `UPDATE runs SET finished_at = now() WHERE status NOT IN ('pending', 'running')`)
	execute(t, db, `ANALYZE runs`)
	_, err := w.services.Runs.Cancel(t.Context(), w.admin, "run_000000051") // running
	require.NoError(t, err)
	var last domain.Change
	require.NoError(t, db.QueryRow(`SELECT max(changed) FROM runs`).Scan(&last))
	round := func(p domain.Position, from ...any) string {
		args := append([]any{w.admin.Workspace(), p.Change, p.ID, domain.MaxLimit}, from...)
		return w.plan(db, args, func(ctx context.Context, tx *store.Tx) error {
			_, _, err := tx.ChangedRuns(ctx, p)
			return err
		})
	}
	plan := round(domain.Position{Change: last})
	require.Equal(t, 1, scanned(t, plan), plan)
	plan = round(domain.Position{Change: last, ID: "run_999"})
	require.Equal(t, 0, scanned(t, plan), plan)
	plan = round(domain.Position{Change: 1, ID: "run_999"})
	require.Equal(t, domain.MaxLimit, scanned(t, plan), plan)
	first := time.Now().Add(-time.Minute)
	plan = round(domain.Position{From: first}, first)
	require.NotContains(t, plan, "Seq Scan on runs", plan)
	require.LessOrEqual(t, scanned(t, plan), 2*(2*8000/50+domain.MaxLimit), plan)
}

// TestRowsOfAnotherDatabase: a restored dump has the changes of its source, which may be ahead of
// this database. Such rows count as unchanged until they change.
func TestRowsOfAnotherDatabase(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	run := w.start(w.job(job.Spec{Command: "true"}).ID).ID
	execute(t, db, `UPDATE runs SET changed = '1000000000'`)
	f := w.services.Runs.Follow(w.admin, job.RunFilter{})
	require.Equal(t, []string{string(run)}, changes(t, f), "it is active")
	page, err := w.services.Runs.ChangedSince(t.Context(), w.admin, domain.Position{Change: 1})
	require.NoError(t, err)
	require.Empty(t, page.Items)
	_, err = w.services.Runs.Cancel(t.Context(), w.admin, run)
	require.NoError(t, err)
	require.Equal(t, []string{string(run)}, changes(t, f))
}

// TestRowsFromBeforeChanges have the migration's change.
func TestRowsFromBeforeChanges(t *testing.T) {
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 12)
	require.NoError(t, err)
	execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) VALUES ('ws_1', 'one', now())`)
	execute(t, db, `INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
		SELECT 'ws_1', 'run_' || i, 'job_1', 'job', '{}', '[]', 'pending', 'manual', 'user', 'u', 'u', true, now() FROM generate_series(1, 3) i`)
	require.NoError(t, store.Migrate(t.Context(), dsn))
	s := connect(t, dsn)
	runs := &job.Runs{Store: store.For[job.Tx](s), Clock: newClock()}
	f := runs.Follow(domain.SystemScope("ws_1", "test"), job.RunFilter{})
	require.Equal(t, []string{"run_1", "run_2", "run_3"}, changes(t, f))
	execute(t, db, `UPDATE runs SET status = 'running' WHERE id = 'run_2'`)
	require.Equal(t, []string{"run_2"}, changes(t, f))
}
