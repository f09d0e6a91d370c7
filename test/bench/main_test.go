// Package bench measures the platform as it is shipped: the real binary with its own durable
// PostgreSQL, a real agent and real processes. Every figure is reported beside a reference that is
// measured in the same run, because a ratio is comparable between machines and a time is not.
// docs/performance.md explains each figure.
package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/store/storetest"
)

// waitLimit bounds every wait.
const waitLimit = 2 * time.Minute

// workshop is the state that all benchmarks of this binary share.
var workshop struct {
	dir  string // removed at the end; tasks, which run as other users, can traverse it
	make sync.Once
	err  error
}

func TestMain(m *testing.M) {
	if kind := os.Getenv(taskEnv); kind != "" {
		os.Exit(runTask(kind))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millpond-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	workshop.dir = dir
	return storetest.Run(m) // also runs the PostgreSQL for benchmarks of packages
}

// binary is the platform's binary: the result of `make build`, or else a new build.
func binary(b *testing.B) string {
	b.Helper()
	path := filepath.Join(workshop.dir, "millpond")
	workshop.make.Do(func() {
		self, err := os.Executable()
		workshop.err = errors.Join(err, copyFile(self, taskProgram()), takeBinary(path))
	})
	require.NoError(b, workshop.err)
	return path
}

func takeBinary(path string) error {
	built, err := filepath.Abs("../../millpond")
	if err == nil {
		if err = copyFile(built, path); err == nil {
			return nil
		}
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "../..").CombinedOutput(); err != nil {
		return fmt.Errorf("building the platform: %w: %s", err, out)
	}
	return nil
}

// copyFile copies a program. A concurrent build must not change the measured binary. Tasks run this
// test binary, which the go command stores where other users have no access.
func copyFile(from, to string) error {
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying %s: %w: %s", from, err, out)
	}
	return nil
}

// shell runs a shell command.
func shell(b *testing.B, line string) {
	b.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	require.NoError(b, err, "%s: %s", line, out)
}

// taskProgram is the path of a copy of this test binary that every user can run.
func taskProgram() string { return filepath.Join(workshop.dir, "task") }

// newDir creates a directory that every user can traverse.
func newDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(workshop.dir, "b-")
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o711))
	b.Cleanup(func() { require.NoError(b, os.RemoveAll(dir)) })
	return dir
}

// await waits until cond holds.
func await(b *testing.B, what string, every time.Duration, cond func() bool) {
	b.Helper()
	tick, deadline := time.NewTicker(every), time.NewTimer(waitLimit)
	defer tick.Stop()
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			b.Fatalf("waited %s in vain: %s", waitLimit, what)
		}
	}
}
