package domain

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// Bounds of statements and their results.
const (
	MaxQuery      = 1 << 20          // bytes of a statement's text
	MaxParameters = 1000             // of one statement
	maxValues     = 1 << 20          // bytes of its parameters together
	ChunkBytes    = 16 << 20         // of a result in Arrow that come back at once, and about the size of its further chunks
	ResultKept    = 24 * time.Hour   // after its end
	chunkWait     = 20 * time.Second // that a chunk which is still to come is waited for
	maxLive       = 1000             // statements at once on one server
	defaultBytes  = 8 << 30          // of a result for which no limit was given: it is kept for a day
)

// Statements runs SQL on warehouses, and keeps what was run.
type Statements struct {
	StatementOptions
	open   context.Context // of what goes on without a caller
	close  context.CancelFunc
	relays sync.WaitGroup
	mu     sync.Mutex
	live   map[StatementID]*relay
}

// StatementOptions are what Statements need.
type StatementOptions struct {
	Store      Store
	System     System
	Topics     Topics
	Clock      Clock
	Objects    Objects
	Engines    Engines
	Tokens     StatementTokens
	Tables     TableStorages
	CatalogURL string // as engines reach it
	Replica    string // this server
	Report     func(error)
}

// TableStorages tells where the tables of workspaces lie.
type TableStorages interface {
	TableStorage(ctx context.Context, ws WorkspaceID) (TableStorage, error)
}

// NewStatements makes the service. Close ends what it has begun.
func NewStatements(o StatementOptions) *Statements {
	ctx, cancel := context.WithCancel(context.Background())
	return &Statements{StatementOptions: o, open: ctx, close: cancel, live: map[StatementID]*relay{}}
}

// Close cancels what runs through this server, and waits until that is recorded.
func (t *Statements) Close() {
	t.close()
	t.relays.Wait()
}

// NewStatement is what a statement is made from. Zero fields stand for their defaults.
type NewStatement struct {
	Query      string            `json:"query"`
	Warehouse  string            `json:"warehouse"`  // its id or its name
	Parameters []json.RawMessage `json:"parameters"` // for $1 and on, or for ? in their order: null, a boolean, a number or a string
	Database   string            `json:"database"`   // lake
	Schema     string            `json:"schema"`     // public
	Engine     string            `json:"engine"`     // the one of the statement's kind
	RowLimit   int64             `json:"row_limit"`  // none
	ByteLimit  int64             `json:"byte_limit"` // 8 GiB
	Timeout    time.Duration     `json:"timeout"`    // none
}

// StatementResult is how a statement stands, with the first piece of its result.
type StatementResult struct {
	Statement Statement
	Chunk     []byte // a stream of Arrow IPC; nil while there is none
	Next      int    // number of the next chunk; 0 where there is none
	Lineage   Lineage
}

// Submit begins a statement and does not wait for it. Its warehouse is started where it is stopped.
func (t *Statements) Submit(ctx context.Context, s Scope, n NewStatement, key Idempotency) (Statement, error) {
	if err := authorize(ctx, t.Store, s, StatementRun); err != nil {
		return Statement{}, err
	}
	st, err := t.draft(s, n)
	if err != nil {
		return Statement{}, err
	}
	r, err := t.enlist(st, s)
	if err != nil {
		return Statement{}, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) error {
		id, err := once(ctx, tx, s, key, StatementRun, n, func() (id StatementID, err error) {
			r.at, err = t.insert(ctx, tx, s, &st, n)
			return st.ID, err
		})
		if err != nil || id == st.ID {
			return err
		}
		st, err = tx.Statement(ctx, id)
		return err
	})
	if err != nil || st.ID != r.st.ID { // another request had the key
		t.dismiss(r)
		return st, err
	}
	r.begin(st)
	t.relays.Go(r.run)
	return st, nil
}

func (t *Statements) draft(s Scope, n NewStatement) (Statement, error) {
	st := Statement{
		ID: newID[StatementID](prefixStatement), Query: n.Query, Parameters: n.Parameters, Database: n.Database, Schema: n.Schema, Requested: n.Engine,
		RowLimit: n.RowLimit, ByteLimit: n.ByteLimit, Timeout: n.Timeout, CreatedBy: s.actor, Role: RoleEditor, CreatedAt: t.Clock.Now(),
		State: StatementQueued, Progress: -1, Replica: t.Replica,
	}
	if s.role.AtMost(RoleEditor) {
		st.Role = s.role
	}
	if st.ByteLimit == 0 {
		st.ByteLimit = defaultBytes
	}
	if st.Database == "" {
		st.Database = DefaultDatabase
	}
	if st.Schema == "" {
		st.Schema = DefaultSchema
	}
	return st, validStatement(n)
}

func validStatement(n NewStatement) error {
	switch {
	case len(n.Query) > MaxQuery:
		return &Error{Code: CodeTooLarge, Field: "query", Message: sprintf("The statement has %d bytes; use at most %d.", []any{len(n.Query), MaxQuery})}
	case strings.TrimSpace(n.Query) == "":
		return Invalid("query", "The query is empty; write one SQL statement.")
	case n.Warehouse == "":
		return Invalid("warehouse_id", "warehouse_id is missing; GET /sql/warehouses lists the warehouses.")
	case n.RowLimit < 0:
		return Invalid("row_limit", "row_limit is %d; it must be above 0, or left out.", n.RowLimit)
	case n.ByteLimit < 0:
		return Invalid("byte_limit", "byte_limit is %d; it must be above 0, or left out.", n.ByteLimit)
	case n.Timeout < 0:
		return Invalid("timeout_seconds", "timeout_seconds must be above 0, or left out.")
	case len(n.Parameters) > MaxParameters:
		return Invalid("parameters", "The statement has %d parameters; use at most %d.", len(n.Parameters), MaxParameters)
	}
	values := 0
	for i, p := range n.Parameters {
		if values += len(p); values > maxValues {
			return &Error{Code: CodeTooLarge, Field: "parameters", Message: sprintf("The parameters have more than %d bytes together; load what is larger into a table.", []any{maxValues})}
		}
		if first := bytes.TrimSpace(p); len(first) == 0 || first[0] == '{' || first[0] == '[' {
			return Invalid("parameters", "Parameter %d is not null, a boolean, a number or a string; write lists and structures as SQL over such parameters.", i+1)
		}
	}
	return validText("query", n.Query, MaxQuery)
}

// insert fills in what the transaction knows, and keeps the statement. It answers where the statement can run, if it can at once.
func (t *Statements) insert(ctx context.Context, tx Tx, s Scope, st *Statement, n NewStatement) (at *place, err error) {
	m, err := findMachine(ctx, tx, KindWarehouse, n.Warehouse)
	if IsCode(err, CodeNotFound) {
		return nil, NotFound("warehouse", n.Warehouse)
	}
	if err != nil {
		return nil, err
	}
	st.Warehouse = m.ID
	if m.State != MachineRunning {
		st.Message = "Waits for the warehouse " + m.Name + "."
	} else if at, err = placeOn(ctx, tx, m); err != nil {
		return nil, err
	}
	if s.actor.Kind == ActorRun {
		a, err := tx.Attempt(ctx, AttemptID(s.actor.ID))
		if err != nil {
			return nil, err
		}
		st.RunID, st.TaskKey = a.RunID, a.TaskKey
	}
	if err := tx.InsertStatement(ctx, *st); err != nil {
		return nil, err
	}
	tx.Notify(StatementsTopic(s.workspace))
	return at, audited(ctx, tx, s, StatementRun, "statement", st.ID)
}

// enlist makes room for one more statement on this server.
func (t *Statements) enlist(st Statement, s Scope) (*relay, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.live) >= maxLive {
		return nil, Errorf(CodeRate, "%d statements run or wait already; try again when some of them are over.", len(t.live))
	}
	r := newRelay(t, st, s.workspace)
	r.changed, r.unsubscribe = t.Topics.Subscribe(StatementTopic(st.ID)) // before it is there, so that nothing of it is missed
	t.live[st.ID] = r
	return r, nil
}

func (t *Statements) dismiss(r *relay) {
	r.unsubscribe()
	t.mu.Lock()
	delete(t.live, r.id)
	t.mu.Unlock()
}

func (t *Statements) relay(id StatementID) *relay {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[id]
}

// Execute submits a statement and waits for its first chunk or its end, or until wait is over where that is not nil: then the statement goes on, and its state tells
// so. A statement that failed is an error. When ctx ends before, and nobody else waits, a statement that reads is cancelled, after a while where a key lets its
// caller come back; one that writes goes on.
func (t *Statements) Execute(ctx context.Context, s Scope, n NewStatement, key Idempotency, wait *time.Duration) (StatementResult, error) {
	st, err := t.Submit(ctx, s, n, key)
	if err != nil {
		return StatementResult{}, err
	}
	limit, cancel := ctx, context.CancelFunc(func() {})
	if wait != nil {
		limit, cancel = context.WithTimeout(ctx, *wait)
	}
	defer cancel()
	r := t.relay(st.ID)
	if r == nil {
		return t.await(limit, s, st.ID)
	}
	r.wait()
	select {
	case <-r.first:
	case <-limit.Done():
	}
	if ctx.Err() != nil {
		r.leave(key.Key != "")
		return StatementResult{}, ctx.Err()
	}
	if result := r.answer(); result.Statement.State.Final() || result.Chunk != nil {
		return result, result.Statement.Err()
	}
	return t.Result(ctx, s, st.ID)
}

// await is Execute for a statement that another server runs, or none any more.
func (t *Statements) await(ctx context.Context, s Scope, id StatementID) (StatementResult, error) {
	wake, stop := t.Topics.Subscribe(StatementTopic(id))
	defer stop()
	for {
		result, err := t.Result(context.WithoutCancel(ctx), s, id)
		if err != nil || result.Statement.State.Final() || result.Chunk != nil {
			return result, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return result, nil
		}
	}
}

// Get returns a statement.
func (t *Statements) Get(ctx context.Context, s Scope, id StatementID) (st Statement, err error) {
	if err := authorize(ctx, t.Store, s, StatementRead); err != nil {
		return st, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		st, err = tx.Statement(ctx, id)
		return err
	})
	return st, err
}

// Result returns how a statement stands, with its first chunk where there is one. One that failed is an error.
func (t *Statements) Result(ctx context.Context, s Scope, id StatementID) (r StatementResult, err error) {
	if err := authorize(ctx, t.Store, s, StatementRead); err != nil {
		return r, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		if r.Statement, err = tx.Statement(ctx, id); err != nil {
			return err
		}
		r.Lineage, err = tx.LineageOf(ctx, Actor{Kind: ActorStatement, ID: string(id)})
		return err
	})
	if err == nil {
		err = r.Statement.Err()
	}
	if err != nil || len(r.Statement.Chunks) == 0 || t.expired(r.Statement) {
		return r, err
	}
	if len(r.Statement.Chunks) > 1 || !r.Statement.State.Final() {
		r.Next = 1
	}
	r.Chunk, err = t.chunk(ctx, s, id, 0)
	return r, err
}

// List returns statements, newest first.
func (t *Statements) List(ctx context.Context, s Scope, f StatementFilter, p Page) (List[Statement], error) {
	if err := authorize(ctx, t.Store, s, StatementRead); err != nil {
		return List[Statement]{}, err
	}
	if f.Mine != "" {
		f.Mine = s.actor.ID
	}
	for _, state := range f.States {
		if !state.known() {
			return List[Statement]{}, Invalid("state", "%q is no state of a statement; use queued, running, succeeded, failed or cancelled.", string(state))
		}
	}
	name := listName("statements", f)
	before, limit, err := p.after(name)
	if err != nil {
		return List[Statement]{}, err
	}
	var all []Statement
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		all, err = tx.Statements(ctx, f, StatementID(before), limit+1, statementPage)
		return err
	})
	l := page(name, all, limit, func(st Statement) string { return string(st.ID) })
	l.fit(statementPage, func(st Statement) int { return len(st.Query) + st.valueBytes() })
	return l, err
}

// statementPage bounds the texts and the parameters on one page of statements.
const statementPage = 4 << 20

func (s StatementState) known() bool {
	for _, k := range StatementStates {
		if k == s {
			return true
		}
	}
	return false
}

// Cancel asks for a statement's end. One that only waits is cancelled at once; one that runs is, when its engine has ended it.
func (t *Statements) Cancel(ctx context.Context, s Scope, id StatementID) (st Statement, err error) {
	if err := authorize(ctx, t.Store, s, StatementRun); err != nil {
		return st, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		if st, err = tx.LockStatement(ctx, id); err != nil {
			return err
		}
		if st.CreatedBy.ID != s.actor.ID && !s.role.Allows(StatementCancel) {
			return Errorf(CodeForbidden, "Your role, %s, may cancel only your own statements. Ask an editor of the workspace.", s.role)
		}
		if err := st.cancel(t.Clock.Now()); err != nil {
			return err
		}
		tx.Notify(StatementTopic(id), StatementsTopic(s.workspace))
		if err := tx.UpdateStatement(ctx, st, nil); err != nil {
			return err
		}
		return audited(ctx, tx, s, StatementCancel, "statement", id)
	})
	return st, err
}

// Watch wakes the channel whenever the statement may have changed. The caller calls stop when done.
func (t *Statements) Watch(ctx context.Context, s Scope, id StatementID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := t.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = t.Topics.Subscribe(StatementTopic(id))
	return wake, stop, nil
}

// Chunk returns the n-th piece of a result, from 0: a stream of Arrow IPC, and whether another follows. One that is still to come is waited for, for a while.
func (t *Statements) Chunk(ctx context.Context, s Scope, id StatementID, n int) (st Statement, chunk []byte, next bool, err error) {
	wake, stop := t.Topics.Subscribe(StatementTopic(id))
	defer stop()
	late := time.NewTimer(chunkWait)
	defer late.Stop()
	for {
		st, err := t.Get(ctx, s, id)
		if err == nil {
			err = st.Err()
		}
		switch {
		case err != nil:
			return st, nil, false, err
		case t.expired(st):
			return st, nil, false, Errorf(CodeNotFound, "The result of %s was kept for a day and is gone; run the statement again.", id)
		case n >= 0 && n < len(st.Chunks):
			chunk, err := t.chunk(ctx, s, id, n)
			return st, chunk, n+1 < len(st.Chunks) || !st.State.Final(), err
		case st.State.Final() || n < 0:
			return st, nil, false, Errorf(CodeNotFound, "The result of %s has %d chunks, from 0; there is no chunk %d.", id, len(st.Chunks), n)
		}
		select {
		case <-wake:
		case <-late.C:
			return st, nil, false, Errorf(CodeUnavailable, "Chunk %d of %s is still to come; ask again.", n, id)
		case <-ctx.Done():
			return st, nil, false, ctx.Err()
		}
	}
}

func (t *Statements) expired(st Statement) bool {
	return st.ResultUntil != nil && !st.ResultUntil.After(t.Clock.Now())
}

// chunk reads a chunk that is there: a small result lies in the statement's row.
func (t *Statements) chunk(ctx context.Context, s Scope, id StatementID, n int) ([]byte, error) {
	var kept []byte
	if n == 0 {
		err := t.Store.In(ctx, s, func(tx Tx) (err error) {
			kept, err = tx.StatementResult(ctx, id)
			return err
		})
		if err != nil || kept != nil {
			return kept, err
		}
	}
	return t.Objects.Get(ctx, chunkKey(s.workspace, id, n))
}

// Sweep settles statements whose server is gone, and throws away results that nobody may read any more.
func (t *Statements) Sweep(ctx context.Context) error {
	lost, err := t.System.LostStatements(ctx, t.Clock.Now(), sweepAtOnce)
	for _, ref := range lost {
		if e := t.settle(ctx, ref); e != nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	old, err := t.System.ExpiredResults(ctx, t.Clock.Now(), sweepAtOnce)
	for _, ref := range old {
		if e := t.forget(ctx, ref); e != nil {
			err = e
		}
	}
	return err
}

// sweepAtOnce is how many statements one sweep deals with.
const sweepAtOnce = 200

// settle ends a statement that no server runs any more.
func (t *Statements) settle(ctx context.Context, ref StatementRef) error {
	r := newRelay(t, Statement{ID: ref.Statement}, ref.Workspace)
	return r.finish(ctx, StatementEnd{Failure: &StatementFailure{Fault: FaultEngine, Message: "The server that ran the statement ended.", Unsure: true}}, nil)
}

func (t *Statements) forget(ctx context.Context, ref StatementRef) error {
	for n := range ref.Chunks {
		if err := t.Objects.Delete(ctx, chunkKey(ref.Workspace, ref.Statement, n)); err != nil {
			return err
		}
	}
	s := SystemScope(ref.Workspace, "result expired")
	return t.Store.In(ctx, s, func(tx Tx) error {
		st, err := tx.LockStatement(ctx, ref.Statement)
		if err != nil {
			return err
		}
		st.Chunks = nil
		return tx.UpdateStatement(ctx, st, []byte{})
	})
}
