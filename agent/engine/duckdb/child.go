// Package duckdb is the process that holds DuckDB and runs statements in it, one after another.
// Each has its own connection. The engine starts the process and ends it.
package duckdb

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
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
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := spawned.NewOutput()
	o, err := spawned.ReadOptions(in)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the engine's child:", err)
		return 2
	}
	if err := limitChild(o); err != nil {
		return out.Failed(err)
	}
	db, err := openDatabase(o)
	if err != nil {
		return out.Failed(err)
	}
	c := &child{db: db, out: out}
	if c.proxy, err = catalog.Listen(catalog.Options{UID: os.Getuid(), CommitTime: o.CommitTime, Steady: true, Unsure: c.unsure}); err != nil {
		return out.Failed(err)
	}
	if err := out.Frame(spawned.FrameReady, []byte(c.proxy.Address())); err != nil {
		return 2
	}
	jobs := make(chan Statement)
	go c.listen(in, jobs) // ends the process when the engine is gone
	for s := range jobs {
		c.serve(&s)
	}
	return 0
}

// limitChild bounds the process's memory beyond DuckDB's own limit. DuckDB does not count what
// parsers, extensions and conversions allocate.
func limitChild(o spawned.Options) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(o.Memory / 4)
	return spawned.Bound(o.Memory)
}

// child runs statements one after another.
type child struct {
	db     *database
	out    *spawned.Output
	proxy  *catalog.Proxy
	locked bool
	broken bool            // a statement left state that cannot be cleared; no other may run
	plain  map[string]bool // manifest lists without delete manifests

	mu        sync.Mutex
	current   *connection // of the running statement
	stop      func()      // cancels the statement's catalog requests
	cancelled bool        // the running statement was cancelled
	running   bool
}

// listen reads the engine's frames. EOF ends the process, even while a statement runs.
func (c *child) listen(in *bufio.Reader, jobs chan<- Statement) {
	for {
		kind, payload, err := agent.ReadFrame(in)
		if err != nil {
			os.Exit(0)
		}
		switch kind {
		case spawned.FrameRun:
			var s Statement
			if err := json.Unmarshal(payload, &s); err != nil {
				os.Exit(2)
			}
			c.mu.Lock()
			c.cancelled, c.running = false, true
			c.mu.Unlock()
			jobs <- s
		case spawned.FrameCancel:
			c.cancel()
		}
	}
}

func (c *child) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return
	}
	c.cancelled = true
	if c.stop != nil {
		c.stop()
	}
	if c.current != nil {
		c.current.interrupt()
	}
}

// serve runs a statement and ends its stream. A child that cannot run another statement ends.
func (c *child) serve(s *Statement) {
	started := time.Now()
	end := c.run(s)
	end.RunMS = time.Since(started).Milliseconds()
	c.mu.Lock()
	c.running = false
	c.mu.Unlock()
	if end.Error != nil && (end.Error.Fault == agent.FaultEngine || end.Error.Fault == agent.FaultResources) {
		c.broken = true // DuckDB does not return all memory that it allocated up to the limit
	}
	if err := c.out.JSON(agent.FrameEnd, end); err != nil || c.broken || len(c.db.connections) == 0 {
		os.Exit(0)
	}
	if err := c.out.Frame(spawned.FrameReady); err != nil {
		os.Exit(0)
	}
}

// unsure ends the running statement and the process. Otherwise DuckDB would report a change with an
// unknown result as failed.
func (c *child) unsure(err *catalog.UnsureError) {
	_ = c.out.JSON(agent.FrameEnd, agent.StatementEnd{Error: err.Failure()})
	os.Exit(0)
}

// begin sets the connection that a cancellation interrupts.
func (c *child) begin(conn *connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = conn
	if c.cancelled {
		return errInterrupted
	}
	return nil
}

// interruptible sets a function that a cancellation calls in addition.
func (c *child) interruptible(stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop = stop
}

func (c *child) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

var errInterrupted = sqltext.Fail(agent.FaultCancelled, "The statement was interrupted.")
