package main_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type machineRow struct {
	ID, Name, Flavor, Size, Status, State, Message string

	ImageRef   string  `json:"image_ref"`
	AutoStopAt *string `json:"auto_stop_at"`
}

// compute makes a compute instance and returns its id.
func (p *platform) compute(name string) string {
	p.t.Helper()
	var made machineRow
	p.must(http.MethodPost, "/compute", map[string]string{"name": name, "flavor": "cpu.1"}, &made)
	return made.ID
}

// awaitCompute waits until the instance has the status.
func (p *platform) awaitCompute(id, status string) (m machineRow) {
	p.t.Helper()
	await(p.t, "the instance is "+status, func() bool {
		return p.get("/compute/"+id, &m) && (m.Status == status || m.Status == "failed")
	})
	require.Equal(p.t, status, m.Status, m.Message)
	return m
}

func (p *platform) machineDir(id string) string { return filepath.Join(p.dir, "machines", id) }

// machineProcesses are those of the machine: its agent, shims and tasks, by what names its directory.
func (p *platform) machineProcesses(id string) (pids []int) {
	dir := p.machineDir(id) + "/"
	for _, pr := range allProcesses() {
		if strings.Contains(pr.command, dir) || strings.Contains(pr.environment, dir) {
			pids = append(pids, pr.pid)
		}
	}
	return pids
}

// TestComputeFromStartToGone: an instance starts, runs a task through its own agent, stops, and nothing of it is left.
func TestComputeFromStartToGone(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	id := p.compute("trainer")
	p.must(http.MethodPost, "/compute/"+id+"/start", nil, nil)
	running := p.awaitCompute(id, "running")
	require.Contains(t, running.ImageRef, "@sha256:")
	require.NotNil(t, running.AutoStopAt)
	require.NotEmpty(t, p.machineProcesses(id))

	run := p.run(p.job(map[string]any{"name": "on it", "command": "pwd", "compute": "trainer"}))
	require.Equal(t, "success", p.awaitRun(run).Status)
	require.Contains(t, p.text(run, ""), p.machineDir(id))

	p.must(http.MethodPost, "/compute/"+id+"/stop", nil, nil)
	p.awaitCompute(id, "stopped")
	require.Empty(t, p.machineProcesses(id))
	require.NoDirExists(t, filepath.Join(p.machineDir(id), "data"))
	p.must(http.MethodDelete, "/compute/"+id, nil, nil)
}
