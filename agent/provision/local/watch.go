package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// slowPoll is how often a process is looked at where the kernel does not tell of its end.
const slowPoll = 500 * time.Millisecond

// exit is how a machine's process ended.
type exit struct {
	process process
	status  string
}

// watch waits for the end of one machine's process.
type watch struct {
	ref      domain.MachineRef
	process  process
	pidfd    *os.File // nil where the kernel has none
	expected bool     // the provider itself ends it; under Provider.mu
	ctx      context.Context
	cancel   context.CancelFunc
}

// watch begins to watch a process, unless it is watched already. The caller has the machine's lock, or nobody else knows of the provider yet.
func (p *Provider) watch(ref domain.MachineRef, proc process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watches[ref.Machine]; p.closed || w != nil && w.process == proc {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{ref: ref, process: proc, ctx: ctx, cancel: cancel}
	if fd, err := unix.PidfdOpen(proc.Pid, unix.PIDFD_NONBLOCK); err == nil {
		w.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	p.watches[ref.Machine] = w
	delete(p.exits, ref.Machine)
	p.watching.Go(func() {
		defer cancel()
		if w.wait() {
			p.ended(w)
		}
	})
}

// expect says that the end of a machine's process is the provider's own doing.
func (p *Provider) expect(id domain.MachineID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watches[id]; w != nil {
		w.expected = true
	}
}

func (w *watch) stop() {
	w.cancel()
	if w.pidfd != nil {
		_ = w.pidfd.Close() // wakes the reader
	}
}

// wait reports false when the watch was stopped before the process ended.
func (w *watch) wait() bool {
	if w.pidfd != nil {
		defer func() { _ = w.pidfd.Close() }()
		if w.process.alive() && w.await() != nil && w.ctx.Err() != nil {
			return false
		}
	}
	tick := time.NewTicker(slowPoll)
	defer tick.Stop()
	for w.process.alive() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return false
		}
	}
	return true
}

// await returns when the kernel says that the process has ended, without holding a thread. An error means that it cannot say.
func (w *watch) await() error {
	conn, err := w.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		if errors.Is(err, unix.EINTR) {
			return false
		}
		failed = err
		return n > 0 || err != nil
	})
	return errors.Join(err, failed)
}

func (p *Provider) ended(w *watch) {
	status := "it was no child of this server, so its exit status is not known"
	if s, ok := w.process.reap(); ok {
		status = describe(s)
	}
	p.mu.Lock()
	expected := w.expected || p.closed
	if p.watches[w.ref.Machine] == w {
		delete(p.watches, w.ref.Machine)
		p.exits[w.ref.Machine] = exit{w.process, status}
	}
	p.mu.Unlock()
	if expected {
		return
	}
	p.log.Warn("a machine's process has ended", "machine", w.ref.Machine, "incarnation", w.ref.Incarnation, "pid", w.process.Pid, "status", status)
	if p.options.Gone != nil {
		p.options.Gone(w.ref)
	}
}

func describe(s unix.WaitStatus) string {
	if s.Signaled() {
		return "killed by " + unix.SignalName(s.Signal())
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
