package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
	"github.com/millpond/millpond/agent/engine/trino"
)

// trinoEngine is the Trino of a warehouse.
type trinoEngine struct {
	server *trino.Server
	proxy  *catalog.Proxy
	slots  *semaphore.Weighted
}

// trinoCatalogTimeout bounds how long the catalog may be unreachable while a statement runs.
const trinoCatalogTimeout = time.Minute

// trinoSlots is the number of statements that run in Trino at once. Trino divides its memory among
// them.
const trinoSlots = 8

func (e *Engine) openTrino(o trino.Options) error {
	proxy, err := catalog.Listen(catalog.Options{UID: e.o.uid(), CommitTime: trinoCatalogTimeout, Repeat: true})
	if err != nil {
		return err
	}
	o.Changed = func() {
		select {
		case e.changed <- struct{}{}:
		default: // a change is already signaled
		}
	}
	server, err := trino.New(o)
	if err != nil {
		proxy.Close()
		return err
	}
	e.o.addresses.add(proxy.Address())
	e.trino = &trinoEngine{server: server, proxy: proxy, slots: semaphore.NewWeighted(trinoSlots)}
	return nil
}

func (t *trinoEngine) close() {
	t.server.Close()
	t.proxy.Close()
}

// inTrino is one statement that runs in Trino.
type inTrino struct {
	*trinoEngine
	e       *Engine
	run     *run
	s       *agent.Statement
	class   sqltext.Class
	text    string // the text for Trino
	asking  *catalog.Statement
	session *trino.Session // nil until opened
	end     agent.StatementEnd

	to     *reader
	result *result.Sender // from the first page of rows
}

// runTrino runs a statement in Trino and returns how it ended.
func (e *Engine) runTrino(r *run, s *agent.Statement, chosen routed, to *reader) *agent.StatementEnd {
	x := &inTrino{trinoEngine: e.trino, e: e, run: r, s: s, class: chosen.class, to: to}
	x.asking = e.trino.proxy.Open(s)
	defer x.asking.Close()
	stop := context.AfterFunc(r.ctx, func() { to.hurry(readerGrace) })
	err := x.perform(chosen.reason)
	stop()
	_ = to.control.SetWriteDeadline(time.Time{})
	if err != nil {
		x.end.Error = x.failure(err)
	}
	if x.end.Error != nil {
		explain(x.end.Error, r.ctx, s, x.unsure(err))
	}
	return &x.end
}

// Frame implements result.Frames.
func (x *inTrino) Frame(kind agent.FrameKind, payload ...[]byte) error {
	x.to.frame(kind, payload...)
	if x.to.gone != nil && !x.class.Write {
		x.run.stop(errReader)
	}
	return nil // a disconnected reader is no error, and a write continues
}

func (x *inTrino) json(kind agent.FrameKind, v any) {
	if b, err := json.Marshal(v); err == nil {
		_ = x.Frame(kind, b)
	}
}

func (x *inTrino) perform(reason string) error {
	arguments, err := x.prepare()
	if err != nil {
		return err
	}
	if err := x.open(); err != nil {
		return err
	}
	defer x.session.Leave()
	defer x.run.limit(time.Duration(x.s.Timeout))()
	x.end.Tables = x.targets()
	x.json(agent.FrameHead, agent.StatementHead{Kind: x.class.Kind, Write: x.class.Write, Engine: TrinoName, RoutingReason: reason})
	if err := x.reach(); err != nil {
		return err
	}
	return x.execute(trino.Statement{
		ID: x.s.ID, Token: x.asking.Handle(), Query: x.text, Arguments: arguments, Database: x.s.Database, Schema: x.s.Schema, Progress: x.progress(),
	})
}

// prepare sets the text for Trino and returns the parameters.
func (x *inTrino) prepare() ([]string, error) {
	if trino.Reserved(x.s.Database) {
		return nil, sqltext.Refuse(-1, "The database %q has the name of a catalog of Trino's own, and cannot be reached there. Rename it.", x.s.Database)
	}
	if sqltext.DatabaseNamed(x.s.Catalog.Databases, x.s.Database) == "" {
		return nil, sqltext.Refuse(-1, "There is no database %q here. Name one that exists, as the request's database.", sqltext.Cut(x.s.Database, 60))
	}
	if err := sqltext.CheckTrino(x.s.Query, x.class); err != nil {
		return nil, err
	}
	text, order := sqltext.TrinoText(x.s.Query, x.class.Tokens)
	x.text = text
	wanted := 0
	for _, n := range order {
		if n < 1 {
			return nil, sqltext.Refuse(-1, "Parameters are $1, $2 and so on, or ? for each value: Trino supports no others.")
		}
		wanted = max(wanted, n)
	}
	if wanted != len(x.s.Parameters) {
		return nil, sqltext.Refuse(-1, "The statement has %d parameters, but %d were given. Give one value for each of $1, $2 and so on, or for each ?.", wanted, len(x.s.Parameters))
	}
	var arguments []string
	for _, n := range order {
		v, err := trino.Literal(x.s.Parameters[n-1])
		if err != nil {
			return nil, sqltext.Refuse(-1, "Parameter $%d is %s: give null, a boolean, a number or a string.", n, sqltext.Cut(string(x.s.Parameters[n-1]), 40))
		}
		arguments = append(arguments, v)
	}
	return arguments, nil
}

// open waits for Trino and reports that it waits.
func (x *inTrino) open() (err error) {
	waited := false
	x.session, err = x.server.Session(x.run.ctx, x.storage(), func(message string) {
		waited = true
		x.json(agent.FrameProgress, agent.StatementProgress{Queued: true, Done: -1, Message: message})
	})
	if err == nil && waited {
		x.json(agent.FrameProgress, agent.StatementProgress{Done: -1})
	}
	return err
}

// storage converts the statement's storage for Trino.
func (x *inTrino) storage() trino.Storage {
	storage := trino.Storage{Prefix: x.s.Storage.Prefix}
	if s3 := x.s.Storage.S3; s3 != nil {
		storage.S3 = new(*s3)
		if s3.SessionToken != "" { // temporary keys expire, so the catalog vends new ones
			storage.S3.AccessKeyID, storage.S3.SecretKey, storage.S3.SessionToken = "", "", ""
		}
	}
	return storage
}

// reach creates Trino catalogs for the databases that the statement may name.
func (x *inTrino) reach() error {
	storage := x.storage()
	var wanted []trino.Database
	for _, name := range x.s.Catalog.Databases {
		if trino.Reserved(name) || !x.mayName(name) {
			continue
		}
		warehouse, err := x.warehouse(name)
		if err != nil {
			return err
		}
		wanted = append(wanted, trino.Database{Name: name, Warehouse: warehouse, Catalog: x.proxy.URL(), Token: x.proxy.ConfigHandle(), Storage: storage})
	}
	return x.session.Reach(x.run.ctx, wanted, x.s.Catalog.Databases)
}

// warehouse returns the catalog's id of a database. A new database of the same name has another id.
func (x *inTrino) warehouse(database string) (string, error) {
	var config struct{ Overrides map[string]string }
	err := x.asking.Call(x.run.ctx, http.MethodGet, "/v1/config?warehouse="+url.QueryEscape(database), nil, &config)
	return config.Overrides["prefix"], err
}

// mayName reports whether the statement's text contains the database's name, or uses the database
// by default.
func (x *inTrino) mayName(database string) bool {
	return database == x.s.Database || slices.ContainsFunc(x.class.Tokens, func(t sqltext.Token) bool { return t.IsName() && strings.EqualFold(t.Text, database) })
}

// progress returns a function that reports the statement's progress at intervals.
func (x *inTrino) progress() func(float64) {
	var told time.Time
	return func(done float64) {
		if time.Since(told) >= spawned.ProgressEvery {
			told = time.Now()
			x.json(agent.FrameProgress, agent.StatementProgress{Done: done})
		}
	}
}

// execute runs the statement. It retries a write that lost a race.
func (x *inTrino) execute(st trino.Statement) error {
	take := x.take
	if !x.hasRows() {
		take = nil
	}
	for attempt := 1; ; attempt++ {
		o, err := x.session.Query(x.run.ctx, st, take)
		if err == nil || errors.Is(err, errEnough) {
			return x.succeeded(o)
		}
		if !x.class.Write || !trinoConflict(err) || attempt == catalog.CommitAttempts {
			return err
		}
		if err := catalog.PauseAfter(x.run.ctx, attempt); err != nil {
			return err
		}
	}
}

// targets returns the tables that the text writes, creates, alters or drops. Trino itself reports a
// table only for queries and row changes.
func (x *inTrino) targets() []agent.StatementTable {
	found := sqltext.Canonical(sqltext.Tables(sqltext.TableRefs(x.class.Tokens), x.class.Tokens), x.s.Catalog.Databases)
	return sqltext.Resolve(slices.DeleteFunc(found, func(m sqltext.TableRef) bool { return !m.Target }), x.s, sqltext.Class{})
}

// hasRows reports whether the statement returns rows to the reader.
func (x *inTrino) hasRows() bool { return x.class.Query || x.class.Explain }

func (x *inTrino) succeeded(o trino.Outcome) error {
	x.end.Scanned = o.Scanned
	targets := x.end.Tables
	if o.Written != nil {
		targets = []agent.StatementTable{*o.Written}
	}
	x.end.Tables = slices.Concat(o.Read, targets)
	if x.result == nil {
		x.end.Rows = o.Rows
		return nil
	}
	err := x.result.Flush()
	x.end.Rows, x.end.Bytes, x.end.Truncated = x.result.Rows, x.result.Bytes, x.result.Truncated
	return err
}

// errEnough ends a statement whose reader needs no more rows.
var errEnough = errors.New("the result has as many rows as are wanted")

// take sends rows to the reader.
func (x *inTrino) take(columns []trino.Column, rows []json.RawMessage) error {
	if x.result == nil {
		schema, err := trinoSchema(columns)
		if err != nil {
			return err
		}
		x.result = &result.Sender{Out: x, Schema: schema, MaxRows: x.s.MaxRows, MaxBytes: x.s.MaxBytes}
		if err := x.result.SendSchema(); err != nil {
			return err
		}
	}
	for len(rows) > 0 && !x.result.Truncated {
		n := min(len(rows), result.BatchRows)
		batch, err := trinoBatch(x.result.Schema, columns, rows[:n])
		if err != nil {
			return err
		}
		if err := x.result.Hold(batch); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if x.result.Truncated {
		return errEnough
	}
	return nil
}

// unsure reports whether a write that failed with err may have committed.
func (x *inTrino) unsure(err error) bool {
	if !x.class.Write {
		return false
	}
	changed, unsure := x.asking.Changed()
	_, lost := errors.AsType[*trino.LostError](err)
	return changed || unsure != nil || lost
}
