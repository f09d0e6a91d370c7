// Package embedded runs the private PostgreSQL of the embedded default: a cluster inside the
// server's data directory, reached over a Unix socket that no other user of the machine can use.
//
// PostgreSQL runs in a session of its own, so that it outlives a killed server and is adopted by
// the next Start. When the server is root, PostgreSQL runs as another user.
//
// The data directory then holds:
//
//	lock               held by the server that uses the directory, see Lock
//	postgres/          the cluster, 0700
//	postgres.password  the superuser's password, 0600
//	postgres.socket    the directory of the socket, 0700, or a link to it where the path would be too long
//	postgres.log       what PostgreSQL said while it started; the rest is in postgres/log
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// superuser is the cluster's bootstrap role.
const superuser = "postgres"

// Options configure a cluster.
type Options struct {
	// Dir is the data directory; the cluster lives in Dir/postgres. The caller holds Lock(Dir).
	Dir string
	// Log receives what happens to the database; nil discards it.
	Log *slog.Logger
	// Stdout receives progress lines for people; nil discards them.
	Stdout io.Writer
	// Volatile trades safety on a power cut for speed, for tests. Commits still survive a crash of
	// PostgreSQL.
	Volatile bool
	// MaxConnections bounds the connections to the cluster; 0 means 100. An adopted cluster keeps
	// its own bound.
	MaxConnections int
}

// Server is a running PostgreSQL. Its methods may be called from several goroutines.
type Server struct {
	cluster *cluster

	life    sync.Mutex // held by Close and Restart
	watches sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running *process
	done    chan struct{}
	version string
	closed  bool
}

// Start finds the binaries, initialises a new cluster, and starts PostgreSQL or adopts the one
// running in Dir. It waits until PostgreSQL answers or ctx ends. On failure it leaves no process
// that it started.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, finder{})
}

func start(ctx context.Context, o Options, f finder) (*Server, error) {
	c, err := openCluster(o, f)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: c}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// DSN returns the lib/pq URL of a database of the cluster, as its superuser, over the Unix socket.
// It never changes during the life of the Server.
func (s *Server) DSN(database string) string { return s.cluster.dsn(database) }

// EnsureDatabase creates the named database if it does not exist.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	_, err := query(ctx, s.DSN("postgres"), "CREATE DATABASE "+pq.QuoteIdentifier(name))
	if err == nil || pq.As(err, pqerror.DuplicateDatabase) != nil {
		return nil
	}
	return fmt.Errorf("create the database %s: %w", name, err)
}

// Version returns the version of the running PostgreSQL, such as "18.4".
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Done returns a channel that is closed when PostgreSQL ends without Close. The owner may then call
// Restart, after which Done returns a new channel.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// Restart starts PostgreSQL again after Done, and waits until it answers or ctx ends. It first
// stops what is left of the old one.
func (s *Server) Restart(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	old, closed := s.running, s.closed
	s.mu.Unlock()
	if closed {
		return errors.New("the embedded PostgreSQL has been closed; start a new one")
	}
	if err := s.stop(ctx, old); err != nil {
		return err
	}
	return s.run(ctx)
}

// Close stops PostgreSQL and returns when it has ended. At first the stop is fast: it rolls back
// open transactions and writes a checkpoint. When ctx ends the stop is immediate, and the next
// Start recovers.
func (s *Server) Close(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	running := s.running
	s.closed = true
	s.mu.Unlock()
	if err := s.stop(ctx, running); err != nil {
		return err
	}
	s.watches.Wait()
	return s.cluster.socket.remove()
}

func (s *Server) run(ctx context.Context) error {
	began := time.Now()
	p, version, err := s.cluster.up(ctx)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	s.mu.Lock()
	s.running, s.version, s.done = p, version, done
	s.mu.Unlock()
	s.watches.Go(func() { s.watch(p, done) })
	s.cluster.log.Info("PostgreSQL answers", "version", version, "pid", p.pid, "adopted", p.adopted,
		"after", time.Since(began).Round(time.Millisecond))
	return nil
}

func (s *Server) watch(p *process, done chan<- struct{}) {
	<-p.exited
	if p.stopping.Load() {
		return
	}
	s.cluster.log.Error("PostgreSQL is gone", "pid", p.pid, "said", s.cluster.lastLines(time.Time{}))
	close(done)
}

func (s *Server) stop(ctx context.Context, p *process) error {
	clean, err := p.stop(ctx)
	if err != nil {
		return err
	}
	if !clean {
		s.cluster.log.Warn("PostgreSQL was stopped at once; it recovers when it starts again", "pid", p.pid)
	}
	// Backends of a killed postmaster may still run.
	return s.cluster.clear(context.WithoutCancel(ctx))
}

func socketURL(socket, password, database string) string {
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(superuser, password),
		Path:   "/" + database,
		RawQuery: url.Values{
			"host": {socket}, "port": {socketPort}, "sslmode": {"disable"},
		}.Encode(),
	}
	return u.String()
}
