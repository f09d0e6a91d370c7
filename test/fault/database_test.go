package fault_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestAdoptedDatabaseIsKilled kills an adopted PostgreSQL. Its parent does not reap it.
func TestAdoptedDatabaseIsKilled(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true})
	s := p.Servers[0]
	s.Signal(syscall.SIGTERM)

	parent := exec.Command(os.Args[0], append([]string{harness.Binary(t)}, s.Args...)...)
	parent.Env = append(os.Environ(), harness.NegligentEnv+"=1")
	parent.Stdout, parent.Stderr = s.Out, s.Out
	parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	input, err := parent.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	t.Cleanup(func() {
		_ = input.Close()
		_ = parent.Wait()
	})
	harness.Await(t, "the first server is ready", s.Ready)
	postmaster := p.Postmaster()
	for _, pid := range childrenOf(parent.Process.Pid) {
		harness.Kill9(t, pid)
	}
	harness.Await(t, "the first server is gone", func() bool { return !s.Ready() })

	db := p.Database()
	defer db.Close()
	began := time.Now()
	s.Start()
	require.Equal(t, postmaster, p.Postmaster(), "PostgreSQL is adopted")
	harness.Await(t, "the server has begun", func() bool {
		n := 0
		return db.QueryRowContext(t.Context(), "SELECT count(*) FROM replicas WHERE seen_at > $1", began).Scan(&n) == nil && n == 1
	})
	harness.Kill9(t, postmaster)
	harness.Await(t, "the server serves again", func() bool {
		return s.Over() || p.Postmaster() != postmaster && s.Ready()
	})
	require.False(t, s.Over(), "the server has ended: %s", s.Out)
}

// TestDatabaseComesBackLate prevents a killed PostgreSQL from starting. The server retries until it
// starts.
func TestDatabaseComesBackLate(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true})
	s := p.Servers[0]
	version := filepath.Join(p.Dir, "postgres", "PG_VERSION")
	require.NoError(t, os.Rename(version, version+".away"))
	harness.Kill9(t, p.Postmaster())
	harness.Await(t, "the server retries", func() bool {
		return s.Over() || strings.Count(s.Out.String(), "PostgreSQL cannot be started") >= 2
	})
	require.False(t, s.Over(), "the server has ended: %s", s.Out)
	harness.Await(t, "the server is not ready", func() bool { return !s.Ready() }) // the last answer is cached for a moment
	require.NoError(t, os.Rename(version+".away", version))
	harness.Await(t, "the server serves again", func() bool { return s.Over() || s.Ready() })
	require.False(t, s.Over(), "the server has ended: %s", s.Out)
}
