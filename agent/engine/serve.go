package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// bodyLimit bounds a statement with its parameters, in bytes. Within it, a query longer than
// sqltext.MaxQuery is refused with a reason.
const bodyLimit = 64 << 20

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(agent.Error{Error: message})
}

// cancel ends a statement of DuckDB or Trino, if this engine runs it.
func (e *Engine) cancel(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if run := e.running[r.PathValue("id")]; run != nil {
		run.stop(errCancelled)
	}
	e.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// post runs a statement and streams its result.
func (e *Engine) post(w http.ResponseWriter, r *http.Request) {
	var s agent.Statement
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&s); err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			answer(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The statement is over %d bytes.", large.Limit))
			return
		}
		answer(w, http.StatusBadRequest, fmt.Sprintf("The statement cannot be read: %v.", err))
		return
	}
	if s.ID == "" {
		answer(w, http.StatusBadRequest, "The statement has no id.")
		return
	}
	s.Query = sqltext.PlainSpace(s.Query)
	if name := sqltext.DatabaseNamed(s.Catalog.Databases, s.Database); name != "" {
		s.Database = name
	}
	chosen, err := e.route(&s)
	if err != nil { // refused without a child
		to := newReader(w, e.o.addresses)
		to.end(&agent.StatementEnd{Error: result.Failure(err, s.Query)})
		return
	}
	s.Query, s.Catalog = chosen.class.Text(s.Query), s.Catalog.For(chosen.class.Write)
	run, done, refused := e.register(r.Context(), &s, chosen)
	if refused != nil {
		answer(w, refused.status, refused.message)
		return
	}
	defer done()
	to := newReader(w, e.o.addresses)
	to.accept(agent.StatementProgress{Queued: !run.hasSlot, Done: -1, Kind: chosen.class.Kind, Write: chosen.class.Write})
	e.serve(run, &s, chosen, to)
}

// serve waits for a slot and runs the statement.
func (e *Engine) serve(run *run, s *agent.Statement, chosen routed, to *reader) {
	arrived := time.Now()
	if !run.hasSlot {
		err := run.slots.Acquire(run.ctx, 1)
		e.waited()
		if err != nil {
			e.forget(s.ID)
			to.end(&agent.StatementEnd{QueuedMS: time.Since(arrived).Milliseconds(), Error: stoppedBefore(context.Cause(run.ctx)), Unstarted: true})
			return
		}
		to.accept(agent.StatementProgress{Done: -1})
	}
	defer run.slots.Release(1)
	queued := time.Since(arrived).Milliseconds()
	started := time.Now()
	var end *agent.StatementEnd
	switch {
	case chosen.class.Write && !s.Write:
		end = &agent.StatementEnd{Error: &agent.StatementFailure{
			Fault: agent.FaultForbidden, Message: chosen.class.Kind + " writes, but the sender of this statement may only read. Writing needs an editor, or an editor's key.",
		}}
	case chosen.trino:
		end = e.runTrino(run, s, chosen, to)
	case chosen.class.Executes(): // DuckDB has no table procedures
		end = e.runMaintenance(run, s, chosen, to)
	default:
		s.Engine, s.RoutingReason = "", chosen.reason
		end = e.runOn(run, s, chosen.class, to)
	}
	end.QueuedMS, end.RunMS = queued, time.Since(started).Milliseconds()
	to.end(end)
}

func (e *Engine) waited() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting--
}

// forget removes a statement that never got a slot, so that it can be sent again.
func (e *Engine) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, id)
	e.accepted.remove(id)
}

func stoppedBefore(cause error) *agent.StatementFailure {
	return &agent.StatementFailure{Fault: agent.FaultCancelled, Message: fmt.Sprintf("The statement was cancelled before it ran: %v.", cause)}
}

// reader is the client that reads a statement's result. Once it disconnects, frames are discarded.
type reader struct {
	w       http.ResponseWriter
	control *http.ResponseController
	private *addresses // removed from what is sent
	gone    error
}

func newReader(w http.ResponseWriter, private *addresses) *reader {
	w.Header().Set("Content-Type", "application/octet-stream")
	return &reader{w: w, control: http.NewResponseController(w), private: private}
}

// accept reports at once that the statement was accepted, and whether it writes. A reader may
// disconnect while the statement waits for a slot. A write continues then.
func (r *reader) accept(p agent.StatementProgress) { r.json(agent.FrameProgress, p) }

func (r *reader) frame(kind agent.FrameKind, payload ...[]byte) {
	if r.gone != nil {
		return
	}
	if r.gone = agent.WriteFrame(r.w, kind, payload...); r.gone == nil {
		r.gone = r.control.Flush()
	}
}

func (r *reader) json(kind agent.FrameKind, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		r.gone = err
		return
	}
	r.frame(kind, r.private.redact(b))
}

func (r *reader) end(end *agent.StatementEnd) { r.json(agent.FrameEnd, end) }

// hurry bounds how long a reader that does not read can delay the end of a stopped statement.
func (r *reader) hurry(d time.Duration) { _ = r.control.SetWriteDeadline(time.Now().Add(d)) }
