package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// engines simulates the engine of every warehouse. A statement's first word selects its behaviour:
//
//	SELECT n     n rows
//	LARGE n      n rows of 6 MiB each
//	WRONG        refused at line 2, column 8
//	SLOW         half-way until finish or its cancellation
//	ALTER …      completes a maintenance statement
//	COPY a b     reads the table a and adds two rows to the table b, in lake.public
type engines struct {
	w    *world
	mu   sync.Mutex
	gone map[domain.StatementID]context.CancelFunc
	ran  []statement.EngineStatement
	done chan struct{} // closed by finish
}

// catalog creates the SQL services.
func (w *world) catalog(results domain.Objects) {
	w.t.Helper()
	files, err := objects.OpenLake(w.t.Context(), "file://"+w.t.TempDir(), objects.LakeOptions{})
	require.NoError(w.t, err)
	w.lake = lake.New(lake.Options{Store: store.For[lake.Tx](w.counted), System: w.db.System(), Files: files, Clock: w.services.Clock, Report: func(err error) { w.t.Error(err) }})
	w.engines = &engines{w: w, gone: map[domain.StatementID]context.CancelFunc{}, done: make(chan struct{})}
	w.services.Statements = statement.New(statement.Options{
		Store: store.For[statement.Tx](w.counted), System: w.db.System(), Topics: w.db.Topics(), Clock: w.services.Clock, Objects: results, Engines: w.engines, Tokens: w.keys,
		Tables: prefixes{files}, CatalogURL: "http://localhost/catalog", Replica: "here", Report: func(err error) { w.log.Write([]byte(err.Error() + "\n")) },
	})
	w.services.Maintenance = &maintenance.Maintenances{
		Store: store.For[maintenance.Tx](w.counted), System: w.db.System(), Topics: w.db.Topics(), Clock: w.services.Clock,
		Rows: func(stream []byte) ([]byte, error) { return rows.AppendJSON(nil, stream) },
	}
	w.t.Cleanup(func() {
		w.services.Statements.Close()
		require.NoError(w.t, files.Close())
	})
}

type prefixes struct{ files *objects.Lake }

func (p prefixes) TableStorage(_ context.Context, ws domain.WorkspaceID) (statement.TableStorage, error) {
	return statement.TableStorage{Prefix: p.files.Prefix(ws)}, nil
}

// finish completes the SLOW statements.
func (e *engines) finish() { close(e.done) }

// Execute implements statement.Engines.
func (e *engines) Execute(ctx context.Context, _ domain.AgentID, st statement.EngineStatement) (statement.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	e.mu.Lock()
	e.gone[st.ID] = cancel
	e.ran = append(e.ran, st)
	e.mu.Unlock()
	return &script{e: e, ctx: ctx, cancel: cancel, events: e.events(ctx, st)}, nil
}

// CancelStatement implements statement.Engines.
func (e *engines) CancelStatement(_ context.Context, _ domain.AgentID, id domain.StatementID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone[id]()
	return nil
}

// statement returns the last statement.
func (e *engines) last() statement.EngineStatement {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ran[len(e.ran)-1]
}

func (e *engines) events(ctx context.Context, st statement.EngineStatement) []func() statement.Event {
	end := func(f *statement.Failure, rows int64) func() statement.Event {
		return func() statement.Event {
			return statement.Event{End: &statement.End{Failure: f, Rows: rows, Bytes: 10 * rows, Scanned: 100}}
		}
	}
	head := func(kind string, write bool) func() statement.Event {
		return reports(statement.Event{Head: &statement.Head{Kind: kind, Write: write, Engine: "duckdb", RoutingReason: "It reads."}})
	}
	word, rest, _ := strings.Cut(st.Query, " ")
	n, from, to := 0, "", ""
	_, _ = fmt.Sscan(rest, &n)
	_, _ = fmt.Sscan(rest, &from, &to)
	switch word {
	case "SELECT":
		return []func() statement.Event{head("SELECT", false), reports(schemaOf()), reports(batchOf(n, "row")), end(nil, int64(n))}
	case "LARGE":
		events := []func() statement.Event{head("SELECT", false), reports(schemaOf())}
		for range n {
			events = append(events, reports(batchOf(1, strings.Repeat("x", 6<<20))))
		}
		return append(events, end(nil, int64(n)))
	case "SLOW":
		half := reports(statement.Event{Progress: &statement.Progress{Done: 0.5}})
		wait := func() statement.Event {
			select {
			case <-e.done:
				return end(nil, 0)()
			case <-ctx.Done():
				return end(&statement.Failure{Fault: statement.FaultCancelled, Message: "The statement was cancelled."}, 0)()
			case <-time.After(50 * time.Millisecond): // engines keep reporting their progress
				return half()
			}
		}
		return []func() statement.Event{head("SELECT", false), half, wait}
	case "ALTER":
		return []func() statement.Event{head("OPTIMIZE", true), end(nil, 0)}
	case "COPY":
		return []func() statement.Event{head("INSERT", true), func() statement.Event {
			event := end(e.copied(ctx, st, from, to), 2)()
			event.End.Tables = []statement.Table{{Database: "lake", Schema: "public", Table: from, Columns: []string{"id"}}, {Database: "lake", Schema: "public", Table: to, Target: true}}
			return event
		}}
	}
	return []func() statement.Event{end(&statement.Failure{Fault: statement.FaultQuery, Message: "There is no table penguinz.", Line: 2, Column: 8}, 0)}
}

func reports(event statement.Event) func() statement.Event {
	return func() statement.Event { return event }
}

// copied reads and writes like an engine, with the statement's own rights.
func (e *engines) copied(ctx context.Context, st statement.EngineStatement, from, to string) *statement.Failure {
	ws := domain.WorkspaceID(path.Base(st.Storage.Prefix))
	scope := domain.NewScope(ws, domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID), Name: "statement"}, st.Role)
	_, err := e.w.lake.Load(ctx, scope, publicTable(from), lake.KindTable, lake.LoadOptions{})
	if err == nil {
		err = lakeClient{e.w.lake, scope, publicTable(to)}.append(ctx, 1, 2)
	}
	if err != nil {
		return &statement.Failure{Fault: statement.FaultQuery, Message: err.Error()}
	}
	return nil
}

// script implements statement.Stream.
type script struct {
	e      *engines
	ctx    context.Context
	cancel context.CancelFunc
	events []func() statement.Event
}

func (s *script) Next() (statement.Event, error) {
	if len(s.events) == 0 {
		return statement.Event{}, errors.New("the stream is at its end")
	}
	event := s.events[0]()
	if len(s.events) > 1 || event.End != nil {
		s.events = s.events[1:]
	}
	return event, nil
}

func (s *script) Close() { s.cancel() }

var resultSchema = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64},
	{Name: "price", Type: &arrow.Decimal128Type{Precision: 38, Scale: 2}, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

const streamEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// stream returns Arrow IPC without its end marker.
func arrowStream(batches ...arrow.RecordBatch) []byte {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(resultSchema))
	for _, batch := range batches {
		if err := w.Write(batch); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte(streamEnd))
}

func schemaOf() statement.Event { return statement.Event{Schema: arrowStream()} }

func batchOf(n int, text string) statement.Event {
	b := array.NewRecordBuilder(memory.DefaultAllocator, resultSchema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(9007199254740993 + int64(i))
		if err := b.Field(1).AppendValueFromString("123456789012345678901234567890123456.78"); err != nil {
			panic(err)
		}
		b.Field(2).(*array.StringBuilder).Append(text)
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	return statement.Event{Batch: &statement.ResultBatch{Rows: int64(n), JSON: rows.Size(batch), Data: arrowStream(batch)[len(arrowStream()):]}}
}

// warehouse returns the workspace's first warehouse.
func (n *tenant) warehouse() machine.Machine {
	n.w.t.Helper()
	all, err := n.w.services.Warehouses.List(n.w.t.Context(), n.viewer.scope, domain.Page{})
	require.NoError(n.w.t, err)
	return all.Items[0]
}
