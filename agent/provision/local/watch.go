package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// slowPoll is the interval of polling a process if the kernel does not report its end.
const slowPoll = 500 * time.Millisecond

// exit is how a machine's process ended.
type exit struct {
	process process
	status  string
}

// watch waits for the end of an agent's process.
type watch struct {
	ref      machine.Ref // the zero value for the agent beside the server
	process  process
	pidfd    *os.File // nil if the kernel does not support it
	expected bool     // the provider itself ends the process; guarded by Provider.mu
	ctx      context.Context
	cancel   context.CancelFunc
}

// watch starts watching a process, unless it is watched already. The caller holds the machine's
// lock, or the provider is not in use yet.
func (p *Provider) watch(ref machine.Ref, proc process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.watches[ref.Machine]; p.closed || w != nil && w.process == proc {
		return
	}
	w := newWatch(ref, proc)
	p.watches[ref.Machine] = w
	delete(p.exits, ref.Machine)
	p.watching.Go(func() {
		if w.wait() {
			p.ended(w)
		}
	})
}

// newWatch returns a watch of a process. The caller must call wait, which releases it.
func newWatch(ref machine.Ref, proc process) *watch {
	w := &watch{ref: ref, process: proc}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if fd, err := unix.PidfdOpen(proc.Pid, unix.PIDFD_NONBLOCK); err == nil {
		w.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return w
}

// expect records that the provider itself ends a machine's process.
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

// wait waits for the end of the process. It reports false if the watch was stopped first.
func (w *watch) wait() bool {
	defer w.cancel()
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

// await waits, without occupying a thread, until the kernel reports the end of the process. An
// error means that the kernel cannot report it.
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
	status := w.process.status()
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

// status says how a process ended.
func (p process) status() string {
	s, ok := p.reap()
	switch {
	case !ok:
		return "it was not a child of this server, so its exit status is not known"
	case s.Signaled():
		return "killed by " + unix.SignalName(s.Signal())
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
