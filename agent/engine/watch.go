package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Grace periods after a statement is stopped: until its child is killed, and until its reader must
// have read the end.
const (
	interruptGrace = 500 * time.Millisecond
	readerGrace    = 900 * time.Millisecond
)

// runOn runs a statement on a child and returns how it ended.
func (e *Engine) runOn(r *run, s *agent.Statement, class sqltext.Class, to *reader) *agent.StatementEnd {
	p, err := e.pool.take(r.ctx, lockOf(s.Storage))
	if err != nil {
		return e.unstarted(r, "The engine", err)
	}
	defer e.pool.give(p)
	return e.supervise(r, s, p, duckdb.Statement{Statement: *s, Class: class}, class.Write, to)
}

// unstarted is the end of a statement for which no process could be started.
func (e *Engine) unstarted(r *run, what string, err error) *agent.StatementEnd {
	if r.ctx.Err() != nil {
		return &agent.StatementEnd{Error: stoppedBefore(context.Cause(r.ctx))}
	}
	e.log.Error("cannot get a process of the engine", "error", err)
	return &agent.StatementEnd{Error: &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("%s cannot start: %v.", what, err)}}
}

// supervise sends work to a process, passes its frames on and returns how the work ended.
func (e *Engine) supervise(r *run, s *agent.Statement, p *process, work any, write bool, to *reader) *agent.StatementEnd {
	defer r.limit(time.Duration(s.Timeout))()
	defer watch(r, p, to)()
	end, err := p.run(work, func(kind agent.FrameKind, payload []byte) {
		to.frame(kind, payload)
		if to.gone != nil && r.ctx.Err() == nil && !write {
			r.stop(errReader)
		}
	})
	if err != nil {
		end = &agent.StatementEnd{Error: e.died(s, p)}
	}
	if end.Error != nil {
		explain(end.Error, r.ctx, s, write && p.begun && err != nil)
	}
	return end
}

// limit stops the statement after its time-out, unless that is 0. release ends the limit.
func (r *run) limit(timeout time.Duration) (release func()) {
	if timeout == 0 {
		return func() {}
	}
	timer := time.AfterFunc(timeout, func() { r.stop(errTimeout) })
	return func() { timer.Stop() }
}

// watch interrupts the child's statement when the run is stopped. It kills a child that does not
// respond. unwatch ends the watch.
func watch(r *run, p *process, to *reader) (unwatch func()) {
	var mu sync.Mutex
	var kill *time.Timer
	over := false
	stop := context.AfterFunc(r.ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		to.hurry(readerGrace)
		p.cancel()
		kill = time.AfterFunc(interruptGrace, func() {
			mu.Lock()
			defer mu.Unlock()
			if !over { // else the child may already run another statement
				p.kill()
			}
		})
	})
	return func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		if kill != nil {
			kill.Stop()
		}
		_ = to.control.SetWriteDeadline(time.Time{})
	}
}

// died returns why a statement's child ended.
func (e *Engine) died(s *agent.Statement, p *process) *agent.StatementFailure {
	p.awaitEnd()
	why, memory := p.cause()
	e.log.Warn("a child of the engine died", "statement", s.ID, "cause", why, "output", p.Output())
	switch {
	case memory && p.maintains:
		return &agent.StatementFailure{Fault: agent.FaultResources, Message: "Maintaining the table took more memory than a statement may have, and its process was ended. What was committed by then stays. Use a larger warehouse."}
	case memory:
		return &agent.StatementFailure{Fault: agent.FaultResources, Message: "The statement used all available memory, and its process was ended. Select or join less at once, or use a larger warehouse."}
	}
	if said := duckdb.Thrown(p.Output()); said != "" {
		return &agent.StatementFailure{Fault: agent.FaultEngine, Message: said}
	}
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("The process that ran the statement ended (%s). Other statements go on.", why), Unsure: true}
}

// explain replaces a failure by the reason for which the statement was stopped, if it was stopped.
func explain(f *agent.StatementFailure, ctx context.Context, s *agent.Statement, unsure bool) {
	cause := context.Cause(ctx)
	f.Unsure = f.Unsure || unsure
	switch {
	case cause == nil:
	case errors.Is(cause, errTimeout):
		f.Fault, f.Message = agent.FaultTimeout, fmt.Sprintf("The statement ran longer than its time-out of %s and was stopped.", time.Duration(s.Timeout))
	default:
		f.Fault, f.Message = agent.FaultCancelled, fmt.Sprintf("The statement was cancelled: %v.", cause)
	}
	if cause != nil {
		f.Line, f.Column = 0, 0
	}
}

// run sends work and passes the process's frames to emit. It returns the end frame. An error means
// that the child has ended.
func (p *process) run(work any, emit func(agent.FrameKind, []byte)) (*agent.StatementEnd, error) {
	if err := p.send(spawned.FrameRun, work); err != nil {
		return nil, err
	}
	for {
		kind, payload, err := agent.ReadFrame(p.frames)
		if err != nil {
			return nil, err
		}
		switch kind {
		case agent.FrameEnd:
			var end agent.StatementEnd
			if err := json.Unmarshal(payload, &end); err != nil {
				return nil, err
			}
			p.ended = true
			return &end, nil
		case agent.FrameHead:
			p.begun = true
		}
		emit(kind, payload)
	}
}
