package machine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// warehouseIn returns a warehouse that reached the state in the usual way.
func warehouseIn(s State, engine string) Machine {
	m := machineIn(s)
	m.Kind, m.WriteEngine, m.TrinoStart = KindWarehouse, engine, TrinoFirstWrite
	return m
}

func TestEnginesStandAsTheirMachineDoes(t *testing.T) {
	told := []Engine{{Name: "duckdb", Version: "1.5.5"}, {Name: "trino", Version: "476", State: EngineRunning, Message: "It runs 2 statements.", Nodes: 3}}
	for _, s := range States {
		m := warehouseIn(s, EngineTrino)
		m.Engines = told
		want := []Engine{told[0], {Name: "trino", Version: "476", State: EngineStopped}}
		if s == Running {
			want = told
		}
		require.Equal(t, want, m.EnginesNow(), s)
		require.Equal(t, EngineRunning, told[1].State, "the stored report is unchanged")
	}
	require.Empty(t, Machine{}.EnginesNow())
}

func TestWhatAnAgentTellsOfItsEnginesIsBounded(t *testing.T) {
	require.Equal(t, []Engine{}, BoundedEngines(nil))
	require.Len(t, BoundedEngines(make([]Engine, 100)), maxEngines)
	for _, s := range EngineStates {
		require.Equal(t, s, BoundedEngines([]Engine{{State: s}})[0].State)
	}
	for told, want := range map[Engine]Engine{
		{State: "burning"}: {}, {Nodes: -1}: {}, {Nodes: 1 << 40}: {Nodes: maxEngineNodes}, {Message: "a\x00b\xff"}: {Message: "ab"},
		{Message: strings.Repeat("x", 1<<20)}: {Message: strings.Repeat("x", domain.MaxShown)},
	} {
		require.Equal(t, []Engine{want}, BoundedEngines([]Engine{told}))
	}
}

// The valid and invalid changes of a warehouse's settings.
func TestAWarehousesSettingsHoldTogether(t *testing.T) {
	duck, trino, first, with := EngineDuckDB, EngineTrino, TrinoFirstWrite, TrinoWithWarehouse
	for _, c := range []struct {
		name   string
		from   string
		nodes  int
		start  TrinoStart
		change Change
		field  string // the invalid field; empty if valid
	}{
		{"nothing", duck, 1, first, Change{}, ""},
		{"more nodes", trino, 1, first, Change{Nodes: new(16)}, ""},
		{"too many nodes", trino, 1, first, Change{Nodes: new(17)}, "nodes"},
		{"no node", trino, 1, first, Change{Nodes: new(0)}, "nodes"},
		{"fewer than none", trino, 1, first, Change{Nodes: new(-1)}, "nodes"},
		{"one node of duckdb", duck, 1, first, Change{Nodes: new(1)}, ""},
		{"two nodes of duckdb", duck, 1, first, Change{Nodes: new(2)}, "nodes"},
		{"trino with two nodes", duck, 1, first, Change{WriteEngine: &trino, Nodes: new(2)}, ""},
		{"to duckdb with two nodes", trino, 2, first, Change{WriteEngine: &duck}, "nodes"},
		{"to duckdb and one node", trino, 2, first, Change{WriteEngine: &duck, Nodes: new(1)}, ""},
		{"trino with the warehouse", trino, 1, first, Change{TrinoStart: &with}, ""},
		{"trino at the first write", trino, 1, with, Change{TrinoStart: &first}, ""},
		{"duckdb with the warehouse", duck, 1, first, Change{TrinoStart: &with}, "trino_start"},
		{"duckdb at the first write", duck, 1, first, Change{TrinoStart: &first}, ""},
		{"to duckdb with the warehouse", trino, 1, with, Change{WriteEngine: &duck}, "trino_start"},
		{"to duckdb at the first write", trino, 1, with, Change{WriteEngine: &duck, TrinoStart: &first}, ""},
		{"some time", trino, 1, first, Change{TrinoStart: new(TrinoStart("later"))}, "trino_start"},
		{"no time", trino, 1, first, Change{TrinoStart: new(TrinoStart(""))}, "trino_start"},
		{"another engine", duck, 1, first, Change{WriteEngine: new("spark")}, "write_engine"},
		{"no engine", duck, 1, first, Change{WriteEngine: new("")}, "write_engine"},
	} {
		m := warehouseIn(Stopped, c.from)
		m.Nodes, m.TrinoStart = c.nodes, c.start
		err := m.change(c.change, moment)
		if c.field == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", c.name, err)
		require.Equal(t, c.field, domain.AsError(err).Field, c.name)
	}
}

// The write engine changes only at rest; nodes and the time of Trino's start change at any time.
func TestWhenAWarehousesSettingsChange(t *testing.T) {
	for _, s := range States {
		for _, released := range []bool{false, true} {
			m := warehouseIn(s, EngineTrino)
			m.Released = released
			rests := m.Resting()
			require.NoError(t, m.change(Change{Nodes: new(3), TrinoStart: new(TrinoWithWarehouse)}, moment), s)
			require.Equal(t, &WarehouseSettings{Nodes: 3, TrinoStart: TrinoWithWarehouse}, m.Settings())
			err := m.change(Change{WriteEngine: new(EngineDuckDB), Nodes: new(1), TrinoStart: new(TrinoFirstWrite)}, moment)
			require.Equal(t, rests, err == nil, "%s: %v", s, err)
			require.Equal(t, !rests, domain.IsCode(err, domain.CodeConflict), s)
		}
	}
	require.Nil(t, (Machine{Kind: KindCompute}).Settings())
}
