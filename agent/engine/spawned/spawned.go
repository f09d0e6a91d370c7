// Package spawned runs the processes that the engine starts, and defines the messages between both.
package spawned

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
)

// Frames between an engine and a process. The process also sends frames of the statement protocol,
// which the engine forwards.
const (
	FrameOptions agent.FrameKind = 'O' // to the process, first: Options
	FrameReady   agent.FrameKind = 'R' // from the process, at start and after each statement
	FrameFailed  agent.FrameKind = 'F' // from the process: cannot start; the reason as text
	FrameRun     agent.FrameKind = 'Q' // to the process: a statement or Maintenance
	FrameCancel  agent.FrameKind = 'C' // to the process: end the running statement
)

// descriptor is the file descriptor on which a process sends frames. Output that a library prints
// does not reach it.
const descriptor = 3

// ProgressEvery is the interval of progress frames.
const ProgressEvery = 200 * time.Millisecond

// Options are the settings that an engine sends to a new process.
type Options struct {
	Extensions string `json:"extensions"` // directory of DuckDB's extensions
	Dir        string `json:"dir"`        // directory of the process
	Memory     int64  `json:"memory"`     // bytes of memory for a statement
	Threads    int    `json:"threads"`
	TempLimit  int64  `json:"temp_limit"` // maximum bytes of DuckDB's files in Dir

	CommitTime time.Duration `json:"commit_time"` // bounds the retries of a commit with a lost response
}

// Operation is a maintenance operation on a table.
type Operation string

// The operations, named like Trino's procedures.
const (
	Optimize          Operation = "optimize"
	ExpireSnapshots   Operation = "expire_snapshots"
	RemoveOrphanFiles Operation = "remove_orphan_files"
)

// Maintenance is one maintenance statement on one table.
type Maintenance struct {
	Statement string               `json:"statement"` // id of the statement
	Operation Operation            `json:"operation"`
	Table     agent.StatementTable `json:"table"`
	Catalog   agent.Catalog        `json:"catalog"`
	Storage   agent.Storage        `json:"storage"`
	Threshold int64                `json:"threshold"` // of Optimize: smaller files are compacted, in bytes
	Retention time.Duration        `json:"retention"` // of the others: the least age of what they remove

	// Only for ExpireSnapshots.
	RetainLast   int           `json:"retain_last"`   // minimum snapshots of a branch that stay; 0 for the table's setting
	MaxSnapshots int           `json:"max_snapshots"` // maximum snapshots of any age; 0 for no limit
	EraseAfter   time.Duration `json:"erase_after"`   // delay after which the unneeded files are erased

	MaxRows  int64 `json:"max_rows"`  // of the result; 0 for no limit
	MaxBytes int64 `json:"max_bytes"` // of the result in Arrow; 0 for no limit
}

// Serve is the main function of a process, and returns its exit code. It reads the options, bounds
// the memory, reports that the process is ready, and does the engine's work, one job after another.
// start prepares the process. It returns the text of the ready frame, and a function that does one
// job, which returns false if the process must end after it. A job's context ends when the engine
// cancels it. EOF ends the process, even while it works.
func Serve[T any](start func(Options, *Output) (ready string, work func(context.Context, T) bool, err error)) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := &Output{to: os.NewFile(descriptor, "frames")}
	o, err := readOptions(in)
	if err != nil {
		fmt.Fprintln(os.Stderr, "a process of the engine:", err)
		return 2
	}
	var ready string
	var work func(context.Context, T) bool
	if err = bound(o.Memory); err == nil {
		ready, work, err = start(o, out)
	}
	if err != nil {
		_ = out.Frame(FrameFailed, []byte(err.Error()))
		return 2
	}
	jobs := receive[T](in)
	for out.Frame(FrameReady, []byte(ready)) == nil {
		if next := <-jobs; !work(next.ctx, next.work) {
			break
		}
		ready = ""
	}
	return 0
}

// readOptions reads the first frame.
func readOptions(in *bufio.Reader) (o Options, err error) {
	kind, payload, err := agent.ReadFrame(in)
	if err != nil {
		return o, err
	}
	if kind != FrameOptions {
		return o, errors.New("this command is internal to the engine; do not run it by hand")
	}
	return o, json.Unmarshal(payload, &o)
}

type job[T any] struct {
	work T
	ctx  context.Context // ends when the engine cancels the work
}

// receive returns the engine's work, piece by piece.
func receive[T any](in *bufio.Reader) <-chan job[T] {
	jobs := make(chan job[T])
	go func() {
		cancel := func() {}
		for {
			kind, payload, err := agent.ReadFrame(in)
			if err != nil {
				os.Exit(0)
			}
			switch kind {
			case FrameRun:
				var j job[T]
				if err := json.Unmarshal(payload, &j.work); err != nil {
					os.Exit(2)
				}
				j.ctx, cancel = context.WithCancel(context.Background())
				jobs <- j
			case FrameCancel:
				cancel()
			}
		}
	}()
	return jobs
}

// Output writes frames, one at a time.
type Output struct {
	mu sync.Mutex
	to io.Writer
}

// Frame sends one frame.
func (o *Output) Frame(kind agent.FrameKind, payload ...[]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return agent.WriteFrame(o.to, kind, payload...)
}

// JSON sends a frame with v as JSON.
func (o *Output) JSON(kind agent.FrameKind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.Frame(kind, b)
}

// Report sends the progress, from 0 to 1 or -1 if unknown, until stop is called. stop waits for it
// to end.
func (o *Output) Report(done func() float64) (stop func()) {
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			_ = o.JSON(agent.FrameProgress, agent.StatementProgress{Done: done()}) // the end frame fails too
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}
