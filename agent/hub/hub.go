// Package hub is the control plane's end of the agent channel: it holds the sessions of the agents that are connected to this replica,
// answers what they ask, and reaches every agent of the instance, through the replica that holds its session where that is another.
package hub

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
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
	token []byte // hash of the token that it was opened with

	greeting sync.Once
	greeted  chan struct{} // closed when its first hello was taken
}

// greet notes that a hello was taken.
func (s *session) greet() { s.greeting.Do(func() { close(s.greeted) }) }

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
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	s := &session{Session: t, id: newSessionID(), scope: scope, token: domain.HashSecret(strings.TrimSpace(token)), greeted: make(chan struct{})}
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
	if h.closed {
		h.mu.Unlock()
		return false
	}
	old := h.sessions[s.agent()]
	h.sessions[s.agent()] = s
	h.serving.Add(1)
	h.mu.Unlock()
	if old != nil {
		_ = old.Close() // takes a second where its peer reads no more, which no other agent shall wait for
	}
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
			delete(h.clients, s.agent())
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
	sessions := slices.Collect(maps.Values(h.sessions))
	h.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range sessions {
		closing.Go(func() { _ = s.Close() })
	}
	closing.Wait()
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

// watch closes a session that was replaced, whose token was rotated, or that does not say hello.
func (h *Hub) watch(ctx context.Context, s *session) {
	wake, stop := h.o.Topics.Subscribe(domain.AgentTopic(s.agent()))
	defer stop()
	late := time.After(greeting)
	first, greeted, isLate := s.greeted, false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-first: // wake-ups coalesce: that of a newer session's hello may have been the same one as that of this session's
			first, greeted = nil, true
		case <-late:
			isLate = true
		}
		current, over, err := h.o.Services.Agents.Current(ctx, s.scope, s.id, s.token)
		if err != nil {
			continue // the database is away; the next wake-up asks again
		}
		greeted = greeted || current
		if over || !current && (greeted || isLate) {
			_ = s.Close()
			return
		}
	}
}

// greeting bounds the time to a session's first hello.
const greeting = time.Minute

// Dial opens a stream to the agent wherever it is connected; domain.CodeUnavailable when it is not.
func (h *Hub) Dial(ctx context.Context, id domain.AgentID) (net.Conn, error) {
	away := domain.Errorf(domain.CodeUnavailable, "The agent is not connected.")
	if s := h.local(id); s != nil {
		stream, err := s.Open(ctx)
		if err == nil || ctx.Err() != nil {
			return stream, err
		}
		away = away.Because(err) // the session is just ending; its agent may be elsewhere by now
	}
	replica, url, err := h.o.Replicas.AgentReplica(ctx, id, h.o.Clock.Now())
	if err != nil {
		return nil, err
	}
	if replica == h.o.Replica {
		return nil, away
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
