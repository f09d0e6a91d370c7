// Package trino runs a Trino of a warehouse's own: one coordinator, its workers, the catalogs that stand for the workspace's databases, and statements on it.
//
// Trino is real and unchanged. It listens on the loopback alone, takes nothing without a token that is signed with a key of this start, and its own access control
// keeps a statement within the catalogs of the workspace.
package trino

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millpond/millpond/agent/engine/install"
)

// Options configure a Server.
type Options struct {
	Installation install.Trino
	Find         func() (install.Trino, error) // looks for the Installation, whenever one is needed and there is none; nil where it is given
	Dir          string                        // of its own: configurations, logs, and what does not fit into memory
	Memory       int64                         // of all its nodes on this machine together, in bytes
	Cores        int                           // of the machine
	Spill        int64                         // bytes of disk that a node may take; 0 means four times its memory
	Command      []string                      // runs GuardMain
	JVM          []string                      // arguments of the JVM beside its own
	Credential   *syscall.Credential           // the user that it runs as; nil means this process's own
	Log          *slog.Logger
	Changed      func()        // called whenever Status may be another; may be nil
	Grace        time.Duration // of a worker that leaves, before and after what it runs has ended; 0 means 5 seconds
}

// State is how far a Server is.
type State string

// The states of a Server.
const (
	Stopped  State = "stopped" // nobody has needed it yet
	Starting State = "starting"
	Running  State = "running"
	Failed   State = "failed" // it is started again after a while, or when a statement comes
)

// Status is how a Server stands.
type Status struct {
	State   State
	Message string // what it does, or why it failed
	Nodes   int    // that take part; 0 unless it is running
}

// Server supervises the processes of one Trino cluster.
type Server struct {
	o         Options
	transport *http.Transport // to its nodes
	store     *http.Transport // to where large results lie
	stop      context.CancelFunc
	ctx       context.Context
	work      sync.WaitGroup

	catalogs sync.Mutex
	made     map[string]Database // the catalogs of the coordinator that runs, by their names

	mu       sync.Mutex
	begun    bool
	asked    int // nodes
	nodes    int // that are wanted: as many of those as the memory carries
	divided  int // among how many the memory of the cluster that runs is divided
	status   Status
	changed  chan struct{} // closed at each change of what is above and below
	sessions int           // statements that have one
	failures int           // since it ran
	kick     chan struct{} // wakes the pause before another start
	address  string        // of the coordinator, while it runs
	ended    string        // why the last one ended
	secrets  secrets
	storage  Storage   // that was told last
	spooling *spooling // of the cluster that runs
}

// New makes a server, which starts nothing.
func New(o Options) (*Server, error) {
	if o.Memory < MinMemory {
		return nil, fmt.Errorf("%d MiB of memory are too few for Trino, which needs %d: use a larger warehouse", o.Memory>>20, int64(MinMemory)>>20)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	if err := os.MkdirAll(o.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("making Trino's directory: %w", err)
	}
	s := &Server{
		o: o, store: &http.Transport{MaxIdleConnsPerHost: 8}, made: map[string]Database{}, nodes: 1, status: Status{State: Stopped},
		changed: make(chan struct{}), kick: make(chan struct{}, 1),
	}
	s.transport = &http.Transport{MaxIdleConnsPerHost: 32, DialContext: s.dial}
	if err := s.find(); err != nil {
		s.status = Status{State: Failed, Message: err.Error()}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// find looks for the installation, if there is none yet: it may have come since.
func (s *Server) find() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Find == nil || s.o.Installation.Dir != "" {
		return nil
	}
	found, err := s.o.Find()
	if err == nil {
		s.o.Installation = found
	}
	return err
}

// Version is that of the installation; empty where there is none.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Installation.Version
}

// Close ends Trino and returns when it is gone.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
	s.transport.CloseIdleConnections()
	s.store.CloseIdleConnections()
}

// Status tells how the server stands.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Resize says of how many nodes the cluster is to be, of which as many are made as the memory carries. One that runs grows and shrinks; statements that run go on.
func (s *Server) Resize(nodes int) {
	carried := min(max(1, nodes), int(s.o.Memory/MinMemory))
	s.mu.Lock()
	defer s.mu.Unlock()
	if nodes > carried && s.asked != nodes {
		s.o.Log.Warn("the warehouse's memory carries fewer nodes of Trino than it is to have", "nodes", nodes, "carries", carried)
	}
	s.asked = nodes
	if s.nodes != carried {
		s.nodes = carried
		s.broadcast()
	}
}

// Start has Trino run from now on. It returns at once.
func (s *Server) Start() {
	if s.find() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.ctx.Err() != nil {
		return
	}
	s.begun = true
	s.status = Status{State: Starting}
	s.broadcast()
	s.work.Go(s.keep)
}

// broadcast needs the lock.
func (s *Server) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
	if s.o.Changed != nil {
		s.o.Changed()
	}
}

func (s *Server) set(status Status, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch status.State {
	case Failed:
		s.failures++
		s.ended = status.Message
	case Running:
		s.failures = 0
	}
	if s.status != status {
		s.status = status
		s.address = address
		s.broadcast()
	}
}

// Session waits until Trino runs, and starts it where it does not; who gets one leaves it. Where a start fails while it waits, that is the error. Large results go to the storage if Trino
// was started with it, as the next start does; else they come through the coordinator.
func (s *Server) Session(ctx context.Context, storage Storage, waits func(message string)) (*Session, error) {
	if err := s.find(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.storage = storage
	failures := s.failures
	s.mu.Unlock()
	s.Start()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	for {
		s.mu.Lock()
		status, address, changed, failed, spools := s.status, s.address, s.changed, s.failures > failures, s.spooling.is(storage.spooling())
		if status.State == Running && s.ctx.Err() == nil {
			s.sessions++
		}
		s.mu.Unlock()
		switch {
		case s.ctx.Err() != nil:
			return nil, errors.New("the warehouse's Trino is being stopped")
		case status.State == Running:
			return &Session{server: s, caller: s.caller(statementUser), address: address, spools: spools}, nil
		case failed:
			return nil, fmt.Errorf("the warehouse's Trino does not start: %s", status.Message)
		}
		waits("Waits for Trino, which is being started.")
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
		}
	}
}

// Leave ends a session, by which nothing runs any more.
func (s *Session) Leave() {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.sessions--; s.server.sessions == 0 && s.server.nodes > s.server.divided {
		s.server.broadcast()
	}
}

// Obituary says why the Trino of a session ended, if it has done so or does within a moment; empty where it lives.
func (s *Session) Obituary(moment time.Duration) string {
	late := time.NewTimer(moment)
	defer late.Stop()
	for {
		s.server.mu.Lock()
		address, ended, changed := s.server.address, s.server.ended, s.server.changed
		s.server.mu.Unlock()
		if address != s.address {
			return ended
		}
		select {
		case <-changed:
		case <-late.C:
			return ""
		}
	}
}

func (s *Server) caller(user string) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &caller{user: user, key: s.secrets.key, client: http.Client{Transport: s.transport}, store: http.Client{Transport: s.store}}
}

// Pauses before another start double, up to the longest; one that has run for a while begins with the shortest again.
const (
	minPause   = time.Second
	maxPause   = time.Minute
	steadyRun  = time.Minute
	startTime  = 5 * time.Minute // in which Trino must take queries
	checkEvery = 2 * time.Second
	checkTime  = 5 * time.Second
	missedMost = 6 // health checks without an answer, after which it is taken for dead
)

// keep runs clusters, one after the other.
func (s *Server) keep() {
	pause := minPause
	for s.ctx.Err() == nil {
		began := time.Now()
		err := s.run()
		if s.ctx.Err() != nil {
			break
		}
		if errors.Is(err, errGrows) {
			continue
		}
		if time.Since(began) > steadyRun {
			pause = minPause
		}
		s.o.Log.Error("Trino has ended, and is started again", "error", err, "pause", pause)
		select {
		case <-s.kick: // of a statement that came while it ran
		default:
		}
		s.set(Status{State: Failed, Message: err.Error()}, "")
		select {
		case <-s.ctx.Done():
		case <-s.kick:
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
	s.set(Status{State: Stopped}, "")
}

// run starts a coordinator and its workers, and returns when the coordinator is gone, with the reason.
func (s *Server) run() error {
	s.mu.Lock()
	nodes := s.nodes
	s.divided = nodes
	s.secrets, s.spooling = newSecrets(), s.storage.spooling()
	s.mu.Unlock()
	s.set(Status{State: Starting}, "")
	c, err := s.layout("coordinator", nodes)
	if err != nil {
		return err
	}
	began := time.Now()
	coordinator, err := startNode(s.o, c)
	if err != nil {
		return err
	}
	defer coordinator.end()
	if err := s.ready(coordinator); err != nil {
		return err
	}
	s.catalogs.Lock()
	s.made = map[string]Database{}
	s.catalogs.Unlock()
	s.o.Log.Info("Trino runs", "version", s.o.Installation.Version, "pid", coordinator.cmd.Process.Pid, "after", time.Since(began).Round(time.Millisecond), "log", c.log())
	w := &workers{server: s, coordinator: c, of: nodes}
	defer w.end()
	return s.watch(coordinator, w)
}

// errGrows ends a cluster that nobody uses, and that is to have more nodes than its memory was divided among: it begins anew with them.
var errGrows = errors.New("it is to have more nodes")

// grows reports whether the cluster is to end, so that one with more nodes begins. Who comes from then on waits for that.
func (s *Server) grows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes <= s.divided || s.sessions > 0 {
		return false
	}
	s.status, s.address = Status{State: Starting}, ""
	s.broadcast()
	return true
}

// layout is that of a node. A cluster is laid out for the nodes that it begins with: their memory is divided among so many.
func (s *Server) layout(id string, nodes int) (layout, error) {
	port, err := freePort()
	if err != nil {
		return layout{}, err
	}
	share := max(s.o.Memory/int64(nodes), MinMemory)
	spill := s.o.Spill
	if spill == 0 {
		spill = 4 * share
	}
	return layout{
		dir: filepath.Join(s.o.Dir, id), id: id, port: port, coordinator: port, memory: divide(share), spill: spill, cores: max(1, s.o.Cores),
		secrets: s.secrets, spooling: s.spooling, grace: fmt.Sprintf("%dms", s.o.Grace.Milliseconds()),
	}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ready waits until a node takes part.
func (s *Server) ready(n *node) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, startTime, fmt.Errorf("it took longer than %s", startTime))
	defer cancel()
	return n.await(ctx, func(ctx context.Context) (bool, error) {
		var info struct{ Starting bool }
		err := s.caller(platformUser).get(ctx, n.url()+"/v1/info", &info)
		return err == nil && !info.Starting, err
	})
}

// watch looks after a cluster until its coordinator is gone or does not answer any more.
func (s *Server) watch(coordinator *node, w *workers) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	missed := 0
	for {
		s.mu.Lock()
		wanted, changed := s.nodes, s.changed
		s.mu.Unlock()
		if s.grows() {
			return errGrows
		}
		w.adjust(min(wanted, w.of))
		s.set(Status{State: Running, Nodes: 1 + w.taking(), Message: w.doing(wanted)}, coordinator.url())
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-coordinator.gone:
			return errors.New("its process ended: " + coordinator.obituary())
		case <-changed:
			continue
		case <-w.news():
			continue
		case <-tick.C:
		}
		if s.healthy(coordinator) {
			missed = 0
			continue
		}
		if missed++; missed == missedMost {
			coordinator.kill()
			return fmt.Errorf("it did not answer for %s", missedMost*checkTime)
		}
	}
}

func (s *Server) healthy(n *node) bool {
	ctx, cancel := context.WithTimeout(s.ctx, checkTime)
	defer cancel()
	return s.caller(platformUser).get(ctx, n.url()+"/v1/info", nil) == nil
}
