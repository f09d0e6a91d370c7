package domain

import (
	"encoding/binary"
	"strings"
	"time"

	"go.jetify.com/typeid"
)

// One type per noun, so that ids cannot be swapped. Each is a TypeID: a prefix and a UUIDv7 in base
// 32, such as run_01k…, which sorts by creation time.
type (
	WorkspaceID string
	UserID      string
	SessionID   string
	APIKeyID    string
	AgentID     string
	JobID       string
	RunID       string
	AttemptID   string
	EventID     string
	MachineID   string // of a compute instance (cmp_…) or a warehouse (wh_…)
	StatementID string
	DatabaseID  string
	TableID     string // of a table or a view of the catalog

	MaintenanceRunID string

	ExperimentID  string // a number in the workspace, as MLflow has it
	TrackingRunID string // a UUIDv7 in 32 hex digits, as MLflow has it
)

// The prefixes of ids. The specification names those of runs, compute instances and warehouses; the
// others follow their style.
const (
	PrefixWorkspace = "ws"
	PrefixUser      = "usr"
	PrefixSession   = "ses"
	PrefixAPIKey    = "key"
	PrefixAgent     = "agt"
	PrefixJob       = "job"
	PrefixRun       = "run"
	PrefixAttempt   = "att"
	PrefixEvent     = "evt"
	PrefixRequest   = "req"
	PrefixCompute   = "cmp"
	PrefixWarehouse = "wh"
	PrefixStatement = "stm"
	PrefixDatabase  = "db"
	PrefixTable     = "tbl"

	PrefixMaintenance = "mnt"

	// External datasets and jobs of OpenLineage: a prefix and a hash.
	PrefixDataset     = "ext_"
	PrefixExternalJob = "xjob_"
)

// RequestID returns the given request id if it is valid, otherwise a new one.
func RequestID(given string) string {
	odd := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("-_.:/+=", c)
	}
	if given == "" || len(given) > 128 || strings.ContainsFunc(given, odd) {
		return NewID[string](PrefixRequest)
	}
	return given
}

// NewID generates a TypeID. The only error is a malformed prefix, and ours are constants.
func NewID[T ~string](prefix string) T {
	id, err := typeid.WithPrefix(prefix)
	if err != nil {
		panic("domain: a prefix of ours is malformed: " + prefix)
	}
	return T(id.String())
}

// FirstAttemptID returns the smallest id of attempts made at t or later: a UUIDv7 begins with the
// time in milliseconds.
func FirstAttemptID(t time.Time) AttemptID {
	var uuid [16]byte
	binary.BigEndian.PutUint64(uuid[:], uint64(t.UnixMilli())<<16)
	id, err := typeid.FromUUIDBytesWithPrefix(PrefixAttempt, uuid[:])
	if err != nil {
		panic("domain: a prefix of ours is malformed: " + PrefixAttempt)
	}
	return AttemptID(id.String())
}

// External reports whether the id is an external dataset's.
func (id TableID) External() bool { return strings.HasPrefix(string(id), PrefixDataset) }

// RunRef names a run across workspaces.
type RunRef struct {
	Workspace WorkspaceID
	Run       RunID
}

// AttemptRef names an attempt across workspaces.
type AttemptRef struct {
	Workspace WorkspaceID
	Attempt   AttemptID
}

// AgentRef names an agent across workspaces.
type AgentRef struct {
	Workspace WorkspaceID
	Agent     AgentID
}
