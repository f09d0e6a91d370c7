package domain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// relay brings one statement to its engine, and what the engine tells to whoever waits and into the store.
type relay struct {
	t     *Statements
	id    StatementID
	scope Scope
	at    *place        // where the statement can run, as it was when it came; nil where that was nowhere, or it was tried
	first chan struct{} // closed when there is something to answer: the end, or a first chunk that is full

	changed     <-chan struct{} // wakes when the statement has changed in the store
	unsubscribe func()
	telling     chan struct{} // wakes when the store is to have the statement's state at once
	keeping     chan error    // tells how it went with the chunk that is being kept; nil where none is

	cancelled chan struct{} // closed when the statement is to be ended, whatever its kind
	abandoned chan struct{} // closed when nobody waits for it any more
	once      struct{ first, cancelled, abandoned sync.Once }

	mu      sync.Mutex
	st      Statement
	kept    []byte  // the first chunk, once it is whole
	only    bool    // it is the last as well
	chunk   []byte  // the one that grows
	rows    int64   // in it
	unshown bool    // the engine told something that is not in the store yet
	waiters int     // callers who have not left
	lineage Lineage // at the end
}

func newRelay(t *Statements, st Statement, ws WorkspaceID) *relay {
	return &relay{
		t: t, id: st.ID, st: st, scope: SystemScope(ws, "statement"), first: make(chan struct{}), telling: make(chan struct{}, 1), cancelled: make(chan struct{}), abandoned: make(chan struct{}),
	}
}

// begin takes the statement as it is kept.
func (r *relay) begin(st Statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.st = st
}

// comeBack is for how long a caller who left, and has a key to ask again with, is waited for.
const comeBack = 10 * time.Second

func (r *relay) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters++
}

// leave notes that a caller has gone. One who stays to the end need not say so.
func (r *relay) leave(returns bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters--
	if !returns {
		r.abandonAlone()
		return
	}
	time.AfterFunc(comeBack, func() { // of a statement that is over it changes nothing
		r.mu.Lock()
		defer r.mu.Unlock()
		r.abandonAlone()
	})
}

// abandonAlone needs the lock.
func (r *relay) abandonAlone() {
	if r.waiters == 0 {
		r.abandon()
	}
}

func (r *relay) abandon() { r.once.abandoned.Do(func() { close(r.abandoned) }) }
func (r *relay) cancel()  { r.once.cancelled.Do(func() { close(r.cancelled) }) }
func (r *relay) answered() {
	r.once.first.Do(func() { close(r.first) })
}

// answer is how the statement stands, with its first chunk once that is whole.
func (r *relay) answer() StatementResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := StatementResult{Statement: r.st, Chunk: r.kept, Lineage: r.lineage}
	if len(r.st.Chunks) > 1 || r.kept != nil && !r.only && !r.st.State.Final() {
		a.Next = 1
	}
	return a
}

// run is the statement's whole way.
func (r *relay) run() {
	defer r.t.dismiss(r)
	defer r.answered()
	ctx, cancel := context.WithCancel(r.t.open)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { r.watch(ctx) })
	end := r.execute(ctx)
	cancel()
	if err := r.conclude(end); err != nil {
		r.t.Report(fmt.Errorf("the end of statement %s: %w", r.id, err))
	}
}

// watch learns of a cancellation, wherever it was asked for.
func (r *relay) watch(ctx context.Context) {
	for {
		pauseUntil(ctx, r.changed)
		if ctx.Err() != nil {
			return
		}
		_ = r.t.Store.In(ctx, r.scope, func(tx Tx) error { // a database that is away is asked again at the next wake-up
			st, err := tx.Statement(ctx, r.id)
			if err == nil && st.CancelRequestedAt != nil {
				r.cancel()
			}
			return err
		})
	}
}

// pauseUntil returns when it is woken, or ctx has ended.
func pauseUntil(ctx context.Context, wake <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-wake:
	}
}

// patience is how long a statement that never began waits before it is brought to its warehouse again, and longer each time.
const (
	patience    = 250 * time.Millisecond
	maxPatience = 5 * time.Second
)

// execute brings the statement to its engine, again as long as it surely has not begun, and follows it to its end.
func (r *relay) execute(ctx context.Context) StatementEnd {
	for pause := patience; ; pause = min(2*pause, maxPatience) {
		at, failure := r.place(ctx)
		if failure != nil {
			return StatementEnd{Failure: failure}
		}
		end, began := r.attend(ctx, at)
		if began {
			return end
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-r.cancelled:
			return cancelledEnd()
		case <-r.abandoned:
			return cancelledEnd()
		case <-ctx.Done():
			return r.stopped()
		}
	}
}

func cancelledEnd() StatementEnd {
	return StatementEnd{Failure: &StatementFailure{Fault: FaultCancelled, Message: "The statement was cancelled."}}
}

func (r *relay) stopped() StatementEnd {
	return StatementEnd{Failure: &StatementFailure{Fault: FaultEngine, Message: "The server that ran the statement was stopped.", Unsure: true}}
}

// place is where a statement can run.
type place struct {
	agent     AgentID
	databases []string // of the workspace
}

// placeOn is the place on a warehouse that runs; nil while its agent is away.
func placeOn(ctx context.Context, tx Tx, m Machine) (*place, error) {
	a, err := tx.Agent(ctx, m.AgentID)
	if err != nil || a.Session == "" {
		return nil, err
	}
	names, err := tx.DatabaseNames(ctx)
	return &place{a.ID, names}, err
}

// place waits until the warehouse runs, and starts it where it is stopped.
func (r *relay) place(ctx context.Context) (*place, *StatementFailure) {
	if at := r.at; at != nil {
		r.at = nil
		return at, nil
	}
	wake, stop := r.t.Topics.Subscribe(MachinesTopic(r.scope.workspace), AgentsTopic(r.scope.workspace))
	defer stop()
	for {
		at, wait, err := r.look(ctx)
		if e := AsError(err); err != nil && e.Code != CodeInternal {
			return nil, &StatementFailure{Fault: FaultEngine, Message: e.Message}
		}
		if err == nil && at != nil {
			return at, nil
		}
		if err == nil {
			r.waits(ctx, wait)
		}
		select {
		case <-wake:
		case <-time.After(5 * time.Second): // where the database was away
		case <-r.cancelled:
			return nil, cancelledEnd().Failure
		case <-r.abandoned:
			return nil, cancelledEnd().Failure
		case <-ctx.Done():
			return nil, r.stopped().Failure
		}
	}
}

// look is where the statement can run; nil, and what it waits for, while that is nowhere.
func (r *relay) look(ctx context.Context) (at *place, wait string, err error) {
	now := r.t.Clock.Now()
	err = r.t.Store.In(ctx, r.scope, func(tx Tx) error {
		m, err := tx.Machine(ctx, r.st.Warehouse)
		if IsCode(err, CodeNotFound) {
			return Errorf(CodeNotFound, "Its warehouse was deleted.")
		}
		if err != nil {
			return err
		}
		if m.State == MachineRunning {
			at, err = placeOn(ctx, tx, m)
			wait = "Waits for the agent of the warehouse " + m.Name + " to connect."
			return err
		}
		m, _, err = tx.LockMachine(ctx, r.st.Warehouse)
		if err != nil {
			return err
		}
		wait, err = r.wake(ctx, tx, &m, now)
		return err
	})
	return at, wait, err
}

// wake starts the warehouse, unless a person stopped it, or it failed, since the statement came.
func (r *relay) wake(ctx context.Context, tx Tx, m *Machine, now time.Time) (wait string, err error) {
	came := r.st.CreatedAt
	switch {
	case m.HeldAt != nil && !came.After(*m.HeldAt):
		return "", Errorf(CodeUnavailable, "The warehouse %s was stopped while the statement waited.", m.Name)
	case m.State == MachineFailed && !came.After(m.StateSince):
		return "", Errorf(CodeUnavailable, "The warehouse %s failed. %s", m.Name, m.Message)
	case m.resting():
		return fmt.Sprintf("Waits for the warehouse %s, which is being started.", m.Name), startMachine(ctx, tx, r.scope, m, "Started for a statement.", now)
	}
	return strings.TrimSpace(fmt.Sprintf("Waits for the warehouse %s, which is %s. %s", m.Name, m.State, m.Message)), nil
}

// waits shows what the statement waits for.
func (r *relay) waits(ctx context.Context, message string) {
	r.mu.Lock()
	same := r.st.Message == message
	r.mu.Unlock()
	if !same {
		r.note(ctx, func(st *Statement) { st.Message = message })
	}
}

// note changes the statement in the store and here. What cannot be written now is written with what comes next.
func (r *relay) note(ctx context.Context, change func(*Statement)) {
	r.mu.Lock()
	change(&r.st)
	r.mu.Unlock()
	r.write(ctx, change)
}

// write changes the statement in the store, unless it is over there.
func (r *relay) write(ctx context.Context, change func(*Statement)) {
	err := r.t.Store.In(ctx, r.scope, func(tx Tx) error {
		st, err := tx.LockStatement(ctx, r.id)
		if err != nil || st.State.Final() {
			return err
		}
		change(&st)
		tx.Notify(StatementTopic(r.id), StatementsTopic(r.scope.workspace))
		return tx.UpdateStatement(ctx, st, nil)
	})
	if err != nil && ctx.Err() == nil {
		r.t.Report(fmt.Errorf("statement %s: %w", r.id, err))
	}
}

// attend gives the statement to the engine and takes what it tells. It has not begun where the engine never got it.
func (r *relay) attend(ctx context.Context, at *place) (end StatementEnd, began bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := r.wire(ctx, at)
	if err != nil {
		return StatementEnd{Failure: &StatementFailure{Fault: FaultEngine, Message: AsError(err).Message}}, !isPassing(err)
	}
	stream, err := r.t.Engines.Execute(ctx, at.agent, wire)
	e, known := errors.AsType[*Error](err)
	switch {
	case err != nil && r.t.open.Err() != nil:
		return r.stopped(), true
	case known && e.Code == CodeUnavailable: // its agent has just gone, or takes no more now
		r.waits(ctx, e.Message)
		return StatementEnd{}, false
	case known:
		return StatementEnd{Failure: &StatementFailure{Fault: refusals[e.Code], Message: e.Message}}, true
	case err != nil:
		return StatementEnd{}, false
	}
	defer stream.Close()
	over := make(chan struct{})
	var guard sync.WaitGroup
	defer guard.Wait()
	defer close(over)
	guard.Go(func() { r.guard(ctx, cancel, at.agent, over) })
	guard.Go(func() { r.shows(ctx, over) })
	return r.follow(ctx, stream), true
}

// refusals are the faults of what an engine does not take. Of CodeConflict it has, or may have, begun: what it wrote tells the catalog.
var refusals = map[Code]Fault{CodeInvalid: FaultQuery, CodeConflict: FaultEngine}

func isPassing(err error) bool { return AsError(err).Code == CodeInternal }

// mercy is how long an engine may take to end a statement that is cancelled.
const mercy = 3 * time.Second

// guard ends the statement on its engine when it is cancelled, or abandoned before anything of it was answered. Of a write, the engine does not hear of the second.
func (r *relay) guard(ctx context.Context, hangUp func(), agent AgentID, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-r.abandoned:
		r.mu.Lock()
		write := r.st.Write
		r.mu.Unlock()
		if write {
			r.guardCancel(ctx, hangUp, agent, over)
			return
		}
	case <-r.cancelled:
	case <-ctx.Done():
		return
	}
	r.end(ctx, hangUp, agent, over)
}

func (r *relay) guardCancel(ctx context.Context, hangUp func(), agent AgentID, over <-chan struct{}) {
	select {
	case <-over:
	case <-ctx.Done():
	case <-r.cancelled:
		r.end(ctx, hangUp, agent, over)
	}
}

func (r *relay) end(ctx context.Context, hangUp func(), agent AgentID, over <-chan struct{}) {
	if err := r.t.Engines.CancelStatement(ctx, agent, r.id); err != nil {
		hangUp()
		return
	}
	select {
	case <-over:
	case <-time.After(mercy):
		hangUp()
	}
}

// wire is what the engine gets.
func (r *relay) wire(ctx context.Context, at *place) (w EngineStatement, err error) {
	w = EngineStatement{CatalogURL: r.t.CatalogURL, Token: r.t.Tokens.StatementToken(r.id), Databases: at.databases}
	r.mu.Lock()
	w.Statement = r.st
	r.mu.Unlock()
	w.Storage, err = r.t.Tables.TableStorage(ctx, r.scope.workspace)
	return w, err
}

// showAfter is how long a statement runs before its state is written, and again after each change: most are over before.
const showAfter = 300 * time.Millisecond

// follow takes the engine's events to the end.
func (r *relay) follow(ctx context.Context, stream StatementStream) StatementEnd {
	for {
		e, err := stream.Next()
		switch {
		case err != nil && isClosed(r.cancelled), err != nil && isClosed(r.abandoned):
			return cancelledEnd()
		case err != nil && r.t.open.Err() != nil:
			return r.stopped()
		case err != nil:
			return StatementEnd{Failure: &StatementFailure{Fault: FaultEngine, Message: "The warehouse was lost while the statement ran.", Unsure: true}}
		case e.End != nil:
			return *e.End
		}
		if err := r.take(e); err != nil {
			r.t.Report(err)
			return notKept()
		}
	}
}

func notKept() StatementEnd {
	return StatementEnd{Failure: &StatementFailure{Fault: FaultEngine, Message: "Its result could not be kept in the workspace's storage."}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *relay) take(e StatementEvent) error {
	r.mu.Lock()
	r.unshown = r.unshown || e.Batch == nil
	switch {
	case e.Head != nil:
		r.st.begin(r.t.Clock.Now())
		r.st.know(*e.Head)
		if e.Head.Write { // who settles it, if this server ends, is to know
			select {
			case r.telling <- struct{}{}:
			default:
			}
		}
	case e.Progress != nil:
		r.st.advance(*e.Progress, r.t.Clock.Now())
	case e.Schema != nil:
		r.st.Schemata = e.Schema
	case e.Batch != nil:
		r.grow(*e.Batch)
	}
	full := r.full()
	r.mu.Unlock()
	if full {
		return r.cut(false)
	}
	return nil
}

// shows writes how far the statement is, until it is over: an engine may be silent for long after it has told something.
func (r *relay) shows(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(showAfter)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			r.show(ctx)
		case <-r.telling:
			r.show(ctx)
		}
	}
}

func (r *relay) show(ctx context.Context) {
	r.mu.Lock()
	unshown := r.unshown
	r.unshown = false
	r.mu.Unlock()
	if !unshown {
		return
	}
	r.write(ctx, func(st *Statement) {
		r.mu.Lock()
		now := r.st
		r.mu.Unlock()
		st.State, st.Message, st.Progress, st.StartedAt = now.State, now.Message, now.Progress, now.StartedAt
		st.know(StatementHead{Kind: now.Kind, Write: now.Write, Engine: now.Engine, RoutingReason: now.RoutingReason})
		st.Schemata = now.Schemata
	})
}
