// Package engine runs SQL on the agent of a warehouse.
//
// The statements run in child processes, each of which holds a DuckDB that can reach the workspace's storage and the platform's catalog, and nothing else.
// A child takes one statement at a time and is kept warm for the next; what goes wrong in it fails that statement alone. Nothing of a statement is seen by
// the next one: it has a connection and a catalog token of its own.
package engine

import (
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

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
	"github.com/millpond/millpond/agent/engine/trino"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

// Name is DuckDB's, as statements name it.
const Name = "duckdb"

// GuardCommand is the argument with which the program runs trino.GuardMain.
const GuardCommand = "trino-guard"

// Options configure an Engine.
type Options struct {
	Dir    string       // of the engine's own; made if it is not there. Below it lie the extensions and the children's directories
	Memory int64        // of all statements together, in bytes; 0 means half of the host's
	Slots  int          // statements that run at once; 0 means one for each GiB of Memory, two for each core at most
	Queue  int          // statements that wait at most; 0 means 100
	Log    *slog.Logger // nil means none

	// Threads are those of a statement; 0 means one for each core of the host.
	Threads int
	// TempLimit is how many bytes of disk a statement may take for what does not fit into its memory; 0 means four times its memory.
	TempLimit int64
	// CommitTime is how long the catalog is asked what became of a commit whose answer was lost; 0 means 20 seconds, and more than that is too long for DuckDB.
	CommitTime time.Duration
	// Command runs ChildMain; empty means this program with the argument "engine-child".
	Command []string
	// Credential is the user that children run as, with its groups and no others; nil means the engine's own. Only root may name another. The user must be able to
	// reach Dir, and by its groups to read and write the storage of the workspace where that is files.
	Credential *syscall.Credential
	// Trino, where it is not nil, makes it the write engine. Its Dir, Command, Credential and Log are the engine's.
	Trino *trino.Options
}

// Engine runs statements. It answers agent.StatementsPath and agent.StatementPath as an http.Handler.
type Engine struct {
	o       Options
	log     *slog.Logger
	version string
	mux     *http.ServeMux
	places  *semaphore.Weighted
	pool    *pool
	trino   *trinoEngine // nil where DuckDB is the write engine
	changed chan struct{}

	mu      sync.Mutex
	running map[string]*run // by the statement's id, those that wait included
	taken   taken
	waiting int
	closed  bool
	serving sync.WaitGroup
}

// minMemory is what a child needs to do anything.
const minMemory = 128 << 20

// New makes an engine, and starts its first child. It returns ErrNoExtensions where the binary has none.
func New(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the engine's directory: %w", err)
	}
	extensions, err := unpackExtensions(o.Dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, log: o.Log, version: duckdb.LibraryVersion(), mux: http.NewServeMux(), places: semaphore.NewWeighted(int64(o.Slots)), running: map[string]*run{},
		changed: make(chan struct{}, 1),
	}
	if o.Trino != nil {
		if err := e.openTrino(o.trino()); err != nil {
			return nil, err
		}
	}
	if e.pool, err = newPool(o, extensions); err != nil {
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Memory == 0 {
		var host unix.Sysinfo_t
		if err := unix.Sysinfo(&host); err != nil {
			return o, fmt.Errorf("asking for the host's memory: %w", err)
		}
		o.Memory = int64(host.Totalram) * int64(host.Unit) / 2
	}
	if o.Slots == 0 {
		o.Slots = int(max(1, min(o.Memory>>30, int64(2*runtime.NumCPU()))))
	}
	if o.Queue == 0 {
		o.Queue = 100
	}
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Slots < 1 || o.Queue < 0 || o.Threads < 1 {
		return o, fmt.Errorf("the engine cannot have %d slots, a queue of %d and %d threads", o.Slots, o.Queue, o.Threads)
	}
	if o.memory() < minMemory {
		return o, fmt.Errorf("%d bytes of memory for each of %d statements are too few: give the engine more memory or fewer slots, so that each has %d", o.memory(), o.Slots, minMemory)
	}
	if o.TempLimit == 0 {
		o.TempLimit = 4 * o.memory()
	}
	if o.CommitTime == 0 {
		o.CommitTime = errand.Patience
	}
	if len(o.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Command = []string{program, "engine-child"}
	}
	return o, nil
}

// trino are the options of Trino with what is the engine's.
func (o Options) trino() trino.Options {
	t := *o.Trino
	t.Dir, t.Credential, t.Log = filepath.Join(o.Dir, "trino"), o.Credential, o.Log
	if len(t.Command) == 0 {
		t.Command = append(slices.Clone(o.Command[:len(o.Command)-1]), GuardCommand)
	}
	return t
}

// memory is what each statement may have.
func (o Options) memory() int64 { return o.Memory / int64(o.Slots) }

// Engines are what the agent says of itself.
func (e *Engine) Engines() []agent.Engine {
	all := []agent.Engine{{Name: Name, Version: e.version}}
	if e.trino != nil {
		s := e.trino.server.Status()
		all = append(all, agent.Engine{Name: TrinoName, Version: e.trino.server.Version(), State: string(s.State), Message: s.Message, Nodes: s.Nodes})
	}
	return all
}

// Dir is the engine's directory, as an absolute path.
func (e *Engine) Dir() string { return e.o.Dir }

// Changed is sent to when Engines have changed.
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Configure takes the settings of the warehouse, as often as they come.
func (e *Engine) Configure(s agent.WarehouseSettings) {
	if e.trino == nil {
		return
	}
	e.trino.server.Resize(s.Nodes)
	if s.TrinoStart == agent.StartWithWarehouse {
		e.trino.server.Start()
	}
}

// ServeHTTP answers the control plane.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.mux.ServeHTTP(w, r) }

// Close cancels all statements, and ends the children. It returns when all are gone.
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

// Why a statement is ended before its time.
var (
	errClosing   = errors.New("the agent stops")
	errCancelled = errors.New("somebody asked for it, or nobody waits for it any more")
	errTimeout   = errors.New("time-out")
	errReader    = errors.New("the reader is gone")
)

// run is a statement from its arrival to its end.
type run struct {
	ctx    context.Context
	stop   context.CancelCauseFunc
	places *semaphore.Weighted // of its engine
	placed bool                // it has a place, rather than waiting for one
}

// register takes a statement, so that it can be cancelled; not one that was taken before, and none where too many wait. The reader's end cancels a read; a
// write goes on.
func (e *Engine) register(ctx context.Context, s *agent.Statement, c class) (*run, func(), *untaken) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed:
		return nil, nil, &untaken{http.StatusServiceUnavailable, "The warehouse is being stopped."}
	case e.running[s.ID] != nil || e.taken.has(s.ID, now):
		return nil, nil, &untaken{http.StatusConflict, "The warehouse has begun with this statement before, and takes none twice. What it wrote, if anything, is in its tables."}
	}
	r := &run{places: e.places}
	if c.trino {
		r.places = e.trino.places
	}
	if r.placed = r.places.TryAcquire(1); !r.placed {
		if e.waiting >= e.o.Queue {
			return nil, nil, &untaken{http.StatusServiceUnavailable, fmt.Sprintf("The warehouse is busy: %d statements wait. Send the statement again later, or use another warehouse.", e.o.Queue)}
		}
		e.waiting++
	}
	r.ctx, r.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	detach := func() bool { return true }
	if !c.write {
		detach = context.AfterFunc(ctx, func() { r.stop(errReader) })
	}
	e.taken.add(s.ID, now)
	e.running[s.ID] = r
	e.serving.Add(1)
	return r, func() {
		detach()
		r.stop(nil)
		e.mu.Lock()
		delete(e.running, s.ID)
		e.mu.Unlock()
		e.serving.Done()
	}, nil
}
