package domain

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// StatementState is how far a SQL statement has come.
type StatementState string

// The states of a statement. The last three are final.
const (
	StatementQueued    StatementState = "queued" // it waits for its warehouse, or for a place on it
	StatementRunning   StatementState = "running"
	StatementSucceeded StatementState = "succeeded"
	StatementFailed    StatementState = "failed" // Failure says why
	StatementCancelled StatementState = "cancelled"
)

// StatementStates lists the states.
var StatementStates = []StatementState{StatementQueued, StatementRunning, StatementSucceeded, StatementFailed, StatementCancelled}

// Final says that nothing comes after the state.
func (s StatementState) Final() bool {
	return s == StatementSucceeded || s == StatementFailed || s == StatementCancelled
}

// Statement is one SQL statement: what was asked for, how far it is, and what is known of it.
type Statement struct {
	ID         StatementID
	Warehouse  MachineID
	Query      string
	Parameters []json.RawMessage // null, booleans, numbers and strings
	Database   string            // where names without a database resolve
	Schema     string            // where names without a schema resolve
	Requested  string            // engine; empty for the one of the statement's kind
	RowLimit   int64             // of the result; 0 for none
	ByteLimit  int64             // of the result in Arrow
	Timeout    time.Duration     // of its run; 0 for none
	CreatedBy  Actor
	Role       Role // with which it runs: at most an editor
	RunID      RunID
	TaskKey    string
	CreatedAt  time.Time

	State             StatementState
	Message           string  // what it waits for
	Progress          float64 // from 0 to 1; -1 where it is not known
	Kind              string  // such as SELECT or INSERT; empty until an engine has read it
	Write             bool    // known with Kind
	Engine            string  // that serves it
	RoutingReason     string
	Failure           *StatementFailure
	Schemata          []byte // of the result: a schema message of Arrow IPC; nil where there is none yet
	Rows              int64  // of the result; of a write, those it inserted, changed or deleted; -1 where it committed, and whoever knew how many is gone
	Bytes             int64  // of the result in Arrow
	Scanned           int64  // bytes read from storage, where the engine tells
	Truncated         bool   // a limit cut the result
	Chunks            []ResultChunk
	ResultUntil       *time.Time // when the result is thrown away
	StartedAt         *time.Time // when an engine began with it
	FinishedAt        *time.Time
	CancelRequestedAt *time.Time
	Resolution        LineageResolution // how much of its lineage is known; empty before its end, and where it failed
	Replica           string            // of the server that runs it
}

// ResultChunk is one piece of a result: a stream of Arrow IPC of its own.
type ResultChunk struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

// Fault is whose matter a statement's failure is.
type Fault string

// The faults.
const (
	FaultQuery     Fault = "query"     // the statement is wrong, or refused
	FaultForbidden Fault = "forbidden" // it writes, and its actor may only read
	FaultConflict  Fault = "conflict"  // it lost the race for a table too often
	FaultTimeout   Fault = "timeout"   // it ran out of time
	FaultCancelled Fault = "cancelled" // somebody asked
	FaultResources Fault = "resources" // it needs more memory or disk than it may have
	FaultEngine    Fault = "engine"    // the engine or its machine failed
)

// StatementFailure says why a statement failed. Line and Column are the position in its text, in characters from 1; 0 where there is none.
type StatementFailure struct {
	Fault   Fault
	Message string
	Line    int
	Column  int
	Unsure  bool // whoever tells of it does not know whether what the statement wrote was committed; not kept: see settled
}

// faultCodes are what callers get for a fault.
var faultCodes = map[Fault]Code{
	FaultQuery: CodeInvalid, FaultForbidden: CodeForbidden, FaultConflict: CodeConflict, FaultTimeout: CodeInvalid, FaultCancelled: CodeConflict,
	FaultResources: CodeInvalid, FaultEngine: CodeUnavailable,
}

// Err is the failure as an error, with the statement's id and the position in its message.
func (s *Statement) Err() error {
	switch {
	case s.State == StatementCancelled:
		return Errorf(CodeConflict, "The statement %s was cancelled.", s.ID)
	case s.Failure == nil:
		return nil
	}
	f := s.Failure
	e := &Error{Code: faultCodes[f.Fault], Message: f.Message, Line: f.Line, Column: f.Column}
	if e.Code == "" {
		e.Code = CodeUnavailable
	}
	if f.Line > 0 {
		e.Message = sprintf("Line %d, column %d: ", []any{f.Line, f.Column}) + f.Message
	}
	return e
}

func (s *Statement) valueBytes() (n int) {
	for _, p := range s.Parameters {
		n += len(p)
	}
	return n
}

// begin says that an engine has begun with the statement.
func (s *Statement) begin(now time.Time) {
	if s.State == StatementQueued {
		s.State, s.Message, s.StartedAt = StatementRunning, "", &now
	}
}

// advance takes what an engine tells of its progress: that the statement waits for a place, or else that it has one.
func (s *Statement) advance(p StatementProgress, now time.Time) {
	if s.State.Final() {
		return
	}
	if p.Kind != "" {
		s.Kind, s.Write = p.Kind, p.Write
	}
	if p.Queued {
		s.Message = cmp.Or(p.Message, "Waits for a place on its warehouse.")
		return
	}
	s.begin(now)
	s.Progress = p.Done
}

func (s *Statement) know(head StatementHead) {
	s.Kind, s.Write, s.Engine, s.RoutingReason = head.Kind, head.Write, head.Engine, head.RoutingReason
}

// cancel asks for the statement's end. One that is over, or is being cancelled, is CodeConflict.
func (s *Statement) cancel(now time.Time) error {
	switch {
	case s.State.Final():
		return Errorf(CodeConflict, "The statement is over already: %s.", s.State)
	case s.CancelRequestedAt != nil:
		return Errorf(CodeConflict, "The statement is being cancelled already.")
	}
	s.CancelRequestedAt = &now
	return nil
}

// end is the statement's end: success without a failure. Of a second end nothing is taken.
func (s *Statement) end(f *StatementFailure, now time.Time) {
	if s.State.Final() {
		return
	}
	s.State, s.Message, s.FinishedAt, s.Progress = StatementSucceeded, "", &now, 1
	if f != nil {
		s.State, s.Failure, s.Progress = StatementFailed, f, -1
	}
	if f != nil && f.Fault == FaultCancelled {
		s.State = StatementCancelled
	}
}

// StatementHead is what an engine made of a statement's text.
type StatementHead struct {
	Kind          string
	Write         bool
	Engine        string
	RoutingReason string
}

// StatementEnd is how a statement ended on its engine.
type StatementEnd struct {
	Rows, Bytes, Scanned int64
	Truncated            bool
	Tables               []StatementTable
	Scans                []StatementScan
	Failure              *StatementFailure
}

// StatementTable is a table that a statement names, with the columns of it that it reads, where they are known. One that it both writes and reads is there twice.
type StatementTable struct {
	Database, Schema, Table string
	Columns                 []string
	Target                  bool // it is written, made, changed or dropped
}

// StatementScan is what a statement read of one table: the one in whose location the file lies.
type StatementScan struct {
	File    string
	Columns []string
}

// StatementEvent is one thing that an engine tells of a statement: exactly one of the fields is set.
type StatementEvent struct {
	Progress *StatementProgress
	Head     *StatementHead
	Schema   []byte       // schema message of Arrow IPC
	Batch    *ResultBatch // of the rows
	End      *StatementEnd
}

// StatementProgress is how far a statement has come.
type StatementProgress struct {
	Queued  bool    // it waits
	Message string  // what it waits for, as a sentence; empty for a place
	Done    float64 // from 0 to 1; -1 where it is not known
	Kind    string  // of the statement, by its text alone; empty but in the first
	Write   bool    // with Kind
}

// ResultBatch is a record batch message of Arrow IPC, and how many rows it has.
type ResultBatch struct {
	Rows int64
	Data []byte
}

// EngineStatement is what an engine needs to run a statement.
type EngineStatement struct {
	Statement
	CatalogURL string
	Token      string   // for the catalog, of this statement alone
	Databases  []string // that there are
	Storage    TableStorage
}

// TableStorage is where a workspace's tables lie, and how an engine opens it.
type TableStorage struct {
	Prefix string // with a slash at its end, such as file:///data/lake/ws_1/
	S3     *S3Access
}

// S3Access opens an S3 bucket.
type S3Access struct {
	Endpoint     string // with its scheme; empty for AWS
	Region       string
	AccessKeyID  string
	SecretKey    string
	SessionToken string
	PathStyle    bool
}

// Engines runs statements on the agents of warehouses.
type Engines interface {
	// Execute begins the statement. An error says that it has surely not begun; but CodeConflict, that it has or may have. CodeUnavailable and what is no domain
	// error pass: the statement may be sent again. Ending ctx ends a statement that reads.
	Execute(ctx context.Context, agent AgentID, st EngineStatement) (StatementStream, error)
	// CancelStatement ends the statement, whatever its kind.
	CancelStatement(ctx context.Context, agent AgentID, id StatementID) error
}

// StatementStream is what an engine tells of one statement.
type StatementStream interface {
	// Next waits for the next event. The last one is the End; an error before it says that the stream was cut off.
	Next() (StatementEvent, error)
	Close()
}

// StatementTokens gives statements their token for the catalog. It is good while the statement is alive.
type StatementTokens interface {
	StatementToken(id StatementID) string
}

// StatementFilter narrows a list of statements. Zero fields do not.
type StatementFilter struct {
	States    []StatementState `json:"s,omitempty"`
	Warehouse MachineID        `json:"w,omitempty"`
	Run       RunID            `json:"r,omitempty"`
	Mine      string           `json:"m,omitempty"` // the actor's id
	Text      string           `json:"t,omitempty"` // in the statement, in any case
}

// StatementTx reads and writes statements.
type StatementTx interface {
	InsertStatement(ctx context.Context, st Statement) error
	// Statement is without its result.
	Statement(ctx context.Context, id StatementID) (Statement, error)
	LockStatement(ctx context.Context, id StatementID) (Statement, error)
	// UpdateStatement keeps the result too where it is not nil.
	UpdateStatement(ctx context.Context, st Statement, result []byte) error
	// StatementResult is what UpdateStatement kept; nil where that is nothing.
	StatementResult(ctx context.Context, id StatementID) ([]byte, error)
	// Statements are newest first. There is one at least, and no more than begin within so many bytes of texts and parameters.
	Statements(ctx context.Context, f StatementFilter, before StatementID, limit, bytes int) ([]Statement, error)
	// LiveStatements counts those on the warehouse that are not over.
	LiveStatements(ctx context.Context, warehouse MachineID) (int, error)
}

// StatementRef names a statement across workspaces.
type StatementRef struct {
	Workspace WorkspaceID
	Statement StatementID
	Chunks    int
}
