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

// killGrace is how long an immediate shutdown may take before the kernel ends it.
const killGrace = 10 * time.Second

// process is a running postmaster, our child or an adopted one.
type process struct {
	pid      int
	adopted  bool
	exited   chan struct{} // closed when it is gone
	stopping atomic.Bool   // it was told to go
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

// end says how the process ended; it has exited.
func (p *process) end() string {
	if p.state == nil {
		return "it was not ours to watch"
	}
	return p.state.String()
}

// stop shuts the process down and waits until it is gone: fast, then at once when ctx ends. It says
// whether the shutdown was a clean one.
func (p *process) stop(ctx context.Context) (clean bool, err error) {
	p.stopping.Store(true)
	if ctx.Err() == nil {
		if err := p.tell(syscall.SIGINT); err != nil {
			return false, err
		}
		select {
		case <-p.exited:
			return true, nil
		case <-ctx.Done():
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if err := p.tell(sig); err != nil {
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

func (p *process) tell(sig syscall.Signal) error {
	err := p.signal(sig)
	if err == nil || errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("stop PostgreSQL (pid %d): %w", p.pid, err)
}

// pidFile is what postmaster.pid says.
type pidFile struct {
	pid    int
	status string
}

func readPidFile(data string) (pidFile, error) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return pidFile{}, err
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return pidFile{}, fmt.Errorf("postmaster.pid holds no process: %q", lines[0])
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
		return nil, nil // none, or half written by one that died: PostgreSQL judges that itself
	}
	return adoptProcess(f.pid, data)
}

// dropStalePidFile removes a pid file whose process is not this cluster's postmaster. PostgreSQL sees
// that by itself unless the number was given to another process since. No process of the cluster is left.
func dropStalePidFile(data string) error {
	f, err := readPidFile(data)
	if err != nil || !knowsOrphans || worksIn(f.pid, data) {
		return nil
	}
	err = os.Remove(filepath.Join(data, "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the pid file of a killed PostgreSQL: %w", err)
	}
	return nil
}
