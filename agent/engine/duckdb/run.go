package duckdb

import (
	"context"
	"errors"
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// execution is one statement in a child.
type execution struct {
	*child
	conn  *connection
	s     *agent.Statement
	query string // as sent to DuckDB
	class sqltext.Class
	found []sqltext.TableRef // the names in place of a table, with table functions and common table expressions
	named []sqltext.TableRef // tables and views
	end   agent.StatementEnd

	attached []string           // databases
	asking   *catalog.Statement // the statement's access to the catalog
	catalog  *catalogClient
	ctx      context.Context     // ends when the statement is cancelled
	headed   bool                // the head was sent
	examined map[string][]hazard // hazards by table name
	// loaded has the snapshot by table name; 0 if the table has none.
	loaded        map[string]int64
	viewsDistinct bool   // a view of the statement has IS DISTINCT FROM
	rejected      string // a table that DuckDB was not allowed to load
	rewritten     bool   // view names in query refer to the statement's own views
}

// run runs a statement and returns how it ended.
func (c *child) run(ctx context.Context, s *Statement) agent.StatementEnd {
	e := &execution{child: c, s: &s.Statement, query: s.Query, class: s.Class, ctx: ctx, loaded: map[string]int64{}}
	e.class.Tokens = sqltext.Tokens(s.Query)
	e.found = sqltext.TableRefs(e.class.Tokens)
	e.named = sqltext.Canonical(sqltext.Tables(e.found, e.class.Tokens), s.Catalog.Databases)
	if err := e.perform(); err != nil {
		if name := e.rejected; name != "" {
			err = sqltext.Refuse(-1, "The table %s is named in a form that the engine does not support. Write FROM database.schema.table AS alias.", name)
		}
		e.end.Error = failureOf(err, e.query)
		if e.rewritten { // the position refers to another text
			e.end.Error.Line, e.end.Error.Column = 0, 0
		}
	}
	if e.end.Error != nil && ctx.Err() != nil && !e.end.Error.Unsure {
		e.end.Error = &agent.StatementFailure{Fault: agent.FaultCancelled, Message: "The statement was cancelled."}
	}
	return e.end
}

func (e *execution) perform() (err error) {
	if !e.locked {
		if err := e.db.lock(e.s.Storage); err != nil {
			e.broken = true
			return err
		}
		e.locked = true
	}
	if e.conn, err = e.db.take(); err != nil {
		return err
	}
	defer e.conn.close()
	if e.ctx.Err() != nil {
		return errInterrupted
	}
	defer context.AfterFunc(e.ctx, e.conn.interrupt)()
	defer e.out.Report(e.conn.progress)()
	e.asking = e.proxy.Open(e.s)
	e.catalog = &catalogClient{ctx: e.ctx, asking: e.asking, prefixes: map[string]string{}}
	defer func() {
		e.rejected = e.asking.Rejected()
		e.asking.Close()
	}()
	l, listing := sqltext.ListingOf(e.class.Tokens)
	if listing {
		err = e.list(l)
	} else {
		err = e.check()
	}
	if err != nil {
		return err
	}
	defer e.detach()
	if err := e.attach(); err != nil {
		return err
	}
	e.end.Tables = sqltext.Resolve(e.named, e.s, e.class)
	if e.class.OfCatalog() {
		return e.define()
	}
	err = e.execute()
	e.noteScans()
	e.noteSnapshots()
	return err
}

// noteSnapshots records the snapshots of the tables that were read without AT.
func (e *execution) noteSnapshots() {
	for i, t := range e.end.Tables {
		if snapshot, known := e.loaded[viewKey(t)]; known && !t.Target && t.Snapshot == nil {
			e.end.Tables[i].Snapshot = &snapshot
		}
	}
}

// check decides whether DuckDB may run the statement: a read by DuckDB's own syntax tree, a write
// by its tokens. No statement runs without it.
func (e *execution) check() error {
	if e.class.Query || e.class.Explain {
		return e.checkRead(e.query, e.class.Begins, e.class.Tokens, e.found)
	}
	if err := e.db.own.CheckWrite(e.class, e.found, e.s.Catalog.Databases); err != nil {
		return err
	}
	if strings.HasSuffix(e.class.Kind, " SCHEMA") { // DuckDB does not run it, and knows no schemas within schemas
		return nil
	}
	n, err := e.conn.count(e.query)
	if err == nil && n != 1 {
		return refuseSeveral(e.class.Tokens)
	}
	return err
}

// refuseSeveral refuses a text that is several statements for DuckDB, as is a PIVOT without its
// values.
func refuseSeveral(all []sqltext.Token) error {
	if pivots(all) {
		return sqltext.Refuse(-1, "A PIVOT needs the values of its columns here: write ON column IN (value, …).")
	}
	return sqltext.Refuse(-1, "Run one statement at a time: this is more than one.")
}

func pivots(all []sqltext.Token) bool {
	return slices.ContainsFunc(all, func(t sqltext.Token) bool { return t.IsWord("pivot", "pivot_wider") })
}

// errKind refuses a statement that is of another kind for DuckDB than by its text.
var errKind = sqltext.Refuse(-1, "This kind of statement is not run here. %s.", sqltext.Allowed)

// expected reports whether DuckDB's statement type fits the type by the text.
func (e *execution) expected(t duckdb.StatementType) bool {
	switch t {
	case duckdb.StatementTypeSelect:
		return e.class.Query
	case duckdb.StatementTypeExplain:
		return e.class.Explain || e.class.Query
	case duckdb.StatementTypeInsert:
		return e.class.Kind == "INSERT"
	case duckdb.StatementTypeUpdate:
		return e.class.Kind == "UPDATE"
	case duckdb.StatementTypeDelete:
		return e.class.Kind == "DELETE"
	case duckdb.StatementTypeMergeInto:
		return e.class.Kind == "MERGE"
	case duckdb.StatementTypeCreate, duckdb.StatementTypeAlter, duckdb.StatementTypeDrop:
		return e.class.Write
	}
	return false
}

// prepare prepares a statement in DuckDB and binds its parameters.
func (e *execution) prepare(query string) (statement duckdb.PreparedStatement, err error) {
	if duckdb.Prepare(e.conn.handle, query, &statement) != duckdb.StateSuccess {
		err = parseException(duckdb.PrepareError(statement))
		duckdb.DestroyPrepare(&statement)
		return statement, err
	}
	if t := duckdb.PreparedStatementType(statement); !e.expected(t) {
		duckdb.DestroyPrepare(&statement)
		return statement, errKind
	}
	if err := bind(statement, e.s.Parameters); err != nil {
		duckdb.DestroyPrepare(&statement)
		return statement, err
	}
	return statement, nil
}

// prepareQuery prepares a query after creating the catalog views that it names.
func (e *execution) prepareQuery(query string) (duckdb.PreparedStatement, error) {
	statement, err := e.prepare(query)
	if err == nil {
		return statement, nil
	}
	text, err := e.withViews(query, err)
	if err != nil {
		return statement, err
	}
	if query == e.query {
		e.query = text
	}
	return e.prepare(text)
}

// head sends the statement's head, once.
func (e *execution) head() error {
	if e.headed {
		return nil
	}
	e.headed = true
	return e.out.JSON(agent.FrameHead, agent.StatementHead{Kind: e.class.Kind, Write: e.class.Write, Engine: Name, RoutingReason: e.s.RoutingReason})
}

// execute runs a statement. It retries a write that lost a race.
func (e *execution) execute() error {
	given := e.query
	for attempt := 1; ; attempt++ {
		err := e.admitMade()
		if err == nil {
			err = e.guard()
		}
		if err == nil {
			err = e.executeOnce()
		}
		lost, ok := errors.AsType[*exception](err)
		if !ok || !e.class.Write || !conflict(lost) || attempt == catalog.CommitAttempts {
			return err
		}
		if catalog.PauseAfter(e.ctx, attempt) != nil {
			return errInterrupted
		}
		if err := e.renew(given); err != nil {
			return err
		}
	}
}

// admitMade lets DuckDB load the table that is created, altered or dropped. Its rows are not read.
func (e *execution) admitMade() error {
	if !strings.HasSuffix(e.class.Kind, " TABLE") {
		return nil
	}
	if to := e.renamed(); to != nil {
		e.named = append(e.named, *to)
		defer func() { e.named = e.named[:len(e.named)-1] }()
	}
	return e.admit(func(m sqltext.TableRef) bool { return m.Target })
}

// renamed returns the new name of ALTER TABLE … RENAME TO.
func (e *execution) renamed() *sqltext.TableRef {
	all := e.class.Tokens
	n := len(all)
	if e.class.Kind != "ALTER TABLE" || len(e.named) == 0 || n < 4 || !all[n-3].IsWord("rename") || !all[n-2].IsWord("to") {
		return nil
	}
	to := e.named[0]
	to.Parts = append(slices.Clone(to.Parts[:len(to.Parts)-1]), all[n-1].Identifier())
	return &to
}

func (e *execution) admit(which func(sqltext.TableRef) bool) error {
	for _, m := range e.named {
		t := m.Resolve(e.s.Database, e.s.Schema)
		if !which(m) || !slices.Contains(e.attached, t.Database) {
			continue
		}
		path, err := e.catalog.tablePath(t)
		if err != nil {
			return err
		}
		e.asking.Admit(path)
	}
	return nil
}

// renew clears the cached state of the tables.
func (e *execution) renew(given string) error {
	e.asking.Renew()
	e.query, e.examined, e.viewsDistinct, e.rewritten = given, nil, false, false
	clear(e.loaded)
	i := slices.Index(e.attached, sqltext.Views)
	if i < 0 {
		return nil
	}
	e.attached = slices.Delete(e.attached, i, i+1)
	err := e.conn.exec("DETACH " + sqltext.Quote(sqltext.Views))
	e.broken = e.broken || err != nil
	return err
}

func (e *execution) executeOnce() error {
	statement, err := e.prepareQuery(e.query)
	if err != nil {
		return err
	}
	defer func() { duckdb.DestroyPrepare(&statement) }()
	if err := e.head(); err != nil {
		return err
	}
	prepared := e.query
	if nothing, err := e.guardEmptied(); nothing || err != nil {
		return err
	}
	if e.query != prepared {
		duckdb.DestroyPrepare(&statement)
		if statement, err = e.prepare(e.query); err != nil {
			return err
		}
	}
	if e.appends() {
		files := &storageFiles{child: e.child}
		defer files.close()
		defer e.asking.Appends(nil)
		e.asking.Appends(files)
	}
	names, types := preparedColumns(statement)
	cast, changed := exactQuery(e.query, names, types)
	if e.class.Write {
		if err := sendable(names, types); err != nil {
			return err
		}
		return e.fetch(statement, false)
	}
	if changed && !slices.ContainsFunc(types, func(t exact) bool { return t.unknown }) {
		duckdb.DestroyPrepare(&statement)
		if statement, err = e.prepare(cast); err != nil {
			return shifted(err, cast)
		}
		return shifted(e.fetch(statement, false), cast)
	}
	return e.fetch(statement, true)
}

// sendable refuses a RETURNING before anything is written, if its values might not be sendable.
func sendable(names []string, types []exact) error {
	for i, t := range types {
		if t.changed || t.unknown || t.huge {
			return sqltext.Refuse(-1, "RETURNING has the column %q, of a type that the result may not hold exactly. Cast it there, to VARCHAR for example; nothing was written.", names[i])
		}
	}
	return nil
}

// shifted maps the position of an error to the original text.
func shifted(err error, cast string) error {
	if e, ok := errors.AsType[*exception](err); ok {
		for i := range cast {
			if cast[i] == '\n' {
				e.offset = i + 1
				break
			}
		}
	}
	return err
}

func preparedColumns(statement duckdb.PreparedStatement) (names []string, types []exact) {
	for i := range duckdb.PreparedStatementColumnCount(statement) {
		names = append(names, duckdb.PreparedStatementColumnName(statement, i))
		t := duckdb.PreparedStatementColumnLogicalType(statement, i)
		types = append(types, exactType(t))
		duckdb.DestroyLogicalType(&t)
	}
	return names, types
}
