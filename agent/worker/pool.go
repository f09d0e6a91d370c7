package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pool keeps idle shims ready, because starting a process of this size takes longer than a short
// task. An idle shim ends with its agent, because its socket closes.
type pool struct {
	argv   []string
	stderr string // the file for a shim's standard error
	low    int    // with fewer idle shims than this, more are started …
	ready  int    // … until there are this many; between the two, shims that return from an attempt suffice
	most   int    // idle shims kept after their attempt
	log    *slog.Logger
	refill chan struct{}

	mu     sync.Mutex
	idle   []*link
	closed bool
}

func newPool(argv []string, stderr string, slots int, log *slog.Logger) *pool {
	ready := min(max(slots, 1), 4)
	return &pool{argv: argv, stderr: stderr, low: max(1, ready/2), ready: ready, most: max(ready, min(slots, 16)), log: log, refill: make(chan struct{}, 1)}
}

// run keeps the pool filled until ctx ends, then ends the idle shims.
func (p *pool) run(ctx context.Context) {
	for want := p.ready; ; want = p.low {
		for ; ctx.Err() == nil && p.idles() < want; want = p.ready {
			l, err := p.spawn()
			if err != nil {
				p.log.Error("a shim could not be started", "error", err)
				break
			}
			p.give(l)
		}
		select {
		case <-p.refill:
		case <-ctx.Done():
			p.drop()
			return
		}
	}
}

func (p *pool) idles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	return len(p.idle)
}

// prune drops shims that died while they were idle.
func (p *pool) prune() {
	p.idle = slices.DeleteFunc(p.idle, func(l *link) bool {
		if l.alive() {
			return false
		}
		l.destroy()
		return true
	})
}

func (p *pool) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, l := range idle {
		l.destroy()
	}
}

// take returns an idle shim, or starts one.
func (p *pool) take() (*link, error) {
	p.mu.Lock()
	var l *link
	p.prune()
	if n := len(p.idle); n > 0 {
		l = p.idle[n-1]
		p.idle = p.idle[:n-1]
	}
	p.mu.Unlock()
	select {
	case p.refill <- struct{}{}:
	default:
	}
	if l != nil {
		return l, nil
	}
	return p.spawn()
}

// give returns a shim to the pool after its attempt has ended.
func (p *pool) give(l *link) {
	p.mu.Lock()
	keep := l.child != nil && !p.closed && len(p.idle) < p.most
	if keep {
		p.idle = append(p.idle, newLink(l.conn, l.child)) // the old link cannot send orders to the next attempt
	}
	p.mu.Unlock()
	if !keep {
		l.destroy()
	}
}

func (p *pool) spawn() (*link, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a shim's socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "shim"), os.NewFile(uintptr(fds[1]), "agent")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	stderr, err := os.OpenFile(p.stderr, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer stderr.Close()
	// The shim gets neither the agent's outputs, because their reader would wait for the shim's
	// end, nor its environment.
	cmd := exec.Cmd{
		Path: p.argv[0], Args: p.argv, Env: []string{}, Dir: "/", Stderr: stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("starting a shim: %w", err)
	}
	return newLink(conn.(*net.UnixConn), cmd.Process), nil
}
