package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// StatementsPath runs a statement on the agent of a warehouse: POST Statement. The answer is a
// stream of frames (see ReadFrame) that ends with FrameEnd; a stream without FrameEnd was cut off.
// Ending the request cancels a statement that reads; a statement that writes runs to its end. The
// answer begins when the agent accepts the statement, before it has a slot.
//
// The agent accepts an id once, unless the statement ended unstarted. 409 means that the id was
// accepted before and may have run. Any other error status means that the statement was not
// accepted. 503 means that too many statements wait; it may be sent again.
const StatementsPath = "/v1/statements"

// StatementPath cancels a statement, reading or writing, with DELETE. The answer is 204 even if the
// agent does not have the statement.
const StatementPath = StatementsPath + "/%s"

// Statement is one SQL statement for the engines of a warehouse.
type Statement struct {
	ID         string            `json:"id"`
	Query      string            `json:"query"`
	Parameters []json.RawMessage `json:"parameters,omitempty"` // values of $1, $2 and so on, or of each ? in order: null, a boolean, a number or a string
	Engine     string            `json:"engine,omitempty"`     // engine that must run it; if empty, the statement's kind decides
	Catalog    Catalog           `json:"catalog"`
	Database   string            `json:"database"` // default database of names
	Schema     string            `json:"schema"`   // default schema of names; levels joined by "."
	Write      bool              `json:"write"`    // whether it may write
	Storage    Storage           `json:"storage"`
	Timeout    Duration          `json:"timeout"`   // of the run, without the wait for a slot; 0 means none
	MaxRows    int64             `json:"max_rows"`  // of the result; 0 means no limit
	MaxBytes   int64             `json:"max_bytes"` // of the result in Arrow; 0 means no limit

	RoutingReason string `json:"routing_reason,omitempty"` // set and read by the agent only: why it chose the engine
}

// Catalog is the platform's Iceberg REST catalog, as one statement may use it.
type Catalog struct {
	URL        string   `json:"url"`                   // such as http://host/api/v1/iceberg
	ReadToken  string   `json:"read_token,omitempty"`  // valid for this statement only; read-only
	WriteToken string   `json:"write_token,omitempty"` // valid for this statement only
	Databases  []string `json:"databases"`             // existing databases: each is a warehouse of the catalog

	Token string `json:"token,omitempty"` // set and read by the agent only: the token that the statement's process gets
}

// For returns the catalog for a statement's process: with the write token if write is set, else
// with the read token.
func (c Catalog) For(write bool) Catalog {
	c.Token = c.ReadToken
	if write {
		c.Token = c.WriteToken
	}
	c.ReadToken, c.WriteToken = "", ""
	return c
}

// Storage is the location of a workspace's tables. The engine reads and writes only there.
type Storage struct {
	Prefix string     `json:"prefix"` // ends with a slash, such as file:///data/lake/ws_1/ or s3://bucket/ws_1/
	S3     *S3Storage `json:"s3,omitempty"`
}

// S3Storage is the address and the credentials of an S3 bucket.
type S3Storage struct {
	Endpoint     string `json:"endpoint,omitempty"` // with its scheme; empty for AWS
	Region       string `json:"region"`
	AccessKeyID  string `json:"access_key_id"`
	SecretKey    string `json:"secret_access_key"`
	SessionToken string `json:"session_token,omitempty"`
	PathStyle    bool   `json:"path_style,omitempty"`
}

// FrameKind is the kind of a frame's payload.
type FrameKind byte

// The kinds of frames in their order. Progress may come any number of times, anywhere before End.
const (
	FrameProgress FrameKind = 'P' // StatementProgress in JSON
	FrameHead     FrameKind = 'H' // StatementHead in JSON, once the statement's kind is known
	FrameSchema   FrameKind = 'S' // an encapsulated schema message of Arrow IPC
	FrameBatch    FrameKind = 'B' // row count and size as JSON (four bytes each, little endian), then an encapsulated record batch message of Arrow IPC
	FrameEnd      FrameKind = 'E' // StatementEnd in JSON
)

// ArrowEnd ends a stream of Arrow IPC. A schema frame, batches without their two numbers, and
// ArrowEnd form a stream.
var ArrowEnd = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// StatementProgress is the progress of a statement. The first is sent when the agent accepts the
// statement; it has the statement's kind.
type StatementProgress struct {
	Queued  bool    `json:"queued,omitempty"`  // the statement waits
	Message string  `json:"message,omitempty"` // a sentence: what it waits for; empty if it waits for a slot
	Done    float64 `json:"done"`              // from 0 to 1; -1 if the engine does not report it
	Kind    string  `json:"kind,omitempty"`    // as in StatementHead, from the text alone; set in the first only
	Write   bool    `json:"write,omitempty"`   // set together with Kind
}

// StatementHead is how the engine classified a statement.
type StatementHead struct {
	Kind          string `json:"kind"` // such as SELECT, INSERT, CREATE TABLE
	Write         bool   `json:"write"`
	Engine        string `json:"engine"`         // such as duckdb
	RoutingReason string `json:"routing_reason"` // a sentence
}

// StatementEnd is how a statement ended.
type StatementEnd struct {
	Rows      int64             `json:"rows"`             // of the result; for a write, the rows inserted, changed or deleted
	Bytes     int64             `json:"bytes"`            // of the result in Arrow
	Scanned   int64             `json:"scanned"`          // bytes read from storage, if the engine reports it
	Truncated bool              `json:"truncated"`        // MaxRows or MaxBytes was reached
	QueuedMS  int64             `json:"queued_ms"`        // wait for a slot
	RunMS     int64             `json:"run_ms"`           // from getting its slot to its end
	Tables    []StatementTable  `json:"tables,omitempty"` // tables that it names, if known; also for a failed statement
	Scans     []StatementScan   `json:"scans,omitempty"`  // scans of tables' data, if the engine reports them
	Error     *StatementFailure `json:"error,omitempty"`
	Unstarted bool              `json:"unstarted,omitempty"` // it never had a slot; the agent accepts its id again
}

// StatementTable is a table that a statement names directly or through a view, with the columns
// that the statement reads. A table that is both written and read is listed twice. So is a table
// that is read at two snapshots.
type StatementTable struct {
	Database string   `json:"database"`
	Schema   string   `json:"schema"`
	Table    string   `json:"table"`
	Columns  []string `json:"columns,omitempty"` // empty if unknown, or known from the scans only
	Target   bool     `json:"target,omitempty"`  // the statement writes, creates, changes or drops it

	// Snapshot is the id of the snapshot that was read; 0 if the table had none, absent if the
	// engine does not report it.
	Snapshot *int64 `json:"snapshot,omitempty"`
}

// StatementScan is a statement's scan of one table, identified by a file in the table's location.
type StatementScan struct {
	File    string   `json:"file"`              // one of the files that were read
	Columns []string `json:"columns,omitempty"` // columns that were read, ordered by name; a field of a struct is a.b
}

// StatementFault is the cause of a failure.
type StatementFault string

// The faults.
const (
	FaultQuery     StatementFault = "query"     // the statement is wrong, or refused: 400
	FaultForbidden StatementFault = "forbidden" // it writes and may not
	FaultConflict  StatementFault = "conflict"  // it lost too many races for a table's commit
	FaultTimeout   StatementFault = "timeout"   // it ran out of time
	FaultCancelled StatementFault = "cancelled" // the control plane requested it
	FaultResources StatementFault = "resources" // it needs more memory or disk than its limit
	FaultEngine    StatementFault = "engine"    // the engine failed
)

// StatementFailure says why a statement failed.
type StatementFailure struct {
	Fault   StatementFault `json:"fault"`
	Message string         `json:"message"` // a sentence for a person
	Line    int            `json:"line,omitempty"`
	Column  int            `json:"column,omitempty"` // in characters, from 1
	Unsure  bool           `json:"unsure,omitempty"` // the engine does not know whether the write was committed
}

// maxFrame bounds a frame, in bytes.
const maxFrame = 256 << 20

// WriteFrame writes the kind, the payload's length in four bytes, little endian, and the payload.
func WriteFrame(w io.Writer, kind FrameKind, payload ...[]byte) error {
	length := 0
	for _, p := range payload {
		length += len(p)
	}
	if length > maxFrame {
		return fmt.Errorf("a frame of %d bytes; at most %d fit", length, maxFrame)
	}
	head := binary.LittleEndian.AppendUint32([]byte{byte(kind)}, uint32(length))
	for _, p := range append([][]byte{head}, payload...) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// ReadFrame reads one frame. It returns io.EOF between frames and io.ErrUnexpectedEOF within one.
func ReadFrame(r *bufio.Reader) (FrameKind, []byte, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, nil, cutOff(err)
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes; at most %d fit", length, maxFrame)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, cutOff(err)
	}
	return FrameKind(kind), payload, nil
}

func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
