package statement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// execution runs one statement on its engine. It passes the engine's events to waiting callers and
// to the store.
type execution struct {
	t     *Statements
	id    domain.StatementID
	scope domain.Scope
	// submitted is the target found at submission; nil if there was none, or after its first use.
	submitted *target
	// first is closed when there is something to answer: the end, or a full first chunk.
	first chan struct{}

	cancels     <-chan struct{} // receives when its cancellation may have been requested on any server
	unsubscribe func()
	urgent      chan struct{} // receives when the statement's state must be stored at once
	storing     chan error    // result of the store call that runs; nil if none does

	cancelled chan struct{} // closed when the statement must end, whatever its kind
	abandoned chan struct{} // closed when nobody waits for it any more, and it only reads
	once      struct{ first, cancelled, abandoned sync.Once }

	mu         sync.Mutex
	st         Statement
	firstChunk []byte       // set once complete
	onlyChunk  bool         // firstChunk is also the last
	chunk      []byte       // the chunk being filled
	rows       int64        // rows in chunk
	json       int64        // size of those rows as JSON, in bytes
	unreported bool         // the engine reported something that is not in the store yet
	waiters    int          // number of callers that have not left
	unwanted   bool         // the last caller has left
	lineage    lake.Lineage // set at the end
}

func newExecution(t *Statements, st Statement, ws domain.WorkspaceID) *execution {
	return &execution{
		t: t, id: st.ID, st: st, scope: domain.SystemScope(ws, "statement"), first: make(chan struct{}), urgent: make(chan struct{}, 1), cancelled: make(chan struct{}), abandoned: make(chan struct{}),
	}
}

// begin sets the statement as it is stored.
func (x *execution) begin(st Statement) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.st = st
}

// reconnectGrace is how long the execution waits for the return of a caller that left and has an
// idempotency key.
const reconnectGrace = 10 * time.Second

func (x *execution) wait() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiters++
	x.unwanted = false
}

// leave records that a caller has gone. Callers that stay to the end need not call it.
func (x *execution) leave(returns bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiters--
	if !returns {
		x.abandonAlone()
		return
	}
	time.AfterFunc(reconnectGrace, func() { // no effect once the statement is over
		x.mu.Lock()
		defer x.mu.Unlock()
		x.abandonAlone()
	})
}

// abandonAlone abandons the statement if no caller is left. It needs the lock.
func (x *execution) abandonAlone() {
	x.unwanted = x.waiters == 0
	x.abandonRead()
}

// abandonRead ends an unwanted statement once it is known not to write. It needs the lock.
func (x *execution) abandonRead() {
	if x.unwanted && x.st.Kind != "" && !x.st.Write {
		x.once.abandoned.Do(func() { close(x.abandoned) })
	}
}

func (x *execution) cancel() { x.once.cancelled.Do(func() { close(x.cancelled) }) }
func (x *execution) answered() {
	x.once.first.Do(func() { close(x.first) })
}

// answer returns the statement's state, with its first chunk once that is complete.
func (x *execution) answer() Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := Result{Statement: x.st, Chunk: x.firstChunk, Lineage: x.lineage}
	if len(x.st.Chunks) > 1 || x.firstChunk != nil && !x.onlyChunk && !x.st.State.Final() {
		a.Next = 1
	}
	return a
}

// run executes the statement to its end. If this server stops before an engine has it, run returns
// it to the store.
func (x *execution) run() {
	defer x.t.dismiss(x)
	defer x.answered()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { x.watch(ctx) })
	end, ended := x.execute(ctx)
	cancel()
	var err error
	if ended {
		err = x.conclude(end)
	} else {
		err = x.handOver()
	}
	if err != nil {
		x.t.Report(fmt.Errorf("the end of statement %s: %w", x.id, err))
	}
}

// watch detects a cancellation that was requested on any server. It retries failed reads: a
// cancellation is requested once.
func (x *execution) watch(ctx context.Context) {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.cancels:
		case <-retry:
		}
		retry = nil
		err := x.t.Store.In(ctx, x.scope, func(tx Tx) error {
			st, err := tx.Statement(ctx, x.id)
			if err == nil && st.CancelRequestedAt != nil {
				x.cancel()
			}
			return err
		})
		if err != nil {
			retry = time.After(retryDelay)
		}
	}
}

// retryDelay is the first pause before a statement that never began is retried. It doubles up to
// maxRetryDelay.
const (
	retryDelay    = 250 * time.Millisecond
	maxRetryDelay = 5 * time.Second
)

// execute runs the statement on its engine and follows it to its end. It retries as long as the
// statement certainly has not begun. ended is false if this server stops before an engine has the
// statement.
func (x *execution) execute(ctx context.Context) (end End, ended bool) {
	for pause := retryDelay; ; pause = min(2*pause, maxRetryDelay) {
		to, failure := x.awaitTarget(ctx)
		switch {
		case failure != nil:
			return End{Failure: failure}, true
		case to == nil:
			return End{}, false
		}
		if end, began := x.runOn(ctx, to); began {
			return end, true
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-x.cancelled:
			return cancelledEnd(), true
		case <-x.t.draining:
			return End{}, false
		}
	}
}

func cancelledEnd() End {
	return End{Failure: &Failure{Fault: FaultCancelled, Message: "The statement was cancelled."}}
}

// stopped returns the end of a statement that nobody cancelled, but whose server or warehouse was
// stopped.
func (x *execution) stopped() End {
	who := "warehouse"
	if x.t.open.Err() != nil {
		who = "server"
	}
	return End{Failure: &Failure{Fault: FaultEngine, Message: "The " + who + " was stopped while the statement ran.", Unsure: true}}
}

// note changes the statement in memory and in the store. A change that cannot be stored now is
// stored with the next one.
func (x *execution) note(ctx context.Context, change func(*Statement)) {
	x.mu.Lock()
	change(&x.st)
	x.mu.Unlock()
	x.write(ctx, change)
}

// write changes the statement in the store, unless it has ended there.
func (x *execution) write(ctx context.Context, change func(*Statement)) {
	err := x.t.Store.In(ctx, x.scope, func(tx Tx) error {
		st, err := tx.LockStatement(ctx, x.id)
		if err != nil || st.State.Final() {
			return err
		}
		change(&st)
		st.notify(tx, x.scope)
		return tx.UpdateStatement(ctx, st, nil)
	})
	if err != nil && ctx.Err() == nil {
		x.t.Report(fmt.Errorf("statement %s: %w", x.id, err))
	}
}

// runOn sends the statement to the engine and receives its events. began is false if no engine got
// the statement or none began it.
func (x *execution) runOn(ctx context.Context, to *target) (end End, began bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := x.wire(ctx, to)
	if err != nil {
		x.t.Report(fmt.Errorf("statement %s: %w", x.id, err))
		return End{Failure: &Failure{Fault: FaultEngine, Message: domain.AsError(err).Message}}, !IsPassing(err)
	}
	sent := make(chan struct{})
	go x.awaitSent(sent, cancel)
	stream, err := x.t.Engines.Execute(ctx, to.agent, wire)
	close(sent)
	e, known := errors.AsType[*domain.Error](err)
	switch {
	case err != nil && !x.unasked():
		return cancelledEnd(), true
	case known && e.Code == domain.CodeUnavailable: // its agent has just gone, or accepts no more now
		x.showWait(ctx, e.Message)
		return End{}, false
	case known && x.t.open.Err() != nil:
		return x.stopped(), true
	case known:
		return End{Failure: &Failure{Fault: refusals[e.Code], Message: e.Message, Unsure: e.Code == domain.CodeConflict}}, true
	case err != nil:
		x.t.Report(fmt.Errorf("statement %s: %w", x.id, err))
		return End{}, false
	}
	defer stream.Close()
	over := make(chan struct{})
	var guard sync.WaitGroup
	defer guard.Wait()
	defer close(over)
	guard.Go(func() { x.guard(ctx, cancel, to.agent, over) })
	guard.Go(func() { x.reportProgress(ctx, over) })
	end = x.follow(ctx, stream)
	return end, !end.Unstarted
}

// awaitSent hangs up while the statement is being sent: at once at a stop, and cancelGrace after it
// was cancelled. The agent may be silent.
func (x *execution) awaitSent(sent <-chan struct{}, hangUp func()) {
	select {
	case <-sent:
		return
	case <-x.t.open.Done():
		hangUp()
		return
	case <-x.cancelled:
	case <-x.abandoned:
	}
	select {
	case <-sent:
	case <-time.After(cancelGrace):
		hangUp()
	}
}

// refusals maps an engine's refusals to faults. On CodeConflict the statement has, or may have,
// begun: the catalog knows what it wrote.
var refusals = map[domain.Code]Fault{domain.CodeInvalid: FaultQuery, domain.CodeConflict: FaultEngine}

// IsPassing reports whether the same call may succeed later: the database is away, or the error is
// internal.
func IsPassing(err error) bool {
	code := domain.AsError(err).Code
	return code == domain.CodeInternal || code == domain.CodeUnavailable
}

// cancelGrace is how long an engine may take to end a cancelled statement.
const cancelGrace = 3 * time.Second

// guard ends the statement on its engine when it is cancelled or abandoned, or when this server
// stops.
func (x *execution) guard(ctx context.Context, hangUp func(), agent domain.AgentID, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
		return
	case <-x.cancelled:
	case <-x.abandoned:
	case <-x.t.open.Done():
	}
	x.end(ctx, hangUp, agent, over)
}

// end asks the engine to end the statement, and hangs up if it does not within cancelGrace.
func (x *execution) end(ctx context.Context, hangUp func(), agent domain.AgentID, over <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, cancelGrace)
	defer cancel()
	if x.t.Engines.CancelStatement(ctx, agent, x.id) == nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
	hangUp()
}

// wire returns the statement as the engine receives it.
func (x *execution) wire(ctx context.Context, to *target) (w EngineStatement, err error) {
	w = EngineStatement{CatalogURL: x.t.CatalogURL, Databases: to.databases}
	w.ReadToken, w.WriteToken = x.t.Tokens.StatementToken(x.id, false), x.t.Tokens.StatementToken(x.id, true)
	x.mu.Lock()
	w.Statement = x.st
	x.mu.Unlock()
	w.Storage, err = x.t.Tables.TableStorage(ctx, x.scope.Workspace())
	return w, err
}

// reportEvery is the interval at which changes of a running statement are stored. Most statements
// end before the first.
const reportEvery = 300 * time.Millisecond

// follow receives the engine's events to the end.
func (x *execution) follow(ctx context.Context, stream Stream) End {
	for {
		e, err := stream.Next()
		switch {
		case err != nil && x.unasked() && x.t.open.Err() != nil:
			return x.stopped()
		case err != nil && x.unasked():
			return End{Failure: &Failure{Fault: FaultEngine, Message: "The warehouse was lost while the statement ran.", Unsure: true}}
		case err != nil:
			return cancelledEnd()
		case e.End != nil:
			return x.ended(*e.End)
		}
		if err := x.receive(e); err != nil {
			x.t.Report(err)
			return notKept(err)
		}
	}
}

// unasked reports whether the statement was neither cancelled nor abandoned.
func (x *execution) unasked() bool { return !isClosed(x.cancelled) && !isClosed(x.abandoned) }

// ended adjusts the end that an engine reported. If nobody cancelled the statement but the engine
// did, it was stopped. A statement that the engine never began can begin elsewhere.
func (x *execution) ended(end End) End {
	asked := !x.unasked()
	if f := end.Failure; f != nil && f.Fault == FaultCancelled && !asked {
		end.Failure = x.stopped().Failure
	}
	end.Unstarted = end.Unstarted && !asked
	return end
}

func notKept(err error) End {
	message := "Its result could not be stored in the workspace's storage."
	if e := domain.AsError(err); e.Code == domain.CodeUnavailable {
		message += " " + e.Message
	}
	return End{Failure: &Failure{Fault: FaultEngine, Message: message}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (x *execution) receive(e Event) error {
	x.mu.Lock()
	x.unreported = x.unreported || e.Batch == nil
	switch {
	case e.Head != nil:
		x.st.begin(x.t.Clock.Now())
		x.st.know(*e.Head)
		x.abandonRead()
		if e.Head.Write { // the server that finalizes it, if this one ends, needs to know
			select {
			case x.urgent <- struct{}{}:
			default:
			}
		}
	case e.Progress != nil:
		x.st.advance(*e.Progress, x.t.Clock.Now())
		x.abandonRead()
	case e.Schema != nil:
		x.st.Schemata = e.Schema
	case e.Batch != nil:
		x.grow(*e.Batch)
	}
	full := x.full()
	x.mu.Unlock()
	if full {
		return x.cut(false)
	}
	return nil
}

// reportProgress stores the statement's progress until it is over. It needs its own timer because
// an engine may be silent for long after an event.
func (x *execution) reportProgress(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			x.report(ctx)
		case <-x.urgent:
			x.report(ctx)
		}
	}
}

func (x *execution) report(ctx context.Context) {
	x.mu.Lock()
	unreported := x.unreported
	x.unreported = false
	x.mu.Unlock()
	if !unreported {
		return
	}
	x.write(ctx, func(st *Statement) {
		x.mu.Lock()
		now := x.st
		x.mu.Unlock()
		st.State, st.Message, st.Progress, st.StartedAt = now.State, now.Message, now.Progress, now.StartedAt
		st.know(Head{Kind: now.Kind, Write: now.Write, Engine: now.Engine, RoutingReason: now.RoutingReason})
		st.Schemata = now.Schemata
	})
}
