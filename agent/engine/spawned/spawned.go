// Package spawned defines the messages between the engine and the processes that it starts.
package spawned

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	FrameRun     agent.FrameKind = 'Q' // to the process: agent.Statement or Maintenance
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

// Kind returns the statement kind of the operation, or "" if it is unknown.
func (o Operation) Kind() string {
	switch o {
	case Optimize:
		return "OPTIMIZE"
	case ExpireSnapshots:
		return "EXPIRE SNAPSHOTS"
	case RemoveOrphanFiles:
		return "REMOVE ORPHAN FILES"
	}
	return ""
}

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

// ReadOptions reads the first frame.
func ReadOptions(in *bufio.Reader) (o Options, err error) {
	kind, payload, err := agent.ReadFrame(in)
	if err != nil {
		return o, err
	}
	if kind != FrameOptions {
		return o, errors.New("this command is internal to the engine; do not run it by hand")
	}
	return o, json.Unmarshal(payload, &o)
}

// Job is a piece of work for the process.
type Job[T any] struct {
	Work T
	Ctx  context.Context // ends when the engine cancels the work
}

// Receive returns the engine's work, piece by piece. EOF ends the process, even while it works.
func Receive[T any](in *bufio.Reader) <-chan Job[T] {
	jobs := make(chan Job[T])
	go func() {
		cancel := func() {}
		for {
			kind, payload, err := agent.ReadFrame(in)
			if err != nil {
				os.Exit(0)
			}
			switch kind {
			case FrameRun:
				var j Job[T]
				if err := json.Unmarshal(payload, &j.Work); err != nil {
					os.Exit(2)
				}
				j.Ctx, cancel = context.WithCancel(context.Background())
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

// NewOutput returns the output of this process.
func NewOutput() *Output { return &Output{to: os.NewFile(descriptor, "frames")} }

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

// Failed reports that the process cannot start, and returns its exit code.
func (o *Output) Failed(err error) int {
	_ = o.Frame(FrameFailed, []byte(err.Error()))
	return 2
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
