package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// StatementsPath is, on the agent of a warehouse, where a statement is run: POST Statement. The answer is a stream of frames (see ReadFrame) that
// ends with FrameEnd; a stream that ends without it was cut off. Ending the request cancels a statement that reads; one that writes goes on to its end.
// The answer begins as soon as the statement is taken, before it has a place. An id is taken once: 409 says that it was before, and may have run. With any other
// status that is no success it was not taken; with 503, since too many wait, it may be sent again.
const StatementsPath = "/v1/statements"

// StatementPath is where, with DELETE, a statement of either kind is cancelled. One that is not there is cancelled: the answer is 204.
const StatementPath = StatementsPath + "/%s"

// Statement is one SQL statement for the engines of a warehouse.
type Statement struct {
	ID         string            `json:"id"`
	Query      string            `json:"query"`
	Parameters []json.RawMessage `json:"parameters,omitempty"` // for $1 and on, or ? in their order: null, a boolean, a number or a string
	Engine     string            `json:"engine,omitempty"`     // that must run it; empty lets the statement's kind decide
	Catalog    Catalog           `json:"catalog"`
	Database   string            `json:"database"` // where names without a database resolve
	Schema     string            `json:"schema"`   // where names without a schema resolve; levels joined by "."
	Write      bool              `json:"write"`    // whether it may write; refused otherwise
	Storage    Storage           `json:"storage"`
	Timeout    Duration          `json:"timeout"`   // of the run, without waiting for a place; 0 means none
	MaxRows    int64             `json:"max_rows"`  // of the result; 0 means no limit
	MaxBytes   int64             `json:"max_bytes"` // of the result in Arrow; 0 means no limit

	RoutingReason string `json:"routing_reason,omitempty"` // within the agent alone: why the engine that has it was chosen
}

// Catalog is the platform's Iceberg REST catalog, as one statement may use it.
type Catalog struct {
	URL       string   `json:"url"`       // such as http://host/api/v1/iceberg
	Token     string   `json:"token"`     // of this statement alone
	Databases []string `json:"databases"` // that exist: each is a warehouse of the catalog
}

// Storage is where a workspace's tables lie: the engine reads and writes there and nowhere else.
type Storage struct {
	Prefix string     `json:"prefix"` // with a slash at its end, such as file:///data/lake/ws_1/ or s3://bucket/ws_1/
	S3     *S3Storage `json:"s3,omitempty"`
}

// S3Storage opens an S3 bucket.
type S3Storage struct {
	Endpoint     string `json:"endpoint,omitempty"` // with its scheme; empty for AWS
	Region       string `json:"region"`
	AccessKeyID  string `json:"access_key_id"`
	SecretKey    string `json:"secret_access_key"`
	SessionToken string `json:"session_token,omitempty"`
	PathStyle    bool   `json:"path_style,omitempty"`
}

// FrameKind says what a frame holds.
type FrameKind byte

// The kinds of frames, in the order in which they come: Progress any number of times anywhere before End.
const (
	FrameProgress FrameKind = 'P' // StatementProgress in JSON
	FrameHead     FrameKind = 'H' // StatementHead in JSON, once it is known what the statement is
	FrameSchema   FrameKind = 'S' // an encapsulated schema message of Arrow IPC
	FrameBatch    FrameKind = 'B' // the number of rows in four bytes, little endian, and an encapsulated record batch message of Arrow IPC
	FrameEnd      FrameKind = 'E' // StatementEnd in JSON
)

// ArrowEnd ends a stream of Arrow IPC: a schema frame, batches without their numbers, and this are one.
var ArrowEnd = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// StatementProgress is how far a statement has come. One comes first, as soon as the statement is taken, and says what kind it is.
type StatementProgress struct {
	Queued  bool    `json:"queued,omitempty"`  // it waits
	Message string  `json:"message,omitempty"` // what it waits for, as a sentence; empty for a place
	Done    float64 `json:"done"`              // from 0 to 1; -1 where the engine cannot tell
	Kind    string  `json:"kind,omitempty"`    // as in StatementHead, by the text alone; empty but in the first
	Write   bool    `json:"write,omitempty"`   // with Kind
}

// StatementHead is what the engine made of a statement.
type StatementHead struct {
	Kind          string `json:"kind"` // such as SELECT, INSERT, CREATE TABLE
	Write         bool   `json:"write"`
	Engine        string `json:"engine"`         // such as duckdb
	RoutingReason string `json:"routing_reason"` // a sentence
}

// StatementEnd is how a statement ended.
type StatementEnd struct {
	Rows      int64             `json:"rows"`             // of the result; of a write, the rows it inserted, changed or deleted
	Bytes     int64             `json:"bytes"`            // of the result in Arrow
	Scanned   int64             `json:"scanned"`          // bytes read from storage, where the engine tells
	Truncated bool              `json:"truncated"`        // MaxRows or MaxBytes was reached
	QueuedMS  int64             `json:"queued_ms"`        // waiting for a place
	RunMS     int64             `json:"run_ms"`           // from its place to its end
	Tables    []StatementTable  `json:"tables,omitempty"` // that it names, where that is known
	Scans     []StatementScan   `json:"scans,omitempty"`  // of tables' data, where the engine tells
	Error     *StatementFailure `json:"error,omitempty"`
}

// StatementTable is a table that a statement names, with the columns of it that it reads. One that it both writes and reads is there twice.
type StatementTable struct {
	Database string   `json:"database"`
	Schema   string   `json:"schema"`
	Table    string   `json:"table"`
	Columns  []string `json:"columns,omitempty"` // empty where they are not known, or by the scans alone
	Target   bool     `json:"target,omitempty"`  // it is written, made, changed or dropped
}

// StatementScan is what a statement read of one table. The table is the one in whose location the file lies.
type StatementScan struct {
	File    string   `json:"file"`              // one of those that were read
	Columns []string `json:"columns,omitempty"` // that were read, in the order of their names; a part of a structure is a.b
}

// StatementFault is whose matter a failure is.
type StatementFault string

// The faults.
const (
	FaultQuery     StatementFault = "query"     // the statement is wrong, or refused: 400
	FaultForbidden StatementFault = "forbidden" // it writes and may not
	FaultConflict  StatementFault = "conflict"  // it lost the race for a table too often
	FaultTimeout   StatementFault = "timeout"   // it ran out of time
	FaultCancelled StatementFault = "cancelled" // the control plane asked
	FaultResources StatementFault = "resources" // it needs more memory or disk than it may have
	FaultEngine    StatementFault = "engine"    // the engine failed
)

// StatementFailure says why a statement failed.
type StatementFailure struct {
	Fault   StatementFault `json:"fault"`
	Message string         `json:"message"` // a sentence for a person
	Line    int            `json:"line,omitempty"`
	Column  int            `json:"column,omitempty"` // in characters, from 1
	Unsure  bool           `json:"unsure,omitempty"` // the engine does not know whether what the statement wrote was committed
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
