package main_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/store/storetest"
)

// patience bounds what a test waits for: all of it is over in seconds on a machine that does nothing else.
const patience = 4 * time.Minute

// raceEnv builds the platform that is tested with the race detector: slower, and its reports fail the test.
const raceEnv = "MILLPOND_E2E_RACE"

// workshop is what all tests of this binary share.
var workshop struct {
	dir      string // removed at the end; tasks, which run as other users, can pass through it
	build    sync.Once
	buildErr error
	seed     sync.Once
	seeded   seeded
	seedErr  error
}

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		os.Exit(runTask(task))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	// These tests wait for processes far more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
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

// watchdog waits for a line that says that all is well. When the pipe closes instead, this test binary has died, and agents, PostgreSQL and tasks,
// which outlive their server, are ended by what they have of the workshop on their command line or in their environment.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what kills the tests' group must not kill it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func() {
		_, _ = io.WriteString(stdin, "dismissed\n")
		_ = cmd.Wait()
	}, cmd.Start()
}

// binary builds the platform, once, and returns its path.
func binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(workshop.dir, "millpond")
	workshop.build.Do(func() {
		args := []string{"build", "-o", path}
		if os.Getenv(raceEnv) != "" {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
			workshop.buildErr = fmt.Errorf("building the platform: %w: %s", err, out)
		}
		// Tasks run this test binary, which the go command keeps where other users cannot go.
		if out, err := exec.Command("cp", os.Args[0], taskProgram()).CombinedOutput(); err != nil {
			workshop.buildErr = errors.Join(workshop.buildErr, fmt.Errorf("%w: %s", err, out))
		}
	})
	require.NoError(t, workshop.buildErr)
	return path
}

// taskProgram is this test binary, where every user can run it.
func taskProgram() string { return filepath.Join(workshop.dir, "task") }

// newDir makes a directory below the workshop for one test, which other users can pass through.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(workshop.dir, "t-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	return dir
}

// server is one `millpond serve`.
type server struct {
	t    testing.TB
	url  string
	dir  string
	args []string

	cmd    *exec.Cmd
	out    *output
	exited chan struct{} // closed when the process has ended and its output is read
}

// output keeps what a process prints.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// newServer returns a server that is not started yet. It keeps its address over restarts.
func newServer(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	address := freeAddress(t)
	s := &server{t: t, url: "http://" + address, dir: dir, out: &output{}}
	s.args = append([]string{"serve", "--data-dir", dir, "--listen", address}, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", s.url, last(s.out.String(), 12<<10))
		}
	})
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// command prepares a run of the binary that dies with this test binary.
func command(t testing.TB, args ...string) *exec.Cmd {
	cmd := exec.Command(binary(t), args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MILLPOND_") && !strings.HasPrefix(v, "OTEL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts the server and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	await(s.t, "the server is ready", func() bool { return s.ready() || s.over() })
	require.False(s.t, s.over(), "the server has ended: %s", s.out)
}

func (s *server) launch() {
	s.t.Helper()
	s.cmd = command(s.t, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	require.NoError(s.t, s.cmd.Start())
	exited := make(chan struct{})
	s.exited = exited
	cmd := s.cmd
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
}

func (s *server) ready() bool {
	res, err := web.Get(s.url + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}

func (s *server) over() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// signal sends the server a signal and waits for its end.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the server does not end by %v", sig)
	}
}

// restart kills the server with SIGKILL and starts it again.
func (s *server) restart() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	s.start()
}

// setUpLink finds the one-time token that a first start prints.
var setUpLink = regexp.MustCompile(`/setup\?token=(\S+)`)

// seeded is a data directory with an administrator, made once and copied for each test: a start on it takes a second.
type seeded struct{ dir, key string }

func seed(t testing.TB) seeded {
	t.Helper()
	workshop.seed.Do(func() { workshop.seeded, workshop.seedErr = makeSeed(t) })
	require.NoError(t, workshop.seedErr)
	return workshop.seeded
}

func makeSeed(t testing.TB) (seeded, error) {
	made := seeded{dir: newDir(t)}
	s := newServer(t, made.dir, "--no-samples", "--no-local-agent")
	s.start()
	key, err := administrator(s)
	if err != nil {
		return made, err
	}
	made.key = key
	s.signal(syscall.SIGTERM)
	return made, nil
}

// administrator sets the first administrator's password and returns an API key of theirs.
func administrator(s *server) (string, error) {
	await(s.t, "the one-time link", func() bool { return setUpLink.MatchString(s.out.String()) })
	token := setUpLink.FindStringSubmatch(s.out.String())[1]
	var in struct {
		AccessToken string `json:"access_token"`
	}
	c := &client{url: s.url}
	setUp := map[string]string{"token": token, "email": "ada@example.com", "name": "Ada", "password": "correct horse battery"}
	if err := c.do(context.Background(), http.MethodPost, "/auth/setup", setUp, &in); err != nil {
		return "", err
	}
	c.key = in.AccessToken
	var key struct {
		Secret string `json:"secret"`
	}
	err := c.do(context.Background(), http.MethodPost, "/settings/api-keys", map[string]string{"name": "tests"}, &key)
	return key.Secret, err
}

// await waits until cond holds.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(20*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

// TestChildrenBeginAtOnce: what an agent starts of its own binary does not wait for what only the server needs.
func TestChildrenBeginAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"shim", "engine-child"} {
		child := exec.CommandContext(t.Context(), binary(t), name) // it ends for want of its pipes
		child.Env = []string{"GODEBUG=inittrace=1"}
		out, _ := child.CombinedOutput()
		require.Contains(t, string(out), "init os ", name)
		require.NotContains(t, string(out), "substrait ", name)
		require.NotContains(t, string(out), "init github.com/millpond/millpond/graph", name)
	}
}
