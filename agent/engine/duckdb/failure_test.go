package duckdb

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// A full disk is named without the paths of its host, which DuckDB's messages have.
func TestAFullDiskIsNamedWithoutItsPaths(t *testing.T) {
	for name, text := range map[string]string{
		"a write":    `IO Error: Could not write all bytes to file "/srv/lake/ws_1/data/a.parquet": wanted=8192 wrote=4096: No space left on device`,
		"of a quota": `IO Error: Cannot open file "/srv/lake/ws_1/data/a.parquet": Disk quota exceeded`,
	} {
		f := failureOf(parseException(text), "SELECT 1")
		require.Equal(t, agent.FaultEngine, f.Fault, name)
		require.Equal(t, "A disk is full: that of the tables, or that of the warehouse's machine. Free room there, then run the statement again.", f.Message, name)
	}
}
