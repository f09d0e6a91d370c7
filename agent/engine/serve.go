package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
)

// bodyLimit is of a statement with its parameters, in bytes. A query of more than MaxQuery is refused with its reason as long as it is not beyond this.
const bodyLimit = 64 << 20

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(agent.Error{Error: message})
}

// cancel ends a statement of either kind, if it is here.
func (e *Engine) cancel(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if run := e.running[r.PathValue("id")]; run != nil {
		run.stop(errCancelled)
	}
	e.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// post runs a statement, and streams what it answers.
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
	c, reason, err := e.route(&s)
	if err != nil { // it needs no child to be refused
		to := newReader(w)
		to.end(&agent.StatementEnd{Error: failureOf(err, s.Query)})
		return
	}
	run, done, refused := e.register(r.Context(), &s, c)
	if refused != nil {
		answer(w, refused.status, refused.message)
		return
	}
	defer done()
	to := newReader(w)
	to.accept(agent.StatementProgress{Queued: !run.placed, Done: -1, Kind: c.kind, Write: c.write})
	e.serve(run, &s, c, reason, to)
}

// serve waits for a place and runs the statement there.
func (e *Engine) serve(run *run, s *agent.Statement, c class, reason string, to *reader) {
	arrived := time.Now()
	if !run.placed {
		err := run.places.Acquire(run.ctx, 1)
		e.waited()
		if err != nil {
			to.end(&agent.StatementEnd{QueuedMS: time.Since(arrived).Milliseconds(), Error: stoppedBefore(context.Cause(run.ctx))})
			return
		}
		to.accept(agent.StatementProgress{Done: -1})
	}
	defer run.places.Release(1)
	queued := time.Since(arrived).Milliseconds()
	started := time.Now()
	var end *agent.StatementEnd
	switch {
	case c.trino:
		end = e.runTrino(run, s, c, reason, to)
	case c.executes():
		end = e.runMaintenance(run, s, c, reason, to)
	default:
		s.Engine, s.RoutingReason = "", reason
		end = e.runOn(run, s, to)
	}
	end.QueuedMS, end.RunMS = queued, time.Since(started).Milliseconds()
	to.end(end)
}

func (e *Engine) waited() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting--
}

func stoppedBefore(cause error) *agent.StatementFailure {
	return &agent.StatementFailure{Fault: agent.FaultCancelled, Message: fmt.Sprintf("The statement was cancelled before it ran: %v.", cause)}
}

// reader is who reads what a statement answers. When it is gone, what is sent to it is thrown away.
type reader struct {
	w       http.ResponseWriter
	control *http.ResponseController
	gone    error
}

func newReader(w http.ResponseWriter) *reader {
	w.Header().Set("Content-Type", "application/octet-stream")
	return &reader{w: w, control: http.NewResponseController(w)}
}

// accept says at once that the statement was taken, and whether it writes: a reader may go before it has a place, and a write goes on then.
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
	r.frame(kind, b)
}

func (r *reader) end(end *agent.StatementEnd) { r.json(agent.FrameEnd, end) }

// hurry bounds how long a reader that does not read holds up the end of a statement that was stopped.
func (r *reader) hurry(d time.Duration) { _ = r.control.SetWriteDeadline(time.Now().Add(d)) }
