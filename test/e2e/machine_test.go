package e2e_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestComputeFromStartToGone: an instance starts, runs a task on its own agent and stops. Nothing
// is left.
func TestComputeFromStartToGone(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	id := p.CreateCompute("trainer")
	p.Must(http.MethodPost, "/compute/"+id+"/start", nil, nil)
	running := p.AwaitCompute(id, "running")
	require.Contains(t, running.ImageRef, "@sha256:")
	require.NotNil(t, running.AutoStopAt)
	require.NotEmpty(t, p.MachineProcesses(id))

	run := p.StartRun(p.CreateJob(map[string]any{"name": "on it", "command": "pwd", "compute": "trainer"}))
	require.Equal(t, "success", p.AwaitRun(run).Status)
	require.Contains(t, p.LogText(run, ""), p.MachineDir(id))

	p.Must(http.MethodPost, "/compute/"+id+"/stop", nil, nil)
	p.AwaitCompute(id, "stopped")
	require.Empty(t, p.MachineProcesses(id))
	require.NoDirExists(t, filepath.Join(p.MachineDir(id), "data"))
	p.Must(http.MethodDelete, "/compute/"+id, nil, nil)
}
