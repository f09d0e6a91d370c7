// Package harness starts the real platform for the black-box tests: servers, agents, tasks whose
// output is known, and a client. A package that uses it calls Main from its TestMain.
package harness

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/store/storetest"
)

// AwaitTimeout bounds each wait of a test. On an idle machine each takes seconds.
const AwaitTimeout = 4 * time.Minute

// raceEnv builds the tested platform with the race detector. It is slower, and its reports fail the
// test.
const raceEnv = "MILLPOND_E2E_RACE"

// binaryEnv is the path of a binary that is up to date; empty to build one.
const binaryEnv = "MILLPOND_E2E_BINARY"

// workshop is shared by all tests of this binary.
var workshop struct {
	dir      string // removed at the end; tasks of other users can pass through it
	build    sync.Once
	buildErr error
	seed     sync.Once
	seeded   seeded
	seedErr  error
}

// Main runs a package's tests and exits. A test binary is also the process of a task, or the parent
// of a server, if its environment says so.
func Main(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		os.Exit(runTask(task))
	}
	if os.Getenv(NegligentEnv) != "" {
		os.Exit(runNegligent(os.Args[1:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	// These tests mostly wait for processes.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "millpond-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	dismiss, err := watch(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer dismiss()
	workshop.dir = dir
	return storetest.Run(m)
}

// watchdog waits for a line that reports a clean end. If the pipe closes instead, this test binary
// has died. Agents, PostgreSQL and tasks outlive their server, so watchdog kills processes with the
// workshop's path on their command line or in their environment.
const watchdog = `
read -r word && [ "$word" = dismissed ] && exit 0
for round in 1 2 3; do
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = "$$" ] && continue
		grep -qaF "$DIR/" "$p/cmdline" "$p/environ" 2>/dev/null && kill -9 "${p#/proc/}" 2>/dev/null
	done
	sleep 1
done
rm -rf -- "$DIR"
`

func watch(dir string) (dismiss func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", watchdog)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a kill of the tests' group must not kill it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func() {
		_, _ = io.WriteString(stdin, "dismissed\n")
		_ = cmd.Wait()
	}, cmd.Start()
}

// Binary returns the path of the platform. The first call builds it, or copies the build in binaryEnv.
func Binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(workshop.dir, "millpond")
	workshop.build.Do(func() {
		if out, err := buildTo(path).CombinedOutput(); err != nil {
			workshop.buildErr = fmt.Errorf("building the platform: %w: %s", err, out)
		}
		// Tasks run this test binary. The go command stores it where other users cannot go.
		if out, err := exec.Command("cp", os.Args[0], taskProgram()).CombinedOutput(); err != nil {
			workshop.buildErr = errors.Join(workshop.buildErr, fmt.Errorf("%w: %s", err, out))
		}
	})
	require.NoError(t, workshop.buildErr)
	return path
}

func buildTo(path string) *exec.Cmd {
	if built := os.Getenv(binaryEnv); built != "" && os.Getenv(raceEnv) == "" {
		_, _ = os.Stat(built)                  // makes cached results depend on the binary
		return exec.Command("cp", built, path) // to where other users can go
	}
	args := []string{"build", "-o", path}
	if os.Getenv(raceEnv) != "" {
		args = append(args, "-race")
	}
	return exec.Command("go", append(args, "github.com/millpond/millpond")...)
}

// taskProgram is the path of this test binary that every user can run.
func taskProgram() string { return filepath.Join(workshop.dir, "task") }

// NewDir creates a directory for one test below the workshop. Other users can pass through it.
func NewDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(workshop.dir, "t-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	return dir
}

// Await waits until cond holds.
func Await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(20*time.Millisecond), time.NewTimer(AwaitTimeout)
	defer tick.Stop()
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", AwaitTimeout, what)
		}
	}
}
