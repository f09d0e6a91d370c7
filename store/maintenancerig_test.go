package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// upkeep is a workspace whose tables one or more servers maintain, on simulated warehouses.
type upkeep struct {
	*tenant
	dsn      string
	server   *upkeeper
	replicas []string
	engines  *scripted
	database domain.DatabaseID
}

// upkeeper is a server that maintains tables.
type upkeeper struct {
	maintenance.Maintenances
	statements *statement.Statements
}

// Tick does what is due.
func (u *upkeeper) Tick(ctx context.Context) (time.Time, error) {
	return domain.Tick(ctx, u.Clock, u.Due)
}

// work does what the server does in the background.
func (u *upkeeper) work(ctx context.Context) error {
	_, err := u.Tick(ctx)
	return errors.Join(err, u.statements.Sweep(ctx))
}

// scripted simulates the engines of warehouses: it applies a maintenance statement to the table's
// row.
type scripted struct {
	w     *upkeep
	mu    sync.Mutex
	ran   []string // statements, in their order
	on    map[domain.AgentID]int
	most  int                                   // concurrent statements
	worse bool                                  // two ran on one warehouse
	takes time.Duration                         // duration of each statement, by the clock
	held  chan struct{}                         // statements wait until it is closed; nil does not block them
	fails func(query string) *statement.Failure // may be nil
}

func newUpkeep(t *testing.T) *upkeep {
	s, dsn := openDSN(t)
	w := &upkeep{tenant: newTenant(t, s, "ours"), dsn: dsn}
	w.engines = &scripted{w: w, on: map[domain.AgentID]int{}}
	w.server = w.replica(s)
	in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.FindDatabase(ctx, "lake")
		w.database = d.ID
		return err
	})
	w.runs(w.warehouse("default"))
	w.tick()
	return w
}

// replica creates another server.
func (w *upkeep) replica(s *store.Store) *upkeeper {
	bucket, err := objects.Open("file://" + w.t.(*testing.T).TempDir())
	require.NoError(w.t, err)
	id := fmt.Sprint("rep_", len(w.replicas))
	w.replicas = append(w.replicas, id)
	statements := statement.New(statement.Options{
		Store: store.For[statement.Tx](s), System: s.System(), Topics: s.Topics(), Clock: w.clock, Objects: bucket, Engines: w.engines, Tokens: noTokens{}, Tables: noTokens{}, Replica: id,
		Report: func(err error) { w.t.Log(err) },
	})
	w.t.Cleanup(func() { statements.Close(); _ = bucket.Close() })
	return &upkeeper{maintenance.Maintenances{
		Store: store.For[maintenance.Tx](s), System: s.System(), Topics: s.Topics(), Clock: w.clock,
		Rows: func([]byte) ([]byte, error) { return []byte(`[["deleted_data_files_count", 4]]`), nil },
	}, statements}
}

type noTokens struct{}

func (noTokens) StatementToken(domain.StatementID, bool) string { return "" }

func (noTokens) TableStorage(context.Context, domain.WorkspaceID) (statement.TableStorage, error) {
	return statement.TableStorage{}, nil
}

// Execute implements statement.Engines.
func (e *scripted) Execute(ctx context.Context, agent domain.AgentID, st statement.EngineStatement) (statement.Stream, error) {
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

// CancelStatement implements statement.Engines.
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
	st    statement.EngineStatement
	held  chan struct{}
	step  int
}

// Next implements statement.Stream.
func (p *playing) Next() (statement.Event, error) {
	p.step++
	switch p.step {
	case 1:
		return statement.Event{Head: &statement.Head{Kind: "OPTIMIZE", Write: true, Engine: "duckdb"}}, nil
	case 2:
		return statement.Event{Schema: []byte("a schema")}, nil
	}
	if p.held != nil {
		select {
		case <-p.held:
		case <-p.ctx.Done():
			return statement.Event{}, p.ctx.Err()
		}
	}
	end := statement.End{}
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
	return statement.Event{End: &end}, nil
}

func (*playing) Close() {}

// commit changes the table as the statement says.
func (e *scripted) commit(ctx context.Context, st statement.EngineStatement) {
	w := e.w
	name := strings.Split(strings.TrimSuffix(strings.SplitAfterN(st.Query, `"public".`, 2)[1], " EXECUTE"), `"`)[1]
	w.change(ctx, name, func(t *lake.Table) {
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

// change commits to the table with the name.
func (w *upkeep) change(ctx context.Context, name string, fn func(*lake.Table)) {
	err := w.store.In(ctx, w.admin, func(tx *store.Tx) error {
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

// table creates a table of ten small files, an hour ago.
func (w *upkeep) table(name string, changes ...func(*lake.Table)) lake.Table {
	w.t.Helper()
	t := lakeTable(w.database, name)
	t.CreatedAt, t.Snapshot, t.Version = w.clock.Now().Add(-time.Hour), &lake.TableSnapshot{ID: 1, At: w.clock.Now()}, 1
	t.DataFiles, t.DataBytes, t.RowCount = new(int64(10)), new(int64(5000)), new(int64(100))
	t.DeleteFiles, t.DeletedRows, t.Snapshots = new(int64(0)), new(int64(0)), new(int64(3))
	for _, change := range changes {
		change(&t)
	}
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error { return second(tx.InsertLakeTable(ctx, t, false)) })
	return t
}

// warehouse returns the warehouse with the name, and creates a missing one.
func (w *upkeep) warehouse(name string) machine.Machine {
	w.t.Helper()
	var m machine.Machine
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) (err error) {
		m, err = tx.MachineByName(ctx, machine.KindWarehouse, name)
		if !domain.IsCode(err, domain.CodeNotFound) {
			return err
		}
		m, err = tx.MachineByName(ctx, machine.KindWarehouse, "default")
		require.NoError(w.t, err)
		agent := machine.NewAgent(name, w.clock.Now())
		m.ID, m.Name, m.AgentID = domain.MachineID("wh_"+name), name, agent.ID
		agent.MachineID, agent.TokenHash = m.ID, []byte(name)
		return tx.InsertMachine(ctx, m, agent)
	})
	return m
}

// runs marks the warehouse as running, with its agent connected.
func (w *upkeep) runs(m machine.Machine) {
	w.t.Helper()
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		agent, err := tx.LockAgent(ctx, m.AgentID)
		require.NoError(w.t, err)
		agent.Session = "s1"
		m.State, m.Released, m.Made = machine.Running, false, true
		require.NoError(w.t, tx.UpdateMachine(ctx, m))
		tx.Notify(domain.MachinesTopic(w.admin.Workspace()))
		return tx.UpdateAgent(ctx, agent)
	})
}

// rests marks the warehouse as stopped.
func (w *upkeep) rests(m machine.Machine) {
	w.t.Helper()
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		m.State, m.Released, m.Made = machine.Stopped, true, false
		return tx.UpdateMachine(ctx, m)
	})
}

func (w *upkeep) tick() { w.t.Helper(); require.NoError(w.t, second(w.server.Tick(w.t.Context()))) }

// until runs maintenance, like the server, after every change until is returns true.
func (w *upkeep) until(is func() bool, servers ...*upkeeper) {
	w.t.Helper()
	if len(servers) == 0 {
		servers = []*upkeeper{w.server}
	}
	wake, stop := w.store.Topics().Subscribe(domain.MaintenanceTopic, domain.HandoverTopic, domain.StatementsTopic(w.admin.Workspace()))
	defer stop()
	late := time.After(time.Minute)
	for {
		for _, id := range w.replicas {
			require.NoError(w.t, w.system.SaveReplica(w.t.Context(), id, "", w.clock.Now()))
		}
		require.Equal(w.t, map[domain.Code]int{"": len(servers)}, atOnce(len(servers), func(i int) error { return servers[i].work(w.t.Context()) }))
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

// history lists past and planned runs, newest first.
func (w *upkeep) history(filters ...maintenance.Filter) []maintenance.Run {
	w.t.Helper()
	l, err := w.server.Runs(w.t.Context(), w.admin, append(filters, maintenance.Filter{})[0], domain.Page{Limit: domain.MaxLimit})
	require.NoError(w.t, err)
	return l.Items
}

func (w *upkeep) latest() maintenance.Run { w.t.Helper(); return w.history()[0] }

// over reports whether nothing waits or runs.
func (w *upkeep) over() bool {
	return !slices.ContainsFunc(w.history(), func(r maintenance.Run) bool { return !r.State.Final() })
}

func (w *upkeep) get(id domain.TableID) maintenance.Maintenance {
	w.t.Helper()
	of, err := w.server.OfTable(w.t.Context(), w.admin, id)
	require.NoError(w.t, err)
	return of
}

func optimize(name string) string {
	return `ALTER TABLE "lake"."public"."` + name + `" EXECUTE optimize(file_size_threshold => '128MB')`
}

const aWeek = 8 * 24 * time.Hour
