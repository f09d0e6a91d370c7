package worker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

func TestTheEnginesAreToldAndAtOnceWhenTheyChange(t *testing.T) {
	c := newControl(t)
	c.beat = time.Hour
	o := c.options()
	changed := make(chan struct{}, 1)
	o.Changed = changed
	var state atomic.Value
	state.Store(agent.EngineStopped)
	o.Engines = func() []agent.Engine {
		return []agent.Engine{{Name: "duckdb", Version: "1.5.5"}, {Name: "trino", Version: "476", State: state.Load().(string), Nodes: 2}}
	}
	c.agent(o)
	c.session()
	require.Equal(t, o.Engines(), c.last.Engines)
	for _, s := range []string{agent.EngineStarting, agent.EngineRunning, agent.EngineFailed} {
		state.Store(s)
		changed <- struct{}{}
		c.until("the engine is "+s, waitLimit, func() bool { return len(c.engines) == 2 && c.engines[1].State == s })
	}
}

// Changes without a connection are reported at the next connection.
func TestEnginesThatChangedBeforeAConnectionAreTold(t *testing.T) {
	c := newControl(t)
	c.beat = time.Hour
	o := c.options()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	o.Changed = changed
	o.Engines = func() []agent.Engine {
		return []agent.Engine{{Name: "trino", Version: "476", State: agent.EngineRunning}}
	}
	c.agent(o)
	require.Equal(t, o.Engines(), c.last.Engines)
	c.until("a heartbeat", waitLimit, func() bool { return c.beats == 1 })
}

func TestAWarehouseIsConfiguredByEachAnswer(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	c.settings = &agent.WarehouseSettings{Nodes: 1, TrinoStart: agent.StartFirstWrite}
	o := c.options()
	told := make(chan agent.WarehouseSettings, 1000)
	o.Configure = func(s agent.WarehouseSettings) { told <- s }
	c.agent(o)
	first, changed := *c.settings, agent.WarehouseSettings{Nodes: 3, TrinoStart: agent.StartWithWarehouse}
	require.Equal(t, first, <-told)
	c.mu.Lock()
	c.settings = &changed
	c.mu.Unlock()
	late := time.After(waitLimit)
	for now := first; now != changed; {
		require.Equal(t, first, now)
		select {
		case now = <-told:
		case <-late:
			t.Fatal("the change did not arrive")
		}
	}
}

func TestAnAgentThatIsNoWarehouseIsNotConfigured(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	o := c.options()
	o.Configure = func(agent.WarehouseSettings) { t.Error("there is nothing to configure") }
	c.agent(o)
	c.nextIdle()
}
