package engine

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/trino"
)

// A full disk is named without the paths of its host, which Trino's messages have.
func TestAFullDiskIsNamedWithoutItsPaths(t *testing.T) {
	x := &inTrino{e: &Engine{log: slog.New(slog.DiscardHandler)}, s: &agent.Statement{ID: "stm_1"}}
	f := x.said(&trino.Error{
		Name: "ICEBERG_WRITER_CLOSE_ERROR", Type: "EXTERNAL", Message: "Error committing write to /srv/lake/ws_1/data/a.parquet",
		Cause: "java.io.IOException: No space left on device",
	})
	require.Equal(t, agent.FaultEngine, f.Fault)
	require.Equal(t, "A disk is full: that of the tables, or that of the warehouse's machine. Free room there, then run the statement again.", f.Message)
}

type noFrames struct{}

func (noFrames) Frame(agent.FrameKind, ...[]byte) error { return nil }

// The limit of a row in JSON applies to Trino as it does to DuckDB.
func TestARowOfTrinoIsBoundedByItsJSON(t *testing.T) {
	columns := []trino.Column{{Name: "s", Type: trino.Type{Name: "varchar"}}}
	schema, err := trinoSchema(columns)
	require.NoError(t, err)
	x := &inTrino{run: &run{ctx: t.Context()}, s: &agent.Statement{}, result: &result.Sender{Out: noFrames{}, Schema: schema}}
	row := func(n int) json.RawMessage { return json.RawMessage(`["` + strings.Repeat("x", n) + `"]`) }
	require.NoError(t, x.take(columns, []json.RawMessage{row(1), row(16<<20 - 100)}))
	err = x.take(columns, []json.RawMessage{row(1), row(16 << 20), row(1)})
	require.Error(t, err)
	require.Equal(t, agent.FaultQuery, x.failure(err).Fault)
	require.Contains(t, x.failure(err).Message, "Row 4 of the result has more than 16 MiB in JSON")
}
