// Package spawned is what the engine and the processes that it starts say to each other.
package spawned

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
)

// Frames between an engine and a process beside those of the protocol, which the process sends and the engine hands on.
const (
	FrameOptions agent.FrameKind = 'O' // to the process, first: Options
	FrameReady   agent.FrameKind = 'R' // from the process, at its start and after each statement: it takes another
	FrameFailed  agent.FrameKind = 'F' // from the process: it cannot start, and why, as text
	FrameRun     agent.FrameKind = 'Q' // to the process: agent.Statement, or Maintenance
	FrameCancel  agent.FrameKind = 'C' // to the process: end the statement that runs
)

// descriptor is that of the file to which a process sends: nothing else that a library prints gets there.
const descriptor = 3

// ProgressEvery is how often a process tells how far it is.
const ProgressEvery = 200 * time.Millisecond

// Options are what an engine tells a new process.
type Options struct {
	Extensions string `json:"extensions"` // the directory that holds DuckDB's
	Dir        string `json:"dir"`        // the process's own
	Memory     int64  `json:"memory"`     // of a statement, in bytes
	Threads    int    `json:"threads"`
	TempLimit  int64  `json:"temp_limit"` // of DuckDB's files in Dir, in bytes

	CommitTime time.Duration `json:"commit_time"` // for which the catalog is asked what became of a commit
}

// Operation is what is done for the health of a table.
type Operation string

// The operations, by the names of Trino's procedures.
const (
	Optimize          Operation = "optimize"
	ExpireSnapshots   Operation = "expire_snapshots"
	RemoveOrphanFiles Operation = "remove_orphan_files"
)

// Kind is that of the statement.
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

// Maintenance is one statement for the health of one table.
type Maintenance struct {
	Statement  string               `json:"statement"` // its id
	Operation  Operation            `json:"operation"`
	Table      agent.StatementTable `json:"table"`
	Catalog    agent.Catalog        `json:"catalog"`
	Storage    agent.Storage        `json:"storage"`
	Threshold  int64                `json:"threshold"`   // of Optimize: files smaller than this are put together, in bytes
	Retention  time.Duration        `json:"retention"`   // of the others: nothing younger goes
	RetainLast int                  `json:"retain_last"` // of ExpireSnapshots: so many snapshots stay at least; 0 for as many as the table says
}

// ReadOptions reads the first frame.
func ReadOptions(in *bufio.Reader) (o Options, err error) {
	kind, payload, err := agent.ReadFrame(in)
	if err != nil {
		return o, err
	}
	if kind != FrameOptions {
		return o, errors.New("this command is the engine's own; it is not run by hand")
	}
	return o, json.Unmarshal(payload, &o)
}

// Output writes frames, one at a time.
type Output struct {
	mu sync.Mutex
	to io.Writer
}

// NewOutput is that of this process.
func NewOutput() *Output { return &Output{to: os.NewFile(descriptor, "frames")} }

// Frame sends one.
func (o *Output) Frame(kind agent.FrameKind, payload ...[]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return agent.WriteFrame(o.to, kind, payload...)
}

// JSON sends a frame of v.
func (o *Output) JSON(kind agent.FrameKind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.Frame(kind, b)
}

// Failed says that the process cannot start, and answers its exit code.
func (o *Output) Failed(err error) int {
	_ = o.Frame(FrameFailed, []byte(err.Error()))
	return 2
}

// FrameMetrics comes from a process that maintains a table, at its end: the metrics of it, in JSON.
const FrameMetrics agent.FrameKind = 'M'

// Metric is one row of what maintenance answers.
type Metric struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}
