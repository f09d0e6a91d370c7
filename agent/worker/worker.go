// Package worker is the agent's end of the agent channel: it connects to the control plane, runs the processes of
// attempts under shims, keeps their logs until the control plane has them, and reports how they ended.
//
// An attempt survives the agent: its shim goes on without one, and the next agent on the same directory adopts it.
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
)

// worker is a running agent.
type worker struct {
	options    Options
	credential *credential
	instance   string
	lock       *os.File // of the directory
	log        *slog.Logger
	users      *users   // nil when tasks run as the agent's own user
	private    []string // directories that each attempt has for itself
	cgroup     string   // where control groups for attempts are made; "" for none
	userName   string
	path       string
	pool       *pool
	gpus       *gpus // nil for none

	ctx        context.Context // ends with Run
	supervised sync.WaitGroup
	lease      atomic.Int64 // CLOCK_BOOTTIME ns at which processes are killed; 0 while there is none
	leased     atomic.Int64 // ns that the control plane gives it; 0 before it first has
	statements atomic.Int64 // that run
	busyAt     atomic.Int64 // CLOCK_BOOTTIME ns at which something ran last, as far as nothing does
	sweep      chan struct{}

	mu       sync.Mutex
	attempts map[string]*attempt
	starting map[string]bool // ids of attempts that are being prepared
	past     []string        // ids that were forgotten lately: a late message must not start them again
	group    uint32          // as the control plane said last; 0 for none
	groups   []uint32        // of tasks with users of their own: group, where this machine gives it

	ship, reports *queue
}

// Run connects to the control plane and runs attempts until ctx ends or a retry is useless (*tunnel.FinalError). The
// processes of attempts go on under their shims, for the next agent on the same directory.
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
	ctx, cancel := context.WithCancel(ctx)
	w.ctx = ctx
	var group sync.WaitGroup
	defer func() {
		cancel()
		w.supervised.Wait()
		group.Wait()
		w.closeAll()
	}()
	group.Go(func() { w.pool.run(ctx) })
	group.Go(func() { w.removeTrash(ctx) })
	if err := w.adoptAll(); err != nil {
		return err
	}
	w.busy()
	return w.connectForever(ctx)
}

func newWorker(o Options) *worker {
	return &worker{
		options: o, log: o.Log, attempts: map[string]*attempt{}, starting: map[string]bool{},
		ship: newQueue(), reports: newQueue(), sweep: make(chan struct{}, 1),
	}
}

// prepare makes the directory this agent's own and settles what the machine allows.
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
	if w.instance, err = instanceOf(dir); err != nil {
		return nil, fmt.Errorf("naming the agent's directory: %w", err)
	}
	if err := probeSpool(dir); err != nil {
		return nil, err
	}
	if err := w.settleUsers(ctx); err != nil {
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
		w.log.Warn("tasks do not find the command millpond, or an older one", "error", err)
	}
	return func() { lock.Close() }, nil
}

// shimLog takes what shims have to say when they cannot go on. Every shim of the directory has it as its standard error.
const shimLog = "shim.log"

// lockWait is how long a lock may still be held by a process that an agent was just starting when it was killed.
const lockWait = 2 * time.Second

const lockFile = "agent.lock"

// lockDir refuses a second agent on the same directory, with advice. The lock goes with the process.
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

// settleUsers decides who tasks run as.
func (w *worker) settleUsers(ctx context.Context) error {
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
		mode = 0o711 // a task can pass through to its working directory, and read nothing on the way
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
		w.log.Warn("tasks can reach the cloud's metadata address, since no routing rule could be set", "error", err)
	} else {
		w.log.Info("the cloud's metadata address is closed to tasks")
	}
	if w.private, err = privateDirs(w.options.Dir); err != nil {
		w.log.Warn("tasks share temporary directories with all of this machine", "error", err, "still private", w.private)
	}
	w.log.Info("each task runs as a user of its own", "first", w.users.First, "last", w.users.Last)
	return nil
}

func (w *worker) attemptsDir() string { return filepath.Join(w.options.Dir, "attempts") }
func (w *worker) trashDir() string    { return filepath.Join(w.options.Dir, "trash") }
func (w *worker) killAt() int64       { return w.lease.Load() }

// setLease tells every shim until when its process may live.
func (w *worker) setLease(killAt int64) {
	w.lease.Store(killAt)
	for _, a := range w.held() {
		a.order(order{KillAt: killAt})
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

// closeAll lets go of everything, and the shims live.
func (w *worker) closeAll() {
	for _, a := range w.held() {
		if a.link != nil {
			a.link.leave()
		}
		a.mu.Lock()
		a.share(nil)
		a.closePipes()
		a.mu.Unlock()
		a.closeFiles()
		a.user.release()
	}
	if w.users != nil {
		w.users.turn.Close()
	}
}

func (w *worker) engines() []agent.Engine {
	if w.options.Engines == nil {
		return nil
	}
	return w.options.Engines()
}

// configure passes on what the control plane says of this warehouse, if it does.
func (w *worker) configure(s *agent.WarehouseSettings) {
	if s != nil && w.options.Configure != nil {
		w.options.Configure(*s)
	}
}

// hello is what this agent says of itself.
func (w *worker) hello() agent.Hello {
	host, _ := os.Hostname()
	return agent.Hello{
		Protocol: agent.ProtocolVersion, Instance: w.instance, Version: w.options.Version, Hostname: host, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Slots: w.options.Slots, Idle: w.idle(), Engines: w.engines(), Attempts: []agent.HelloAttempt{},
	}
}
