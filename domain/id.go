package domain

import (
	"encoding/binary"
	"time"

	"go.jetify.com/typeid"
)

// One type per noun, so that ids cannot be swapped. Each is a TypeID: a prefix and a UUIDv7 in base 32, such as
// run_01k…, which sorts by the time it was made.
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
)

// The prefixes of ids. The specification names those of runs; the others are ours in its manner.
const (
	prefixWorkspace = "ws"
	prefixUser      = "usr"
	prefixSession   = "ses"
	prefixAPIKey    = "key"
	prefixAgent     = "agt"
	prefixJob       = "job"
	prefixRun       = "run"
	prefixAttempt   = "att"
	prefixEvent     = "evt"
)

// newID makes a TypeID. The only error is a malformed prefix, and ours are constants.
func newID[T ~string](prefix string) T {
	id, err := typeid.WithPrefix(prefix)
	if err != nil {
		panic("domain: a prefix of ours is malformed: " + prefix)
	}
	return T(id.String())
}

// FirstAttemptID is the smallest id that an attempt made at t or later can have: a UUIDv7 begins with the time in milliseconds.
func FirstAttemptID(t time.Time) AttemptID {
	var uuid [16]byte
	binary.BigEndian.PutUint64(uuid[:], uint64(t.UnixMilli())<<16)
	id, err := typeid.FromUUIDBytesWithPrefix(prefixAttempt, uuid[:])
	if err != nil {
		panic("domain: a prefix of ours is malformed: " + prefixAttempt)
	}
	return AttemptID(id.String())
}
