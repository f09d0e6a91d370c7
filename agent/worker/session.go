package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/agent/worker/shim"
)

const (
	reporters      = 16               // status reports at once
	steady         = time.Second      // a session that lasted longer resets the retry delay
	lateHeartbeats = 5 * time.Second  // between heartbeats if the control plane sets no interval
	killMargin     = 5 * time.Second  // before the lease ends
	bodyLimit      = 256 << 20        // of a request from the control plane
	drainTimeout   = 10 * time.Second // for running requests at the end of a session
)

// session is one connection to the control plane.
type session struct {
	w       *worker
	tunnel  *tunnel.Session
	welcome agent.Welcome
	ready   chan struct{} // closed when Welcome was applied; requests wait for it
}

// connectForever keeps a session until ctx ends, the control plane refuses finally, or it is
// unreachable for longer than Options.Alone.
func (w *worker) connectForever(ctx context.Context) error {
	answered := time.Now()
	for pause := (backoff{}); ; {
		begun := time.Now()
		welcome, err := w.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if isFinal(err) && !w.credential.renewed(err) {
			return err
		}
		if welcome {
			answered = time.Now()
		}
		if alone := w.options.Alone; alone > 0 && time.Since(answered) > alone {
			return fmt.Errorf("%s has not answered for %s; this agent ends: %w", w.options.Server, alone, err)
		}
		w.log.Warn("no connection to the control plane; it is retried", "server", w.options.Server, "error", err)
		if welcome && time.Since(begun) > steady {
			pause.reset()
		}
		pause.most = time.Duration(w.leased.Load()) / 4 // an agent that reconnects before its lease ends loses nothing
		if !pause.wait(ctx) {
			return nil
		}
	}
}

func isFinal(err error) bool {
	var final *tunnel.FinalError
	return errors.As(err, &final)
}

// connect runs one session until it ends. It reports whether the control plane accepted this agent,
// and why the session ended.
func (w *worker) connect(ctx context.Context) (welcome bool, err error) {
	token, err := w.credential.current(ctx)
	if err != nil {
		return false, err
	}
	t, err := tunnel.Dial(ctx, w.options.Server, token, w.options.TLS)
	if err != nil {
		return false, err
	}
	s := &session{w: w, tunnel: t, ready: make(chan struct{})}
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelWarn),
	}
	group, ctx := errgroup.WithContext(ctx)
	var broken error // why the tunnel ended, if that came first
	group.Go(func() error { return server.Serve(t) })
	group.Go(func() error {
		select {
		case <-t.Done():
		case <-ctx.Done():
		}
		broken = t.Err()
		t.Close()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		_ = server.Shutdown(drain) // waits for running requests
		return cmp.Or(broken, ctx.Err())
	})
	group.Go(func() error { return s.greet(ctx, group) })
	err = group.Wait()
	if broken != nil && !answered(err) {
		err = broken // the other errors are consequences of it
	}
	return s.isReady(), err
}

func (s *session) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// greet sends Hello, applies the answer, and then starts everything else.
func (s *session) greet(ctx context.Context, group *errgroup.Group) error {
	hello := s.w.hello()
	versions := map[string]int{}
	for _, a := range s.w.held() {
		version, wanted := a.current()
		if !wanted {
			continue
		}
		versions[a.id] = version
		hello.Attempts = append(hello.Attempts, agent.HelloAttempt{ID: a.id, Status: a.status()})
	}
	sent := shim.BootNow()
	if err := s.callJSON(ctx, http.MethodPost, agent.HelloPath, hello, &s.welcome); err != nil {
		return fmt.Errorf("greeting the control plane: %w", err)
	}
	s.extend(sent)
	s.w.join(s.welcome.Group)
	s.w.configure(s.welcome.Warehouse)
	s.apply(ctx, versions)
	close(s.ready)
	s.w.credential.proven()
	s.w.log.Info("connected to the control plane", "server", s.w.options.Server, "agent", s.welcome.AgentID, "attempts", len(hello.Attempts))
	group.Go(func() error { return s.beat(ctx) })
	group.Go(func() error { return s.shipLogs(ctx) })
	if s.w.options.Metrics != MetricsNone {
		group.Go(func() error { return s.sendMetrics(ctx) })
	}
	for range reporters {
		group.Go(func() error { return s.reportStatus(ctx) })
	}
	return nil
}

// extend extends the lease of every attempt, counted from the time of the request. The processes
// are killed shortly before its end, so that two attempts of one task never run at once.
func (s *session) extend(sent int64) {
	lease := time.Duration(s.welcome.Lease)
	if lease <= 0 {
		return
	}
	s.w.leased.Store(int64(lease))
	s.w.setLease(sent + int64(lease-min(killMargin, lease/4)))
}

// apply applies the desired states of Welcome. versions are the attempts that Hello named, with the
// status version that it reported. The control plane starts a missing attempt by a separate
// request.
func (s *session) apply(ctx context.Context, versions map[string]int) {
	for _, d := range s.welcome.Attempts {
		version, named := versions[d.ID]
		delete(versions, d.ID)
		a := s.w.find(d.ID)
		if a == nil {
			s.decline(ctx, d)
			continue
		}
		s.w.desire(a, d)
		if named {
			a.known(version)
		}
		s.w.logged(a, d.LogNext)
		s.w.reports.add(a)
	}
	for id := range versions {
		if a := s.w.find(id); a != nil {
			s.w.log.Warn("the control plane does not know an attempt; the attempt is dropped", "attempt", id)
			s.w.forget(a)
		}
	}
}

// desire applies the desired state to an attempt of this agent.
func (w *worker) desire(a *attempt, d agent.DesiredAttempt) {
	switch d.Desire {
	case agent.DesireForget:
		w.forget(a)
	case agent.DesireCancel:
		a.cancel()
	case agent.DesireRun:
	}
}

// beat sends heartbeats. After a time-out or a server error it continues with the next heartbeat.
// Any other error ends the session, and the next Hello reconciles.
func (s *session) beat(ctx context.Context) error {
	every := time.Duration(s.welcome.HeartbeatEvery)
	if every <= 0 {
		every = lateHeartbeats
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.w.options.Changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := s.heartbeat(ctx)
		if unavailable(err) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			s.w.log.Warn("a heartbeat failed", "error", err) // the lease runs on; its margin is for this
			continue
		}
		if err != nil {
			return fmt.Errorf("sending a heartbeat: %w", err)
		}
	}
}

func (s *session) heartbeat(ctx context.Context) error {
	beat := agent.Heartbeat{Attempts: []string{}, Idle: s.w.idle(), Engines: s.w.engines()}
	for _, a := range s.w.held() {
		beat.Attempts = append(beat.Attempts, a.id) // also an ended attempt, until its log and its end are reported
	}
	ctx, cancel := context.WithTimeout(ctx, s.beatTimeout())
	defer cancel()
	sent := shim.BootNow()
	var reply agent.HeartbeatReply
	if err := s.callJSON(ctx, http.MethodPost, agent.HeartbeatPath, beat, &reply); err != nil {
		return err
	}
	s.extend(sent)
	s.w.configure(reply.Warehouse)
	for _, d := range reply.Attempts {
		if a := s.w.find(d.ID); a != nil {
			s.w.desire(a, d)
		} else {
			s.decline(ctx, d)
		}
	}
	return nil
}

// decline cancels an attempt that has not arrived: it is not started if it arrives later. If the
// report is lost, the control plane sends the cancellation again.
func (s *session) decline(ctx context.Context, d agent.DesiredAttempt) {
	if d.Desire != agent.DesireCancel || !s.w.refuse(d.ID) {
		return
	}
	status := agent.Status{State: agent.Exited, Reason: agent.ReasonCancelled, FinishedAt: new(time.Now().UTC())}
	if err := s.callJSON(ctx, http.MethodPut, fmt.Sprintf(agent.StatusPath, d.ID), status, nil); err != nil && !unwanted(err) {
		s.w.log.Warn("reporting that an attempt was never started failed", "attempt", d.ID, "error", err)
	}
}

// beatTimeout is a third of the lease, so that another heartbeat can follow an unanswered one in
// time.
func (s *session) beatTimeout() time.Duration {
	if lease := time.Duration(s.welcome.Lease); lease > 0 {
		return lease / 3
	}
	return callTimeout
}

func (s *session) callJSON(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return s.call(ctx, method, path, body, out)
}

// refusedError is an answer whose status is not 2xx.
type refusedError struct {
	status  int
	message string
}

func (e *refusedError) Error() string { return e.message }

// answered reports whether an error is an answer of the control plane.
func answered(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	return refused || isFinal(err)
}

// unavailable reports whether the control plane answered with a server error.
func unavailable(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status >= http.StatusInternalServerError
}

func refused(method, path string, res *http.Response) error {
	said := reasonOf(res)
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUpgradeRequired:
		return &tunnel.FinalError{Status: res.StatusCode, Message: fmt.Sprintf("The control plane refuses this agent (%s).", said)}
	}
	return &refusedError{res.StatusCode, fmt.Sprintf("%s %s: answered %d: %s", method, path, res.StatusCode, said)}
}

// reasonOf is the message in an answer whose status is not 2xx.
func reasonOf(res *http.Response) string {
	var said agent.Error
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return res.Status
	}
	return said.Error
}
