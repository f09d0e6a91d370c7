package harness

import (
	"net/http"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// CreateCompute creates a compute instance and returns its id.
func (p *Platform) CreateCompute(name string) string {
	p.T.Helper()
	var made MachineRow
	p.Must(http.MethodPost, "/compute", map[string]string{"name": name, "flavor": "cpu.1"}, &made)
	return made.ID
}

// AwaitCompute waits until the instance has the status.
func (p *Platform) AwaitCompute(id, status string) (m MachineRow) {
	p.T.Helper()
	Await(p.T, "the instance is "+status, func() bool {
		return p.Get("/compute/"+id, &m) && (m.Status == status || m.Status == "failed")
	})
	require.Equal(p.T, status, m.Status, m.Message)
	return m
}

// MachineDir is the directory of a machine of the local provider.
func (p *Platform) MachineDir(id string) string { return filepath.Join(p.Dir, "machines", id) }

// MachineProcesses lists the machine's agent, shims and tasks: all processes that name its
// directory.
func (p *Platform) MachineProcesses(id string) (pids []int) {
	dir := p.MachineDir(id) + "/"
	for _, pr := range AllProcesses() {
		if strings.Contains(pr.Command, dir) || strings.Contains(pr.environment, dir) {
			pids = append(pids, pr.PID)
		}
	}
	return pids
}

// MachineAgent returns the process of the machine's agent; 0 without one.
func (p *Platform) MachineAgent(id string) int {
	for _, pr := range AllProcesses() {
		if strings.Contains(pr.Command, "\x00agent\x00") && strings.Contains(pr.Command, p.MachineDir(id)+"/data\x00") && !strings.Contains(pr.Command, "--clear") {
			return pr.PID
		}
	}
	return 0
}
