package store_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

func (r *rig) update(c machine.Change) error {
	_, err := r.services.Compute.Update(r.t.Context(), r.admin, r.id, c)
	return err
}

func TestAWarehouseIsMadeForItsWriteEngine(t *testing.T) {
	r := newRigOf(t, machine.KindWarehouse)
	require.NoError(t, r.update(machine.Change{Flavor: new("cpu.4")}))
	require.Equal(t, domain.CodeInvalid, code(r.update(machine.Change{WriteEngine: new("trino")})), "it is not installed")
	r.provider.InstallTrino(true)
	require.NoError(t, r.update(machine.Change{WriteEngine: new("trino"), Nodes: new(3), TrinoStart: new(machine.TrinoWithWarehouse)}))
	m := r.get()
	require.Equal(t, []any{"trino", 3, machine.TrinoWithWarehouse}, []any{m.WriteEngine, m.Nodes, m.TrinoStart})
	require.Equal(t, domain.CodeInvalid, code(r.update(machine.Change{Flavor: new("cpu.1")})), "it is too small for trino")
	require.Equal(t, domain.CodeInvalid, code(r.update(machine.Change{Flavor: new("cpu.1"), WriteEngine: new("trino")})))
	r.provider.InstallTrino(false)
	r.start()
	r.settle()
	require.Equal(t, "trino", r.provider.Spec(r.id).WriteEngine, "it never changes by itself")
}

// Two concurrent changes, each acceptable to the provider, are not combined into one that it would
// refuse.
func TestSizeAndWriteEngineAreLookedAtTogether(t *testing.T) {
	r := newRigOf(t, machine.KindWarehouse)
	r.provider.InstallTrino(true)
	require.NoError(t, r.update(machine.Change{Flavor: new("cpu.4")}))
	fail := func(op provisiontest.Operation) error {
		if op != provisiontest.OpEngine {
			return nil
		}
		r.loses.Store(nil)
		return r.update(machine.Change{Flavor: new("cpu.1")})
	}
	r.loses.Store(&fail)
	require.Equal(t, domain.CodeConflict, code(r.update(machine.Change{WriteEngine: new("trino")})))
	m := r.get()
	require.Equal(t, []string{"cpu.1", "duckdb"}, []string{m.Flavor, m.WriteEngine})
}

func (a machineAgent) reports(engines ...machine.Engine) job.AgentOrders {
	a.t.Helper()
	orders, err := a.services.Agents.Heartbeat(a.t.Context(), a.scope, job.AgentHeartbeat{Session: "s1", Idle: time.Second, Engines: engines})
	require.NoError(a.t, err)
	return orders
}

func TestWhatAHeartbeatTellsOfEnginesIsKept(t *testing.T) {
	r := newRigOf(t, machine.KindWarehouse)
	agent := r.running()
	duckdb := machine.Engine{Name: "duckdb", Version: "1.5.5"}
	require.Equal(t, []machine.Engine{duckdb}, r.get().Engines)
	wake, stop := r.store.Topics().Subscribe(domain.MachinesTopic(r.admin.Workspace()))
	defer stop()
	trino := machine.Engine{Name: "trino", Version: "476", State: machine.EngineStarting, Message: "It starts.", Nodes: 2}
	agent.reports(duckdb, trino)
	woken(t, wake, "an engine is there")
	require.Equal(t, []machine.Engine{duckdb, trino}, r.get().EnginesNow())

	counted := &heartbeats{Store: store.For[job.Tx](r.store)}
	r.services.Agents.Store = counted
	agent.reports(duckdb, trino)
	agent.reports()
	require.Equal(t, []int{2, 0}, []int{counted.reads, counted.writes}, "what is as before costs one read, which tells the settings as well")
	require.Equal(t, []machine.Engine{duckdb, trino}, r.get().EnginesNow(), "an older agent tells nothing")

	trino.State, trino.Message = machine.EngineRunning, ""
	agent.reports(duckdb, trino)
	woken(t, wake, "it runs")
	require.Equal(t, []int{3, 1}, []int{counted.reads, counted.writes})
	r.stop()
	require.Equal(t, []machine.Engine{duckdb, {Name: "trino", Version: "476", State: machine.EngineStopped}}, r.get().EnginesNow())
}

// heartbeats counts what heartbeats read and write about machines.
type heartbeats struct {
	domain.Store[job.Tx]
	reads, writes int
}

// In implements domain.Store.
func (h *heartbeats) In(ctx context.Context, s domain.Scope, fn func(job.Tx) error) error {
	return h.Store.In(ctx, s, func(tx job.Tx) error { return fn(heartbeatTx{tx, h}) })
}

type heartbeatTx struct {
	job.Tx
	h *heartbeats
}

// Machine implements machine.Tx.
func (t heartbeatTx) Machine(ctx context.Context, id domain.MachineID) (machine.Machine, error) {
	t.h.reads++
	return t.Tx.Machine(ctx, id)
}

// SetEngines implements machine.Tx.
func (t heartbeatTx) SetEngines(ctx context.Context, agent domain.AgentID, engines []machine.Engine) error {
	t.h.writes++
	return t.Tx.SetEngines(ctx, agent, engines)
}

func TestAWarehousesAgentIsToldItsSettings(t *testing.T) {
	r := newRigOf(t, machine.KindWarehouse)
	r.provider.InstallTrino(true)
	require.NoError(t, r.update(machine.Change{Flavor: new("cpu.2"), WriteEngine: new("trino")}))
	r.start()
	r.settle()
	agent := r.enroll()
	hello := job.AgentHello{Session: "s1", Token: domain.HashSecret(agent.token), Instance: "disk", Slots: 2}
	orders, err := r.services.Agents.Hello(t.Context(), agent.scope, hello)
	require.NoError(t, err)
	require.Equal(t, &machine.WarehouseSettings{Nodes: 1, TrinoStart: machine.TrinoFirstWrite}, orders.Warehouse)
	require.NoError(t, r.update(machine.Change{Nodes: new(4), TrinoStart: new(machine.TrinoWithWarehouse)}), "it runs")
	changed := &machine.WarehouseSettings{Nodes: 4, TrinoStart: machine.TrinoWithWarehouse}
	require.Equal(t, changed, agent.reports().Warehouse)
	hello.Session = "s2"
	orders, err = r.services.Agents.Hello(t.Context(), agent.scope, hello)
	require.NoError(t, err)
	require.Equal(t, changed, orders.Warehouse, "also where it connects again")

	other := newRig(t)
	enrolled := other.running()
	require.Nil(t, enrolled.reports().Warehouse, "it is no warehouse")
}

// TestWarehousesFromBeforeTrino write with DuckDB, as before.
func TestWarehousesFromBeforeTrino(t *testing.T) {
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 5)
	require.NoError(t, err)
	execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) VALUES ('ws_1', 'one', now())`)
	for id, kind := range map[string]string{"wh_1": "warehouse", "cmp_1": "compute"} {
		execute(t, db, `INSERT INTO agents (workspace_id, id, name, token_hash, created_at, machine_id) VALUES ('ws_1', $1, 'a', $2, now(), $1)`, id, []byte(id))
		execute(t, db, `INSERT INTO machines (workspace_id, id, kind, name, flavor, provider, region, auto_stop, write_engine, agent_id, created_by_kind, created_by_id,
			created_by_name, created_at, state_since) VALUES ('ws_1', $1, $2, $1, 'cpu.1', 'local', 'local', '1h', 'duckdb', $1, 'user', '', '', now(), now())`, id, kind)
	}
	require.NoError(t, store.Migrate(t.Context(), dsn))
	s := connect(t, dsn)
	in(t, s, domain.SystemScope("ws_1", "test"), func(ctx context.Context, tx *store.Tx) error {
		warehouse, err := tx.Machine(ctx, "wh_1")
		require.NoError(t, err)
		require.Equal(t, []any{"duckdb", 1, machine.TrinoFirstWrite}, []any{warehouse.WriteEngine, warehouse.Nodes, warehouse.TrinoStart})
		compute, err := tx.Machine(ctx, "cmp_1")
		require.Equal(t, []any{1, machine.TrinoStart("")}, []any{compute.Nodes, compute.TrinoStart})
		return err
	})
	_, err = provider.DownTo(t.Context(), 5)
	require.NoError(t, err)
}
