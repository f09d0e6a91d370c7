package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// killGrace is how long an immediate shutdown may take before the process is killed.
const killGrace = 10 * time.Second

// process is a running postmaster, our child or an adopted one.
type process struct {
	pid      int
	adopted  bool
	exited   chan struct{} // closed when it is gone
	stopping atomic.Bool   // stop was called
	signal   func(syscall.Signal) error
	state    *os.ProcessState // of a child, once it has exited
}

func childProcess(cmd *exec.Cmd) *process {
	p := &process{
		pid:    cmd.Process.Pid,
		exited: make(chan struct{}),
		signal: func(sig syscall.Signal) error { return cmd.Process.Signal(sig) },
	}
	go p.reap(cmd)
	return p
}

func (p *process) reap(cmd *exec.Cmd) {
	defer close(p.exited)
	_ = cmd.Wait() // how it ended is in the state
	p.state = cmd.ProcessState
}

// end describes how the process ended. It has exited.
func (p *process) end() string {
	if p.state == nil {
		return "it was not ours to watch"
	}
	return p.state.String()
}

// stop shuts the process down and waits until it has ended: fast, then at once when ctx ends. It
// reports whether the shutdown was clean.
func (p *process) stop(ctx context.Context) (clean bool, err error) {
	p.stopping.Store(true)
	if ctx.Err() == nil {
		if err := p.send(syscall.SIGINT); err != nil {
			return false, err
		}
		select {
		case <-p.exited:
			return true, nil
		case <-ctx.Done():
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if err := p.send(sig); err != nil {
			return false, err
		}
		select {
		case <-p.exited:
			return false, nil
		case <-time.After(killGrace):
		}
	}
	return false, fmt.Errorf("PostgreSQL (pid %d) does not end, not even when killed", p.pid)
}

func (p *process) send(sig syscall.Signal) error {
	err := p.signal(sig)
	if err == nil || errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("stop PostgreSQL (pid %d): %w", p.pid, err)
}

// pidFileName is the cluster's own lock file.
const pidFileName = "postmaster.pid"

// pidFile is the content of a lock file.
type pidFile struct {
	pid    int
	status string
}

func readPidFile(data string) (pidFile, error) { return readLockFile(filepath.Join(data, pidFileName)) }

// readLockFile reads a lock file of PostgreSQL. The cluster's lock file includes its status.
func readLockFile(name string) (pidFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return pidFile{}, err
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return pidFile{}, fmt.Errorf("%s holds no process: %q", name, lines[0])
	}
	f := pidFile{pid: pid}
	if len(lines) >= 8 {
		f.status = strings.TrimSpace(lines[7])
	}
	return f, nil
}

// findPostmaster returns the postmaster that runs on the cluster, nil when there is none.
func findPostmaster(data string) (*process, error) {
	f, err := readPidFile(data)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("the database directory: %w", err)
	}
	if err != nil {
		return nil, nil // no process, or a file half written by a dead one: PostgreSQL judges that itself
	}
	return adoptProcess(f.pid, data)
}

// dropStale removes the lock files of a killed PostgreSQL, in the cluster and beside its socket.
// PostgreSQL itself keeps them while any process has their pid, even a zombie. No process of the
// cluster may be left.
func dropStale(data, socket string) error {
	for _, name := range []string{filepath.Join(data, pidFileName), filepath.Join(socket, ".s.PGSQL."+socketPort+".lock")} {
		f, err := readLockFile(name)
		if err != nil || !knowsOrphans || worksIn(f.pid, data) {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a lock file of a killed PostgreSQL: %w", err)
		}
	}
	return nil
}
