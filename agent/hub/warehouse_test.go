package hub_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/store"
)

// warehouse changes the workspace's first warehouse, and returns it.
func (w *world) warehouse(change func(*store.Tx, *machine.Machine) error) (now machine.Machine) {
	w.t.Helper()
	ctx := w.t.Context()
	require.NoError(w.t, w.first.db.In(ctx, w.system, func(tx *store.Tx) error {
		m, err := tx.MachineByName(ctx, machine.KindWarehouse, "default")
		if err != nil {
			return err
		}
		if err := change(tx, &m); err != nil {
			return err
		}
		now = m
		return tx.UpdateMachine(ctx, m)
	}))
	return now
}

// start starts the warehouse, and makes the world's agent its agent.
func (w *world) start() {
	w.t.Helper()
	bootstrap := machine.NewBootstrapToken()
	w.warehouse(func(tx *store.Tx, m *machine.Machine) error {
		m.Nodes = 2
		if err := m.Apply(machine.EventStart, "", time.Now()); err != nil {
			return err
		}
		return tx.SetBootstrap(w.t.Context(), m.AgentID, domain.HashSecret(bootstrap), time.Now().Add(time.Hour))
	})
	_, token, err := w.first.services.Agents.Enroll(w.t.Context(), bootstrap)
	require.NoError(w.t, err)
	w.token = token
}

func (w *world) engines() []machine.Engine {
	w.t.Helper()
	return w.warehouse(func(*store.Tx, *machine.Machine) error { return nil }).EnginesNow()
}

func TestAWarehousesAgentTellsOfItsEnginesAndIsToldItsSettings(t *testing.T) {
	w := newWorld(t)
	w.start()
	c := w.first.connect()
	greeted := greeting()
	trino := agent.Engine{Name: "trino", Version: "476", State: agent.EngineStopped}
	greeted.Engines = []agent.Engine{{Name: "duckdb", Version: "1.5.5"}, trino}
	var welcome agent.Welcome
	c.ok(http.MethodPost, agent.HelloPath, greeted, &welcome)
	require.Equal(t, &agent.WarehouseSettings{Nodes: 2, TrinoStart: agent.StartFirstWrite, Storage: "file:///lake/"}, welcome.Warehouse)
	duckdb := machine.Engine{Name: "duckdb", Version: "1.5.5"}
	require.Equal(t, []machine.Engine{duckdb, {Name: "trino", Version: "476", State: machine.EngineStopped}}, w.engines())

	w.warehouse(func(_ *store.Tx, m *machine.Machine) error {
		m.Nodes, m.TrinoStart = 4, machine.TrinoWithWarehouse
		return nil
	})
	trino.State, trino.Message, trino.Nodes = agent.EngineFailed, "It has no memory.", 2
	var reply agent.HeartbeatReply
	c.ok(http.MethodPost, agent.HeartbeatPath, agent.Heartbeat{Engines: []agent.Engine{{Name: "duckdb", Version: "1.5.5"}, trino}}, &reply)
	require.Equal(t, &agent.WarehouseSettings{Nodes: 4, TrinoStart: agent.StartWithWarehouse, Storage: "file:///lake/"}, reply.Warehouse)
	told := []machine.Engine{duckdb, {Name: "trino", Version: "476", State: machine.EngineFailed, Message: "It has no memory.", Nodes: 2}}
	require.Equal(t, told, w.engines())

	c.beat() // as an older agent does
	require.Equal(t, told, w.engines())
}

// The agent's constants equal the domain's, so both ends agree.
func TestTheWordsOfEnginesAreTheSame(t *testing.T) {
	require.Equal(t, []machine.EngineState{agent.EngineStopped, agent.EngineStarting, agent.EngineRunning, agent.EngineFailed}, machine.EngineStates)
	require.Equal(t, []machine.TrinoStart{agent.StartFirstWrite, agent.StartWithWarehouse}, []machine.TrinoStart{machine.TrinoFirstWrite, machine.TrinoWithWarehouse})
	body, err := json.Marshal(agent.HeartbeatReply{Warehouse: &agent.WarehouseSettings{Nodes: 1, TrinoStart: agent.StartFirstWrite}})
	require.NoError(t, err)
	require.JSONEq(t, `{"warehouse": {"nodes": 1, "trino_start": "first_write", "storage": ""}}`, string(body))
	body, err = json.Marshal(agent.Heartbeat{Engines: []agent.Engine{{Name: "trino", Version: "476", State: agent.EngineRunning, Nodes: 2}}})
	require.NoError(t, err)
	require.JSONEq(t, `{"attempts": null, "idle": "0s", "engines": [{"name": "trino", "version": "476", "state": "running", "nodes": 2}]}`, string(body))
}
