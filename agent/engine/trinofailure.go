package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/trino"
)

// trinoFaults maps Trino's error types to faults.
var trinoFaults = map[string]agent.StatementFault{
	"USER_ERROR": agent.FaultQuery, "INSUFFICIENT_RESOURCES": agent.FaultResources, "INTERNAL_ERROR": agent.FaultEngine, "EXTERNAL": agent.FaultEngine,
}

// trinoConflict reports whether another commit won the race, so that this one changed nothing.
func trinoConflict(err error) bool {
	e, ok := errors.AsType[*trino.Error](err)
	if !ok || strings.Contains(e.Cause, "CommitStateUnknown") {
		return false
	}
	return e.Name == "TRANSACTION_CONFLICT" || strings.Contains(e.Cause, "org.apache.iceberg.exceptions.CommitFailedException") ||
		e.Name == "ICEBERG_COMMIT_ERROR" && strings.Contains(e.Cause, "org.apache.iceberg.exceptions.ValidationException") // others have this name too
}

// failure describes what failed in the statement, and where.
func (x *inTrino) failure(err error) *agent.StatementFailure {
	if e, ok := errors.AsType[*trino.Error](err); ok {
		return x.said(e)
	}
	if lost, ok := errors.AsType[*trino.LostError](err); ok {
		return x.lost(lost)
	}
	if unfenced, ok := errors.AsType[*trino.UnfencedError](err); ok { // a retry would not help
		return &agent.StatementFailure{Fault: agent.FaultQuery, Message: unfenced.Error() + "."}
	}
	if x.run.ctx.Err() != nil {
		return stoppedBefore(context.Cause(x.run.ctx))
	}
	if f := result.Failure(err, x.s.Query); f.Fault != agent.FaultEngine {
		return f
	}
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: strings.ToUpper(err.Error()[:1]) + strings.TrimSuffix(err.Error()[1:], ".") + "."}
}

// fateTime bounds the wait for the fate of a Trino that does not respond.
const fateTime = 2 * time.Second

// lost is the failure of a statement whose Trino has ended or does not respond.
func (x *inTrino) lost(err *trino.LostError) *agent.StatementFailure {
	why := x.session.Obituary(fateTime)
	x.e.log.Warn("Trino was lost while a statement ran", "statement", x.s.ID, "error", err.Why, "why", why)
	f := &agent.StatementFailure{Fault: agent.FaultEngine, Message: "Trino ended, or did not answer, while the statement ran. It is started again.", Unsure: x.class.Write}
	if strings.Contains(why, "memory") {
		f.Fault, f.Message = agent.FaultResources, "Trino ran out of memory while the statement ran, and is started again. Select, group or join less at once, or use a larger warehouse."
	}
	return f
}

// said is a failure that Trino reported.
func (x *inTrino) said(e *trino.Error) *agent.StatementFailure {
	f := &agent.StatementFailure{Fault: trinoFaults[e.Type], Message: strings.TrimSuffix(e.Message, ".") + ".", Line: e.Line, Column: e.Column}
	if f.Fault == "" {
		f.Fault = agent.FaultEngine
	}
	if f.Fault == agent.FaultEngine {
		x.e.log.Warn("a statement failed in Trino", "statement", x.s.ID, "error", e, "cause", e.Cause)
	}
	switch {
	case trinoConflict(e):
		f.Fault = agent.FaultConflict
		f.Message = fmt.Sprintf("The statement lost the race for its table %d times: others commit to it all the time. Nothing of it was written; run it again.", catalog.CommitAttempts)
	case e.Name == "ICEBERG_UNSUPPORTED_VIEW_DIALECT":
		f.Fault, f.Message = agent.FaultQuery, "A view is written for another engine, and cannot be read by Trino exactly: "+e.Message+". Name duckdb as the engine, which also writes what it reads there, or drop the view and make it in Trino."
	case strings.Contains(e.Cause, "CommitStateUnknown"):
		f.Message, f.Unsure = "The catalog did not report whether it committed.", true
	case strings.Contains(e.Cause, "iceberg.exceptions.ForbiddenException"):
		f.Fault, f.Message = agent.FaultForbidden, "The catalog refused it: "+trinoCatalogSaid(e.Cause)
	case strings.Contains(e.Cause, "iceberg.exceptions.BadRequestException"), strings.Contains(e.Cause, "iceberg.exceptions.NoSuch"), strings.Contains(e.Cause, "iceberg.exceptions.AlreadyExists"):
		f.Fault, f.Message = agent.FaultQuery, "The catalog refused it: "+trinoCatalogSaid(e.Cause)
	case strings.Contains(e.Cause, "No matching S3 security mapping"):
		f.Fault, f.Message = agent.FaultQuery, "A file is not in the workspace's storage, and nothing else is read. If the statement does not name it, a table does: roll that back to a snapshot without it."
	case trinoStoreSaid(e.Cause) != "":
		f.Fault, f.Message = agent.FaultEngine, "The storage refused what Trino asked of it: "+trinoStoreSaid(e.Cause)
	case result.IsDiskFull(e.Cause):
		return result.DiskFull()
	case strings.Contains(e.Cause, "spill"):
		f.Fault = agent.FaultResources
	}
	return f
}

// trinoStoreSaid returns an S3 server's message from the causes of a Trino failure, or "".
func trinoStoreSaid(cause string) string {
	_, text, _ := strings.Cut(cause, ".S3Exception: ")
	said, _, found := strings.Cut(text, " (Service: S3")
	if !found {
		return ""
	}
	return said
}

// trinoCatalogSaid returns the catalog's message from the causes of a Trino failure. It is in the
// last Iceberg cause, after Iceberg's prefix.
func trinoCatalogSaid(cause string) (said string) {
	for line := range strings.Lines(cause) {
		if _, text, ok := strings.Cut(line, "org.apache.iceberg.exceptions."); ok {
			_, said, _ = strings.Cut(strings.TrimSpace(text), ": ")
		}
	}
	for _, prefix := range []string{"Malformed request: ", "Forbidden: ", "Not authorized: "} {
		said = strings.TrimPrefix(said, prefix)
	}
	return said
}
