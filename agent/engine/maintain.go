package engine

import (
	"slices"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// MaintainCommand is the program's argument that runs maintain.Main.
const MaintainCommand = "engine-maintain"

// maintaining returns the options of a process that maintains a table.
func (o Options) maintaining() Options {
	o.Command = append(slices.Clone(o.Command[:len(o.Command)-1]), MaintainCommand)
	return o
}

// runMaintenance maintains a table in a separate process and returns how the statement ended.
func (e *Engine) runMaintenance(r *run, s *agent.Statement, chosen routed, to *reader) *agent.StatementEnd {
	m, err := sqltext.ParseMaintenance(s, chosen.class)
	if err != nil {
		return &agent.StatementEnd{Error: result.Failure(err, s.Query)}
	}
	p, err := e.pool.lend(r.ctx)
	if err != nil {
		return e.unstarted(r, "The process that maintains tables", err)
	}
	defer e.pool.reclaim(p)
	to.json(agent.FrameHead, agent.StatementHead{Kind: chosen.class.Kind, Write: true, Engine: duckdb.Name, RoutingReason: chosen.reason})
	end := e.supervise(r, s, p, m, true, to)
	end.Tables = []agent.StatementTable{m.Table}
	return end
}
