// Package supervised runs the processes of the engine: DuckDB's children, and the guards of JVMs.
package supervised

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options describe a process. Its standard input is a pipe. It gets no variables of this process.
type Options struct {
	Command    []string
	Dir        string              // where it works, its HOME
	Temp       string              // its TMPDIR
	Env        []string            // more variables
	Files      []*os.File          // from file descriptor 3 on
	Credential *syscall.Credential // the user; nil for this one
	OOMScore   int                 // up to 1000: which process the kernel kills first when memory is short
	KeepOutput int                 // bytes: the beginning of what it writes, where a crash states its reason
}

// Process is a process in a process group of its own.
type Process struct {
	In io.WriteCloser

	cmd    *exec.Cmd
	output head
	gone   chan struct{}
}

// Start starts a process.
func Start(o Options) (*Process, error) {
	p := &Process{gone: make(chan struct{}), output: head{limit: o.KeepOutput}}
	p.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	p.cmd.Dir = o.Dir
	p.cmd.Env = append([]string{"HOME=" + o.Dir, "TMPDIR=" + o.Temp, "TZ=UTC", "LANG=C.UTF-8", "PATH=/usr/bin:/bin"}, o.Env...)
	p.cmd.ExtraFiles = o.Files
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.Credential}
	p.cmd.WaitDelay = time.Second
	var err error
	if p.In, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID()), fmt.Append(nil, o.OOMScore), 0)
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // ProcessState has the exit status
	}()
	return p, nil
}

// PID returns the id of the process and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Kill kills the process group. It does not wait.
func (p *Process) Kill() {
	if p.Alive() { // the group exists until Wait has returned
		_ = unix.Kill(-p.PID(), unix.SIGKILL)
	}
}

// State returns how the process ended. It must have ended.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Output returns the beginning of what the process wrote.
func (p *Process) Output() string { return p.output.String() }

// head keeps the first bytes written to it.
type head struct {
	limit int
	mu    sync.Mutex
	b     []byte
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, b[:min(len(b), h.limit-len(h.b))]...)
	return len(b), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}
