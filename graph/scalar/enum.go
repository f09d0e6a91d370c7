package scalar

import (
	"fmt"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
)

// GraphQL writes enums in upper case, the domain in lower case. Only this file converts them.

func marshalEnum[T ~string](v T) graphql.Marshaler { return quoted(strings.ToUpper(string(v))) }

// unmarshalEnum reads a value that validation has found in the schema's enum. Null becomes empty,
// if the schema allows null.
func unmarshalEnum[T ~string](v any) (T, error) {
	switch s := v.(type) {
	case string:
		return T(strings.ToLower(s)), nil
	case nil:
		return "", nil
	}
	return "", domain.Errorf(domain.CodeInvalid, "%v is not a value of this enum.", v)
}

// MarshalRole writes a role.
func MarshalRole(v domain.Role) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalRole reads a role.
func UnmarshalRole(v any) (domain.Role, error) { return unmarshalEnum[domain.Role](v) }

// MarshalQuotaUnit writes what a quota counts.
func MarshalQuotaUnit(v quota.Unit) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalQuotaUnit reads what a quota counts.
func UnmarshalQuotaUnit(v any) (quota.Unit, error) { return unmarshalEnum[quota.Unit](v) }

// MarshalRunStatus writes a run's status.
func MarshalRunStatus(v job.RunStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalRunStatus reads a run's status.
func UnmarshalRunStatus(v any) (job.RunStatus, error) { return unmarshalEnum[job.RunStatus](v) }

// MarshalTaskStatus writes a task's status.
func MarshalTaskStatus(v job.TaskStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTaskStatus reads a task's status.
func UnmarshalTaskStatus(v any) (job.TaskStatus, error) {
	return unmarshalEnum[job.TaskStatus](v)
}

// MarshalAttemptStatus writes an attempt's status.
func MarshalAttemptStatus(v job.AttemptStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalAttemptStatus reads an attempt's status.
func UnmarshalAttemptStatus(v any) (job.AttemptStatus, error) {
	return unmarshalEnum[job.AttemptStatus](v)
}

// MarshalAgentStatus writes an agent's status.
func MarshalAgentStatus(v machine.AgentStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalAgentStatus reads an agent's status.
func UnmarshalAgentStatus(v any) (machine.AgentStatus, error) {
	return unmarshalEnum[machine.AgentStatus](v)
}

// MarshalRunTrigger writes what started a run.
func MarshalRunTrigger(v job.Trigger) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalRunTrigger reads what started a run.
func UnmarshalRunTrigger(v any) (job.Trigger, error) { return unmarshalEnum[job.Trigger](v) }

// MarshalLogStream writes which stream log bytes came from.
func MarshalLogStream(v job.LogStream) graphql.Marshaler { return marshalEnum(v.String()) }

// UnmarshalLogStream reads which stream log bytes came from.
func UnmarshalLogStream(v any) (job.LogStream, error) {
	name, err := unmarshalEnum[string](v)
	for _, s := range []job.LogStream{job.Stdout, job.Stderr} {
		if name == s.String() {
			return s, err
		}
	}
	return 0, fmt.Errorf("%v is not a stream", v)
}

// MarshalMachineState writes a machine's state.
func MarshalMachineState(v machine.State) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMachineState reads a machine's state.
func UnmarshalMachineState(v any) (machine.State, error) {
	return unmarshalEnum[machine.State](v)
}

// MarshalEngineState writes an engine's state.
func MarshalEngineState(v machine.EngineState) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalEngineState reads an engine's state.
func UnmarshalEngineState(v any) (machine.EngineState, error) {
	return unmarshalEnum[machine.EngineState](v)
}

// MarshalStatementState writes a statement's state.
func MarshalStatementState(v statement.State) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalStatementState reads a statement's state.
func UnmarshalStatementState(v any) (statement.State, error) {
	return unmarshalEnum[statement.State](v)
}

// MarshalStatementPurpose writes a statement's purpose.
func MarshalStatementPurpose(v statement.Purpose) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalStatementPurpose reads a statement's purpose.
func UnmarshalStatementPurpose(v any) (statement.Purpose, error) {
	return unmarshalEnum[statement.Purpose](v)
}

// MarshalStatementFault writes the cause of a failure.
func MarshalStatementFault(v statement.Fault) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalStatementFault reads the cause of a failure.
func UnmarshalStatementFault(v any) (statement.Fault, error) {
	return unmarshalEnum[statement.Fault](v)
}

// MarshalTableKind writes the kind of a table: table or view.
func MarshalTableKind(v lake.TableKind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTableKind reads the kind of a table: table or view.
func UnmarshalTableKind(v any) (lake.TableKind, error) { return unmarshalEnum[lake.TableKind](v) }

// MarshalLineageWay writes the direction in which a graph is followed.
func MarshalLineageWay(v lineage.Way) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageWay reads the direction in which a graph is followed.
func UnmarshalLineageWay(v any) (lineage.Way, error) {
	return unmarshalEnum[lineage.Way](v)
}

// MarshalLineageNodeKind writes the kind of a graph's node.
func MarshalLineageNodeKind(v lineage.NodeKind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageNodeKind reads the kind of a graph's node.
func UnmarshalLineageNodeKind(v any) (lineage.NodeKind, error) {
	return unmarshalEnum[lineage.NodeKind](v)
}

// MarshalLineageDirection writes whether a table was read or written.
func MarshalLineageDirection(v lake.LineageDirection) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageDirection reads whether a table was read or written.
func UnmarshalLineageDirection(v any) (lake.LineageDirection, error) {
	return unmarshalEnum[lake.LineageDirection](v)
}

// MarshalMaintenanceKind writes the kind of a maintenance operation.
func MarshalMaintenanceKind(v maintenance.Kind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceKind reads the kind of a maintenance operation.
func UnmarshalMaintenanceKind(v any) (maintenance.Kind, error) {
	return unmarshalEnum[maintenance.Kind](v)
}

// MarshalMaintenanceLevel writes the level that a setting comes from.
func MarshalMaintenanceLevel(v maintenance.Level) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceLevel reads the level that a setting comes from.
func UnmarshalMaintenanceLevel(v any) (maintenance.Level, error) {
	return unmarshalEnum[maintenance.Level](v)
}

// MarshalMaintenanceState writes the state of a maintenance run.
func MarshalMaintenanceState(v maintenance.State) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceState reads the state of a maintenance run.
func UnmarshalMaintenanceState(v any) (maintenance.State, error) {
	return unmarshalEnum[maintenance.State](v)
}

// MarshalTrackingRunState writes the state of a tracking run.
func MarshalTrackingRunState(v tracking.State) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTrackingRunState reads the state of a tracking run.
func UnmarshalTrackingRunState(v any) (tracking.State, error) {
	return unmarshalEnum[tracking.State](v)
}

// MarshalTrackingView writes which items are listed.
func MarshalTrackingView(v tracking.View) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTrackingView reads which items are listed.
func UnmarshalTrackingView(v any) (tracking.View, error) { return unmarshalEnum[tracking.View](v) }
