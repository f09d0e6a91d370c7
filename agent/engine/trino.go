package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/trino"
)

// trinoEngine is the Trino of a warehouse.
type trinoEngine struct {
	server  *trino.Server
	courier *trinoCourier
	places  *semaphore.Weighted
}

// trinoSlots is how many statements run in Trino at once, which divides its memory among them itself.
const trinoSlots = 8

func (e *Engine) openTrino(o trino.Options) error {
	courier, err := listenTrinoCourier()
	if err != nil {
		return err
	}
	o.Changed = func() {
		select {
		case e.changed <- struct{}{}:
		default: // it will be seen
		}
	}
	server, err := trino.New(o)
	if err != nil {
		courier.close()
		return err
	}
	e.trino = &trinoEngine{server: server, courier: courier, places: semaphore.NewWeighted(trinoSlots)}
	return nil
}

func (t *trinoEngine) close() {
	t.server.Close()
	t.courier.close()
}

// inTrino is one statement that runs there.
type inTrino struct {
	*trinoEngine
	e       *Engine
	run     *run
	s       *agent.Statement
	class   class
	query   string // as it was given
	text    string // as Trino gets it
	order   []int  // of the parameters
	of      *carried
	session *trino.Session // once there is one
	end     agent.StatementEnd

	to     *reader
	result *result // of a statement with rows, from its first page
}

// runTrino runs a statement in Trino, and answers how it ended.
func (e *Engine) runTrino(r *run, s *agent.Statement, c class, reason string, to *reader) *agent.StatementEnd {
	x := &inTrino{trinoEngine: e.trino, e: e, run: r, s: s, class: c, query: plainSpace(s.Query), to: to}
	if name := databaseNamed(s.Catalog.Databases, s.Database); name != "" {
		s.Database = name
	}
	var leave func()
	x.of, leave = e.trino.courier.serve(s)
	defer leave()
	stop := context.AfterFunc(r.ctx, func() { to.hurry(readerGrace) })
	err := x.perform(reason)
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

// Frame implements frames.
func (x *inTrino) Frame(kind agent.FrameKind, payload ...[]byte) error {
	x.to.frame(kind, payload...)
	if x.to.gone != nil && !x.class.write {
		x.run.stop(errReader)
	}
	return nil // who is gone has no use for the rest, and a write goes on
}

func (x *inTrino) json(kind agent.FrameKind, v any) {
	if b, err := json.Marshal(v); err == nil {
		_ = x.Frame(kind, b)
	}
}

func (x *inTrino) perform(reason string) error {
	if x.class.write && !x.s.Write {
		return &refusal{agent.FaultForbidden, x.class.kind + " writes, and whoever sent this statement may only read: that takes an editor, or an editor's key.", -1}
	}
	arguments, err := x.prepare()
	if err != nil {
		return err
	}
	if err := x.collected(); err != nil {
		return err
	}
	if err := x.open(); err != nil {
		return err
	}
	defer x.session.Leave()
	if x.s.Timeout > 0 {
		timer := time.AfterFunc(time.Duration(x.s.Timeout), func() { x.run.stop(errTimeout) })
		defer timer.Stop()
	}
	x.json(agent.FrameHead, agent.StatementHead{Kind: x.class.kind, Write: x.class.write, Engine: TrinoName, RoutingReason: reason})
	if err := x.reach(); err != nil {
		return err
	}
	return x.execute(trino.Statement{
		ID: x.s.ID, Token: x.of.handle, Query: x.text, Arguments: arguments, Database: x.s.Database, Schema: x.s.Schema, Progress: x.progress(),
	})
}

// prepare makes the text Trino's, and the parameters.
func (x *inTrino) prepare() ([]any, error) {
	if trino.Reserved(x.s.Database) {
		return nil, refuse(-1, "The database %q has the name of a catalog of Trino's own, and cannot be reached there. Rename it.", x.s.Database)
	}
	if databaseNamed(x.s.Catalog.Databases, x.s.Database) == "" {
		return nil, refuse(-1, "There is no database %q here. Name one that exists, as the request's database.", cut(x.s.Database, 60))
	}
	if err := checkProperties(x.class); err != nil {
		return nil, err
	}
	x.text, x.order = trinoText(x.query, x.class.tokens)
	wanted := 0
	for _, n := range x.order {
		if n < 1 {
			return nil, refuse(-1, "Parameters are $1, $2 and so on, or ? for each value: others are not known in Trino.")
		}
		wanted = max(wanted, n)
	}
	if wanted != len(x.s.Parameters) {
		return nil, refuse(-1, "The statement has %d parameters, but %d were given. Give one value for each of $1, $2 and so on, or for each ?.", wanted, len(x.s.Parameters))
	}
	var arguments []any
	for _, n := range x.order {
		v, err := argument(x.s.Parameters[n-1])
		if err != nil {
			return nil, refuse(-1, "Parameter $%d is %s: give null, a boolean, a number or a string.", n, cut(string(x.s.Parameters[n-1]), 40))
		}
		arguments = append(arguments, v)
	}
	return arguments, nil
}

// collected refuses to remove files of a table that says that they are not only its own, for which Trino does not ask.
func (x *inTrino) collected() error {
	if procedure, _ := executed(x.class.tokens); procedure.operation() == "" || procedure.operation() == spawned.Optimize {
		return nil
	}
	named, _ := path(x.class.tokens, 2)
	t := canonical([]mention{named}, x.s.Catalog.Databases)[0].resolve(x.s.Database, x.s.Schema)
	prefix, err := x.courier.warehouse(x.run.ctx, x.s, t.Database)
	if err != nil {
		return err
	}
	var loaded struct {
		Metadata struct{ Properties map[string]string }
	}
	address := "/v1/" + url.PathEscape(prefix) + "/namespaces/" + url.PathEscape(strings.ReplaceAll(t.Schema, ".", "\x1f")) + "/tables/" + url.PathEscape(t.Table)
	err = x.courier.read(x.run.ctx, x.s, address, &loaded)
	if e, ok := errors.AsType[*catalogError](err); ok && e.status == http.StatusNotFound {
		return nil // of which Trino says more
	}
	if err != nil || !strings.EqualFold(loaded.Metadata.Properties["gc.enabled"], "false") {
		return err
	}
	return refuse(-1, "The table has the property gc.enabled=false, by which none of its files is ever removed: others may need them. Set it to true if that is not so.")
}

// argument is a JSON value as one of Trino's. A number keeps all its digits.
func argument(p json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		return trino.Number(v), nil
	}
	return nil, errors.New("no scalar")
}

// open waits for Trino, and says so.
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

// storage is the statement's as Trino knows it.
func (x *inTrino) storage() trino.Storage {
	storage := trino.Storage{Prefix: x.s.Storage.Prefix}
	if s3 := x.s.Storage.S3; s3 != nil {
		storage.S3 = &trino.S3{Endpoint: s3.Endpoint, Region: s3.Region, PathStyle: s3.PathStyle}
		if s3.SessionToken == "" { // else they expire, and the catalog gives new ones
			storage.S3.AccessKey, storage.S3.SecretKey = s3.AccessKeyID, s3.SecretKey
		}
	}
	return storage
}

// reach makes the databases that the statement may name Trino's.
func (x *inTrino) reach() error {
	storage := x.storage()
	var wanted []trino.Database
	for _, name := range x.s.Catalog.Databases {
		if trino.Reserved(name) || !x.mayName(name) {
			continue
		}
		warehouse, err := x.courier.warehouse(x.run.ctx, x.s, name)
		if err != nil {
			return err
		}
		wanted = append(wanted, trino.Database{Name: name, Warehouse: warehouse, Catalog: x.courier.address, Token: x.courier.own, Storage: storage})
	}
	return x.session.Reach(x.run.ctx, wanted, x.s.Catalog.Databases)
}

// mayName reports whether the statement has the name of a database in it, or resolves names there.
func (x *inTrino) mayName(database string) bool {
	return database == x.s.Database || slices.ContainsFunc(x.class.tokens, func(t token) bool { return t.name() && strings.EqualFold(t.text, database) })
}

// progress tells how far the statement is, now and then.
func (x *inTrino) progress() func(float64) {
	var told time.Time
	return func(done float64) {
		if time.Since(told) >= spawned.ProgressEvery {
			told = time.Now()
			x.json(agent.FrameProgress, agent.StatementProgress{Done: done})
		}
	}
}

// execute runs the statement, and a write again where another one was faster.
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
		if !x.class.write || !trinoConflict(err) || attempt == commitAttempts {
			return err
		}
		select {
		case <-x.run.ctx.Done():
			return context.Cause(x.run.ctx)
		case <-time.After(time.Duration(rand.Int64N(int64(commitBackoff) * int64(min(attempt, 10))))):
		}
	}
}

// hasRows reports whether the statement's result is rows that are of use to who asks.
func (x *inTrino) hasRows() bool { return x.class.query || x.class.explain }

func (x *inTrino) succeeded(o trino.Outcome) error {
	x.end.Scanned = o.Scanned
	for _, t := range o.Read {
		x.end.Tables = append(x.end.Tables, agent.StatementTable{Database: t.Database, Schema: t.Schema, Table: t.Name, Columns: t.Columns})
	}
	if t := o.Written; t != nil {
		x.end.Tables = append(x.end.Tables, agent.StatementTable{Database: t.Database, Schema: t.Schema, Table: t.Name, Target: true})
	}
	if x.result == nil {
		x.end.Rows = o.Rows
		return nil
	}
	err := x.result.flush()
	x.end.Rows, x.end.Bytes, x.end.Truncated = x.result.rows, x.result.bytes, x.result.truncated
	return err
}

// errEnough ends a statement of whose rows no more are wanted.
var errEnough = errors.New("the result has as many rows as are wanted")

// take sends rows on.
func (x *inTrino) take(columns []trino.Column, rows []json.RawMessage) error {
	if x.result == nil {
		schema, err := trinoSchema(columns)
		if err != nil {
			return err
		}
		x.result = &result{out: x, schema: schema, maxRows: x.s.MaxRows, maxBytes: x.s.MaxBytes}
		if err := x.result.sendSchema(); err != nil {
			return err
		}
	}
	for len(rows) > 0 && !x.result.truncated {
		n := min(len(rows), batchRows)
		batch, err := trinoBatch(x.result.schema, columns, rows[:n])
		if err != nil {
			return err
		}
		if err := x.result.hold(batch); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if x.result.truncated {
		return errEnough
	}
	return nil
}

// unsure reports whether it is not known if what a write that failed with err did was committed.
func (x *inTrino) unsure(err error) bool {
	if !x.class.write {
		return false
	}
	changed, unsure := x.courier.settled(x.of)
	_, lost := errors.AsType[*trino.LostError](err)
	return changed || unsure != nil || lost
}
