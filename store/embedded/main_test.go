package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This test binary also runs as the other processes of the tests.
const (
	roleEnv    = "MILLPOND_EMBEDDED_TEST_ROLE"
	subjectEnv = "MILLPOND_EMBEDDED_TEST_SUBJECT"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "owner":
		os.Exit(playOwner(os.Getenv(subjectEnv)))
	case "client":
		os.Exit(playClient(os.Getenv(subjectEnv)))
	}
	code := m.Run()
	if used.dir != "" {
		code = max(code, cleaned(os.RemoveAll(used.dir)))
	}
	os.Exit(code)
}

func cleaned(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// used is a data directory with a cluster, created once, for usedDir to copy.
var used struct {
	once sync.Once
	dir  string
	err  error
}

// usedDir returns a data directory with a stopped cluster, for tests that are not about a new one.
func usedDir(t testing.TB) string {
	t.Helper()
	used.once.Do(func() {
		if used.dir, used.err = os.MkdirTemp("", "millpond-embedded-used-"); used.err != nil {
			return
		}
		s, err := Start(context.Background(), Options{Dir: used.dir, Volatile: true})
		if used.err = err; err == nil {
			used.err = s.Close(context.Background())
		}
	})
	require.NoError(t, used.err)
	dir := dataDir(t)
	for _, name := range []string{"postgres", "postgres.password"} {
		require.NoError(t, exec.Command("cp", "-a", filepath.Join(used.dir, name), dir).Run())
	}
	return dir
}

// playOwner is a server. It locks the directory, runs PostgreSQL, reports that, and stops cleanly
// on request.
func playOwner(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	release, err := Lock(dir)
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	s, err := Start(ctx, Options{Dir: dir, Volatile: true})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("ready", s.running.pid, s.DSN("postgres"))
	select {
	case <-ctx.Done():
	case <-s.Done():
		fmt.Println("lost")
		return 1
	}
	select {
	case <-s.running.exited:
		fmt.Println("PostgreSQL ended before it was told to")
		return 1
	default:
	}
	if err := s.Close(context.Background()); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	if err := release(); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("closed")
	return 0
}

// playClient tries to connect and prints the result.
func playClient(dsn string) int {
	user, err := query(context.Background(), dsn, "SELECT current_user")
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	fmt.Println("connected as", user)
	return 0
}

// owner is a separate server process.
type owner struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	exited chan error
	pid    int // of PostgreSQL
	dsn    string
}

func startOwner(t *testing.T, dir string, change ...func(*exec.Cmd)) *owner {
	t.Helper()
	o := spawnOwner(t, dir, change...)
	line := o.line(t)
	fields := strings.Fields(line)
	require.Len(t, fields, 3, line)
	require.Equal(t, "ready", fields[0], line)
	pid, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	o.pid, o.dsn = pid, fields[2]
	return o
}

func spawnOwner(t *testing.T, dir string, change ...func(*exec.Cmd)) *owner {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=owner", subjectEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, f := range change {
		f(cmd)
	}
	// The test reads this pipe. PostgreSQL must not hold it open, or the read would never end.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	o := &owner{cmd: cmd, out: bufio.NewReader(r), exited: make(chan error, 1)}
	go func() { o.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // usually gone already
		_ = r.Close()
		if data := filepath.Join(dir, "postgres"); o.pid != 0 && worksIn(o.pid, data) { // the test failed
			_ = syscall.Kill(o.pid, syscall.SIGQUIT)
		}
	})
	return o
}

func (o *owner) line(t *testing.T) string {
	t.Helper()
	line, err := o.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func (o *owner) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, o.cmd.Process.Kill())
	<-o.exited
	rest, err := io.ReadAll(o.out)
	require.NoError(t, err)
	require.Empty(t, rest)
}

// dataDir returns a fresh data directory. Under root PostgreSQL must be able to reach it, and
// t.TempDir is closed to other users.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millpond-embedded-test-")
	require.NoError(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func startIn(t testing.TB, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: dir, Volatile: true})
	require.NoError(t, err)
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

func closeServer(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, s.Close(ctx))
}

func run(t testing.TB, dsn, statement string) string {
	t.Helper()
	value, err := query(t.Context(), dsn, statement)
	require.NoError(t, err)
	return value
}

func alive(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// stranger is a user of this machine other than the server's and PostgreSQL's.
const stranger = 54321

// asUser runs the command as another user, from a copy of this binary that every user may run.
func asUser(t *testing.T, uid, gid int) func(*exec.Cmd) {
	t.Helper()
	dir := dataDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	program := filepath.Join(dir, "other")
	source, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer source.Close()
	target, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(target, source)
	require.NoError(t, err)
	require.NoError(t, target.Close())
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args[0], cmd.Dir = program, program, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be other users")
	}
}
