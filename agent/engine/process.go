package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/supervised"
)

// process is the engine's handle on a child.
type process struct {
	*supervised.Process
	dir    string
	out    *os.File
	frames *bufio.Reader

	ready   chan struct{} // closed when the child accepts statements or has failed
	failure error         // valid once ready is closed

	sending sync.Mutex
	killed  bool // killed by the engine; guarded by sending

	// Used only by the holder of the process.
	lock      string // the storage to which it is locked; empty if unlocked
	maintains bool   // it maintains a table
	begun     bool   // the running statement may have written
	ended     bool   // the last statement's end frame arrived
	limit     int64  // bytes of memory for a statement
}

// startProcess starts a child in a new directory below the engine's. The child is usable once ready
// is closed.
func startProcess(o Options, extensions string) (*process, error) {
	dir, err := os.MkdirTemp(o.Dir, "child-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, ready: make(chan struct{}), ended: true}
	if err := p.start(o, extensions); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a child of the engine: %w", err), os.RemoveAll(dir))
	}
	return p, nil
}

func (p *process) start(o Options, extensions string) error {
	temp := filepath.Join(p.dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	if c := o.Credential; c != nil {
		if err := errors.Join(os.Chown(p.dir, int(c.Uid), int(c.Gid)), os.Chown(temp, int(c.Uid), int(c.Gid))); err != nil {
			return err
		}
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer childOut.Close()
	p.Process, err = supervised.Start(supervised.Options{
		Command: o.Command, Dir: p.dir, Temp: temp, Credential: o.Credential,
		Files:      []*os.File{childOut}, // used by spawned.Output
		OOMScore:   900,                  // before the agent and its neighbors
		KeepOutput: 16 << 10,
	})
	if err != nil {
		out.Close()
		return err
	}
	p.out, p.frames, p.limit = out, bufio.NewReaderSize(out, 1<<18), o.memory()
	go p.await(spawned.Options{Extensions: extensions, Dir: p.dir, Memory: o.memory(), Threads: o.Threads, TempLimit: o.TempLimit, CommitTime: o.CommitTime}, o.addresses)
	return nil
}

// await sends the child its options and waits until it is ready.
func (p *process) await(o spawned.Options, private *addresses) {
	defer close(p.ready)
	if err := p.send(spawned.FrameOptions, o); err != nil {
		p.failure = p.lost(err)
		return
	}
	address, err := p.awaitReady()
	if err != nil {
		p.failure = err
	}
	private.add(string(address))
}

// awaitReady reads the child's ready frame. The first one contains the address of the child's
// catalog connection, if it has one.
func (p *process) awaitReady() ([]byte, error) {
	kind, payload, err := agent.ReadFrame(p.frames)
	switch {
	case err != nil:
		return nil, p.lost(err)
	case kind == spawned.FrameFailed:
		return nil, errors.New(string(payload))
	case kind != spawned.FrameReady:
		return nil, fmt.Errorf("the child sent %q instead of a ready frame", byte(kind))
	}
	return payload, nil
}

func (p *process) lost(err error) error {
	return fmt.Errorf("the child ended (%w): %s", err, strings.TrimSpace(p.Output()))
}

func (p *process) send(kind agent.FrameKind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.sending.Lock()
	defer p.sending.Unlock()
	return agent.WriteFrame(p.In, kind, b)
}

// cancel asks the child to end the running statement.
func (p *process) cancel() {
	p.sending.Lock()
	defer p.sending.Unlock()
	_ = agent.WriteFrame(p.In, spawned.FrameCancel) // a child that does not respond is killed
}

func (p *process) kill() {
	p.sending.Lock()
	p.killed = true
	p.sending.Unlock()
	p.Kill()
}

// usedUp reports whether the engine has killed the process. The process may not have ended yet.
func (p *process) usedUp() bool {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.killed
}

// end ends the process and removes its files. It returns when that is done.
func (p *process) end() {
	p.kill()
	<-p.Gone()
	<-p.ready
	p.out.Close()
	_ = os.RemoveAll(p.dir)
}

// awaitEnd waits for a process that closed its output. It kills a process that keeps running.
func (p *process) awaitEnd() {
	timer := time.AfterFunc(time.Second, p.kill)
	defer timer.Stop()
	<-p.Gone()
}

// cause returns why the process ended, and whether it ran out of memory. The process must have
// ended.
func (p *process) cause() (why string, memory bool) {
	killed := p.usedUp()
	status, ok := p.State().Sys().(syscall.WaitStatus)
	said := strings.ToLower(p.Output())
	for _, sign := range []string{"out of memory", "cannot allocate", "bad_alloc", "failed to allocate"} {
		if strings.Contains(said, sign) {
			return "it ran out of memory", true
		}
	}
	if ok && status.Signaled() && status.Signal() == unix.SIGKILL && !killed {
		used, known := p.State().SysUsage().(*syscall.Rusage)
		if known && used.Maxrss<<10 < p.limit/2 {
			return "killed from outside", false
		}
		return "killed from outside, most likely because the host ran out of memory", true
	}
	return p.State().String(), false
}

// usable waits until the child accepts statements.
func (p *process) usable(ctx context.Context) error {
	select {
	case <-p.ready:
		return p.failure
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
