package trino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A JVM that is asked to end has so long until it is killed.
const endGrace = 5 * time.Second

// guarded is what the guard of a JVM is told on its standard input.
type guarded struct {
	Command []string `json:"command"`
	Dir     string   `json:"dir"`
}

// GuardMain is the hidden command of the process between an agent and a JVM: it starts the JVM, and ends it when its own standard input ends, which it does also
// where the agent is killed. The kernel ends the JVM where the guard itself is killed. It answers the exit code.
func GuardMain() int {
	runtime.LockOSThread() // what the kernel does when the parent ends, it does when the thread that started the process ends
	var g guarded
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&g); err != nil || len(g.Command) == 0 {
		fmt.Fprintln(os.Stderr, "this command is the engine's own; it is not run by hand")
		return 2
	}
	signal.Ignore(unix.SIGINT)
	unix.Umask(0o002) // tables are written by others of the workspace's group too
	cmd := exec.Command(g.Command[0], g.Command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = g.Dir, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = cmd.Process.Signal(unix.SIGTERM)
		time.Sleep(endGrace)
		_ = cmd.Process.Kill()
	}()
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// node is one process of Trino.
type node struct {
	layout
	cmd    *exec.Cmd
	in     io.WriteCloser
	output *head
	gone   chan struct{} // closed when it has ended
	once   sync.Once
}

// startNode lays out a node's configuration and starts it.
func startNode(o Options, l layout) (*node, error) {
	if err := os.RemoveAll(l.dir); err != nil {
		return nil, err
	}
	if err := l.write(); err != nil {
		return nil, err
	}
	named, err := l.nameUser(o.Credential)
	if err != nil {
		return nil, err
	}
	if c := o.Credential; c != nil {
		if err := chownAll(l.dir, int(c.Uid), int(c.Gid)); err != nil {
			return nil, err
		}
	}
	n := &node{layout: l, output: &head{}, gone: make(chan struct{})}
	n.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	n.cmd.Dir = l.dir
	n.cmd.Env = append([]string{"HOME=" + l.dir, "TMPDIR=" + l.spillDir(), "TZ=UTC", "LANG=C.UTF-8", "PATH=/usr/bin:/bin"}, l.spooling.environment()...)
	n.cmd.Stdout, n.cmd.Stderr = n.output, n.output
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.Credential}
	n.cmd.WaitDelay = time.Second
	if n.in, err = n.cmd.StdinPipe(); err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting Trino: %w", err)
	}
	// Should the host run out of memory, the kernel takes Trino rather than the agent; and a read in a child before it.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", n.cmd.Process.Pid), []byte("800"), 0)
	go func() {
		_ = n.cmd.Wait() // how it ended is in its state
		close(n.gone)
	}()
	command := slices.Concat([]string{o.Installation.Java}, o.JVM, named)
	return n, json.NewEncoder(n.in).Encode(guarded{append(command, l.arguments(o.Installation.Dir)...), l.dir})
}

func chownAll(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

// end ends the node and returns when it is gone.
func (n *node) end() {
	n.once.Do(func() { _ = n.in.Close() })
	late := time.AfterFunc(endGrace+2*time.Second, n.kill)
	defer late.Stop()
	<-n.gone
}

// kill ends the node at once.
func (n *node) kill() {
	select {
	case <-n.gone:
	default:
		_ = unix.Kill(-n.cmd.Process.Pid, unix.SIGKILL)
	}
}

func (n *node) alive() bool {
	select {
	case <-n.gone:
		return false
	default:
		return true
	}
}

// obituary is what is known of the end of a node.
func (n *node) obituary() string {
	said := n.output.String()
	if strings.Contains(said, "OutOfMemoryError") {
		return "it ran out of memory"
	}
	why := n.cmd.ProcessState.String()
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "1) ") || strings.Contains(line, "Error") || strings.HasPrefix(line, "Exception") {
			return why + ": " + line
		}
	}
	return why
}

// head keeps the beginning of what is written to it: that is where a JVM says why it does not start.
type head struct {
	mu sync.Mutex
	b  []byte
}

const headBytes = 64 << 10

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, b[:min(len(b), headBytes-len(h.b))]...)
	return len(b), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.b)
}

// await asks the node until it takes queries, it ends, or ctx does.
func (n *node) await(ctx context.Context, ask func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready, err := ask(ctx); err == nil && ready {
			return nil
		}
		select {
		case <-n.gone:
			return errors.New("its process ended (" + n.obituary() + ")")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
