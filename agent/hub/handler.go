package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// Services are what agents call.
type Services struct {
	Agents *job.Agents
	Runs   *job.Runs
	Logs   *job.Logs
	Clock  domain.Clock
}

// Handler serves the agents that connect to this replica.
type Handler struct {
	Sessions *Sessions
	Services Services
	Topics   domain.Topics
	Scope    func(context.Context) (domain.Scope, error) // scope of the agent that a request was authenticated as
	Storage  func(domain.WorkspaceID) string             // URI below which a workspace's tables lie
	Log      *slog.Logger
}

// Connect serves agent.ConnectPath: it upgrades the request of an authenticated agent and serves
// the agent until the connection ends.
func (h *Handler) Connect(w http.ResponseWriter, r *http.Request) {
	scope, err := h.Scope(r.Context())
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
	if !h.Sessions.add(s) {
		_ = t.Close()
		return
	}
	defer h.end(s)
	h.serve(context.Background(), s) // the session's requests do not belong to the request that opened it
}

// goodbye bounds the database write at the end of a session.
const goodbye = 5 * time.Second

// end removes the session and records its end.
func (h *Handler) end(s *session) {
	defer h.Sessions.serving.Done()
	h.Sessions.remove(s)
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := h.Services.Agents.Disconnected(ctx, s.scope, s.id); err != nil {
		h.Log.Warn("recording that an agent has gone", "agent", s.agent(), "error", err)
	}
}

// serve answers the agent until its session ends or is no longer the current one.
func (h *Handler) serve(ctx context.Context, s *session) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.Log.Info("agent connected", "agent", s.agent(), "session", s.id)
	server := &http.Server{Handler: h.routes(s), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug)}
	var watching sync.WaitGroup
	watching.Go(func() { h.watch(ctx, s) })
	err := server.Serve(s)
	cancel()
	_ = server.Close()
	watching.Wait()
	h.Log.Info("agent disconnected", "agent", s.agent(), "session", s.id, "reason", errors.Join(s.Err(), err))
}

// watch closes a session that was replaced, that has a rotated token, or that sends no hello.
func (h *Handler) watch(ctx context.Context, s *session) {
	wake, stop := h.Topics.Subscribe(domain.AgentTopic(s.agent()))
	defer stop()
	late := time.After(greeting)
	first, greeted, isLate := s.greeted, false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-first: // wake-ups coalesce: one may stand for this session's hello and a newer session's
			first, greeted = nil, true
		case <-late:
			isLate = true
		}
		current, over, err := h.Services.Agents.Current(ctx, s.scope, s.id, s.token)
		if err != nil {
			continue // the database is unavailable; the next wake-up retries
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
