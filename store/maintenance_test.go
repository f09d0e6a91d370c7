package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// upkeep is a workspace whose tables are maintained by one server or several, on warehouses that a test plays.
type upkeep struct {
	*tenant
	dsn      string
	server   *domain.Maintenances
	engines  *scripted
	database domain.DatabaseID
}

// scripted plays the engines of warehouses: it does what a statement of maintenance says to the table's row.
type scripted struct {
	w     *upkeep
	mu    sync.Mutex
	ran   []string // statements, in their order
	on    map[domain.AgentID]int
	most  int                                         // statements at once
	worse bool                                        // two were on one warehouse
	takes time.Duration                               // of each statement, by the clock
	held  chan struct{}                               // statements wait for it to be closed; nil lets them go
	fails func(query string) *domain.StatementFailure // may be nil
}

func newUpkeep(t *testing.T) *upkeep {
	s, dsn := openDSN(t)
	w := &upkeep{tenant: newTenant(t, s, "ours"), dsn: dsn}
	w.engines = &scripted{w: w, on: map[domain.AgentID]int{}}
	w.server = w.replica(s)
	in(t, s, w.admin, func(ctx context.Context, tx domain.Tx) error {
		d, err := tx.FindDatabase(ctx, "lake")
		w.database = d.ID
		return err
	})
	w.runs(w.warehouse("default"))
	w.tick()
	return w
}

// replica is one more server.
func (w *upkeep) replica(s *store.Store) *domain.Maintenances {
	bucket, err := objects.Open("file://" + w.t.(*testing.T).TempDir())
	require.NoError(w.t, err)
	statements := domain.NewStatements(domain.StatementOptions{
		Store: s, System: s.System(), Topics: s.Topics(), Clock: w.clock, Objects: bucket, Engines: w.engines, Tokens: noTokens{}, Tables: noTokens{}, Replica: "rep_1",
		Report: func(err error) { w.t.Log(err) },
	})
	w.t.Cleanup(func() { statements.Close(); _ = bucket.Close() })
	return &domain.Maintenances{
		Store: s, System: s.System(), Topics: s.Topics(), Clock: w.clock, Statements: statements,
		Rows: func([]byte) ([]byte, error) { return []byte(`[["deleted_data_files_count", 4]]`), nil },
	}
}

type noTokens struct{}

func (noTokens) StatementToken(domain.StatementID) string { return "" }

func (noTokens) TableStorage(context.Context, domain.WorkspaceID) (domain.TableStorage, error) {
	return domain.TableStorage{}, nil
}

// Execute implements domain.Engines.
func (e *scripted) Execute(ctx context.Context, agent domain.AgentID, st domain.EngineStatement) (domain.StatementStream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ran = append(e.ran, st.Query)
	e.on[agent]++
	total := 0
	for _, n := range e.on {
		total += n
		e.worse = e.worse || n > 1
	}
	e.most = max(e.most, total)
	return &playing{e: e, ctx: ctx, agent: agent, st: st, held: e.held}, nil
}

// CancelStatement implements domain.Engines.
func (*scripted) CancelStatement(context.Context, domain.AgentID, domain.StatementID) error {
	return errors.New("hang up")
}

func (e *scripted) hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(chan struct{})
	e.held = held
	return func() {
		e.mu.Lock()
		e.held = nil
		e.mu.Unlock()
		close(held)
	}
}

func (e *scripted) statements() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ran)
}

// playing is a statement on its engine.
type playing struct {
	e     *scripted
	ctx   context.Context
	agent domain.AgentID
	st    domain.EngineStatement
	held  chan struct{}
	step  int
}

// Next implements domain.StatementStream.
func (p *playing) Next() (domain.StatementEvent, error) {
	p.step++
	switch p.step {
	case 1:
		return domain.StatementEvent{Head: &domain.StatementHead{Kind: "OPTIMIZE", Write: true, Engine: "duckdb"}}, nil
	case 2:
		return domain.StatementEvent{Schema: []byte("a schema")}, nil
	}
	if p.held != nil {
		select {
		case <-p.held:
		case <-p.ctx.Done():
			return domain.StatementEvent{}, p.ctx.Err()
		}
	}
	end := domain.StatementEnd{}
	if p.e.fails != nil {
		end.Failure = p.e.fails(p.st.Query)
	}
	if end.Failure == nil {
		p.e.commit(p.ctx, p.st)
	}
	p.e.w.clock.move(p.e.takes)
	p.e.mu.Lock()
	p.e.on[p.agent]--
	p.e.mu.Unlock()
	return domain.StatementEvent{End: &end}, nil
}

func (*playing) Close() {}

// commit changes the table as the statement says.
func (e *scripted) commit(ctx context.Context, st domain.EngineStatement) {
	w := e.w
	name := strings.Split(strings.TrimSuffix(strings.SplitAfterN(st.Query, `"public".`, 2)[1], " EXECUTE"), `"`)[1]
	w.change(ctx, name, func(t *domain.LakeTable) {
		t.UpdatedBy = domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID)}
		switch {
		case strings.Contains(st.Query, "optimize"):
			t.DataFiles, t.DataBytes, t.DeleteFiles, t.DeletedRows = new(int64(1)), new(int64(1000)), new(int64(0)), new(int64(0))
			*t.Snapshots++
		case strings.Contains(st.Query, "expire_snapshots"):
			t.Snapshots, t.ExpirableAt = new(int64(1)), nil
		}
	})
}

// change is a commit to the table of the name.
func (w *upkeep) change(ctx context.Context, name string, fn func(*domain.LakeTable)) {
	err := w.store.In(ctx, w.admin, func(tx domain.Tx) error {
		t, err := tx.FindLakeTable(ctx, "lake", "public", name)
		if err != nil {
			return err
		}
		old := t.MetadataLocation
		t.Version, t.UpdatedAt, t.MetadataLocation = t.Version+1, w.clock.Now(), fmt.Sprint(t.Location, "/", t.Version+1)
		fn(&t)
		_, err = tx.SwapLakeTable(ctx, t, old)
		return err
	})
	if err != nil && ctx.Err() == nil { // else the test is over
		w.t.Errorf("a commit to %s: %v", name, err)
	}
}

// table makes a table of ten small files, an hour ago.
func (w *upkeep) table(name string, changes ...func(*domain.LakeTable)) domain.LakeTable {
	w.t.Helper()
	t := lakeTable(w.database, name)
	t.CreatedAt, t.Snapshot, t.Version = w.clock.Now().Add(-time.Hour), &domain.TableSnapshot{ID: 1, At: w.clock.Now()}, 1
	t.DataFiles, t.DataBytes, t.RowCount = new(int64(10)), new(int64(5000)), new(int64(100))
	t.DeleteFiles, t.DeletedRows, t.Snapshots = new(int64(0)), new(int64(0)), new(int64(3))
	for _, change := range changes {
		change(&t)
	}
	in(w.t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error { return second(tx.InsertLakeTable(ctx, t, false)) })
	return t
}

// warehouse is the one of the name, which is made where there is none.
func (w *upkeep) warehouse(name string) domain.Machine {
	w.t.Helper()
	var m domain.Machine
	in(w.t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) (err error) {
		m, err = tx.MachineByName(ctx, domain.KindWarehouse, name)
		if !domain.IsCode(err, domain.CodeNotFound) {
			return err
		}
		m, err = tx.MachineByName(ctx, domain.KindWarehouse, "default")
		require.NoError(w.t, err)
		agent := domain.NewAgent(name, w.clock.Now())
		m.ID, m.Name, m.AgentID = domain.MachineID("wh_"+name), name, agent.ID
		agent.MachineID, agent.TokenHash = m.ID, []byte(name)
		return tx.InsertMachine(ctx, m, agent)
	})
	return m
}

// runs says that the warehouse runs, and its agent is connected.
func (w *upkeep) runs(m domain.Machine) {
	w.t.Helper()
	in(w.t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		m.State, m.Released, m.Made = domain.MachineRunning, false, true
		require.NoError(w.t, tx.UpdateMachine(ctx, m))
		agent, err := tx.LockAgent(ctx, m.AgentID)
		require.NoError(w.t, err)
		agent.Session = "s1"
		tx.Notify(domain.MachinesTopic(w.admin.Workspace()))
		return tx.UpdateAgent(ctx, agent)
	})
}

// rests says that the warehouse is stopped.
func (w *upkeep) rests(m domain.Machine) {
	w.t.Helper()
	in(w.t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		m.State, m.Released, m.Made = domain.MachineStopped, true, false
		return tx.UpdateMachine(ctx, m)
	})
}

func (w *upkeep) tick() { w.t.Helper(); require.NoError(w.t, second(w.server.Tick(w.t.Context()))) }

// until looks as the server does, whenever something has changed, until it is so.
func (w *upkeep) until(is func() bool, servers ...*domain.Maintenances) {
	w.t.Helper()
	if len(servers) == 0 {
		servers = []*domain.Maintenances{w.server}
	}
	wake, stop := w.store.Topics().Subscribe(domain.MaintenanceTopic, domain.StatementsTopic(w.admin.Workspace()))
	defer stop()
	late := time.After(time.Minute)
	for {
		require.Equal(w.t, map[domain.Code]int{"": len(servers)}, atOnce(len(servers), func(i int) error { return second(servers[i].Tick(w.t.Context())) }))
		if is() {
			return
		}
		select {
		case <-wake:
		case <-late:
			w.t.Fatalf("it did not come to be: %+v", w.history())
		}
	}
}

// night moves the clock to the time at which the workspace's tables are due.
func (w *upkeep) night() {
	w.t.Helper()
	of, err := w.server.OfWorkspace(w.t.Context(), w.admin)
	require.NoError(w.t, err)
	w.clock.move(of.NextAt.Sub(w.clock.Now()))
}

// history is what was done and is to be done, newest first.
func (w *upkeep) history(filters ...domain.MaintenanceFilter) []domain.MaintenanceRun {
	w.t.Helper()
	l, err := w.server.Runs(w.t.Context(), w.admin, append(filters, domain.MaintenanceFilter{})[0], domain.Page{Limit: domain.MaxLimit})
	require.NoError(w.t, err)
	return l.Items
}

func (w *upkeep) latest() domain.MaintenanceRun { w.t.Helper(); return w.history()[0] }

// over says that nothing waits or runs.
func (w *upkeep) over() bool {
	return !slices.ContainsFunc(w.history(), func(r domain.MaintenanceRun) bool { return !r.State.Final() })
}

func (w *upkeep) get(id domain.TableID) domain.Maintenance {
	w.t.Helper()
	of, err := w.server.OfTable(w.t.Context(), w.admin, id)
	require.NoError(w.t, err)
	return of
}

func optimize(name string) string {
	return `ALTER TABLE "lake"."public"."` + name + `" EXECUTE optimize(file_size_threshold => '128MB')`
}

const aWeek = 8 * 24 * time.Hour

func TestATableIsMaintainedAtNight(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	require.NoError(t, w.system.InsertPrices(t.Context(), domain.ProviderLocal, "local", time.Unix(0, 0), map[string]domain.Price{"cpu.1": {Hourly: decimal.RequireFromString("0.40"), Currency: "USD"}}))
	table := w.table("events", func(l *domain.LakeTable) {
		l.CreatedAt = w.clock.Now().Add(-aWeek)
		l.ExpirableAt = &l.CreatedAt
	})
	w.table("quiet", func(l *domain.LakeTable) { l.DataFiles = new(int64(1)) })
	w.table("empty", func(l *domain.LakeTable) { l.Snapshot, l.CreatedAt = nil, w.clock.Now().Add(-aWeek) })
	w.table("view", func(l *domain.LakeTable) { l.Kind = domain.KindView })
	w.engines.takes = 90 * time.Second
	w.tick()
	require.Empty(t, w.history(), "not yet")

	w.night()
	due := w.clock.Now()
	w.until(w.over)
	require.Equal(t, []string{
		optimize("events"), `ALTER TABLE "lake"."public"."events" EXECUTE expire_snapshots(retention_threshold => '7d')`,
		`ALTER TABLE "lake"."public"."events" EXECUTE remove_orphan_files(retention_threshold => '7d')`,
	}, w.engines.statements())
	require.Len(t, w.history(), 1, "what needs nothing has no history")
	run := w.latest()
	require.Equal(t, []any{domain.MaintenanceSucceeded, due, domain.TriggerSchedule, table.ID, "events", domain.ActorSystem, "maintenance"},
		[]any{run.State, run.DueAt, run.Trigger, run.TableID, run.Table, run.CreatedBy.Kind, run.CreatedBy.Name})
	compact, expire, orphans := run.Operations[0], run.Operations[1], run.Operations[2]
	require.Equal(t, []int64{10, 1, 3, 4}, []int64{*compact.Before.Files, *compact.After.Files, *compact.Before.Snapshots, *compact.After.Snapshots})
	require.Equal(t, []int64{5000, 1000}, []int64{*compact.Before.Bytes, *compact.After.Bytes})
	require.Equal(t, int64(3), *expire.SnapshotsExpired)
	require.Equal(t, map[string]int64{"deleted_data_files_count": 4}, orphans.Metrics)
	require.Equal(t, int64(4), *orphans.FilesRemoved)
	require.Equal(t, []any{90.0, "0.01", "USD"}, []any{compact.Seconds, compact.Cost.String(), compact.Currency})

	st, err := w.server.Statements.Get(t.Context(), w.admin, compact.Statement)
	require.NoError(t, err)
	require.Equal(t, []any{domain.ActorSystem, "maintenance", domain.RoleEditor, domain.StatementSucceeded}, []any{st.CreatedBy.Kind, st.CreatedBy.Name, st.Role, st.State})
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM audit_events WHERE action = 'statement.run' AND actor_kind = 'system' AND actor_name = 'maintenance'`))

	w.night()
	w.tick()
	require.Len(t, w.history(), 1, "the next night there is nothing to do")
	w.change(t.Context(), "events", func(l *domain.LakeTable) { l.DataFiles = new(int64(6)) })
	w.night()
	w.until(w.over)
	require.Len(t, w.engines.statements(), 4, "five files came since, and nothing is old yet")
	require.Len(t, w.history(), 2)
}

// However many servers and tables there are, each table is done once, one on a warehouse and two in a workspace at a time.
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
		require.Equal(t, map[domain.Code]int{"": 2}, atOnce(2, func(i int) error { return second([]*domain.Maintenances{w.server, other}[i].Tick(t.Context())) }))
	}
	require.Len(t, w.engines.statements(), 2, "people's statements are not held up")
	release()
	w.until(w.over, w.server, other, w.server, other)
	require.ElementsMatch(t, want, w.engines.statements())
	require.Equal(t, 2, w.engines.most)
	require.False(t, w.engines.worse, "one on each")
	for _, run := range w.history() {
		require.Equal(t, domain.MaintenanceSucceeded, run.State)
		require.Len(t, run.Operations, 1)
	}
}

// Nights on which no server ran are made up for once.
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

// flaky fails the nth transaction from now on, once.
type flaky struct {
	domain.Store
	n atomic.Int64
}

func (f *flaky) In(ctx context.Context, s domain.Scope, fn func(domain.Tx) error) error {
	if f.n.Add(-1) == 0 {
		return errors.New("the server is killed")
	}
	return f.Store.In(ctx, s, fn)
}

// A server that is killed anywhere leaves nothing undone, and nothing is done twice.
func TestMaintenanceGoesOnWhereAServerWasKilled(t *testing.T) {
	for n := int64(1); n <= 6; n++ {
		w := newUpkeep(t)
		w.table("events")
		dying := &flaky{Store: w.store}
		killed := *w.server
		killed.Store = dying
		w.night()
		dying.n.Store(n)
		_, _ = killed.Tick(t.Context())
		_, _ = killed.Tick(t.Context())
		w.until(func() bool { // a claim of the dead one runs out
			w.clock.move(time.Minute)
			return w.over()
		})
		require.Equal(t, []string{optimize("events")}, w.engines.statements(), n)
		require.Equal(t, domain.MaintenanceSucceeded, w.latest().State, n)
	}
}

// Thousands of tables are gone through in pages, each once.
func TestManyTablesAreGoneThrough(t *testing.T) {
	w := newUpkeep(t)
	db := superuser(t, w.dsn)
	table := w.table("t0", func(l *domain.LakeTable) { l.DataFiles = new(int64(1)) })
	execute(t, db, `INSERT INTO lake_tables SELECT (jsonb_populate_record(l, jsonb_build_object('id', l.id || lpad(i::text, 5, '0'), 'name', 't' || i, 'name_key', 't' || i,
		'data_files', CASE WHEN i % 600 = 0 THEN 10 ELSE 1 END))).* FROM lake_tables l, generate_series(1, 1200) i WHERE l.id = $1`, table.ID)
	w.night()
	counted := &flaky{Store: w.store}
	server := *w.server
	server.Store = counted
	release := w.engines.hold()
	defer release()
	counted.n.Store(1000)
	_, err := server.Tick(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(3), 1000-counted.n.Load(), "transactions: a page of 500 each")
	require.Len(t, w.history(), 2)
	require.Equal(t, []string{"t1200", "t600"}, []string{w.history()[0].Table, w.history()[1].Table})
}

// A server that is restarted while a statement runs: it is tried again a few minutes later.
func TestAServerRestartsInTheMiddle(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	other := w.replica(connect(t, w.dsn))
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	w.server.Statements.Close()
	w.until(func() bool { return w.latest().State == domain.MaintenanceQueued }, other)
	require.Contains(t, w.latest().Message, "It is tried again")
	require.Equal(t, w.clock.Now().Add(5*time.Minute), w.latest().LookAt)
	release()
	w.clock.move(5 * time.Minute)
	w.until(w.over, other)
	run := w.latest()
	require.Equal(t, domain.MaintenanceSucceeded, run.State, run.Message)
	require.Equal(t, []domain.StatementState{domain.StatementFailed, domain.StatementSucceeded}, []domain.StatementState{run.Operations[0].State, run.Operations[1].State})
}

func TestAStoppedWarehouseIsStartedOnlyForWork(t *testing.T) {
	w := newUpkeep(t)
	warehouse := w.warehouse("default")
	w.rests(warehouse)
	w.table("quiet", func(l *domain.LakeTable) { l.DataFiles = new(int64(1)) })
	w.night()
	w.tick()
	require.Equal(t, domain.MachineStopped, w.warehouse("default").State, "there is nothing to do")
	w.table("events")
	w.night()
	w.until(func() bool { return w.warehouse("default").State == domain.MachineStarting })
	require.Equal(t, domain.MaintenanceRunning, w.latest().State)
	w.runs(w.warehouse("default"))
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State)
}

func TestAWarehouseThatIsNotToBeStarted(t *testing.T) {
	w := newUpkeep(t)
	w.rests(w.warehouse("default"))
	table := w.table("events")
	of, err := w.server.SetTable(t.Context(), w.admin, table.ID, domain.MaintenancePolicy{StartWarehouse: new(false), Warehouse: new(domain.MachineID("default"))})
	require.NoError(t, err)
	require.Equal(t, w.warehouse("default").ID, of.Settings.Warehouse, "it is kept by its id")
	w.night()
	w.tick()
	w.tick()
	run := w.latest()
	require.Equal(t, domain.MaintenanceQueued, run.State)
	require.Contains(t, run.Message, "No warehouse runs")
	w.clock.move(10 * time.Minute)
	w.runs(w.warehouse("default"))
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State)

	w.rests(w.warehouse("default"))
	w.change(t.Context(), "events", func(l *domain.LakeTable) { l.DataFiles = new(int64(20)) })
	w.night()
	w.tick()
	w.clock.move(6 * time.Hour)
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSkipped, w.latest().State)
	require.Len(t, w.engines.statements(), 1)
}

func TestALostRaceIsTriedAgainTheNextNight(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	w.engines.fails = func(string) *domain.StatementFailure {
		return &domain.StatementFailure{Fault: domain.FaultConflict, Message: "Another writer was first."}
	}
	w.night()
	w.until(w.over)
	run := w.latest()
	require.Equal(t, []any{domain.MaintenanceFailed, domain.FaultConflict}, []any{run.State, run.Operations[0].Fault})
	require.Contains(t, run.Message, "Another writer was first.")
	w.tick()
	require.Len(t, w.engines.statements(), 1, "not before")
	w.engines.fails = nil
	w.night()
	w.until(w.over)
	require.Len(t, w.history(), 2)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State)
}

func TestATableThatIsWrittenIsPutOff(t *testing.T) {
	w := newUpkeep(t)
	w.table("events")
	write := func() { w.change(t.Context(), "events", func(l *domain.LakeTable) { *l.DataFiles += 10 }) }
	w.night()
	write()
	w.tick()
	w.tick()
	run := w.latest()
	require.Equal(t, []any{domain.MaintenanceQueued, w.clock.Now().Add(5 * time.Minute)}, []any{run.State, run.LookAt})
	require.Contains(t, run.Message, "is being written")
	next, err := w.server.Tick(t.Context())
	require.NoError(t, err)
	require.Equal(t, run.LookAt, next)
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State, "it is quiet")

	w.night()
	for i := range 100 {
		write()
		w.tick()
		w.tick()
		if w.latest().State != domain.MaintenanceQueued || len(w.history()) < 2 {
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
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State, "after six hours it is done all the same")
	require.Len(t, w.engines.statements(), 2)
}

// A long statement that writes would lose to a compaction that commits before it.
func TestATableThatAStatementIsAtIsPutOff(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	st := domain.Statement{ID: "stm_long", Query: "MERGE", CreatedBy: w.admin.Actor(), Role: domain.RoleEditor, CreatedAt: w.clock.Now(), State: domain.StatementRunning, Write: true, Kind: "MERGE"}
	in(t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, st))
		require.NoError(t, tx.UpdateStatement(ctx, st, nil))
		actor := domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID)}
		return tx.InsertLineage(ctx, []domain.LineageEntry{{At: w.clock.Now(), Actor: actor, Direction: domain.LineageRead, TableID: table.ID, Database: "lake", Schema: "public", Name: "events"}})
	})
	w.night()
	w.tick()
	w.tick()
	require.Contains(t, w.latest().Message, "A statement that writes")
	in(t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		st.State = domain.StatementSucceeded
		return tx.UpdateStatement(ctx, st, nil)
	})
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State)
}

func TestMaintenanceNow(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	table := w.table("events", func(l *domain.LakeTable) { l.DataFiles = new(int64(1)) })
	empty := w.table("empty", func(l *domain.LakeTable) { l.Snapshot = nil })
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, table.ID, domain.MaintenancePolicy{Enabled: new(false), Orphans: domain.OrphansPolicy{Enabled: new(false)}})))
	key := domain.Idempotency{Key: "once"}
	run, err := w.server.RunTable(ctx, w.admin, table.ID, key)
	require.NoError(t, err)
	again, err := w.server.RunTable(ctx, w.admin, table.ID, key)
	require.NoError(t, err)
	require.Equal(t, run, again)
	require.Equal(t, []any{domain.TriggerManual, w.admin.Actor().Name, []domain.MaintenanceKind{domain.MaintenanceCompact, domain.MaintenanceExpire}}, []any{run.Trigger, run.CreatedBy.Name, run.Todo})
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	require.Equal(t, domain.CodeConflict, code(second(w.server.RunTable(ctx, w.admin, table.ID, domain.Idempotency{}))))
	release()
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSucceeded, w.latest().State, "needed or not, and although its schedule is off")
	require.Len(t, w.engines.statements(), 2)
	require.Equal(t, domain.CodeConflict, code(second(w.server.RunTable(ctx, w.admin, empty.ID, domain.Idempotency{}))), "there is nothing in it")
	require.Equal(t, domain.CodeNotFound, code(second(w.server.RunTable(ctx, w.admin, "tbl_none", domain.Idempotency{}))))

	for i := range 3 {
		w.table(fmt.Sprint("many", i))
	}
	queued, err := w.server.RunDatabase(ctx, w.admin, w.database, key)
	require.Equal(t, domain.CodeConflict, code(err), "the key was used for something else: %d", queued)
	for range 2 {
		queued, err = w.server.RunDatabase(ctx, w.admin, w.database, domain.Idempotency{Key: "other"})
		require.NoError(t, err)
		require.Equal(t, 3, queued, "those that need something")
	}
	w.until(w.over)
	require.Len(t, w.history(domain.MaintenanceFilter{Database: w.database}), 4)
	require.Len(t, w.history(domain.MaintenanceFilter{Table: table.ID}), 1)
	require.Equal(t, domain.CodeNotFound, code(second(w.server.RunDatabase(ctx, w.admin, "db_none", domain.Idempotency{}))))
}

// What waits for a table to be quiet does not wait for somebody who wants it now.
func TestARunThatWaitsIsHurried(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	w.night()
	w.change(t.Context(), "events", func(*domain.LakeTable) {})
	w.tick()
	w.tick()
	waiting := w.latest()
	run, err := w.server.RunTable(t.Context(), w.admin, table.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, waiting.ID, run.ID)
	w.until(w.over)
	require.Equal(t, []any{domain.MaintenanceSucceeded, domain.TriggerManual}, []any{w.latest().State, w.latest().Trigger})
}

func TestMaintenanceTurnedOffAndMoved(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	own, off, other := w.table("own"), w.table("off"), w.table("other")
	hourly := &domain.MaintenanceSchedule{Cron: "30 * * * *"}
	of, err := w.server.SetTable(ctx, w.admin, own.ID, domain.MaintenancePolicy{Schedule: hourly, Compact: domain.CompactPolicy{Threshold: new(int64(1 << 20))}})
	require.NoError(t, err)
	require.Equal(t, domain.MaintenanceOfTable, of.Settings.Origins["schedule"])
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, off.ID, domain.MaintenancePolicy{Enabled: new(false)})))
	require.Nil(t, w.get(off.ID).NextAt)
	w.clock.move(of.NextAt.Sub(w.clock.Now()))
	w.until(w.over)
	require.Equal(t, []string{strings.Replace(optimize("own"), "128MB", "1MB", 1)}, w.engines.statements(), "at its own time, alone")
	w.change(ctx, "own", func(l *domain.LakeTable) { l.DataFiles = new(int64(50)) })
	before := w.clock.Now()
	w.night()
	w.until(w.over)
	require.Contains(t, w.engines.statements(), optimize("other"))
	require.Empty(t, w.history(domain.MaintenanceFilter{Table: off.ID}))

	of, err = w.server.SetDatabase(ctx, w.admin, w.database, domain.MaintenancePolicy{Schedule: &domain.MaintenanceSchedule{Cron: "0 12 * * *", TimeZone: "Europe/Rome"}})
	require.NoError(t, err)
	require.Equal(t, of.NextAt, w.get(other.ID).NextAt)
	require.NotEqual(t, of.NextAt, w.get(own.ID).NextAt)
	_, err = w.server.SetWorkspace(ctx, w.admin, domain.MaintenancePolicy{Enabled: new(false)})
	require.NoError(t, err)
	require.Nil(t, w.get(own.ID).NextAt)
	require.True(t, w.clock.Now().After(before))

	w.table("late")
	ran := len(w.engines.statements())
	_, err = w.server.SetWorkspace(ctx, w.admin, domain.MaintenancePolicy{})
	require.NoError(t, err)
	w.clock.move(w.get(other.ID).NextAt.Sub(w.clock.Now()))
	w.change(ctx, "late", func(*domain.LakeTable) {}) // it waits
	w.tick()
	w.tick()
	require.NoError(t, second(w.server.SetWorkspace(ctx, w.admin, domain.MaintenancePolicy{Enabled: new(false)})))
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	for _, run := range w.history() {
		if run.Table == "late" {
			require.Equal(t, domain.MaintenanceSkipped, run.State, run.Message)
			require.Contains(t, run.Message, "turned off")
		}
	}
	require.NotContains(t, w.engines.statements()[ran:], optimize("late"))
	require.Equal(t, domain.CodeInvalid, code(second(w.server.SetWorkspace(ctx, w.admin, domain.MaintenancePolicy{Warehouse: new(domain.MachineID("none"))}))))
	require.Equal(t, domain.CodeNotFound, code(second(w.server.SetDatabase(ctx, w.admin, "db_none", domain.MaintenancePolicy{}))))
	require.Equal(t, domain.CodeNotFound, code(second(w.server.SetTable(ctx, w.admin, "tbl_none", domain.MaintenancePolicy{}))))
}

// A table that is dropped takes what was set and remembered of it along when it is forgotten; its history stays for ninety days.
func TestMaintenanceOfADroppedTable(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	db := superuser(t, w.dsn)
	table := w.table("events")
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, table.ID, domain.MaintenancePolicy{Compact: domain.CompactPolicy{MinFiles: new(3)}})))
	require.NoError(t, second(w.server.SetDatabase(ctx, w.admin, w.database, domain.MaintenancePolicy{Expire: domain.ExpirePolicy{KeepDays: new(3)}})))
	w.night()
	w.until(w.over)
	w.change(ctx, "events", func(l *domain.LakeTable) { l.DataFiles = new(int64(50)) })
	w.night()
	w.change(ctx, "events", func(*domain.LakeTable) {})
	w.tick()
	in(t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		return second(tx.DropLakeTable(ctx, table.ID, w.clock.Now(), w.clock.Now(), false))
	})
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	require.Equal(t, domain.MaintenanceSkipped, w.latest().State)
	require.Equal(t, domain.CodeNotFound, code(second(w.server.OfTable(ctx, w.admin, table.ID))))
	in(t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
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

// Who may see, run and change it.
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
			code(second(w.server.OfTable(ctx, s, table.ID))), code(second(w.server.Runs(ctx, s, domain.MaintenanceFilter{}, domain.Page{}))),
			code(second(w.server.SetTable(ctx, s, table.ID, domain.MaintenancePolicy{}))), code(second(w.server.SetDatabase(ctx, s, w.database, domain.MaintenancePolicy{}))),
			code(second(w.server.RunTable(ctx, s, table.ID, domain.Idempotency{}))), code(second(w.server.RunDatabase(ctx, s, w.database, domain.Idempotency{}))),
			code(second(w.server.SetWorkspace(ctx, s, domain.MaintenancePolicy{}))),
		}, role)
	}
}

// What maintenance does to a table is no step on the way of its rows.
func TestMaintenanceIsNoLineage(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	w.night()
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	typed := domain.Statement{ID: "stm_typed", Query: "INSERT", CreatedBy: w.admin.Actor(), Role: domain.RoleEditor, CreatedAt: w.clock.Now(), State: domain.StatementRunning}
	in(t, w.store, w.admin, func(ctx context.Context, tx domain.Tx) error {
		require.NoError(t, tx.InsertStatement(ctx, typed))
		for _, id := range []domain.StatementID{w.latest().Statement, typed.ID} {
			require.NoError(t, tx.InsertLineage(ctx, []domain.LineageEntry{{
				At: w.clock.Now(), Actor: domain.Actor{Kind: domain.ActorStatement, ID: string(id)}, Direction: domain.LineageWritten, TableID: table.ID, Database: "lake",
				Schema: "public", Name: "events", SnapshotID: 7,
			}}))
		}
		edges, err := tx.ProcessesOf(ctx, []domain.TableID{table.ID}, domain.LineageWritten, w.clock.Now().Add(time.Hour), 10)
		require.Len(t, edges, 1)
		require.Equal(t, string(typed.ID), edges[0].Actor.ID)
		return err
	})
	release()
	w.until(w.over)
}
