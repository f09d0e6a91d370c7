// Package trino runs a warehouse's Trino cluster: one coordinator, its workers, a catalog for each
// of the workspace's databases, and statements.
//
// Trino is unmodified. It listens only on the loopback interface and requires a token that is
// signed with a new key at each start. Its access control confines a statement to the catalogs of
// the workspace.
package trino

import (
	"cmp"
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
	// Find looks for the Installation each time one is needed and missing. nil if Installation is
	// given.
	Find func() (install.Trino, error)
	// Dir is Trino's directory of configurations, logs and spill files.
	Dir        string
	Memory     int64               // bytes for all its nodes on this machine
	Cores      int                 // of the machine
	Spill      int64               // bytes of a node's spill files; 0 means four times its memory
	Command    []string            // runs GuardMain
	JVM        []string            // additional arguments of the JVM
	Credential *syscall.Credential // user that Trino runs as; nil means this process's own
	Log        *slog.Logger
	Changed    func() // called when Status may have changed; may be nil
	// Unfenced runs Trino without a fence if the kernel has no Landlock and tables are files.
	// Whoever may write tables may then open the host's files.
	Unfenced bool
	// MaxABI is the maximum Landlock ABI to use. 0 means the kernel's, -1 means none.
	MaxABI int
	// Grace is how long a leaving worker waits, before and after its last work. 0 means 5 seconds.
	Grace time.Duration
}

// State is the state of a Server.
type State string

// The states of a Server.
const (
	Stopped  State = "stopped" // not needed yet
	Starting State = "starting"
	Running  State = "running"
	Failed   State = "failed" // restarts after a pause, or for the next statement
)

// Status is the state of a Server with details.
type Status struct {
	State   State
	Message string // its progress, or why it failed
	Nodes   int    // nodes that accept work; 0 unless it is running
}

// Server supervises the processes of one Trino cluster.
type Server struct {
	o         Options
	transport *http.Transport // to its nodes
	store     *http.Transport // to the store of large results
	stop      context.CancelFunc
	ctx       context.Context
	work      sync.WaitGroup

	catalogs sync.Mutex
	made     map[string]Database // the running coordinator's catalogs by name

	mu       sync.Mutex
	begun    bool
	asked    int // requested nodes
	nodes    int // wanted nodes: as many requested ones as fit into the memory
	divided  int // number of nodes that share the running cluster's memory
	status   Status
	changed  chan struct{} // closed at each change of the fields around it
	sessions int           // number of open sessions
	failures int           // failed starts since it last ran
	kick     chan struct{} // ends the pause before a restart
	address  string        // of the running coordinator; else empty
	ended    string        // why the last cluster ended
	secrets  secrets
	storage  Storage   // from the latest statement
	fenced   string    // storage prefix of the running cluster's fence
	spooling *spooling // of the running cluster
}

// New returns a server without starting Trino.
func New(o Options) (*Server, error) {
	if o.Memory < MinMemory {
		return nil, fmt.Errorf("%d MiB of memory are too few for Trino, which needs %d: use a larger warehouse", o.Memory>>20, int64(MinMemory)>>20)
	}
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
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

// find looks for the installation if it is unknown, because it may have been added since.
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

// Version is the installation's version, or "" if there is no installation.
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Installation.Version
}

// Close stops Trino and returns when it has ended.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
	s.transport.CloseIdleConnections()
	s.store.CloseIdleConnections()
}

// Status returns the server's current status.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Resize sets the number of nodes, limited to those that fit into the memory. A running cluster
// grows and shrinks without interrupting statements.
func (s *Server) Resize(nodes int) {
	carried := min(max(1, nodes), int(s.o.Memory/MinMemory))
	s.mu.Lock()
	defer s.mu.Unlock()
	if nodes > carried && s.asked != nodes {
		s.o.Log.Warn("the warehouse's memory is too small for its number of Trino nodes", "nodes", nodes, "possible", carried)
	}
	s.asked = nodes
	if s.nodes != carried {
		s.nodes = carried
		s.broadcast()
	}
}

// Prestart starts Trino before the first statement, for the tables below the prefix. It does
// nothing while the prefix is unknown, or is a directory that does not exist yet.
func (s *Server) Prestart(prefix string) {
	storage := Storage{Prefix: prefix}
	if prefix == "" {
		return
	}
	if storage.files() {
		if _, err := storage.directory(); err != nil {
			return
		}
	}
	s.mu.Lock()
	if s.storage.Prefix == "" {
		s.storage = storage
	}
	s.mu.Unlock()
	s.start()
}

// start starts Trino and keeps it running. It returns at once.
func (s *Server) start() {
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

// broadcast wakes those that wait for a change. The caller holds the lock.
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

// Session starts Trino if needed and waits until it runs. The caller must call Leave. It returns an
// error if a start fails meanwhile. Large results go to the storage if this Trino was started with
// it, and otherwise through the coordinator. The next start uses the new storage.
func (s *Server) Session(ctx context.Context, storage Storage, waits func(message string)) (*Session, error) {
	if err := s.find(); err != nil {
		return nil, err
	}
	if err := s.o.Fenceable(storage); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.storage = storage
	failures := s.failures
	s.mu.Unlock()
	s.start()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	for {
		s.mu.Lock()
		status, address, changed, failed, spools := s.status, s.address, s.changed, s.failures > failures, s.spooling.is(storage.spooling())
		elsewhere := storage.files() && s.fenced != storage.Prefix
		if status.State == Running && s.ctx.Err() == nil && !elsewhere {
			s.sessions++
		}
		s.mu.Unlock()
		switch {
		case status.State == Running && elsewhere && s.ctx.Err() == nil:
			return nil, errors.New("the warehouse's Trino was started for the files of another storage: stop the warehouse and start it again")
		case s.ctx.Err() != nil:
			return nil, errors.New("the warehouse's Trino is stopping")
		case status.State == Running:
			return &Session{server: s, caller: s.caller(statementUser), address: address, spools: spools}, nil
		case failed:
			return nil, fmt.Errorf("the warehouse's Trino does not start: %s", status.Message)
		}
		waits("Waits for Trino to start.")
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.ctx.Done():
		}
	}
}

// Leave ends a session. It must have no running queries.
func (s *Session) Leave() {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.sessions--; s.server.sessions == 0 && s.server.nodes > s.server.divided {
		s.server.broadcast()
	}
}

// Obituary returns why the session's Trino ended, or "" if it does not end within moment.
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

// Pauses between starts double up to maxPause. A run of steadyRun resets them.
const (
	minPause   = time.Second
	maxPause   = time.Minute
	steadyRun  = time.Minute
	startTime  = 5 * time.Minute // bounds a start
	checkEvery = 2 * time.Second
	checkTime  = 5 * time.Second
	missedMost = 6 // failed health checks after which Trino counts as dead
)

// keep runs clusters one after another.
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
		s.o.Log.Error("Trino has ended and restarts", "error", err, "pause", pause)
		select {
		case <-s.kick: // sent by a statement while it ran
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

// run starts a coordinator and its workers. It returns the reason when the coordinator has ended.
func (s *Server) run() error {
	s.mu.Lock()
	nodes := s.nodes
	s.divided = nodes
	s.secrets, s.spooling = newSecrets(), s.storage.spooling()
	storage := s.storage
	s.fenced = storage.Prefix
	s.mu.Unlock()
	s.set(Status{State: Starting}, "")
	c, err := s.layout("coordinator", nodes)
	if err != nil {
		return err
	}
	began := time.Now()
	coordinator, err := startNode(s.o, c, storage)
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
	s.o.Log.Info("Trino runs", "version", s.o.Installation.Version, "pid", coordinator.PID(), "after", time.Since(began).Round(time.Millisecond), "log", c.log())
	w := &workers{server: s, coordinator: c, storage: storage, of: nodes, changed: make(chan struct{}, 1)}
	defer w.end()
	return s.watch(coordinator, w)
}

// errGrows ends an unused cluster that needs more nodes than share its memory. A new cluster with
// those nodes follows.
var errGrows = errors.New("more nodes are wanted")

// grows reports whether the cluster must restart with more nodes. New sessions then wait for the
// restart.
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

// layout returns the layout of a node. The nodes at the cluster's start share its memory.
func (s *Server) layout(id string, nodes int) (layout, error) {
	port, err := freePort()
	if err != nil {
		return layout{}, err
	}
	share := max(s.o.Memory/int64(nodes), MinMemory)
	return layout{
		dir: filepath.Join(s.o.Dir, id), id: id, port: port, coordinator: port, memory: divide(share), spill: cmp.Or(s.o.Spill, 4*share), cores: max(1, s.o.Cores),
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

// ready waits until a node accepts work.
func (s *Server) ready(n *node) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, startTime, fmt.Errorf("it took longer than %s", startTime))
	defer cancel()
	return n.await(ctx, func(ctx context.Context) (bool, error) {
		var info struct{ Starting bool }
		err := s.caller(platformUser).get(ctx, n.url()+"/v1/info", &info)
		return err == nil && !info.Starting, err
	})
}

// watch supervises a cluster until its coordinator ends or stops responding.
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
		s.set(Status{State: Running, Nodes: 1 + w.active(), Message: w.doing(wanted)}, coordinator.url())
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-coordinator.Gone():
			return errors.New("its process ended: " + coordinator.obituary())
		case <-changed:
			continue
		case <-w.changed:
			continue
		case <-tick.C:
		}
		if s.healthy(coordinator) {
			missed = 0
			continue
		}
		if missed++; missed == missedMost {
			coordinator.Kill()
			return fmt.Errorf("it did not answer for %s", missedMost*checkTime)
		}
	}
}

func (s *Server) healthy(n *node) bool {
	ctx, cancel := context.WithTimeout(s.ctx, checkTime)
	defer cancel()
	return s.caller(platformUser).get(ctx, n.url()+"/v1/info", nil) == nil
}
