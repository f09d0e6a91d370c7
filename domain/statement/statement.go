// Package statement runs SQL statements on warehouses and keeps their results.
package statement

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
)

// State is the state of a SQL statement.
type State string

// The states of a statement. The last three are final.
const (
	Queued    State = "queued" // it is held, or waits for its warehouse or for a free place there
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed" // Failure says why
	Cancelled State = "cancelled"
)

// States lists the states.
var States = []State{Queued, Running, Succeeded, Failed, Cancelled}

// Final reports whether the state never changes again.
func (s State) Final() bool {
	return s == Succeeded || s == Failed || s == Cancelled
}

// Purpose is what the platform runs a statement for. It is empty for a statement of a person, a
// task or a client.
type Purpose string

// Maintenance keeps a table small and fast.
const Maintenance Purpose = "maintenance"

// Statement is one SQL statement: the request, its progress and its result.
type Statement struct {
	ID         domain.StatementID
	Warehouse  domain.MachineID // empty while it is held
	Query      string
	Parameters []json.RawMessage // null, booleans, numbers and strings
	Database   string            // where names without a database resolve
	Schema     string            // where names without a schema resolve
	Requested  string            // engine; empty for the default of the statement's kind
	RowLimit   int64             // of the result; 0 for none
	ByteLimit  int64             // of the result in Arrow
	Timeout    time.Duration     // of its run; 0 for none
	CreatedBy  domain.Actor
	Role       domain.Role // the role it runs with: at most an editor
	RunID      domain.RunID
	TaskKey    string
	Purpose    Purpose
	TableID    domain.TableID // the table that it maintains; empty without a purpose
	CreatedAt  time.Time
	NotBefore  *time.Time // earliest start, if one is set
	Key        string     // its Idempotency-Key; empty without one
	// Detached says that the statement can be found by its key or its id. No caller must wait for
	// its end on a connection.
	Detached bool

	State         State
	Message       string  // what it waits for
	Progress      float64 // from 0 to 1; -1 if unknown
	Kind          string  // such as SELECT or INSERT; empty until an engine has parsed it
	Write         bool    // known with Kind
	Engine        string  // the engine that serves it
	RoutingReason string
	Failure       *Failure
	// Schemata is the result's Arrow IPC schema message; nil before there is one.
	Schemata []byte
	// Rows counts the result's rows or, for a write, the inserted, changed or deleted rows. It is
	// -1 if the statement committed but the count was lost.
	Rows              int64
	Bytes             int64 // of the result in Arrow
	Scanned           int64 // bytes read from storage, if the engine reports it
	Truncated         bool  // a limit cut the result
	Chunks            []ResultChunk
	ResultUntil       *time.Time // when the result is deleted
	StartedAt         *time.Time // when an engine began it
	FinishedAt        *time.Time
	CancelRequestedAt *time.Time
	Changed           domain.Change // set when read
	// Resolution says how much of its lineage is known; empty before its end, and if it failed.
	Resolution lineage.Resolution
	// Replica is the server that runs it; empty while it waits for one.
	Replica string
	// Sent says that an engine has it, or may have it.
	Sent bool
	// Committed says that it changed the catalog. It is set in the same transaction, see
	// LineageTx.HoldWriter.
	Committed bool
}

// ResultChunk describes one chunk of a result, a separate Arrow IPC stream.
type ResultChunk struct {
	Rows  int64
	Bytes int64
}

// Fault is the cause of a statement's failure.
type Fault string

// The faults.
const (
	FaultQuery     Fault = "query"     // the statement is wrong, or refused
	FaultForbidden Fault = "forbidden" // it writes, and its actor may only read
	FaultConflict  Fault = "conflict"  // it lost the race for a table too often
	FaultTimeout   Fault = "timeout"   // it exceeded its timeout
	FaultCancelled Fault = "cancelled" // a caller cancelled it
	FaultResources Fault = "resources" // it needs more memory or disk than allowed
	FaultEngine    Fault = "engine"    // the engine or its machine failed
)

// Failure says why a statement failed. Line and Column are the position in its text, in
// characters from 1; 0 if unknown.
type Failure struct {
	Fault   Fault
	Message string
	Line    int
	Column  int
	// Unsure says that it is unknown whether the statement's writes were committed. It is not
	// stored: see finalFailure.
	Unsure bool
}

// faultCodes maps faults to the codes that callers get.
var faultCodes = map[Fault]domain.Code{
	FaultQuery: domain.CodeInvalid, FaultForbidden: domain.CodeForbidden, FaultConflict: domain.CodeConflict, FaultTimeout: domain.CodeInvalid, FaultCancelled: domain.CodeConflict,
	FaultResources: domain.CodeInvalid, FaultEngine: domain.CodeUnavailable,
}

// Err returns the failure as an error, with the position in its message.
func (s *Statement) Err() error {
	switch {
	case s.State == Cancelled:
		return domain.Errorf(domain.CodeConflict, "The statement %s was cancelled.", s.ID)
	case s.Failure == nil:
		return nil
	}
	f := s.Failure
	e := &domain.Error{Code: faultCodes[f.Fault], Message: f.Message, Line: f.Line, Column: f.Column}
	if e.Code == "" {
		e.Code = domain.CodeUnavailable
	}
	if f.Line > 0 {
		e.Message = domain.Sprintf("Line %d, column %d: ", []any{f.Line, f.Column}) + f.Message
	}
	return e
}

// LastChange implements domain.Changing.
func (s Statement) LastChange() (domain.Change, string) { return s.Changed, string(s.ID) }

// Size returns the bytes of the statement's text and parameters.
func (s *Statement) Size() int {
	n := len(s.Query)
	for _, p := range s.Parameters {
		n += len(p)
	}
	return n
}

// begin records that an engine has begun the statement.
func (s *Statement) begin(now time.Time) {
	if s.State == Queued {
		s.State, s.Message, s.StartedAt = Running, "", &now
	}
}

// advance records the engine's progress report: the statement waits for a place, or has one.
func (s *Statement) advance(p Progress, now time.Time) {
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

func (s *Statement) know(head Head) {
	s.Kind, s.Write, s.Engine, s.RoutingReason = head.Kind, head.Write, head.Engine, head.RoutingReason
}

// cancel records a cancellation request. It returns CodeConflict if the statement has ended or is
// being cancelled.
func (s *Statement) cancel(now time.Time) error {
	switch {
	case s.State.Final():
		return domain.Errorf(domain.CodeConflict, "The statement is over already: %s.", s.State)
	case s.CancelRequestedAt != nil:
		return domain.Errorf(domain.CodeConflict, "The statement is already being cancelled.")
	}
	s.CancelRequestedAt = &now
	return nil
}

// end ends the statement: success if f is nil. Later calls have no effect.
func (s *Statement) end(f *Failure, now time.Time) {
	if s.State.Final() {
		return
	}
	s.State, s.Message, s.FinishedAt, s.Progress = Succeeded, "", &now, 1
	if f != nil {
		s.State, s.Failure, s.Progress = Failed, f, -1
	}
	if f != nil && f.Fault == FaultCancelled {
		s.State = Cancelled
	}
}

// Head is an engine's analysis of a statement's text.
type Head struct {
	Kind          string
	Write         bool
	Engine        string
	RoutingReason string
}

// End is the end of a statement on its engine.
type End struct {
	Rows, Bytes, Scanned int64
	Truncated            bool
	Tables               []Table
	Scans                []Scan
	Failure              *Failure
	Unstarted            bool // the engine has not begun it, and would accept it again
}

// Table is a table that a statement names, directly or through a view, with the columns
// that it reads, if known. A table that is both written and read is listed twice, and so is a table
// that is read as of two snapshots.
type Table struct {
	Database, Schema, Table string
	Columns                 []string
	Target                  bool   // it is written, created, changed or dropped
	Snapshot                *int64 // the snapshot read; 0 if the table had none, nil if unknown
}

// Scan lists the columns read from a file. The file's table is the one that owns its
// location.
type Scan struct {
	File    string
	Columns []string
}

// Event is one event from an engine. Exactly one field is set.
type Event struct {
	Progress *Progress
	Head     *Head
	Schema   []byte       // schema message of Arrow IPC
	Batch    *ResultBatch // of the rows
	End      *End
}

// Progress is a statement's progress.
type Progress struct {
	Queued  bool    // it waits
	Message string  // what it waits for, as a sentence; empty for a free place
	Done    float64 // from 0 to 1; -1 if unknown
	Kind    string  // the statement's kind, from its text alone; only in the first event
	Write   bool    // with Kind
}

// ResultBatch is an Arrow IPC record batch message, with the number of its rows and their size as
// JSON, in bytes.
type ResultBatch struct {
	Rows int64
	JSON int64
	Data []byte
}

// EngineStatement is a statement with everything that an engine needs to run it.
type EngineStatement struct {
	Statement
	CatalogURL string
	ReadToken  string   // catalog token of this statement, read only
	WriteToken string   // catalog token of this statement
	Databases  []string // all databases of the workspace
	Storage    TableStorage
}

// TableStorage is the location of a workspace's tables, and the access to it.
type TableStorage struct {
	Prefix string // ends with a slash, such as file:///data/lake/ws_1/
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
	// Execute starts the statement. After an error the statement has certainly not begun, except
	// after CodeConflict. After CodeUnavailable, and after errors that are no domain errors, it may
	// be sent again. Ending ctx ends a statement that reads.
	Execute(ctx context.Context, agent domain.AgentID, st EngineStatement) (Stream, error)
	// CancelStatement ends the statement, whatever its kind.
	CancelStatement(ctx context.Context, agent domain.AgentID, id domain.StatementID) error
}

// Stream is the stream of an engine's events for one statement.
type Stream interface {
	// Next waits for the next event. The last event is the End; an error before it says that the
	// stream broke off.
	Next() (Event, error)
	Close()
}

// Tokens makes catalog tokens for statements. They are valid while the statement is alive.
// Without write, the catalog refuses changes with the token.
type Tokens interface {
	StatementToken(id domain.StatementID, write bool) string
}

// Filter narrows a list of statements. Zero fields are ignored, except Purpose.
type Filter struct {
	States    []State          `json:"s,omitempty"`
	Purpose   Purpose          `json:"p,omitempty"` // empty leaves out statements with a purpose
	Warehouse domain.MachineID `json:"w,omitempty"`
	Run       domain.RunID     `json:"r,omitempty"`
	Mine      string           `json:"m,omitempty"` // the actor's id
	Text      string           `json:"t,omitempty"` // part of the statement, in any case
}

// statementTx reads and writes statements.
type statementTx interface {
	InsertStatement(ctx context.Context, st Statement) error
	// UpdateHeld changes the text, the warehouse, the message and the earliest start of a held
	// statement.
	UpdateHeld(ctx context.Context, st Statement) error
	// Statement returns the statement without its result.
	Statement(ctx context.Context, id domain.StatementID) (Statement, error)
	LockStatement(ctx context.Context, id domain.StatementID) (Statement, error)
	// UpdateStatement also stores the result unless it is nil.
	UpdateStatement(ctx context.Context, st Statement, result []byte) error
	// StatementResult returns the stored result; nil if there is none.
	StatementResult(ctx context.Context, id domain.StatementID) ([]byte, error)
	// Statements returns statements, newest first: at least one, and otherwise only those that begin
	// within so many bytes of texts and parameters. cut reports whether the bytes have left some out.
	Statements(ctx context.Context, f Filter, before domain.StatementID, limit, bytes int) (all []Statement, cut bool, err error)
	// ChangedStatements returns a page of changed statements, bounded as by Statements, and whether
	// there may be more. The filter's states do not count.
	ChangedStatements(ctx context.Context, f Filter, p domain.Position, bytes int) ([]Statement, bool, error)
}

// Ref names a statement across workspaces.
type Ref struct {
	Workspace domain.WorkspaceID
	Statement domain.StatementID
	Chunks    int
	Replica   string // the server that has it, or had it
}
