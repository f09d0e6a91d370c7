package machine

import (
	"context"
	"slices"

	"github.com/millpond/millpond/domain"
)

// The engines that a warehouse can write with.
const (
	EngineDuckDB = "duckdb"
	EngineTrino  = "trino"
)

// TrinoStart is when a warehouse that writes with Trino starts it.
type TrinoStart string

// The choices.
const (
	TrinoFirstWrite    TrinoStart = "first_write" // the default
	TrinoWithWarehouse TrinoStart = "with_warehouse"
)

// maxNodes bounds the nodes of a warehouse.
const maxNodes = 16

// Engine is a SQL engine on a machine.
type Engine struct {
	Name    string // such as duckdb
	Version string
	State   EngineState // empty for an engine that always runs
	Message string      // why it failed, or what it does
	Nodes   int         // number of nodes it runs on; 0 if unknown
}

// EngineState is the state of an engine that starts and stops by itself.
type EngineState string

// The states of an engine.
const (
	EngineStopped  EngineState = "stopped"
	EngineStarting EngineState = "starting"
	EngineRunning  EngineState = "running"
	EngineFailed   EngineState = "failed" // Message says why
)

// EngineStates lists the states of an engine.
var EngineStates = []EngineState{EngineStopped, EngineStarting, EngineRunning, EngineFailed}

// Bounds of an agent's report of its engines.
const (
	maxEngines     = 16
	maxEngineNodes = 1000
)

// EnginesNow returns the machine's engines with their current states. While the machine does not
// run, every engine with a state is stopped.
func (m Machine) EnginesNow() []Engine {
	if m.State == Running {
		return m.Engines
	}
	now := slices.Clone(m.Engines)
	for i, e := range now {
		if e.State != "" {
			now[i] = Engine{Name: e.Name, Version: e.Version, State: EngineStopped}
		}
	}
	return now
}

// BoundedEngines limits an agent's report of its engines. It removes unknown states.
func BoundedEngines(reported []Engine) []Engine {
	engines := make([]Engine, 0, len(reported))
	for _, e := range reported[:min(len(reported), maxEngines)] {
		if !slices.Contains(EngineStates, e.State) {
			e.State = ""
		}
		engines = append(engines, Engine{
			Name: domain.Shown(e.Name), Version: domain.Shown(e.Version), State: e.State, Message: domain.Shown(e.Message), Nodes: min(max(e.Nodes, 0), maxEngineNodes),
		})
	}
	return engines
}

// WarehouseSettings are the settings that a warehouse's agent needs while it runs.
type WarehouseSettings struct {
	Nodes      int
	TrinoStart TrinoStart
}

// Settings returns a warehouse's settings; nil for other machines.
func (m Machine) Settings() *WarehouseSettings {
	if m.Kind != KindWarehouse {
		return nil
	}
	return &WarehouseSettings{Nodes: m.Nodes, TrinoStart: m.TrinoStart}
}

// validEngine refuses contradictory settings of a warehouse's write engine.
func (m *Machine) validEngine() error {
	switch {
	case m.Kind != KindWarehouse:
		return nil
	case m.WriteEngine != EngineDuckDB && m.WriteEngine != EngineTrino:
		return domain.Invalid("write_engine", "write_engine is %q; it must be duckdb or trino.", m.WriteEngine)
	case m.Nodes < 1 || m.Nodes > maxNodes:
		return domain.Invalid("nodes", "nodes is %d; it must be from 1 to %d.", m.Nodes, maxNodes)
	case m.TrinoStart != TrinoFirstWrite && m.TrinoStart != TrinoWithWarehouse:
		return domain.Invalid("trino_start", "trino_start is %q; it must be first_write or with_warehouse.", m.TrinoStart)
	case m.WriteEngine == EngineDuckDB && m.Nodes > 1:
		return domain.Invalid("nodes", "A warehouse that writes with duckdb has one node, and not %d; set nodes to 1, or write_engine to trino.", m.Nodes)
	case m.WriteEngine == EngineDuckDB && m.TrinoStart == TrinoWithWarehouse:
		return domain.Invalid("trino_start", "A warehouse that writes with duckdb has no Trino to start; set trino_start to first_write, or write_engine to trino.")
	}
	return nil
}

// DefaultWriteEngine returns the default write engine for a warehouse of the flavor: trino if the
// provider supports it, else duckdb.
func DefaultWriteEngine(ctx context.Context, p Provider, s ProviderSettings, f Flavor) (string, error) {
	err := p.CheckWriteEngine(ctx, s, f, EngineTrino)
	if domain.IsCode(err, domain.CodeInvalid) {
		return EngineDuckDB, nil
	}
	return EngineTrino, err
}

// writeEngine returns the named engine, or the default if engine is empty. It refuses an engine
// that machines of the size cannot have.
func (m *Machines) writeEngine(ctx context.Context, p ProviderSettings, size, engine string) (string, error) {
	provider, err := m.Providers.of(p.Kind)
	if err != nil {
		return "", err
	}
	all, err := provider.Flavors(ctx, p)
	if err != nil {
		return "", err
	}
	f, err := flavor(m.Kind, all, size)
	if err != nil {
		return "", err
	}
	if engine == "" {
		return DefaultWriteEngine(ctx, provider, p, f)
	}
	return engine, provider.CheckWriteEngine(ctx, p, f, engine)
}
