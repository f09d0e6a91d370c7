package scalar_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/graph/generated"
	"github.com/millpond/millpond/graph/scalar"
)

func text(m graphql.Marshaler) string {
	var b strings.Builder
	m.MarshalGQL(&b)
	return b.String()
}

func TestTime(t *testing.T) {
	rome, err := time.LoadLocation("Europe/Rome")
	require.NoError(t, err)
	at := time.Date(2026, 11, 21, 8, 44, 52, 120_456_000, rome)
	require.Equal(t, `"2026-11-21T07:44:52.120456Z"`, text(scalar.MarshalTime(at)))
	require.Equal(t, `"2026-11-21T07:00:00.000000Z"`, text(scalar.MarshalTime(time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC))))
	for _, s := range []string{"2026-11-21T07:44:52.120456Z", "2026-11-21T08:44:52.120456+01:00"} {
		got, err := scalar.UnmarshalTime(s)
		require.NoError(t, err)
		require.True(t, at.Equal(got))
		require.Equal(t, time.UTC, got.Location())
	}
	for _, bad := range []any{"yesterday", "", nil, 5, "2026-11-21"} {
		_, err := scalar.UnmarshalTime(bad)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", bad)
	}
}

func TestIntegersKeepEveryDigit(t *testing.T) {
	require.Equal(t, `"9223372036854775807"`, text(scalar.MarshalInt64(math.MaxInt64)))
	for _, v := range []any{"9223372036854775807", json.Number("9223372036854775807"), int64(math.MaxInt64)} {
		n, err := scalar.UnmarshalInt64(v)
		require.NoError(t, err)
		require.Equal(t, int64(math.MaxInt64), n)
	}
	for _, bad := range []any{"9223372036854775808", "1.5", "", "x", nil, 1.5, true} {
		_, err := scalar.UnmarshalInt64(bad)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", bad)
	}
	for _, bad := range []any{json.Number("2147483648"), json.Number("1.5"), int64(-2147483649), "5"} {
		_, err := scalar.UnmarshalInt(bad)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", bad)
	}
}

func TestBase64IsByteExact(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for n := range len(all) {
		var s string
		require.NoError(t, json.Unmarshal([]byte(text(scalar.MarshalBase64(all[:n]))), &s))
		got, err := scalar.UnmarshalBase64(s)
		require.NoError(t, err)
		require.Equal(t, all[:n], append([]byte{}, got...))
	}
	_, err := scalar.UnmarshalBase64("not base64!")
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
}

func TestJSONIsKeptAsItIs(t *testing.T) {
	const value = `{"a": [1.10, 123456789012345678901234567890, null, "<"]}`
	require.Equal(t, value, text(scalar.MarshalJSON(json.RawMessage(value))))
	require.Equal(t, value, text(scalar.MarshalRows(json.RawMessage(value))))
	require.Equal(t, "null", text(scalar.MarshalJSON(nil)))
	for want, v := range map[string]any{
		"12345678901234567890.10": json.Number("12345678901234567890.10"), "null": nil, "true": true, `"x"`: "x", "[1]": []any{json.Number("1")}, `{"a":2}`: map[string]any{"a": 2},
	} {
		got, err := scalar.UnmarshalJSON(v)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := scalar.UnmarshalJSON(func() {})
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	_, err = scalar.UnmarshalRows("[]")
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
}

// roundTrip writes the value that it has read.
func roundTrip[T any](unmarshal func(any) (T, error), marshal func(T) graphql.Marshaler) func(string) (string, error) {
	return func(s string) (string, error) {
		v, err := unmarshal(s)
		return text(marshal(v)), err
	}
}

func TestEnumsAreTheDomains(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	enums := map[string]struct {
		domain []string
		trip   func(string) (string, error)
	}{
		"Role":      {names(domain.Roles), roundTrip(scalar.UnmarshalRole, scalar.MarshalRole)},
		"RunStatus": {names(domain.RunStatuses), roundTrip(scalar.UnmarshalRunStatus, scalar.MarshalRunStatus)},
		"TaskStatus": {names([]domain.TaskStatus{
			domain.TaskPending, domain.TaskQueued, domain.TaskRunning, domain.TaskSuccess, domain.TaskFailed, domain.TaskCancelled, domain.TaskSkipped,
		}), roundTrip(scalar.UnmarshalTaskStatus, scalar.MarshalTaskStatus)},
		"AttemptStatus": {names([]domain.AttemptStatus{
			domain.AttemptStarting, domain.AttemptRunning, domain.AttemptSuccess, domain.AttemptFailed, domain.AttemptCancelled, domain.AttemptLost,
		}), roundTrip(scalar.UnmarshalAttemptStatus, scalar.MarshalAttemptStatus)},
		"AgentStatus": {names([]domain.AgentStatus{
			domain.AgentNew, domain.AgentConnected, domain.AgentDisconnected, domain.AgentLost,
		}), roundTrip(scalar.UnmarshalAgentStatus, scalar.MarshalAgentStatus)},
		"RunTrigger": {names([]domain.Trigger{
			domain.TriggerManual, domain.TriggerSchedule, domain.TriggerSample,
		}), roundTrip(scalar.UnmarshalRunTrigger, scalar.MarshalRunTrigger)},
		"MachineState":   {names(domain.MachineStates), roundTrip(scalar.UnmarshalMachineState, scalar.MarshalMachineState)},
		"StatementState": {names(domain.StatementStates), roundTrip(scalar.UnmarshalStatementState, scalar.MarshalStatementState)},
		"StatementFault": {names([]domain.Fault{
			domain.FaultQuery, domain.FaultForbidden, domain.FaultConflict, domain.FaultTimeout, domain.FaultCancelled, domain.FaultResources, domain.FaultEngine,
		}), roundTrip(scalar.UnmarshalStatementFault, scalar.MarshalStatementFault)},
		"TableKind":  {names([]domain.TableKind{domain.KindTable, domain.KindView}), roundTrip(scalar.UnmarshalTableKind, scalar.MarshalTableKind)},
		"LineageWay": {names([]domain.LineageWay{domain.Upstream, domain.Downstream, domain.BothWays}), roundTrip(scalar.UnmarshalLineageWay, scalar.MarshalLineageWay)},
		"LineageNodeKind": {names([]domain.LineageNodeKind{
			domain.NodeTable, domain.NodeDataset, domain.NodeTask, domain.NodeStatement, domain.NodeJob,
		}), roundTrip(scalar.UnmarshalLineageNodeKind, scalar.MarshalLineageNodeKind)},
		"LineageDirection": {names([]domain.LineageDirection{domain.LineageRead, domain.LineageWritten}), roundTrip(scalar.UnmarshalLineageDirection, scalar.MarshalLineageDirection)},
		"EngineState":      {names(domain.EngineStates), roundTrip(scalar.UnmarshalEngineState, scalar.MarshalEngineState)},
		"MaintenanceKind":  {names(domain.MaintenanceKinds), roundTrip(scalar.UnmarshalMaintenanceKind, scalar.MarshalMaintenanceKind)},
		"MaintenanceLevel": {names([]domain.MaintenanceLevel{
			domain.MaintenanceBuiltIn, domain.MaintenanceOfWorkspace, domain.MaintenanceOfDatabase, domain.MaintenanceOfTable, domain.MaintenanceRegistered,
		}), roundTrip(scalar.UnmarshalMaintenanceLevel, scalar.MarshalMaintenanceLevel)},
		"MaintenanceState": {names(domain.MaintenanceStates), roundTrip(scalar.UnmarshalMaintenanceState, scalar.MarshalMaintenanceState)},
		"LogStream":        {[]string{domain.Stdout.String(), domain.Stderr.String()}, roundTrip(scalar.UnmarshalLogStream, scalar.MarshalLogStream)},
	}
	for name, def := range schema.Types {
		if def.Kind != "ENUM" || def.BuiltIn {
			continue
		}
		e, ok := enums[name]
		require.True(t, ok, "the enum %s is not in this test", name)
		var values []string
		for _, v := range def.EnumValues {
			values = append(values, strings.ToLower(v.Name))
			written, err := e.trip(v.Name)
			require.NoError(t, err)
			require.Equal(t, `"`+v.Name+`"`, written)
		}
		require.ElementsMatch(t, e.domain, values, name)
	}
}

func names[T ~string](values []T) []string {
	var s []string
	for _, v := range values {
		s = append(s, string(v))
	}
	return s
}
