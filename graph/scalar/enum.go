package scalar

import (
	"fmt"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/millpond/millpond/domain"
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

// MarshalRunStatus writes a run's status.
func MarshalRunStatus(v domain.RunStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalRunStatus reads a run's status.
func UnmarshalRunStatus(v any) (domain.RunStatus, error) { return unmarshalEnum[domain.RunStatus](v) }

// MarshalTaskStatus writes a task's status.
func MarshalTaskStatus(v domain.TaskStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTaskStatus reads a task's status.
func UnmarshalTaskStatus(v any) (domain.TaskStatus, error) {
	return unmarshalEnum[domain.TaskStatus](v)
}

// MarshalAttemptStatus writes an attempt's status.
func MarshalAttemptStatus(v domain.AttemptStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalAttemptStatus reads an attempt's status.
func UnmarshalAttemptStatus(v any) (domain.AttemptStatus, error) {
	return unmarshalEnum[domain.AttemptStatus](v)
}

// MarshalAgentStatus writes an agent's status.
func MarshalAgentStatus(v domain.AgentStatus) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalAgentStatus reads an agent's status.
func UnmarshalAgentStatus(v any) (domain.AgentStatus, error) {
	return unmarshalEnum[domain.AgentStatus](v)
}

// MarshalRunTrigger writes what started a run.
func MarshalRunTrigger(v domain.Trigger) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalRunTrigger reads what started a run.
func UnmarshalRunTrigger(v any) (domain.Trigger, error) { return unmarshalEnum[domain.Trigger](v) }

// MarshalLogStream writes which stream log bytes came from.
func MarshalLogStream(v domain.LogStream) graphql.Marshaler { return marshalEnum(v.String()) }

// UnmarshalLogStream reads which stream log bytes came from.
func UnmarshalLogStream(v any) (domain.LogStream, error) {
	name, err := unmarshalEnum[string](v)
	for _, s := range []domain.LogStream{domain.Stdout, domain.Stderr} {
		if name == s.String() {
			return s, err
		}
	}
	return 0, fmt.Errorf("%v is not a stream", v)
}

// MarshalMachineState writes a machine's state.
func MarshalMachineState(v domain.MachineState) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMachineState reads a machine's state.
func UnmarshalMachineState(v any) (domain.MachineState, error) {
	return unmarshalEnum[domain.MachineState](v)
}

// MarshalEngineState writes an engine's state.
func MarshalEngineState(v domain.EngineState) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalEngineState reads an engine's state.
func UnmarshalEngineState(v any) (domain.EngineState, error) {
	return unmarshalEnum[domain.EngineState](v)
}

// MarshalStatementState writes a statement's state.
func MarshalStatementState(v domain.StatementState) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalStatementState reads a statement's state.
func UnmarshalStatementState(v any) (domain.StatementState, error) {
	return unmarshalEnum[domain.StatementState](v)
}

// MarshalStatementFault writes the cause of a failure.
func MarshalStatementFault(v domain.Fault) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalStatementFault reads the cause of a failure.
func UnmarshalStatementFault(v any) (domain.Fault, error) { return unmarshalEnum[domain.Fault](v) }

// MarshalTableKind writes the kind of a table: table or view.
func MarshalTableKind(v domain.TableKind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalTableKind reads the kind of a table: table or view.
func UnmarshalTableKind(v any) (domain.TableKind, error) { return unmarshalEnum[domain.TableKind](v) }

// MarshalLineageWay writes the direction in which a graph is followed.
func MarshalLineageWay(v domain.LineageWay) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageWay reads the direction in which a graph is followed.
func UnmarshalLineageWay(v any) (domain.LineageWay, error) {
	return unmarshalEnum[domain.LineageWay](v)
}

// MarshalLineageNodeKind writes the kind of a graph's node.
func MarshalLineageNodeKind(v domain.LineageNodeKind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageNodeKind reads the kind of a graph's node.
func UnmarshalLineageNodeKind(v any) (domain.LineageNodeKind, error) {
	return unmarshalEnum[domain.LineageNodeKind](v)
}

// MarshalLineageDirection writes whether a table was read or written.
func MarshalLineageDirection(v domain.LineageDirection) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalLineageDirection reads whether a table was read or written.
func UnmarshalLineageDirection(v any) (domain.LineageDirection, error) {
	return unmarshalEnum[domain.LineageDirection](v)
}

// MarshalMaintenanceKind writes the kind of a maintenance operation.
func MarshalMaintenanceKind(v domain.MaintenanceKind) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceKind reads the kind of a maintenance operation.
func UnmarshalMaintenanceKind(v any) (domain.MaintenanceKind, error) {
	return unmarshalEnum[domain.MaintenanceKind](v)
}

// MarshalMaintenanceLevel writes the level that a setting comes from.
func MarshalMaintenanceLevel(v domain.MaintenanceLevel) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceLevel reads the level that a setting comes from.
func UnmarshalMaintenanceLevel(v any) (domain.MaintenanceLevel, error) {
	return unmarshalEnum[domain.MaintenanceLevel](v)
}

// MarshalMaintenanceState writes the state of a maintenance run.
func MarshalMaintenanceState(v domain.MaintenanceState) graphql.Marshaler { return marshalEnum(v) }

// UnmarshalMaintenanceState reads the state of a maintenance run.
func UnmarshalMaintenanceState(v any) (domain.MaintenanceState, error) {
	return unmarshalEnum[domain.MaintenanceState](v)
}
