package bench

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startMLflow starts an MLflow server with its defaults on the platform's PostgreSQL, and returns
// its address and pid. It ends with the benchmark. By default it would kill a worker that a busy
// machine holds up for five seconds, and close a connection that is idle for as long.
func (p *platform) startMLflow() (string, int) {
	p.b.Helper()
	dir, err := exec.Command("../../scripts/mlflow.sh", "server").Output()
	require.NoError(p.b, err, "scripts/mlflow.sh creates the environment")
	bin := filepath.Join(strings.TrimSpace(string(dir)), "bin")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.b, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(p.b, err)
	require.NoError(p.b, l.Close())
	home, out := newDir(p.b), &output{}
	cmd := exec.Command(filepath.Join(bin, "mlflow"), "server", "--backend-store-uri", p.mlflowDatabase(), "--artifacts-destination", home, "--host", "127.0.0.1", "--port", port,
		"--uvicorn-opts", "--timeout-worker-healthcheck 120 --timeout-keep-alive 120")
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, out, out
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MLFLOW_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	require.NoError(p.b, cmd.Start())
	p.b.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its workers
		_ = cmd.Wait()
		if p.b.Failed() {
			p.b.Logf("MLflow:\n%.20000s", out)
		}
	})
	address := "http://127.0.0.1:" + port
	await(p.b, "MLflow answers", 50*time.Millisecond, func() bool {
		res, err := fresh.Get(address + "/health")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return address, cmd.Process.Pid
}

// mlflowDatabase creates a database for MLflow beside the platform's, and returns its address as
// MLflow wants it.
func (p *platform) mlflowDatabase() string {
	p.b.Helper()
	db, err := sql.Open("postgres", p.database)
	require.NoError(p.b, err)
	defer db.Close()
	_, err = db.Exec("CREATE DATABASE mlflow")
	require.NoError(p.b, err)
	address, err := url.Parse(p.database)
	require.NoError(p.b, err)
	address.Scheme, address.Path = "postgresql+psycopg2", "/mlflow"
	return strings.TrimSpace(address.String())
}

// acknowledging returns an HTTP client that reuses its connections and acknowledges each packet at
// once.
func acknowledging(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: connections,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			tcp := c.(*net.TCPConn)
			raw, err := tcp.SyscallConn()
			return quickConn{tcp, raw}, err
		},
	}}
}

// quickConn acknowledges at once what it receives. The kernel forgets this option when data is
// sent, so it is set again.
type quickConn struct {
	net.Conn
	raw syscall.RawConn
}

// Read implements net.Conn.
func (c quickConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		err = c.acknowledge()
	}
	return n, err
}

// Write implements net.Conn.
func (c quickConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.acknowledge()
	}
	return n, err
}

func (c quickConn) acknowledge() error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	return errors.Join(err, failed)
}
