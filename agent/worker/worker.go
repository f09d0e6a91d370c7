// Package worker is the agent's end of the agent channel. It connects to the control plane and runs
// the processes of attempts under shims (package shim). It stores their logs until the control
// plane has them, and reports how they ended.
//
// An attempt survives the agent: its shim continues alone, and the next agent on the same directory
// adopts it.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	osuser "os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// worker is a running agent.
type worker struct {
	options    Options
	credential *credential
	directory  agent.Directory
	lock       *os.File // of the directory
	log        *slog.Logger
	users      *users   // nil when tasks run as the agent's own user
	private    []string // directories that are private to each attempt
	cgroup     string   // parent of the attempts' control groups; "" for none
	userName   string
	path       string
	pool       *pool
	gpus       *gpus // nil for none

	ctx        context.Context // ends with Run
	supervised sync.WaitGroup
	lease      atomic.Int64 // CLOCK_BOOTTIME ns at which processes are killed; 0 without a lease
	leased     atomic.Int64 // length of the lease in ns; 0 before the first one
	statements atomic.Int64 // number of running statements
	busyAt     atomic.Int64 // CLOCK_BOOTTIME ns at which something last ran, if nothing runs now
	sweep      chan struct{}
	measure    chan struct{} // requests a measurement of the shared directory
	sharedFull atomic.Bool   // the shared directory exceeded its limits at the last measurement

	mu       sync.Mutex
	attempts map[string]*attempt
	starting map[string]bool // ids of attempts that are being prepared
	past     []string        // ids that were forgotten recently: a late message must not start them again
	group    uint32          // the workspace's group from the last Welcome; 0 for none
	groups   []uint32        // of tasks with their own users: group, if this machine can set it
	shared   string          // the directory that tasks share; empty for none

	ship, reports *queue
}

// Run connects to the control plane and runs attempts until ctx ends. It returns a
// *tunnel.FinalError if a retry is useless. The processes of attempts continue under their shims,
// for the next agent on the same directory.
func Run(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	w := newWorker(o)
	if w.credential, err = newCredential(o); err != nil {
		return err
	}
	unlock, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	w.ctx = ctx
	var group sync.WaitGroup
	defer func() {
		cancel(nil)
		w.supervised.Wait()
		group.Wait()
		w.closeAll()
	}()
	group.Go(func() { w.pool.run(ctx) })
	group.Go(func() { w.removeTrash(ctx) })
	group.Go(func() { w.watchDirectory(ctx, cancel) })
	group.Go(w.watchShared)
	if err := w.adoptAll(); err != nil {
		return err
	}
	w.busy()
	err = w.connectForever(ctx)
	if gone := context.Cause(ctx); isFinal(gone) {
		return gone
	}
	return err
}

func newWorker(o Options) *worker {
	return &worker{
		options: o, log: o.Log, attempts: map[string]*attempt{}, starting: map[string]bool{},
		ship: newQueue(), reports: newQueue(), sweep: make(chan struct{}, 1), measure: make(chan struct{}, 1),
	}
}

// prepare locks and prepares the agent's directory, and detects what the machine supports.
func (w *worker) prepare(ctx context.Context) (unlock func(), err error) {
	dir := w.options.Dir
	for _, d := range []string{dir, w.attemptsDir(), w.trashDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("making the agent's directory: %w", err)
		}
	}
	lock, err := lockDir(ctx, dir, "stop it, or give this one a directory of its own")
	if err != nil {
		return nil, err
	}
	w.lock = lock
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := w.identify(); err != nil {
		return nil, fmt.Errorf("identifying the agent's directory: %w", err)
	}
	if err := shim.ProbeSpool(dir); err != nil {
		return nil, err
	}
	if err := w.chooseUsers(ctx); err != nil {
		return nil, err
	}
	stderr := filepath.Join(dir, shimLog)
	if info, err := os.Stat(stderr); err == nil && info.Size() > 1<<20 {
		_ = os.Truncate(stderr, 0)
	}
	w.pool = newPool(w.options.Shim, stderr, w.options.Slots, w.log)
	w.gpus = findGPUs(w.options)
	w.path = cmp.Or(os.Getenv("PATH"), defaultPath)
	if err := layProgram(runningProgram, w.binDir()); err != nil {
		w.log.Warn("tasks do not find the command millpond, or find an older one", "error", err)
	}
	return func() { lock.Close() }, nil
}

// identify determines the directory's identity, and writes it to the directory.
func (w *worker) identify() error {
	d, was, err := findDirectory(w.options.Dir)
	if err != nil {
		return err
	}
	if news := d.News(was); news != "" {
		w.log.Warn(news)
	}
	w.directory = d
	return d.Keep(was)
}

// shimLog is the standard error of every shim of the directory.
const shimLog = "shim.log"

// lockWait is how long to wait for the lock: a child of a killed agent may hold it until its exec.
const lockWait = 2 * time.Second

const lockFile = "agent.lock"

// lockDir locks the directory. If another agent holds the lock, the error has the advice. The lock
// ends with the process.
func lockDir(ctx context.Context, dir, advice string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the agent's lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for pause := (backoff{}); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !pause.wait(ctx) {
			pid := make([]byte, 20)
			n, _ := f.ReadAt(pid, 0)
			f.Close()
			return nil, fmt.Errorf("another agent (process %s) works in %s: %s", strings.TrimSpace(string(pid[:n])), dir, advice)
		}
	}
	err = errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid())))
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// chooseUsers decides which users tasks run as.
func (w *worker) chooseUsers(ctx context.Context) error {
	w.userName = "task"
	if u, err := osuser.Current(); err == nil {
		w.userName = u.Username
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 && !w.options.OneUser {
		users, err := newUsers(w.options.Users)
		if err != nil {
			return err
		}
		w.users = users
		mode = 0o711 // a task can reach its working directory, but not read the parents
	}
	for _, d := range []string{w.options.Dir, w.attemptsDir()} {
		if err := os.Chmod(d, mode); err != nil {
			return err
		}
	}
	if w.users == nil {
		w.cgroup = findCgroup()
		w.log.Info("tasks run as the agent's own user: this machine is one trust domain", "user", w.userName, "control groups", w.cgroup != "")
		return nil
	}
	err := checkReachable(w.options.Dir)
	if err != nil {
		return err
	}
	if err := closeMetadata(ctx, w.users.Users); err != nil {
		w.log.Warn("tasks can reach the cloud's metadata address, because no routing rule could be set", "error", err)
	} else {
		w.log.Info("the cloud's metadata address is closed to tasks")
	}
	if w.private, err = privateDirs(w.options.Dir); err != nil {
		w.log.Warn("tasks share temporary directories with the rest of this machine", "error", err, "still private", w.private)
	}
	w.log.Info("each task runs as its own user", "first", w.users.First, "last", w.users.Last)
	return nil
}

func (w *worker) attemptsDir() string { return filepath.Join(w.options.Dir, "attempts") }
func (w *worker) trashDir() string    { return filepath.Join(w.options.Dir, "trash") }
func (w *worker) killAt() int64       { return w.lease.Load() }

// setLease sends every shim the time at which it must kill its process.
func (w *worker) setLease(killAt int64) {
	w.lease.Store(killAt)
	for _, a := range w.held() {
		a.order(shim.Order{KillAt: killAt})
	}
}

func (w *worker) find(id string) *attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts[id]
}

// held lists the attempts of this agent.
func (w *worker) held() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*attempt, 0, len(w.attempts))
	for _, a := range w.attempts {
		list = append(list, a)
	}
	return list
}

// closeAll releases all resources without ending the shims.
func (w *worker) closeAll() {
	for _, a := range w.held() {
		if a.link != nil {
			a.link.detach()
		}
		a.mu.Lock()
		a.share(nil)
		a.closePipes()
		a.mu.Unlock()
		a.closeFiles()
		a.user.release()
	}
	if w.users != nil {
		w.users.lastFile.Close()
	}
}

func (w *worker) engines() []agent.Engine {
	if w.options.Engines == nil {
		return nil
	}
	return w.options.Engines()
}

// configure passes on the warehouse's settings, if the control plane sent them.
func (w *worker) configure(s *agent.WarehouseSettings) {
	if s != nil && w.options.Configure != nil {
		w.options.Configure(*s)
	}
}

// hello is this agent's Hello without its attempts.
func (w *worker) hello() agent.Hello {
	host, _ := os.Hostname()
	return agent.Hello{
		Protocol: agent.ProtocolVersion, Instance: w.directory.ID, Version: w.options.Version, Hostname: host, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Slots: w.options.Slots, Idle: w.idle(), Engines: w.engines(), Attempts: []agent.HelloAttempt{},
	}
}
