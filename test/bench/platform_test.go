package bench

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// server is one `millpond serve`.
type server struct {
	b    *testing.B
	dir  string
	url  string
	args []string

	cmd    *exec.Cmd
	out    *output
	exited chan struct{}
}

// output stores the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
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

// newServer returns a server that is not started. Its address stays the same over restarts.
func newServer(b *testing.B, dir string, args ...string) *server {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	address := l.Addr().String()
	require.NoError(b, l.Close())
	return &server{b: b, dir: dir, url: "http://" + address, args: append([]string{"serve", "--data-dir", dir, "--listen", address, "--no-samples"}, args...)}
}

// launch starts the process and returns at once.
func (s *server) launch() {
	s.b.Helper()
	s.out = &output{}
	s.cmd = exec.Command(binary(s.b), s.args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MILLPOND_") && !strings.HasPrefix(v, "OTEL_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	require.NoError(s.b, s.cmd.Start())
	exited, cmd := make(chan struct{}), s.cmd
	s.exited = exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the exit status does not matter
	}()
}

// start starts the process and waits until it answers.
func (s *server) start() {
	s.b.Helper()
	s.launch()
	s.awaitReady(20 * time.Millisecond)
}

func (s *server) awaitReady(every time.Duration) {
	s.b.Helper()
	await(s.b, "the server is ready", every, func() bool {
		select {
		case <-s.exited:
			s.b.Fatalf("the server has ended: %s", s.out)
		default:
		}
		res, err := fresh.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// fresh is an HTTP client that reuses no connections.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// end sends the process a signal and waits for its end.
func (s *server) end(sig syscall.Signal) {
	s.b.Helper()
	_ = s.cmd.Process.Signal(sig) // fails if the process has already ended
	select {
	case <-s.exited:
	case <-time.After(waitLimit):
		s.b.Fatalf("the server does not end: %s", s.out)
	}
}

// platform is an instance with its own database, an optional agent, and one or two servers.
type platform struct {
	*client  // of the first server
	b        *testing.B
	dir      string
	servers  []*server
	jobs     int
	database string // its address, as the owner
}

// newPlatform starts an instance with an administrator and an agent with a number of slots; 0 means
// no agent.
func newPlatform(b *testing.B, slots int, extra ...string) *platform {
	b.Helper()
	args := []string{"--no-local-agent"}
	if slots > 0 {
		args = []string{"--agent-slots", fmt.Sprint(slots)}
	}
	p := &platform{b: b, dir: newDir(b)}
	s := newServer(b, p.dir, append(args, extra...)...)
	p.servers = []*server{s}
	b.Cleanup(p.end)
	s.start()
	p.client = administrator(b, s)
	dsn, err := os.ReadFile(filepath.Join(p.dir, "database.url"))
	require.NoError(b, err)
	p.database = string(dsn)
	if slots > 0 {
		await(b, "the agent connects", 20*time.Millisecond, func() bool {
			var agents struct{ Data []struct{ Status string } }
			return p.do(http.MethodGet, "/settings/agents", nil, &agents) == nil && len(agents.Data) > 0 && agents.Data[0].Status == "connected"
		})
	}
	return p
}

// addReplica starts another server on the same database and storage, and returns a client of it.
func (p *platform) addReplica() *client {
	p.b.Helper()
	s := newServer(p.b, newDir(p.b), "--database", p.database, "--storage", "file://"+filepath.Join(p.dir, "objects"), "--no-local-agent")
	p.servers = append(p.servers, s)
	s.start()
	return &client{url: s.url, key: p.key}
}

// end stops the servers. The first one, which has the database, is last.
func (p *platform) end() {
	for i := len(p.servers) - 1; i >= 0; i-- {
		if s := p.servers[i]; s.cmd != nil {
			s.end(syscall.SIGTERM)
		}
	}
	if p.b.Failed() {
		for _, s := range p.servers {
			p.b.Logf("%s:\n%s", s.url, s.out)
		}
		if log, err := os.ReadFile(filepath.Join(p.dir, "agent.log")); err == nil {
			p.b.Logf("agent:\n%s", log)
		}
	}
}

var setUpLink = regexp.MustCompile(`/setup\?token=(\S+)`)

// administrator sets the first administrator's password and returns a client with the
// administrator's API key.
func administrator(b *testing.B, s *server) *client {
	b.Helper()
	await(b, "the one-time link", 20*time.Millisecond, func() bool { return setUpLink.MatchString(s.out.String()) })
	c := &client{url: s.url}
	var in struct {
		AccessToken string `json:"access_token"`
	}
	setUp := map[string]string{
		"token": setUpLink.FindStringSubmatch(s.out.String())[1], "email": "ada@example.com", "name": "Ada", "password": "correct horse battery",
	}
	require.NoError(b, c.do(http.MethodPost, "/auth/setup", setUp, &in))
	c.key = in.AccessToken
	var key struct{ Secret string }
	require.NoError(b, c.do(http.MethodPost, "/settings/api-keys", map[string]string{"name": "bench", "role": "admin"}, &key))
	c.key = key.Secret
	return c
}

// client speaks the REST API.
type client struct{ url, key string }

func (c *client) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	res, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s %s answered %d: %s", method, path, res.StatusCode, said)
	}
	return res, nil
}

// web has small buffers, because the benchmarks hold thousands of connections.
var web = &http.Client{Transport: &http.Transport{ReadBufferSize: 2 << 10, WriteBufferSize: 1 << 10, MaxIdleConnsPerHost: 8}}

// do makes one request below /api/v1 and decodes the answer.
func (c *client) do(method, path string, body, into any) error {
	res, err := c.request(context.Background(), method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}
