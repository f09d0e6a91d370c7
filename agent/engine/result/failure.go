package result

import (
	"errors"
	"strings"
	"syscall"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Failure describes what failed in a statement, and where, unless an engine reported it.
func Failure(err error, query string) *agent.StatementFailure {
	if u, ok := errors.AsType[*catalog.UnsureError](err); ok {
		return u.Failure()
	}
	if r, ok := errors.AsType[*sqltext.Refusal](err); ok {
		f := &agent.StatementFailure{Fault: r.Fault, Message: r.Message}
		f.Line, f.Column = sqltext.LineColumn(query, r.Pos)
		return f
	}
	if c, ok := errors.AsType[*catalog.AnsweredError](err); ok {
		return &agent.StatementFailure{Fault: c.Fault(), Message: c.Message}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return DiskFull()
	}
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: "The engine failed: " + err.Error() + "."}
}

// IsDiskFull recognizes an engine's message about a full disk, with a file path before or after it.
func IsDiskFull(message string) bool {
	return strings.Contains(message, "No space left on device") || strings.Contains(message, "Disk quota exceeded")
}

// DiskFull is the failure of a statement on a full disk. It replaces the engine's message, which
// contains paths of its host.
func DiskFull() *agent.StatementFailure {
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: "A disk is full: that of the tables, or that of the warehouse's machine. Free room there, then run the statement again."}
}
