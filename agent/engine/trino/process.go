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

	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/engine/supervised"
)

// endGrace is how long a JVM may take to end before it is killed.
const endGrace = 5 * time.Second

// guarded is the input of a JVM's guard on its standard input.
type guarded struct {
	Command []string `json:"command"`
	Dir     string   `json:"dir"`
	Reads   string   `json:"reads"`           // the installation
	Fence   *fence   `json:"fence,omitempty"` // nil for no fence
}

// startedNone is the exit code of a guard that started no JVM and printed the reason.
const startedNone = 2

// GuardMain is the hidden command of the process between an agent and a JVM. It starts the JVM and
// ends it at EOF of standard input, which also follows if the agent is killed. If the guard is
// killed, the kernel ends the JVM. It returns the exit code.
func GuardMain() int {
	// The kernel's parent death signal follows the thread that started the process.
	runtime.LockOSThread()
	var g guarded
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&g); err != nil || len(g.Command) == 0 {
		fmt.Fprintln(os.Stderr, "this command is internal to the engine; do not run it by hand")
		return startedNone
	}
	signal.Ignore(unix.SIGINT)
	unix.Umask(0o002) // others of the workspace's group write tables too
	if err := checkReadable(g.Command[0], g.Reads); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return startedNone
	}
	if g.Fence != nil {
		if err := g.Fence.enforce(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return startedNone
		}
	}
	cmd := exec.Command(g.Command[0], g.Command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = g.Dir, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return startedNone
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

// node is a process of Trino.
type node struct {
	layout
	*supervised.Process
	once sync.Once
}

// startNode writes a node's configuration and starts it.
func startNode(o Options, l layout, storage Storage) (*node, error) {
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
	fence, err := o.fenceOf(l, storage)
	if err != nil {
		return nil, err
	}
	p, err := supervised.Start(supervised.Options{
		Command: o.Command, Dir: l.dir, Temp: l.spillDir(), Env: l.spooling.environment(), Credential: o.Credential,
		OOMScore:   800, // after a read in a child, and before the agent
		KeepOutput: 64 << 10,
	})
	if err != nil {
		return nil, fmt.Errorf("starting Trino: %w", err)
	}
	n := &node{layout: l, Process: p}
	command := slices.Concat([]string{o.Installation.Java}, startup(o.Installation), o.JVM, named)
	return n, json.NewEncoder(n.In).Encode(guarded{append(command, l.arguments(o.Installation.Dir)...), l.dir, o.Installation.Dir, fence})
}

// startup returns the JVM's option for a faster start. The JVM ignores a cache that does not fit.
func startup(i install.Trino) []string {
	if i.StartupCache == "" {
		return nil
	}
	return []string{"-XX:AOTCache=" + i.StartupCache}
}

func chownAll(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

// end ends the node and returns when it has ended.
func (n *node) end() {
	n.once.Do(func() { _ = n.In.Close() })
	late := time.AfterFunc(endGrace+2*time.Second, n.Kill)
	defer late.Stop()
	<-n.Gone()
}

// obituary returns why a node has ended, as far as known.
func (n *node) obituary() string {
	said := n.Output()
	if strings.Contains(said, "OutOfMemoryError") {
		return "it ran out of memory"
	}
	why := n.State().String()
	if reason := strings.TrimSpace(said); n.State().ExitCode() == startedNone && reason != "" {
		return reason
	}
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "1) ") || strings.Contains(line, "Error") || strings.HasPrefix(line, "Exception") {
			return why + ": " + line
		}
	}
	return why
}

// await polls the node until it accepts queries, it ends, or ctx ends.
func (n *node) await(ctx context.Context, ask func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready, err := ask(ctx); err == nil && ready {
			return nil
		}
		select {
		case <-n.Gone():
			return errors.New("its process ended (" + n.obituary() + ")")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
