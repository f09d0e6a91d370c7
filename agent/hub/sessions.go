// Package hub is the control plane's end of the agent channel: Sessions hold the connections of the
// agents and dial them, and a Handler answers the agents' requests.
package hub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/statement"
)

// Replicas finds the instance's other replicas.
type Replicas interface {
	// AgentReplica returns the id and the URL of the replica that holds the agent's session. The
	// error is domain.CodeUnavailable if no replica holds it.
	AgentReplica(ctx context.Context, agent domain.AgentID, now time.Time) (id, url string, err error)
}

// Tokens are the tokens that authenticate replicas to each other.
type Tokens interface {
	ReplicaToken() string
	IsReplicaToken(ctx context.Context, token string) bool
}

// Options configure Sessions.
type Options struct {
	Replicas Replicas
	Tokens   Tokens
	Replica  string // this replica's id
	Clock    domain.Clock
}

// Sessions are the sessions of the agents that are connected to this replica. They reach agents of
// another replica through that replica. They implement job.Fleet and statement.Engines.
type Sessions struct {
	o Options

	mu      sync.Mutex
	byAgent map[domain.AgentID]*session
	clients map[domain.AgentID]*http.Client
	closed  bool
	serving sync.WaitGroup
}

var (
	_ job.Fleet         = (*Sessions)(nil)
	_ statement.Engines = (*Sessions)(nil)
)

// NewSessions returns no sessions yet; a Handler adds them.
func NewSessions(o Options) *Sessions {
	return &Sessions{o: o, byAgent: map[domain.AgentID]*session{}, clients: map[domain.AgentID]*http.Client{}}
}

// session is one agent's connection.
type session struct {
	*tunnel.Session
	id    string
	scope domain.Scope
	token []byte // hash of the token that opened it

	greeting sync.Once
	greeted  chan struct{} // closed when its first hello was accepted
}

// greet records that a hello was accepted.
func (s *session) greet() { s.greeting.Do(func() { close(s.greeted) }) }

func (s *session) agent() domain.AgentID { return domain.AgentID(s.scope.Actor().ID) }

func newSessionID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// add reports false after Close.
func (s *Sessions) add(one *session) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	old := s.byAgent[one.agent()]
	s.byAgent[one.agent()] = one
	s.serving.Add(1)
	s.mu.Unlock()
	if old != nil {
		_ = old.Close() // outside the lock: takes a second if the peer has stopped reading
	}
	return true
}

func (s *Sessions) remove(one *session) {
	_ = one.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byAgent[one.agent()] != one {
		return
	}
	delete(s.byAgent, one.agent())
	if c := s.clients[one.agent()]; c != nil {
		c.CloseIdleConnections()
		delete(s.clients, one.agent())
	}
}

// Close ends all sessions and waits for their handlers.
func (s *Sessions) Close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Values(s.byAgent))
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, one := range open {
		closing.Go(func() { _ = one.Close() })
	}
	closing.Wait()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
}

// Dial opens a stream to the agent on whichever replica it is connected to. The error is
// domain.CodeUnavailable if it is not connected.
func (s *Sessions) Dial(ctx context.Context, id domain.AgentID) (net.Conn, error) {
	away := domain.Errorf(domain.CodeUnavailable, "The agent is not connected.")
	if one := s.local(id); one != nil {
		stream, err := one.Open(ctx)
		if err == nil || ctx.Err() != nil {
			return stream, err
		}
		away = away.Because(err) // the session is ending; its agent may have reconnected to another replica
	}
	replica, url, err := s.o.Replicas.AgentReplica(ctx, id, s.o.Clock.Now())
	if err != nil {
		return nil, err
	}
	if replica == s.o.Replica {
		return nil, away
	}
	return dialReplica(ctx, url, id, s.o.Tokens.ReplicaToken())
}

func (s *Sessions) local(id domain.AgentID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byAgent[id]
}

// client returns the agent's HTTP client. Its connections are streams that it reuses.
func (s *Sessions) client(id domain.AgentID) *http.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, id) },
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     time.Minute,
		}}
		s.clients[id] = c
	}
	return c
}

// Connected returns the number of agents that are connected to this replica.
func (s *Sessions) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byAgent)
}
