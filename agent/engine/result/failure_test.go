package result

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// A full disk on which the engine itself writes is named without the paths of its host.
func TestAFullDiskIsNamedWithoutItsPaths(t *testing.T) {
	for name, f := range map[string]*agent.StatementFailure{
		"a file of ours": Failure(fmt.Errorf("a profile: %w", &os.PathError{Op: "write", Path: "/srv/tmp/profile", Err: syscall.ENOSPC}), "SELECT 1"),
		"our quota":      Failure(&os.PathError{Op: "write", Path: "/srv/tmp/profile", Err: syscall.EDQUOT}, "SELECT 1"),
	} {
		require.Equal(t, agent.FaultEngine, f.Fault, name)
		require.Equal(t, "A disk is full: that of the tables, or that of the warehouse's machine. Free room there, then run the statement again.", f.Message, name)
	}
}
