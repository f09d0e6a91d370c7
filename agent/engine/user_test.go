package engine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChildrenRunAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run a child as another user")
	}
	t.Setenv("MILLPOND_AGENT_TOKEN", "secret")
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	program := copyProgram(t, dir)
	s := serve(t, func(o *Options) {
		o.Dir, o.Command, o.Credential = filepath.Join(dir, "engine"), []string{program, "engine-child"}, &syscall.Credential{Uid: 61999, Gid: 61999, Groups: []uint32{0x70000001}}
	})
	s.ok("SELECT count(DISTINCT range) FROM range(1000)")
	s.engine.pool.mu.Lock()
	defer s.engine.pool.mu.Unlock()
	pid := s.engine.pool.idle[0].PID()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	require.Contains(t, string(status), "Uid:\t61999\t61999\t61999\t61999")
	require.Regexp(t, `\nGroups:\t1879048193 *\n`, string(status), "the workspace's, and none of the agent's")
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	require.NoError(t, err)
	require.NotContains(t, string(environment), "secret")
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	require.NoError(t, err)
	require.Equal(t, "900", strings.TrimSpace(string(score)))
}

func copyProgram(t *testing.T, dir string) string {
	self, err := os.Executable()
	require.NoError(t, err)
	from, err := os.Open(self)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "program"), os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return to.Name()
}
