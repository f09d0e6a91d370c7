package domain

import (
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
