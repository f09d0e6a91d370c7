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
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
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

func TestValuesOfMetrics(t *testing.T) {
	for want, v := range map[string]any{
		"0.1": json.Number("0.1"), "-5": int64(-5), "1e+300": json.Number("1e300"), "1.7976931348623157e+308": math.MaxFloat64, "5e-324": json.Number("5e-324"),
		"9.007199254740993e+15": json.Number("9007199254740993"), `"NaN"`: "NaN", `"Infinity"`: "Infinity", `"-Infinity"`: "-Infinity",
	} {
		got, err := scalar.UnmarshalMetricValue(v)
		require.NoError(t, err)
		written := text(scalar.MarshalMetricValue(got))
		if want == "9.007199254740993e+15" {
			want = "9.007199254740992e+15" // a double has 53 bits
		}
		require.Equal(t, want, written)
		require.True(t, json.Valid([]byte(written)))
	}
	for _, bad := range []any{"", "1", "nan", "inf", "-inf", "+Infinity", nil, true, json.Number("1e999"), json.Number("0x1"), json.Number("")} {
		_, err := scalar.UnmarshalMetricValue(bad)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", bad)
	}
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
		"Role":             {names(domain.Roles), roundTrip(scalar.UnmarshalRole, scalar.MarshalRole)},
		"StatementPurpose": {[]string{string(statement.Maintenance)}, roundTrip(scalar.UnmarshalStatementPurpose, scalar.MarshalStatementPurpose)},
		"QuotaUnit":        {names(quota.Units), roundTrip(scalar.UnmarshalQuotaUnit, scalar.MarshalQuotaUnit)},
		"RunStatus":        {names(job.RunStatuses), roundTrip(scalar.UnmarshalRunStatus, scalar.MarshalRunStatus)},
		"TaskStatus": {names([]job.TaskStatus{
			job.TaskPending, job.TaskQueued, job.TaskRunning, job.TaskSuccess, job.TaskFailed, job.TaskCancelled, job.TaskSkipped,
		}), roundTrip(scalar.UnmarshalTaskStatus, scalar.MarshalTaskStatus)},
		"AttemptStatus": {names([]job.AttemptStatus{
			job.AttemptStarting, job.AttemptRunning, job.AttemptSuccess, job.AttemptFailed, job.AttemptCancelled, job.AttemptLost,
		}), roundTrip(scalar.UnmarshalAttemptStatus, scalar.MarshalAttemptStatus)},
		"AgentStatus": {names([]machine.AgentStatus{
			machine.AgentNew, machine.AgentConnected, machine.AgentDisconnected, machine.AgentLost,
		}), roundTrip(scalar.UnmarshalAgentStatus, scalar.MarshalAgentStatus)},
		"RunTrigger": {names([]job.Trigger{
			job.TriggerManual, job.TriggerSchedule, job.TriggerSample,
		}), roundTrip(scalar.UnmarshalRunTrigger, scalar.MarshalRunTrigger)},
		"MachineState":   {names(machine.States), roundTrip(scalar.UnmarshalMachineState, scalar.MarshalMachineState)},
		"StatementState": {names(statement.States), roundTrip(scalar.UnmarshalStatementState, scalar.MarshalStatementState)},
		"StatementFault": {names([]statement.Fault{
			statement.FaultQuery, statement.FaultForbidden, statement.FaultConflict, statement.FaultTimeout, statement.FaultCancelled, statement.FaultResources, statement.FaultEngine,
		}), roundTrip(scalar.UnmarshalStatementFault, scalar.MarshalStatementFault)},
		"TableKind":  {names([]lake.TableKind{lake.KindTable, lake.KindView}), roundTrip(scalar.UnmarshalTableKind, scalar.MarshalTableKind)},
		"LineageWay": {names([]lineage.Way{lineage.Upstream, lineage.Downstream, lineage.BothWays}), roundTrip(scalar.UnmarshalLineageWay, scalar.MarshalLineageWay)},
		"LineageNodeKind": {names([]lineage.NodeKind{
			lineage.NodeTable, lineage.NodeDataset, lineage.NodeTask, lineage.NodeStatement, lineage.NodeJob,
		}), roundTrip(scalar.UnmarshalLineageNodeKind, scalar.MarshalLineageNodeKind)},
		"LineageDirection": {names([]lake.LineageDirection{lake.LineageRead, lake.LineageWritten}), roundTrip(scalar.UnmarshalLineageDirection, scalar.MarshalLineageDirection)},
		"EngineState":      {names(machine.EngineStates), roundTrip(scalar.UnmarshalEngineState, scalar.MarshalEngineState)},
		"MaintenanceKind":  {names(maintenance.Kinds), roundTrip(scalar.UnmarshalMaintenanceKind, scalar.MarshalMaintenanceKind)},
		"MaintenanceLevel": {names([]maintenance.Level{
			maintenance.BuiltIn, maintenance.OfWorkspace, maintenance.OfDatabase, maintenance.OfTable, maintenance.Registered,
		}), roundTrip(scalar.UnmarshalMaintenanceLevel, scalar.MarshalMaintenanceLevel)},
		"MaintenanceState": {names(maintenance.States), roundTrip(scalar.UnmarshalMaintenanceState, scalar.MarshalMaintenanceState)},
		"TrackingRunState": {names(tracking.States), roundTrip(scalar.UnmarshalTrackingRunState, scalar.MarshalTrackingRunState)},
		"TrackingView":     {names(tracking.Views), roundTrip(scalar.UnmarshalTrackingView, scalar.MarshalTrackingView)},
		"LogStream":        {[]string{job.Stdout.String(), job.Stderr.String()}, roundTrip(scalar.UnmarshalLogStream, scalar.MarshalLogStream)},
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
