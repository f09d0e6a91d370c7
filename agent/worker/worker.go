// Package worker is the agent's end of the agent channel: it connects to the control plane, runs the processes of
// attempts under shims, keeps their logs until the control plane has them, and reports how they ended.
//
// An attempt survives the agent: its shim goes on without one, and the next agent on the same directory adopts it.
package worker

import (
	"cmp"
	"context"
	"crypto/tls"
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

// Options configure an agent.
type Options struct {
	Server  string       // the control plane's http or https URL
	Token   string       // of the agent
	TLS     *tls.Config  // nil means the system's roots
	Dir     string       // data directory of this agent; made if it is not there
	Slots   int          // attempts it offers to run at once; 0 means four for each core
	Version string       // of the binary, for people
	Log     *slog.Logger // nil means none

	// SpoolLimit is how many bytes of log that were not yet sent an attempt may have on disk before its process is held
	// back; 0 means 64 MiB.
	SpoolLimit int64
	// LogLimit is how many bytes of log an attempt may write; what follows is thrown away, which a line at the end of its log says.
	// 0 means no limit.
	LogLimit int64
	// Users are the users that tasks run as when the agent is root. OneUser runs them as the agent's own user even so.
	Users   Users
	OneUser bool
	// Shim is the command that runs ShimMain; empty means this program with the argument "shim".
	Shim []string
}

const defaultSpool = 64 << 20

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("the agent needs a data directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	if o.LogLimit < 0 {
		return o, fmt.Errorf("the log limit is %d bytes; give a positive number, or 0 for none", o.LogLimit)
	}
	if o.Slots <= 0 {
		o.Slots = 4 * runtime.NumCPU()
	}
	if o.SpoolLimit <= 0 {
		o.SpoolLimit = defaultSpool
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Shim) == 0 {
		// The running image, also after an upgrade has replaced the file.
		o.Shim = []string{"/proc/self/exe", "shim"}
	}
	return o, nil
}

// logLimit is the smaller limit of the agent's and an attempt's own.
func (o Options) logLimit(own int64) int64 {
	if own == 0 || o.LogLimit > 0 && o.LogLimit < own {
		return o.LogLimit
	}
	return own
}

// worker is a running agent.
type worker struct {
	options  Options
	instance string
	log      *slog.Logger
	users    *users   // nil when tasks run as the agent's own user
	private  []string // directories that each attempt has for itself
	cgroup   string   // where control groups for attempts are made; "" for none
	userName string
	path     string
	pool     *pool

	ctx        context.Context // ends with Run
	supervised sync.WaitGroup
	lease      atomic.Int64 // CLOCK_BOOTTIME ns at which processes are killed; 0 while there is none
	sweep      chan struct{}

	mu       sync.Mutex
	attempts map[string]*attempt
	starting map[string]bool // ids of attempts that are being prepared
	past     []string        // ids that were forgotten lately: a late message must not start them again

	ship, reports *queue
}

// Run connects to the control plane and runs attempts until ctx ends or a retry is useless (*tunnel.FinalError). The
// processes of attempts go on under their shims, for the next agent on the same directory.
func Run(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	w := &worker{
		options: o, log: o.Log, attempts: map[string]*attempt{}, starting: map[string]bool{},
		ship: newQueue(), reports: newQueue(), sweep: make(chan struct{}, 1),
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
	return w.connectForever(ctx)
}

// prepare makes the directory this agent's own and settles what the machine allows.
func (w *worker) prepare(ctx context.Context) (unlock func(), err error) {
	dir := w.options.Dir
	for _, d := range []string{dir, w.attemptsDir(), w.trashDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("making the agent's directory: %w", err)
		}
	}
	lock, err := lockDir(ctx, dir)
	if err != nil {
		return nil, err
	}
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
	stderr := filepath.Join(dir, "shim.log")
	if info, err := os.Stat(stderr); err == nil && info.Size() > 1<<20 {
		_ = os.Truncate(stderr, 0)
	}
	w.pool = newPool(w.options.Shim, stderr, w.options.Slots, w.log)
	w.path = cmp.Or(os.Getenv("PATH"), defaultPath)
	return func() { lock.Close() }, nil
}

// lockWait is how long a lock may still be held by a process that an agent was just starting when it was killed.
const lockWait = 2 * time.Second

// lockDir refuses a second agent on the same directory. The lock goes with the process.
func lockDir(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_RDWR|os.O_CREATE, 0o600)
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
			return nil, fmt.Errorf("another agent (process %s) works in %s: stop it, or give this one a directory of its own", strings.TrimSpace(string(pid[:n])), dir)
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

// hello is what this agent says of itself.
func (w *worker) hello() agent.Hello {
	host, _ := os.Hostname()
	return agent.Hello{
		Protocol: agent.ProtocolVersion, Instance: w.instance, Version: w.options.Version, Hostname: host, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Slots: w.options.Slots, Attempts: []agent.HelloAttempt{},
	}
}
