package engine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"golang.org/x/sys/unix"
)

// Frames between an engine and its children beside those of the protocol, which a child sends and the engine hands on.
const (
	frameOptions agent.FrameKind = 'O' // to the child, first: childOptions
	frameReady   agent.FrameKind = 'R' // from the child, at its start and after each statement: it takes another
	frameFailed  agent.FrameKind = 'F' // from the child: it cannot start, and why, as text
	frameRun     agent.FrameKind = 'Q' // to the child: agent.Statement
	frameCancel  agent.FrameKind = 'C' // to the child: end the statement that runs
)

// childOutput is the file descriptor of what a child sends: nothing else that DuckDB or a library prints gets there.
const childOutput = 3

const progressEvery = 200 * time.Millisecond

// ChildMain is the hidden command of the process that holds DuckDB: it takes statements from its standard input until that ends. It answers the exit code.
func ChildMain() int {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := &output{to: os.NewFile(childOutput, "frames")}
	o, err := readOptions(in)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the engine's child:", err)
		return 2
	}
	if err := limitChild(o); err != nil {
		return out.failed(err)
	}
	db, err := openDatabase(o)
	if err != nil {
		return out.failed(err)
	}
	c := &child{db: db, out: out}
	if c.courier, err = listenCourier(o.CommitTime, c.unsure); err != nil {
		return out.failed(err)
	}
	if err := out.frame(frameReady); err != nil {
		return 2
	}
	jobs := make(chan agent.Statement)
	go c.listen(in, jobs) // ends the process when the engine is gone
	for s := range jobs {
		c.serve(&s)
	}
	return 0
}

func readOptions(in *bufio.Reader) (o childOptions, err error) {
	kind, payload, err := agent.ReadFrame(in)
	if err != nil {
		return o, err
	}
	if kind != frameOptions {
		return o, fmt.Errorf("this command is the engine's own; it is not run by hand")
	}
	return o, json.Unmarshal(payload, &o)
}

// limitChild bounds what the process may take beyond DuckDB's own limit, of which parsers, extensions and conversions know nothing.
func limitChild(o childOptions) error {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(o.Memory / 4)
	most := uint64(o.Memory + o.Memory/2 + 512<<20)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bounding the memory of the engine's child: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// output writes frames, one at a time.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) frame(kind agent.FrameKind, payload ...[]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return agent.WriteFrame(o.to, kind, payload...)
}

func (o *output) json(kind agent.FrameKind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.frame(kind, b)
}

func (o *output) failed(err error) int {
	_ = o.frame(frameFailed, []byte(err.Error()))
	return 2
}

// child runs statements, one after the other.
type child struct {
	db      *database
	out     *output
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
		case frameRun:
			var s agent.Statement
			if err := json.Unmarshal(payload, &s); err != nil {
				os.Exit(2)
			}
			c.mu.Lock()
			c.cancelled, c.running = false, true
			c.mu.Unlock()
			jobs <- s
		case frameCancel:
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
	if err := c.out.json(agent.FrameEnd, end); err != nil || c.broken || len(c.db.connections) == 0 {
		os.Exit(0)
	}
	if err := c.out.frame(frameReady); err != nil {
		os.Exit(0)
	}
}

// unsure ends the statement that runs, and the process, before DuckDB takes a change that may have been made for one that failed.
func (c *child) unsure(err *unsureError) {
	_ = c.out.json(agent.FrameEnd, agent.StatementEnd{Error: err.failure()})
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
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			// A failure is seen by whoever sends the result.
			_ = c.out.json(agent.FrameProgress, agent.StatementProgress{Done: conn.progress()})
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}
