package harness

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Server is one `millpond serve`.
type Server struct {
	T    testing.TB
	URL  string
	Args []string // of the binary

	Cmd    *exec.Cmd     // the latest process
	Out    *Output       // of all processes so far
	exited chan struct{} // closed after the process's end, with its output read
}

// Output stores the output of a process.
type Output struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// NewServer returns a server that is not started. Its address stays the same over restarts.
func NewServer(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	address := freeAddress(t)
	s := &Server{T: t, URL: "http://" + address, Out: &Output{}}
	s.Args = append([]string{"serve", "--data-dir", dir, "--listen", address}, args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", s.URL, Last(s.Out.String(), 12<<10))
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

// Last returns the last n bytes of s.
func Last(s string, n int) string { return s[max(0, len(s)-n):] }

// Command prepares a run of the binary. The process dies with this test binary.
func Command(t testing.TB, args ...string) *exec.Cmd {
	cmd := exec.Command(Binary(t), args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MILLPOND_") && !strings.HasPrefix(v, "OTEL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Start starts the server and waits until it is ready.
func (s *Server) Start() {
	s.T.Helper()
	s.Launch()
	Await(s.T, "the server is ready", func() bool { return s.Ready() || s.Over() })
	require.False(s.T, s.Over(), "the server has ended: %s", s.Out)
}

// Launch starts the server and does not wait.
func (s *Server) Launch() {
	s.T.Helper()
	s.Cmd = Command(s.T, s.Args...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Out, s.Out
	require.NoError(s.T, s.Cmd.Start())
	exited := make(chan struct{})
	s.exited = exited
	cmd := s.Cmd
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
}

// Ready reports whether the server says that it is ready.
func (s *Server) Ready() bool {
	res, err := HTTP.Get(s.URL + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}

// Over reports whether the process has ended.
func (s *Server) Over() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// Signal sends the server a signal and waits for its end.
func (s *Server) Signal(sig syscall.Signal) {
	s.T.Helper()
	require.NoError(s.T, s.Cmd.Process.Signal(sig))
	select {
	case <-s.exited:
	case <-time.After(AwaitTimeout):
		s.T.Fatalf("the server does not end by %v", sig)
	}
}

// Restart kills the server with SIGKILL and starts it again.
func (s *Server) Restart() {
	s.T.Helper()
	s.Signal(syscall.SIGKILL)
	s.Start()
}

// SetUpLink matches the one-time token that a first start prints.
var SetUpLink = regexp.MustCompile(`/setup\?token=(\S+)`)

// seeded is a data directory with an administrator, created once and copied for each test. A start
// on it takes a second.
type seeded struct{ dir, key string }

func seed(t testing.TB) seeded {
	t.Helper()
	workshop.seed.Do(func() { workshop.seeded, workshop.seedErr = makeSeed(t) })
	require.NoError(t, workshop.seedErr)
	require.NotEmpty(t, workshop.seeded.dir, "another test failed to make it")
	return workshop.seeded
}

func makeSeed(t testing.TB) (seeded, error) {
	made := seeded{dir: NewDir(t)}
	s := NewServer(t, made.dir, "--no-samples", "--no-local-agent")
	s.Start()
	key, err := Administrator(s)
	if err != nil {
		return made, err
	}
	made.key = key
	s.Signal(syscall.SIGTERM)
	return made, nil
}

// Administrator sets the first administrator's password and returns their API key.
func Administrator(s *Server) (string, error) {
	Await(s.T, "the one-time link", func() bool { return SetUpLink.MatchString(s.Out.String()) })
	token := SetUpLink.FindStringSubmatch(s.Out.String())[1]
	var in struct {
		AccessToken string `json:"access_token"`
	}
	c := &Client{URL: s.URL}
	setUp := map[string]string{"token": token, "email": "ada@example.com", "name": "Ada", "password": "correct horse battery"}
	if err := c.Do(context.Background(), http.MethodPost, "/auth/setup", setUp, &in); err != nil {
		return "", err
	}
	c.Key = in.AccessToken
	var key struct {
		Secret string `json:"secret"`
	}
	err := c.Do(context.Background(), http.MethodPost, "/settings/api-keys", map[string]string{"name": "tests", "role": "admin"}, &key)
	return key.Secret, err
}

// CreatedToken matches the agent's token that `millpond workspace create` prints.
var CreatedToken = regexp.MustCompile(`mp_agt_\S+`)
