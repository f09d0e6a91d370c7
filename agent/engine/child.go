package engine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
	"github.com/millpond/millpond/agent/engine/spawned"
)

// ChildMain is the hidden command of the process that holds DuckDB: it takes statements from its standard input until that ends. It answers the exit code.
func ChildMain() int {
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
	if c.courier, err = listenCourier(o.CommitTime, c.unsure); err != nil {
		return out.Failed(err)
	}
	if err := out.Frame(spawned.FrameReady); err != nil {
		return 2
	}
	jobs := make(chan agent.Statement)
	go c.listen(in, jobs) // ends the process when the engine is gone
	for s := range jobs {
		c.serve(&s)
	}
	return 0
}

// limitChild bounds what the process may take beyond DuckDB's own limit, of which parsers, extensions and conversions know nothing.
func limitChild(o spawned.Options) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(o.Memory / 4)
	return spawned.Bound(o.Memory)
}

// child runs statements, one after the other.
type child struct {
	db      *database
	out     *spawned.Output
	courier *courier
	locked  bool
	broken  bool            // what a statement left cannot be cleared, so that no other may come
	plain   map[string]bool // lists of manifests that have none of deletes

	mu        sync.Mutex
	current   *connection // of the statement that runs
	stop      func()      // ends what it asks of the catalog
	cancelled bool        // it is to end
	running   bool
}

// listen reads what the engine sends. The end of it is the end of the process, whatever runs.
func (c *child) listen(in *bufio.Reader, jobs chan<- agent.Statement) {
	for {
		kind, payload, err := agent.ReadFrame(in)
		if err != nil {
			os.Exit(0)
		}
		switch kind {
		case spawned.FrameRun:
			var s agent.Statement
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

// serve runs a statement and ends its stream. A child that cannot take another one ends.
func (c *child) serve(s *agent.Statement) {
	started := time.Now()
	end := c.run(s)
	end.RunMS = time.Since(started).Milliseconds()
	c.mu.Lock()
	c.running = false
	c.mu.Unlock()
	if end.Error != nil && (end.Error.Fault == agent.FaultEngine || end.Error.Fault == agent.FaultResources) {
		c.broken = true // what was allocated up to the limit is not all given back
	}
	if err := c.out.JSON(agent.FrameEnd, end); err != nil || c.broken || len(c.db.connections) == 0 {
		os.Exit(0)
	}
	if err := c.out.Frame(spawned.FrameReady); err != nil {
		os.Exit(0)
	}
}

// unsure ends the statement that runs, and the process, before DuckDB takes a change that may have been made for one that failed.
func (c *child) unsure(err *errand.UnsureError) {
	_ = c.out.JSON(agent.FrameEnd, agent.StatementEnd{Error: err.Failure()})
	os.Exit(0)
}

// begin makes a connection the one that a cancellation interrupts.
func (c *child) begin(conn *connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = conn
	if c.cancelled {
		return errInterrupted
	}
	return nil
}

// interruptible makes stop what a cancellation calls besides.
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

var errInterrupted = &refusal{agent.FaultCancelled, "The statement was interrupted.", -1}

// report sends the progress of a statement until stop is called, which waits for it.
func (c *child) report(conn *connection) (stop func()) {
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(spawned.ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			// A failure is seen by whoever sends the result.
			_ = c.out.JSON(agent.FrameProgress, agent.StatementProgress{Done: conn.progress()})
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}
