// Package duckdb is the process that holds DuckDB and runs statements in it, one after another.
// Each has its own connection. The engine starts the process and ends it.
package duckdb

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Name is the name of the engine in statements.
const Name = "duckdb"

// Statement is a statement for the process, as the agent classified it.
type Statement struct {
	agent.Statement
	Class sqltext.Class `json:"class"`
}

// Main is the hidden command of the process that holds DuckDB. It reads statements from
// standard input until EOF and returns the exit code.
func Main() int {
	return spawned.Serve(func(o spawned.Options, out *spawned.Output) (ready string, work func(context.Context, Statement) bool, err error) {
		// DuckDB's own limit does not count what parsers, extensions and conversions allocate.
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(o.Memory / 4)
		c := &child{out: out}
		if c.db, err = openDatabase(o); err != nil {
			return "", nil, err
		}
		if c.proxy, err = catalog.Listen(catalog.Options{UID: os.Getuid(), CommitTime: o.CommitTime, Steady: true, Unsure: c.unsure}); err != nil {
			return "", nil, err
		}
		return c.proxy.Address(), c.serve, nil
	})
}

// child runs statements one after another.
type child struct {
	db     *database
	out    *spawned.Output
	proxy  *catalog.Proxy
	locked bool
	broken bool            // a statement left state that cannot be cleared; no other may run
	plain  map[string]bool // manifest lists without delete manifests
}

// serve runs a statement and ends its stream. It returns false if the child cannot run another.
func (c *child) serve(ctx context.Context, s Statement) bool {
	started := time.Now()
	end := c.run(ctx, &s)
	end.RunMS = time.Since(started).Milliseconds()
	if end.Error != nil && (end.Error.Fault == agent.FaultEngine || end.Error.Fault == agent.FaultResources) {
		c.broken = true // DuckDB does not return all memory that it allocated up to the limit
	}
	err := c.out.JSON(agent.FrameEnd, end)
	return err == nil && !c.broken && len(c.db.connections) > 0
}

// unsure ends the running statement and the process. Otherwise DuckDB would report a change with an
// unknown result as failed.
func (c *child) unsure(err *catalog.UnsureError) {
	_ = c.out.JSON(agent.FrameEnd, agent.StatementEnd{Error: err.Failure()})
	os.Exit(0)
}

var errInterrupted = sqltext.Fail(agent.FaultCancelled, "The statement was interrupted.")
