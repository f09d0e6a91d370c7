package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

// maxBody bounds a JSON body from an agent, in bytes. A hello lists every attempt of the agent.
const maxBody = 8 << 20

// maxBatch bounds the wire form of a log batch, in bytes. Many small chunks take more than their
// data on the wire, and still more in memory.
const maxBatch = 4 * agent.MaxBatchBytes

// routes serves the requests of an agent on its session.
func (h *Handler) routes(s *session) http.Handler {
	logs := h.Services.Logs.Writer(s.scope, s.id)
	r := chi.NewRouter()
	r.Post(agent.HelloPath, func(w http.ResponseWriter, r *http.Request) { h.hello(w, r, s) })
	r.Post(agent.HeartbeatPath, func(w http.ResponseWriter, r *http.Request) { h.heartbeat(w, r, s) })
	r.Post(agent.MetricsPath, func(w http.ResponseWriter, r *http.Request) { h.metrics(w, r, s) })
	r.Post(agent.LogsPath, func(w http.ResponseWriter, r *http.Request) { h.logs(w, r, s, logs) })
	r.Put(fmt.Sprintf(agent.StatusPath, "{id}"), func(w http.ResponseWriter, r *http.Request) { h.status(w, r, s) })
	return r
}

func (h *Handler) hello(w http.ResponseWriter, r *http.Request, s *session) {
	var in agent.Hello
	if !read(w, r, &in) {
		return
	}
	if in.Protocol != agent.ProtocolVersion {
		answer(w, http.StatusUpgradeRequired, agent.Error{Error: fmt.Sprintf("this server speaks version %d of the agent protocol, not %d; use an agent of the server's version", agent.ProtocolVersion, in.Protocol)})
		return
	}
	hello := job.AgentHello{
		Session: s.id, Token: s.token, Instance: in.Instance, Version: in.Version, Hostname: in.Hostname, OS: in.OS, Arch: in.Arch, Slots: in.Slots,
		Idle: time.Duration(in.Idle), Engines: engines(in.Engines),
	}
	for _, a := range in.Attempts {
		hello.Attempts = append(hello.Attempts, report(a.ID, a.Status))
	}
	orders, err := h.Services.Agents.Hello(r.Context(), s.scope, hello)
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	s.greet()
	lease := h.Services.Agents.Lease
	respond(w, agent.Welcome{
		AgentID: string(s.agent()), Lease: agent.Duration(lease.Length), HeartbeatEvery: agent.Duration(lease.Heartbeat), Attempts: wireDesired(orders.Attempts),
		Group: s.scope.Workspace().FileGroup(), Warehouse: h.settings(s, orders.Warehouse),
	}, nil)
}

func (h *Handler) heartbeat(w http.ResponseWriter, r *http.Request, s *session) {
	var in agent.Heartbeat
	if !read(w, r, &in) {
		return
	}
	beat := job.AgentHeartbeat{
		Session: s.id, Running: make([]domain.AttemptID, len(in.Attempts)), Idle: time.Duration(in.Idle), Engines: engines(in.Engines),
	}
	for i, id := range in.Attempts {
		beat.Running[i] = domain.AttemptID(id)
	}
	orders, err := h.Services.Agents.Heartbeat(r.Context(), s.scope, beat)
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	respond(w, agent.HeartbeatReply{Attempts: wireDesired(orders.Attempts), Warehouse: h.settings(s, orders.Warehouse)}, nil)
}

// engines converts the engines that an agent reports; nil if it reports no engine.
func engines(told []agent.Engine) (all []machine.Engine) {
	for _, e := range told {
		all = append(all, machine.Engine{Name: e.Name, Version: e.Version, State: machine.EngineState(e.State), Message: e.Message, Nodes: e.Nodes})
	}
	return all
}

func (h *Handler) settings(s *session, w *machine.WarehouseSettings) *agent.WarehouseSettings {
	if w == nil {
		return nil
	}
	return &agent.WarehouseSettings{Nodes: w.Nodes, TrinoStart: string(w.TrinoStart), Storage: h.Storage(s.scope.Workspace())}
}

func (h *Handler) metrics(w http.ResponseWriter, r *http.Request, s *session) {
	var in agent.Metrics
	if !read(w, r, &in) {
		return
	}
	metrics := machine.Metrics{
		CPU: in.CPU, Cores: in.Cores, Memory: in.Memory, MemoryTotal: in.MemoryTotal, Disk: in.Disk, DiskTotal: in.DiskTotal,
	}
	for _, g := range in.GPUs {
		metrics.GPUs = append(metrics.GPUs, machine.GPUMetrics(g))
	}
	if err := h.Services.Agents.Measured(r.Context(), s.scope, metrics); err != nil {
		h.fail(w, r, s, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Enroll serves agent.EnrollPath: it exchanges a bootstrap token for the agent's own token.
func (h *Handler) Enroll(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answer(w, http.StatusMethodNotAllowed, agent.Error{Error: "An agent enrolls with POST and its bootstrap token."})
		return
	}
	_, bootstrap, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	id, token, err := h.Services.Agents.Enroll(r.Context(), strings.TrimSpace(bootstrap))
	if err != nil && domain.AsError(err).Code == domain.CodeInternal {
		h.Log.Error("enrolling an agent", "error", err)
	}
	respond(w, agent.Enrollment{AgentID: string(id), Token: token}, err)
}

func (h *Handler) logs(w http.ResponseWriter, r *http.Request, s *session, logs *job.LogWriter) {
	batch, err := agent.ReadBatch(http.MaxBytesReader(w, r.Body, maxBatch))
	if errors.Is(err, agent.ErrBatch) {
		respond(w, nil, domain.Errorf(domain.CodeInvalid, "%v", err))
		return
	}
	if err != nil {
		return // the connection broke
	}
	chunks := make([]job.LogAppend, len(batch))
	for i, c := range batch {
		chunks[i] = job.LogAppend{
			Attempt:  domain.AttemptID(c.Attempt),
			LogChunk: job.LogChunk{Offset: c.Offset, Stream: job.LogStream(c.Stream), EmittedAt: c.Time, Data: c.Data},
		}
	}
	receipt, err := logs.Append(r.Context(), chunks)
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	reply := agent.LogReply{Next: make(map[string]int64, len(receipt.Next))}
	for id, next := range receipt.Next {
		reply.Next[string(id)] = next
	}
	for _, id := range receipt.Forget {
		reply.Forget = append(reply.Forget, string(id))
	}
	respond(w, reply, nil)
}

func (h *Handler) status(w http.ResponseWriter, r *http.Request, s *session) {
	var in agent.Status
	if !read(w, r, &in) {
		return
	}
	if err := h.Services.Runs.Report(r.Context(), s.scope, report(chi.URLParam(r, "id"), in)); err != nil {
		h.fail(w, r, s, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func report(id string, s agent.Status) job.AttemptReport {
	return job.AttemptReport{
		Attempt: domain.AttemptID(id), Exited: s.State == agent.Exited, Started: s.State == agent.Running, Held: s.Held, Reason: string(s.Reason),
		Message: s.Message, ExitCode: s.ExitCode, Signal: s.Signal, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, LogEnd: s.LogEnd,
	}
}

func wireDesired(all []job.Desired) []agent.DesiredAttempt {
	wire := make([]agent.DesiredAttempt, len(all))
	for i, d := range all {
		wire[i] = agent.DesiredAttempt{ID: string(d.Attempt), Desire: agent.Desire(d.Desire), LogNext: d.LogNext}
	}
	return wire
}

// read decodes a JSON body. On an error it answers and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		respond(w, nil, domain.Errorf(domain.CodeTooLarge, "The body is larger than the %d bytes that this path accepts.", maxBody))
		return false
	}
	if err != nil {
		respond(w, nil, domain.Errorf(domain.CodeInvalid, "The body does not match what this path accepts: %v", err))
		return false
	}
	return true
}

// fail answers with the error. It closes a superseded session, because the agent has another one. A
// failure after the agent disconnected is not logged.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, s *session, err error) {
	if domain.AsError(err).Code == domain.CodeInternal && r.Context().Err() == nil {
		h.Log.Error("answering an agent", "agent", s.agent(), "error", err)
	}
	respond(w, nil, err)
	if errors.Is(err, job.ErrSuperseded) {
		_ = http.NewResponseController(w).Flush() // deliver the reason before the stream ends
		_ = s.Close()
	}
}

// statuses are the HTTP statuses of the domain's codes. Any other code is 500, which an agent
// retries.
var statuses = map[domain.Code]int{
	domain.CodeInvalid: http.StatusBadRequest, domain.CodeUnauthenticated: http.StatusUnauthorized, domain.CodeForbidden: http.StatusForbidden,
	domain.CodeNotFound: http.StatusNotFound, domain.CodeConflict: http.StatusConflict, domain.CodeTooLarge: http.StatusRequestEntityTooLarge,
	domain.CodeUnavailable: http.StatusServiceUnavailable,
}

func respond(w http.ResponseWriter, body any, err error) {
	status := http.StatusOK
	if err != nil {
		e := domain.AsError(err)
		body = agent.Error{Error: e.Message}
		if status = statuses[e.Code]; status == 0 {
			status = http.StatusInternalServerError
		}
	}
	answer(w, status, body)
}

// answer writes the whole body with its length, so that one flush delivers it.
func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, nil // cannot happen with the types of the protocol
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a disconnected peer needs no answer
}
