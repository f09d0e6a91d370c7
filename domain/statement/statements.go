package statement

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
)

// Bounds of statements and their results.
const (
	// bytes of a statement's text
	MaxQuery = 1 << 20
	// in one statement
	MaxParameters = 1000
	// total bytes of a statement's parameters
	maxValues = 1 << 20
	// bytes of the first part of a result, in Arrow or in JSON; later chunks are about as large
	ChunkBytes = 16 << 20
	// from the statement's end
	ResultKept = 24 * time.Hour
	// longest wait for a chunk that does not exist yet
	chunkWait = 30 * time.Second
	// live statements on one server
	maxLive = 1000
	// limit in bytes of a result without a given limit, which is stored for a day
	defaultBytes = 8 << 30
)

// Statements runs SQL on warehouses, and stores statements and their results.
type Statements struct {
	Options
	draining   chan struct{}   // closed when no statement may begin any more
	open       context.Context // ends when running statements must end
	close      context.CancelFunc
	executions sync.WaitGroup
	mu         sync.Mutex
	live       map[domain.StatementID]*execution
}

// Options are the dependencies and settings of Statements.
type Options struct {
	Store      domain.Store[Tx]
	System     System
	Topics     domain.Topics
	Clock      domain.Clock
	Objects    domain.Objects
	Engines    Engines
	Tokens     Tokens
	Tables     TableStorages
	CatalogURL string // as engines reach it
	Replica    string // this server
	Report     func(error)
	ChunkWait  time.Duration // longest wait for a chunk that does not exist yet; 0 for 30 seconds
}

// TableStorages returns the storage of workspaces' tables.
type TableStorages interface {
	TableStorage(ctx context.Context, ws domain.WorkspaceID) (TableStorage, error)
}

// New returns the service. Drain or Close ends its statements.
func New(o Options) *Statements {
	ctx, cancel := context.WithCancel(context.Background())
	return &Statements{Options: o, draining: make(chan struct{}), open: ctx, close: cancel, live: map[domain.StatementID]*execution{}}
}

// NewStatement describes the statement to run. Zero fields stand for defaults, given below.
type NewStatement struct {
	Query     string `json:"query"`
	Warehouse string `json:"warehouse"` // its id or its name
	// for $1 and on, or for ? in order: null, a boolean, a number or a string
	Parameters []json.RawMessage `json:"parameters"`
	Database   string            `json:"database"`   // lake
	Schema     string            `json:"schema"`     // public
	Engine     string            `json:"engine"`     // by the statement's kind
	RowLimit   int64             `json:"row_limit"`  // no limit
	ByteLimit  int64             `json:"byte_limit"` // 8 GiB
	Timeout    time.Duration     `json:"timeout"`    // no timeout
}

// Result is a statement's state with the first chunk of its result.
type Result struct {
	Statement Statement
	Chunk     []byte // an Arrow IPC stream; nil if there is none yet
	Next      int    // number of the next chunk; 0 if there is none
	Lineage   lake.Lineage
}

// Submit starts a statement without waiting for it. It also starts a stopped warehouse.
func (t *Statements) Submit(ctx context.Context, s domain.Scope, n NewStatement, key domain.Idempotency) (Statement, error) {
	return t.submit(ctx, s, n, key, true)
}

func (t *Statements) submit(ctx context.Context, s domain.Scope, n NewStatement, key domain.Idempotency, detached bool) (Statement, error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRun); err != nil {
		return Statement{}, err
	}
	if err := validStatement(n); err != nil {
		return Statement{}, err
	}
	st := draft(s, n, t.Clock.Now())
	st.Replica, st.Key, st.Detached = t.Replica, key.Key, detached || key.Key != ""
	x, err := t.enlist(st, s.Workspace())
	if err != nil {
		return Statement{}, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, domain.StatementRun, n, func() (id domain.StatementID, err error) {
			x.submitted, err = t.insert(ctx, tx, s, &st, n)
			return st.ID, err
		})
		if err != nil || id == st.ID {
			return err
		}
		st, err = tx.Statement(ctx, id)
		return err
	})
	if err != nil || st.ID != x.st.ID { // another request had used the key
		t.dismiss(x)
		return st, err
	}
	x.begin(st)
	go x.run()
	return st, nil
}

// draft returns the statement as it is inserted, without its warehouse and its server.
func draft(s domain.Scope, n NewStatement, now time.Time) Statement {
	st := Statement{
		ID: domain.NewID[domain.StatementID](domain.PrefixStatement), Query: n.Query, Parameters: n.Parameters, Database: n.Database, Schema: n.Schema, Requested: n.Engine,
		RowLimit: n.RowLimit, ByteLimit: n.ByteLimit, Timeout: n.Timeout, CreatedBy: s.Actor(), Role: domain.RoleEditor, CreatedAt: now, State: Queued, Progress: -1,
	}
	if s.Role().AtMost(domain.RoleEditor) {
		st.Role = s.Role()
	}
	if st.ByteLimit == 0 {
		st.ByteLimit = defaultBytes
	}
	if st.Database == "" {
		st.Database = lake.DefaultDatabase
	}
	if st.Schema == "" {
		st.Schema = lake.DefaultSchema
	}
	return st
}

func validStatement(n NewStatement) error {
	switch {
	case len(n.Query) > MaxQuery:
		return &domain.Error{Code: domain.CodeTooLarge, Field: "query", Message: domain.Sprintf("The statement has %d bytes; use at most %d.", []any{len(n.Query), MaxQuery})}
	case strings.TrimSpace(n.Query) == "":
		return domain.Invalid("query", "The query is empty; write one SQL statement.")
	case n.Warehouse == "":
		return domain.Invalid("warehouse_id", "warehouse_id is missing; GET /sql/warehouses lists the warehouses.")
	case n.RowLimit < 0:
		return domain.Invalid("row_limit", "row_limit is %d; it must be above 0, or left out.", n.RowLimit)
	case n.ByteLimit < 0:
		return domain.Invalid("byte_limit", "byte_limit is %d; it must be above 0, or left out.", n.ByteLimit)
	case n.Timeout < 0:
		return domain.Invalid("timeout_seconds", "timeout_seconds must be above 0, or left out.")
	case len(n.Parameters) > MaxParameters:
		return domain.Invalid("parameters", "The statement has %d parameters; use at most %d.", len(n.Parameters), MaxParameters)
	}
	values := 0
	for i, p := range n.Parameters {
		if values += len(p); values > maxValues {
			return &domain.Error{Code: domain.CodeTooLarge, Field: "parameters", Message: domain.Sprintf("The parameters have more than %d bytes together; load what is larger into a table.", []any{maxValues})}
		}
		if first := bytes.TrimSpace(p); len(first) == 0 || first[0] == '{' || first[0] == '[' {
			return domain.Invalid("parameters", "Parameter %d is not null, a boolean, a number or a string; write lists and structures as SQL over such parameters.", i+1)
		}
	}
	return domain.ValidText("query", n.Query, MaxQuery)
}

// insert completes the statement in the transaction and stores it. It returns the target if the
// statement can run at once.
func (t *Statements) insert(ctx context.Context, tx Tx, s domain.Scope, st *Statement, n NewStatement) (at *target, err error) {
	m, err := machine.Find(ctx, tx, machine.KindWarehouse, n.Warehouse)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil, domain.NotFound("warehouse", n.Warehouse)
	}
	if err != nil {
		return nil, err
	}
	st.Warehouse = m.ID
	if m.State != machine.Running {
		st.Message = "Waits for the warehouse " + m.Name + "."
	} else if at, err = targetOn(ctx, tx, m); err != nil {
		return nil, err
	}
	if s.Actor().Kind == domain.ActorRun {
		a, err := tx.Attempt(ctx, domain.AttemptID(s.Actor().ID))
		if err != nil {
			return nil, err
		}
		st.RunID, st.TaskKey = a.RunID, a.TaskKey
	}
	st.Sent = at != nil
	if err := tx.InsertStatement(ctx, *st); err != nil {
		return nil, err
	}
	tx.Notify(domain.StatementsTopic(s.Workspace()))
	return at, domain.Audited(ctx, tx, s, domain.StatementRun, "statement", st.ID)
}

// enlist reserves room for one more statement on this server.
func (t *Statements) enlist(st Statement, ws domain.WorkspaceID) (*execution, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isClosed(t.draining) {
		return nil, errDraining()
	}
	if len(t.live) >= maxLive {
		return nil, domain.Errorf(domain.CodeRate, "%d statements run or wait already; try again when some have ended.", len(t.live))
	}
	x := newExecution(t, st, ws)
	// before the row exists, so that no cancellation is missed
	x.cancels, x.unsubscribe = t.Topics.Subscribe(domain.StatementCancelTopic(st.ID))
	t.live[st.ID] = x
	t.executions.Add(1)
	return x, nil
}

func (t *Statements) dismiss(x *execution) {
	x.unsubscribe()
	t.mu.Lock()
	delete(t.live, x.id)
	t.mu.Unlock()
	t.executions.Done()
}

func (t *Statements) running() []domain.StatementID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.live))
}

func (t *Statements) execution(id domain.StatementID) *execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[id]
}

// Get returns a statement.
func (t *Statements) Get(ctx context.Context, s domain.Scope, id domain.StatementID) (st Statement, err error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRead); err != nil {
		return st, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		st, err = tx.Statement(ctx, id)
		return err
	})
	return st, err
}

// Result returns a statement's state, with its first chunk if there is one. A failed statement is
// returned as an error.
func (t *Statements) Result(ctx context.Context, s domain.Scope, id domain.StatementID) (r Result, err error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRead); err != nil {
		return r, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		if r.Statement, err = tx.Statement(ctx, id); err != nil {
			return err
		}
		r.Lineage, err = tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorStatement, ID: string(id)})
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
func (t *Statements) List(ctx context.Context, s domain.Scope, f Filter, p domain.Page) (domain.List[Statement], error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRead); err != nil {
		return domain.List[Statement]{}, err
	}
	f.own(s)
	for _, state := range f.States {
		if !state.known() {
			return domain.List[Statement]{}, domain.Invalid("state", "%q is not a state of a statement; use queued, running, succeeded, failed or cancelled.", string(state))
		}
	}
	name := domain.ListName("statements", f)
	before, limit, err := p.After(name)
	if err != nil {
		return domain.List[Statement]{}, err
	}
	var all []Statement
	err = t.Store.In(ctx, s, func(tx Tx) error {
		found, cut, err := tx.Statements(ctx, f, domain.StatementID(before), limit+1, statementPage)
		if all = found; cut { // there are two at least: one has half of the bytes at most
			limit = len(all) - 1
		}
		return err
	})
	l := domain.PageOf(name, all, limit, func(st Statement) string { return string(st.ID) })
	l.Fit(statementPage, func(st Statement) int { return st.Size() })
	return l, err
}

// own replaces any value of Mine by the actor's id.
func (f *Filter) own(s domain.Scope) {
	if f.Mine != "" {
		f.Mine = s.Actor().ID
	}
}

// ChangedSince returns statements that changed since the position. The filter's states do not
// count: a statement also changes by leaving them.
func (t *Statements) ChangedSince(ctx context.Context, s domain.Scope, f Filter, p domain.Position) (domain.Changes[Statement], error) {
	f.own(s)
	read := func(tx Tx, ctx context.Context, p domain.Position) ([]Statement, bool, error) {
		return tx.ChangedStatements(ctx, f, p, statementPage)
	}
	return domain.ChangedSince(ctx, t.Store, s, domain.StatementRead, p, read)
}

// Follow returns a follower of the matching statements.
func (t *Statements) Follow(s domain.Scope, f Filter) *domain.Follower[Statement] {
	read := func(ctx context.Context, p domain.Position) (domain.Changes[Statement], error) {
		return t.ChangedSince(ctx, s, f, p)
	}
	matches := func(st Statement) bool { return len(f.States) == 0 || slices.Contains(f.States, st.State) }
	leaves := func(st Statement) bool { return len(f.States) > 0 && !st.State.Final() }
	return domain.Follow(t.Clock.Now(), read, matches, leaves)
}

// statementPage bounds the texts and parameters on one page of statements, in bytes.
const statementPage = 4 << 20

func (s State) known() bool {
	for _, k := range States {
		if k == s {
			return true
		}
	}
	return false
}

// Cancel requests a statement's end. A waiting statement is cancelled at once, a running one when
// its engine has ended it.
func (t *Statements) Cancel(ctx context.Context, s domain.Scope, id domain.StatementID) (st Statement, err error) {
	if err := domain.Authorize(ctx, t.Store, s, domain.StatementRun); err != nil {
		return st, err
	}
	err = t.Store.In(ctx, s, func(tx Tx) (err error) {
		if st, err = tx.LockStatement(ctx, id); err != nil {
			return err
		}
		if st.CreatedBy.ID != s.Actor().ID && !s.Role().Allows(domain.StatementCancel) {
			return domain.Errorf(domain.CodeForbidden, "Your role, %s, may cancel only your own statements. Ask an editor of the workspace.", s.Role())
		}
		if err := st.cancel(t.Clock.Now()); err != nil {
			return err
		}
		tx.Notify(domain.StatementCancelTopic(id), domain.StatementTopic(id), domain.StatementsTopic(s.Workspace()))
		if st.Held() {
			tx.Notify(domain.MaintenanceTopic)
		}
		if err := tx.UpdateStatement(ctx, st, nil); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.StatementCancel, "statement", id)
	})
	return st, err
}

// Watch wakes the channel whenever the statement may have changed. The caller calls stop when done.
func (t *Statements) Watch(ctx context.Context, s domain.Scope, id domain.StatementID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := t.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = t.Topics.Subscribe(domain.StatementTopic(id))
	return wake, stop, nil
}

// Chunk returns the n-th chunk of a result, from 0, as an Arrow IPC stream; next says whether
// another follows. It waits for a chunk that does not exist yet; after ChunkWait it returns only
// the statement. Before loading, it calls hold with the chunk's bytes; hold may refuse them.
func (t *Statements) Chunk(ctx context.Context, s domain.Scope, id domain.StatementID, n int, hold func(context.Context, int64) error) (st Statement, chunk []byte, next bool, err error) {
	wake, stop := t.Topics.Subscribe(domain.StatementTopic(id))
	defer stop()
	late := time.NewTimer(cmp.Or(t.ChunkWait, chunkWait))
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
			return st, nil, false, domain.Errorf(domain.CodeNotFound, "The result of %s was kept for a day and is gone; run the statement again.", id)
		case n >= 0 && n < len(st.Chunks):
			if err := hold(ctx, st.Chunks[n].Bytes); err != nil {
				return st, nil, false, err
			}
			chunk, err := t.chunk(ctx, s, id, n)
			return st, chunk, n+1 < len(st.Chunks) || !st.State.Final(), err
		case st.State.Final() || n < 0:
			return st, nil, false, domain.Errorf(domain.CodeNotFound, "The result of %s has %d chunks, from 0; there is no chunk %d.", id, len(st.Chunks), n)
		}
		select {
		case <-wake:
		case <-t.open.Done():
			return st, nil, false, domain.Errorf(domain.CodeUnavailable, "The server was stopped; ask again for chunk %d of %s.", n, id)
		case <-late.C:
			return st, nil, false, nil
		case <-ctx.Done():
			return st, nil, false, ctx.Err()
		}
	}
}

// chunk reads an existing chunk. A small result is in the statement's row.
func (t *Statements) chunk(ctx context.Context, s domain.Scope, id domain.StatementID, n int) ([]byte, error) {
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
	return t.Objects.Get(ctx, chunkKey(s.Workspace(), id, n))
}
