package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// execution is one statement in a child.
type execution struct {
	*child
	conn  *connection
	s     *agent.Statement
	query string // as DuckDB gets it
	class class
	named []mention // tables and views
	end   agent.StatementEnd

	attached      []string // databases
	catalog       *catalogClient
	ctx           context.Context     // ends when the statement is cancelled
	headed        bool                // the head was sent
	examined      map[string][]hazard // of tables, by their names
	viewsDistinct bool                // a view that the statement needs has IS DISTINCT FROM
	strange       string              // a table that DuckDB was kept from
	rewritten     bool                // the names of views in query lead to the statement's own
}

// run runs a statement and answers how it ended.
func (c *child) run(s *agent.Statement) agent.StatementEnd {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if name := databaseNamed(s.Catalog.Databases, s.Database); name != "" {
		s.Database = name
	}
	e := &execution{child: c, s: s, query: plainSpace(s.Query), ctx: ctx}
	c.interruptible(cancel)
	defer c.interruptible(nil)
	if err := e.perform(); err != nil {
		if name := e.strange; name != "" {
			err = refuse(-1, "The table %s is named in a way that the engine does not read. Write FROM database.schema.table AS alias.", name)
		}
		e.end.Error = failureOf(err, e.query)
		if e.rewritten { // the place is one of another text
			e.end.Error.Line, e.end.Error.Column = 0, 0
		}
	}
	if e.end.Error != nil && c.stopped() && !e.end.Error.Unsure {
		e.end.Error = &agent.StatementFailure{Fault: agent.FaultCancelled, Message: "The statement was cancelled."}
	}
	return e.end
}

func (e *execution) perform() (err error) {
	if err := e.check(); err != nil {
		return err
	}
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
	if err := e.begin(e.conn); err != nil {
		return err
	}
	defer func() { _ = e.begin(nil) }()
	defer e.report(e.conn)()
	e.courier.serve(e.s)
	defer func() {
		e.strange = e.courier.strangeTable()
		e.courier.leave()
	}()
	if l, ok := listingOf(e.class.tokens); ok {
		if err := e.list(l); err != nil {
			return err
		}
	}
	if err := e.parse(); err != nil && !strings.HasSuffix(e.class.kind, " SCHEMA") { // DuckDB knows no schemas within schemas
		return err
	}
	defer e.detach()
	if err := e.attach(); err != nil {
		return err
	}
	e.end.Tables = resolve(e.named, e.s, e.class)
	if e.class.ofCatalog() {
		return e.define()
	}
	err = e.execute()
	e.noteScans()
	return err
}

// check refuses by the text alone.
func (e *execution) check() (err error) {
	if e.class, err = classify(e.query, e.db.forbidden); err != nil {
		return err
	}
	if e.class.write && !e.s.Write {
		return &refusal{agent.FaultForbidden, e.class.kind + " writes, and whoever sent this statement may only read: that takes an editor, or an editor's key.", -1}
	}
	e.query = e.query[:e.class.tokens[len(e.class.tokens)-1].end] // without a semicolon, so that it can be part of another query
	found := mentions(e.class.tokens)
	e.named = canonical(tablesOf(found, e.class.tokens), e.s.Catalog.Databases)
	if _, ok := listingOf(e.class.tokens); ok {
		return nil
	}
	if err := checkColumns(e.class, found); err != nil {
		return err
	}
	return checkMentions(found, e.db.forbiddenTables, e.db.system, e.s.Catalog.Databases)
}

// parse asks DuckDB's parser whether this is one statement.
func (e *execution) parse() error {
	n, err := e.conn.count(e.query)
	switch {
	case err != nil:
		return err
	case n == 1 && (e.class.query || e.class.explain) && !e.rewritten: // what the engine wrote itself is not checked
		return e.checkParsed(e.query[e.class.begins:], e.class.begins, mentions(e.class.tokens))
	case n == 1:
		return nil
	case slices.ContainsFunc(e.class.tokens, func(t token) bool { return t.word("pivot", "pivot_wider") }):
		return refuse(-1, "A PIVOT needs the values of its columns here: write ON column IN (value, …).")
	}
	return refuse(-1, "Run one statement at a time: this is more than one.")
}

// preparedKinds are what DuckDB may say that a statement is, by what its text says.
func (e *execution) expected(t duckdb.StatementType) bool {
	switch t {
	case duckdb.StatementTypeSelect:
		return e.class.query
	case duckdb.StatementTypeExplain:
		return e.class.explain || e.class.query
	case duckdb.StatementTypeInsert:
		return e.class.kind == "INSERT"
	case duckdb.StatementTypeUpdate:
		return e.class.kind == "UPDATE"
	case duckdb.StatementTypeDelete:
		return e.class.kind == "DELETE"
	case duckdb.StatementTypeMergeInto:
		return e.class.kind == "MERGE"
	case duckdb.StatementTypeCreate, duckdb.StatementTypeAlter, duckdb.StatementTypeDrop:
		return e.class.write
	}
	return false
}

// prepare makes a statement DuckDB's, with its parameters.
func (e *execution) prepare(query string) (statement duckdb.PreparedStatement, err error) {
	if duckdb.Prepare(e.conn.handle, query, &statement) != duckdb.StateSuccess {
		err = parseDuckError(duckdb.PrepareError(statement))
		duckdb.DestroyPrepare(&statement)
		return statement, err
	}
	if t := duckdb.PreparedStatementType(statement); !e.expected(t) {
		duckdb.DestroyPrepare(&statement)
		return statement, refuse(-1, "This kind of statement is not run here. %s.", allowed)
	}
	if err := bind(statement, e.s.Parameters); err != nil {
		duckdb.DestroyPrepare(&statement)
		return statement, err
	}
	return statement, nil
}

// prepareQuery prepares a query, with the catalog's views that it names.
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

// head says what the statement is, once.
func (e *execution) head() error {
	if e.headed {
		return nil
	}
	e.headed = true
	return e.out.JSON(agent.FrameHead, agent.StatementHead{Kind: e.class.kind, Write: e.class.write, Engine: Name, RoutingReason: e.s.RoutingReason})
}

func (e *execution) client() *catalogClient {
	if e.catalog == nil {
		e.catalog = newCatalogClient(e.ctx, e.courier, e.s.Catalog)
	}
	return e.catalog
}

// A write that loses the race for a table is run again from its beginning, on the table as it is then, so often and after about so long.
const (
	commitAttempts = 100
	commitBackoff  = 20 * time.Millisecond
)

// execute runs a statement, and a write again where another one was faster.
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
		lost, ok := errors.AsType[*duckError](err)
		if !ok || !e.class.write || !conflict(lost) || attempt == commitAttempts {
			return err
		}
		select {
		case <-e.ctx.Done():
			return errInterrupted
		case <-time.After(time.Duration(rand.Int64N(int64(commitBackoff) * int64(min(attempt, 10))))):
		}
		if err := e.renew(given); err != nil {
			return err
		}
	}
}

// admitMade lets DuckDB load the table that is made, changed or dropped, of which no rows are read.
func (e *execution) admitMade() error {
	if !strings.HasSuffix(e.class.kind, " TABLE") {
		return nil
	}
	if to := e.renamed(); to != nil {
		e.named = append(e.named, *to)
		defer func() { e.named = e.named[:len(e.named)-1] }()
	}
	return e.admit(func(m mention) bool { return m.target })
}

// renamed is the name that ALTER TABLE … RENAME TO gives.
func (e *execution) renamed() *mention {
	all := e.class.tokens
	n := len(all)
	if e.class.kind != "ALTER TABLE" || len(e.named) == 0 || n < 4 || !all[n-3].word("rename") || !all[n-2].word("to") {
		return nil
	}
	to := e.named[0]
	to.parts = append(slices.Clone(to.parts[:len(to.parts)-1]), all[n-1].identifier())
	return &to
}

func (e *execution) admit(which func(mention) bool) error {
	for _, m := range e.named {
		t := m.resolve(e.s.Database, e.s.Schema)
		if !which(m) || !slices.Contains(e.attached, t.Database) {
			continue
		}
		path, err := e.client().tablePath(t)
		if err != nil {
			return err
		}
		e.courier.admit(path)
	}
	return nil
}

// renew forgets what was known of the tables.
func (e *execution) renew(given string) error {
	e.courier.again()
	e.query, e.examined, e.viewsDistinct, e.rewritten = given, nil, false, false
	i := slices.Index(e.attached, views)
	if i < 0 {
		return nil
	}
	e.attached = slices.Delete(e.attached, i, i+1)
	err := e.conn.exec("DETACH " + quote(views))
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
	names, types := preparedColumns(statement)
	cast, changed := exactQuery(e.query, names, types)
	if e.class.write {
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

// sendable refuses a RETURNING of which it is not known, before anything is written, that all its values can be sent.
func sendable(names []string, types []exact) error {
	for i, t := range types {
		if t.changed || t.unknown || t.huge {
			return refuse(-1, "RETURNING has the column %q, of a type that the result may not hold exactly. Cast it there, to VARCHAR for example; nothing was written.", names[i])
		}
	}
	return nil
}

// shifted moves the position of an error to the text as it was given.
func shifted(err error, cast string) error {
	if e, ok := errors.AsType[*duckError](err); ok {
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
