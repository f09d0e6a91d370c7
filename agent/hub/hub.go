// Package hub is the control plane's end of the agent channel: it holds the sessions of the agents that are connected to this replica,
// answers what they ask, and reaches every agent of the instance, through the replica that holds its session where that is another.
package hub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain"
)

// Replicas knows the instance's other replicas and what they show each other.
type Replicas interface {
	// AgentReplica returns the id and the address of the replica that holds the agent's session; domain.CodeUnavailable when none does.
	AgentReplica(ctx context.Context, agent domain.AgentID, now time.Time) (id, url string, err error)
}

// Tokens are what replicas show each other.
type Tokens interface {
	ReplicaToken() string
	IsReplicaToken(ctx context.Context, token string) bool
}

// Options of a Hub. Services may be filled after New, before the first connection.
type Options struct {
	Services *domain.Services
	Topics   domain.Topics
	Replicas Replicas
	Tokens   Tokens
	Replica  string                                      // this replica's id
	Scope    func(context.Context) (domain.Scope, error) // the agent that a request was authenticated as
	Clock    domain.Clock
	Log      *slog.Logger
}

// Hub holds the agents' sessions. It implements domain.Fleet.
type Hub struct {
	o Options

	mu       sync.Mutex
	sessions map[domain.AgentID]*session
	clients  map[domain.AgentID]*http.Client
	closed   bool
	serving  sync.WaitGroup
}

var _ domain.Fleet = (*Hub)(nil)

// New makes a hub.
func New(o Options) *Hub {
	return &Hub{o: o, sessions: map[domain.AgentID]*session{}, clients: map[domain.AgentID]*http.Client{}}
}

// session is one agent's connection.
type session struct {
	*tunnel.Session
	id    string
	scope domain.Scope
}

func (s *session) agent() domain.AgentID { return domain.AgentID(s.scope.Actor().ID) }

// Connect serves agent.ConnectPath: it upgrades the request of an authenticated agent and serves the agent until the connection ends.
func (h *Hub) Connect(w http.ResponseWriter, r *http.Request) {
	scope, err := h.o.Scope(r.Context())
	if err != nil {
		respond(w, nil, err)
		return
	}
	t, err := tunnel.Accept(w, r)
	if err != nil {
		return // Accept has answered
	}
	s := &session{Session: t, id: newSessionID(), scope: scope}
	if !h.add(s) {
		_ = t.Close()
		return
	}
	defer h.remove(s)
	h.serve(context.Background(), s) // the session's requests are no part of the one that opened it
}

func newSessionID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (h *Hub) add(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if old := h.sessions[s.agent()]; old != nil {
		_ = old.Close()
	}
	h.sessions[s.agent()] = s
	h.serving.Add(1)
	return true
}

func (h *Hub) remove(s *session) {
	defer h.serving.Done()
	_ = s.Close()
	h.mu.Lock()
	if h.sessions[s.agent()] == s {
		delete(h.sessions, s.agent())
		if c := h.clients[s.agent()]; c != nil {
			c.CloseIdleConnections()
		}
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := h.o.Services.Agents.Disconnected(ctx, s.scope, s.id); err != nil {
		h.o.Log.Warn("recording that an agent has gone", "agent", s.agent(), "error", err)
	}
}

// goodbye bounds what is written when a session ends.
const goodbye = 5 * time.Second

// Close ends all sessions and waits for them.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		_ = s.Close()
	}
	h.mu.Unlock()
	h.serving.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.clients {
		c.CloseIdleConnections()
	}
}

// serve answers the agent until its session ends or is no longer the current one.
func (h *Hub) serve(ctx context.Context, s *session) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.o.Log.Info("agent connected", "agent", s.agent(), "session", s.id)
	server := &http.Server{Handler: h.routes(s), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(h.o.Log.Handler(), slog.LevelDebug)}
	var watching sync.WaitGroup
	watching.Go(func() { h.watch(ctx, s) })
	err := server.Serve(s)
	cancel()
	_ = server.Close()
	watching.Wait()
	h.o.Log.Info("agent disconnected", "agent", s.agent(), "session", s.id, "reason", errors.Join(s.Err(), err))
}

// watch closes a session that was replaced, or whose token was rotated.
func (h *Hub) watch(ctx context.Context, s *session) {
	wake, stop := h.o.Topics.Subscribe(domain.AgentTopic(s.agent()))
	defer stop()
	greeted := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		current, err := h.o.Services.Agents.Current(ctx, s.scope, s.id)
		if err != nil {
			continue // the database is away; the next wake-up asks again
		}
		if !current && greeted {
			_ = s.Close()
			return
		}
		greeted = greeted || current
	}
}

// Dial opens a stream to the agent wherever it is connected; domain.CodeUnavailable when it is not.
func (h *Hub) Dial(ctx context.Context, id domain.AgentID) (net.Conn, error) {
	if s := h.local(id); s != nil {
		return s.Open(ctx)
	}
	replica, url, err := h.o.Replicas.AgentReplica(ctx, id, h.o.Clock.Now())
	if err != nil {
		return nil, err
	}
	if replica == h.o.Replica {
		return nil, domain.Errorf(domain.CodeUnavailable, "The agent is not connected.")
	}
	return dialReplica(ctx, url, id, h.o.Tokens.ReplicaToken())
}

func (h *Hub) local(id domain.AgentID) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[id]
}

// client is the agent's HTTP client. Its connections are streams, kept for the next request.
func (h *Hub) client(id domain.AgentID) *http.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[id]
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx, id) },
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     time.Minute,
		}}
		h.clients[id] = c
	}
	return c
}

// Connected is how many agents are connected to this replica.
func (h *Hub) Connected() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions)
}
