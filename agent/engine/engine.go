// Package engine runs SQL on the agent of a warehouse.
//
// Statements run in child processes. Each child holds a DuckDB that can reach only the workspace's
// storage and the platform's catalog. A child runs one statement at a time and stays warm for the
// next. A crash fails only the statement that caused it. Each statement has its own connection and
// catalog token, so it sees nothing of earlier ones.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/extensions"
	"github.com/millpond/millpond/agent/engine/trino"
)

// GuardCommand is the program's argument that runs trino.GuardMain.
const GuardCommand = "trino-guard"

// Options configure an Engine.
type Options struct {
	// Dir is the engine's directory, created if missing. It holds the extensions and the children's
	// directories.
	Dir    string
	Memory int64 // bytes for all statements together; 0 means half of the host's
	// Slots is the number of statements that run at once. 0 means one for each GiB of Memory, and
	// at most two for each core.
	Slots int
	Queue int          // maximum number of waiting statements; 0 means 100
	Log   *slog.Logger // nil discards the log

	// Threads is the number of threads of a statement; 0 means one for each core of the host.
	Threads int
	// TempLimit bounds a statement's spill files, in bytes. 0 means four times its memory.
	TempLimit int64
	// CommitTime bounds the retries that determine the result of a commit whose response was lost.
	// 0 means 20 seconds; DuckDB does not wait longer than that.
	CommitTime time.Duration
	// Command runs duckdb.Main; empty means this program with the argument "engine-child".
	Command []string
	// Credential is the user that children run as, with exactly its groups. nil means the engine's
	// own user. Only root may name another user. The user needs access to Dir. If the workspace's
	// storage is files, its groups need read and write access there.
	Credential *syscall.Credential
	// Trino, if not nil, makes Trino the write engine. The engine sets its Dir, Command, Credential
	// and Log.
	Trino *trino.Options

	addresses *addresses // of the engine's connections to the catalog
}

// Engine runs statements. It is an http.Handler for agent.StatementsPath and agent.StatementPath.
type Engine struct {
	o       Options
	log     *slog.Logger
	version string
	mux     *http.ServeMux
	slots   *semaphore.Weighted
	pool    *pool
	trino   *trinoEngine // nil if DuckDB is the write engine
	changed chan struct{}

	mu       sync.Mutex
	running  map[string]*run // by statement id, waiting ones included
	accepted accepted
	waiting  int
	closed   bool
	serving  sync.WaitGroup
}

// minMemory is the least memory in which a child works, in bytes.
const minMemory = 128 << 20

// New creates an engine and starts its first child. It returns extensions.ErrMissing if
// the binary was built without the extensions.
func New(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the engine's directory: %w", err)
	}
	unpacked, err := extensions.Unpack(o.Dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, log: o.Log, version: duckdb.Version(), mux: http.NewServeMux(), slots: semaphore.NewWeighted(int64(o.Slots)), running: map[string]*run{},
		changed: make(chan struct{}, 1),
	}
	if o.Trino != nil {
		if err := e.openTrino(o.trino()); err != nil {
			return nil, err
		}
	}
	if e.pool, err = newPool(o, unpacked); err != nil {
		if e.trino != nil {
			e.trino.close()
		}
		return nil, err
	}
	e.mux.HandleFunc("POST "+agent.StatementsPath, e.post)
	e.mux.HandleFunc("DELETE "+fmt.Sprintf(agent.StatementPath, "{id}"), e.cancel)
	return e, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("the engine needs a directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	o.addresses = &addresses{}
	o.Log = slog.New(redacted{cmp.Or(o.Log, slog.New(slog.DiscardHandler)).Handler(), o.addresses})
	if o.Memory == 0 {
		var host unix.Sysinfo_t
		if err := unix.Sysinfo(&host); err != nil {
			return o, fmt.Errorf("reading the host's memory: %w", err)
		}
		o.Memory = int64(host.Totalram) * int64(host.Unit) / 2
	}
	if o.Slots == 0 {
		o.Slots = int(max(1, min(o.Memory>>30, int64(2*runtime.NumCPU()))))
	}
	o.Queue = cmp.Or(o.Queue, 100)
	o.Threads = cmp.Or(o.Threads, runtime.NumCPU())
	if o.Slots < 1 || o.Queue < 0 || o.Threads < 1 {
		return o, fmt.Errorf("the engine cannot have %d slots, a queue of %d and %d threads", o.Slots, o.Queue, o.Threads)
	}
	if o.memory() < minMemory {
		return o, fmt.Errorf("%d bytes of memory for each of %d statements are too few: give the engine more memory or fewer slots, so that each has %d", o.memory(), o.Slots, minMemory)
	}
	o.TempLimit = cmp.Or(o.TempLimit, 4*o.memory())
	o.CommitTime = cmp.Or(o.CommitTime, catalog.CommitTime)
	if len(o.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Command = []string{program, "engine-child"}
	}
	return o, nil
}

// trino returns the options of Trino, completed with the engine's.
func (o Options) trino() trino.Options {
	t := *o.Trino
	t.Dir, t.Credential, t.Log = filepath.Join(o.Dir, "trino"), o.Credential, o.Log
	if len(t.Command) == 0 {
		t.Command = append(slices.Clone(o.Command[:len(o.Command)-1]), GuardCommand)
	}
	return t
}

// uid returns the user id that the engine's processes run as.
func (o Options) uid() int {
	if c := o.Credential; c != nil {
		return int(c.Uid)
	}
	return os.Geteuid()
}

// memory returns the bytes of memory for each statement.
func (o Options) memory() int64 { return o.Memory / int64(o.Slots) }

// Engines returns the engines that the agent reports, with their versions and states.
func (e *Engine) Engines() []agent.Engine {
	all := []agent.Engine{{Name: duckdb.Name, Version: e.version}}
	if e.trino != nil {
		s := e.trino.server.Status()
		all = append(all, agent.Engine{Name: TrinoName, Version: e.trino.server.Version(), State: string(s.State), Message: s.Message, Nodes: s.Nodes})
	}
	return all
}

// Dir returns the engine's directory as an absolute path.
func (e *Engine) Dir() string { return e.o.Dir }

// Changed returns a channel that receives a value when Engines have changed.
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Configure applies the settings of the warehouse. It may be called any number of times.
func (e *Engine) Configure(s agent.WarehouseSettings) {
	if e.trino == nil {
		return
	}
	e.trino.server.Resize(s.Nodes)
	if s.TrinoStart == agent.StartWithWarehouse {
		e.trino.server.Prestart(s.Storage)
	}
}

// ServeHTTP handles the control plane's requests.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.mux.ServeHTTP(w, r) }

// Close cancels all statements and stops the children. It returns when all have ended.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	for _, r := range e.running {
		r.stop(errClosing)
	}
	e.mu.Unlock()
	e.serving.Wait()
	e.pool.close()
	if e.trino != nil {
		e.trino.close()
	}
}

// Reasons why a statement is stopped early.
var (
	errClosing   = errors.New("the agent stops")
	errCancelled = errors.New("it was cancelled on request, or nobody waits for it any more")
	errTimeout   = errors.New("time-out")
	errReader    = errors.New("the reader is gone")
)

// run is a statement from arrival to end.
type run struct {
	ctx     context.Context
	stop    context.CancelCauseFunc
	slots   *semaphore.Weighted // of the engine that runs it
	hasSlot bool                // it has a slot and does not wait for one
}

// register accepts a statement, so that it can be cancelled. It rejects a statement that was
// accepted before, and every statement while the queue is full. A read is cancelled when its reader
// disconnects; a write continues.
func (e *Engine) register(ctx context.Context, s *agent.Statement, chosen routed) (*run, func(), *rejection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed:
		return nil, nil, &rejection{http.StatusServiceUnavailable, "The warehouse is stopping."}
	case e.running[s.ID] != nil || e.accepted.has(s.ID, now):
		return nil, nil, &rejection{http.StatusConflict, "The warehouse already started this statement and does not run it twice. If it wrote anything, its tables have that."}
	}
	r := &run{slots: e.slots}
	if chosen.trino {
		r.slots = e.trino.slots
	}
	if r.hasSlot = r.slots.TryAcquire(1); !r.hasSlot {
		if e.waiting >= e.o.Queue {
			return nil, nil, &rejection{http.StatusServiceUnavailable, fmt.Sprintf("The warehouse is busy: %d statements wait. Send the statement again later, or use another warehouse.", e.o.Queue)}
		}
		e.waiting++
	}
	r.ctx, r.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	detach := func() bool { return true }
	if !chosen.class.Write {
		detach = context.AfterFunc(ctx, func() { r.stop(errReader) })
	}
	e.accepted.add(s.ID, now)
	e.running[s.ID] = r
	e.serving.Add(1)
	return r, func() {
		detach()
		r.stop(nil)
		e.mu.Lock()
		if e.running[s.ID] == r { // else it was accepted again
			delete(e.running, s.ID)
		}
		e.mu.Unlock()
		e.serving.Done()
	}, nil
}
