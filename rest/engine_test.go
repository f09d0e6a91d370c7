package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// engines simulates the engine of every warehouse. A statement's first word selects its behaviour:
//
//	SELECT n     n rows
//	LIMITED      one row, and reports that a limit cut the rest
//	LARGE n      n rows of 6 MiB each
//	FLAGS n      n batches of 2^19 rows of one boolean
//	WIDE n       n batches of 2^16 rows of 300 booleans
//	PARTS        three rows of 6 MiB each, a fourth after finish
//	WRONG        refused at line 2, column 8
//	EMPTY        no rows and no columns, like CREATE
//	QUIET        starts, and is silent until finish or its cancellation
//	WRITE        like QUIET, but it writes
//	RETURN n     like LARGE, but for a write
//	COPY a b     reads the table a and adds two rows to the table b, in lake.public
//	ALTER …      completes a maintenance statement, and reports two metrics
//	LOST a b     like COPY, but its engine is lost before it reports the commit
type engines struct {
	w    *world
	mu   sync.Mutex
	gone map[domain.StatementID]context.CancelFunc
	ran  []statement.EngineStatement
	done chan struct{} // closed by finish
}

// catalog creates the SQL services.
func (w *world) catalog(st *store.Store, keys statement.Tokens, results domain.Objects) {
	w.t.Helper()
	files, err := objects.OpenLake(w.t.Context(), "file://"+w.t.TempDir(), objects.LakeOptions{})
	require.NoError(w.t, err)
	w.lake = lake.New(lake.Options{Store: store.For[lake.Tx](st), Quick: st, System: st.System(), Files: files, Clock: w.clock, Report: func(err error) { w.t.Error(err) }})
	w.engines = &engines{w: w, gone: map[domain.StatementID]context.CancelFunc{}, done: make(chan struct{})}
	w.services.Databases = &lake.Databases{Store: store.For[lake.Tx](st), Clock: w.clock}
	w.services.Statements = statement.New(statement.Options{
		Store: store.For[statement.Tx](st), System: st.System(), Topics: st.Topics(), Clock: w.clock, Objects: results, Engines: w.engines, Tokens: keys,
		Tables: prefixes{files}, CatalogURL: "http://here/api/v1/iceberg", Replica: "r1", Report: func(err error) { w.t.Log("statements:", err) },
	})
	w.services.Maintenance = &maintenance.Maintenances{
		Store: store.For[maintenance.Tx](st), System: st.System(), Topics: st.Topics(), Clock: w.clock,
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

// finish completes the waiting statements.
func (e *engines) finish() { close(e.done) }

// Execute implements statement.Engines.
func (e *engines) Execute(ctx context.Context, _ domain.AgentID, st statement.EngineStatement) (statement.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	e.mu.Lock()
	e.gone[st.ID] = cancel
	e.ran = append(e.ran, st)
	e.mu.Unlock()
	return &script{cancel: cancel, events: e.events(ctx, st)}, nil
}

// CancelStatement implements statement.Engines.
func (e *engines) CancelStatement(_ context.Context, _ domain.AgentID, id domain.StatementID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone[id]()
	return nil
}

// all returns the statements that reached an engine.
func (e *engines) all() []statement.EngineStatement {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]statement.EngineStatement{}, e.ran...)
}

func (e *engines) last() statement.EngineStatement {
	all := e.all()
	return all[len(all)-1]
}

type event = func() statement.Event

func (e *engines) events(ctx context.Context, st statement.EngineStatement) []event {
	word, rest, _ := strings.Cut(st.Query, " ")
	n, from, to := 0, "", ""
	_, _ = fmt.Sscan(rest, &n)
	_, _ = fmt.Sscan(rest, &from, &to)
	reads, writes := head("SELECT", false), head("INSERT", true)
	switch word {
	case "SELECT":
		return []event{reads, reports(schemaOf(things)), reports(thingRows(n, "row")), ends(statement.End{Rows: int64(n), Bytes: int64(10 * n), Scanned: 100})}
	case "LIMITED":
		return []event{reads, reports(schemaOf(things)), reports(thingRows(1, "row")), ends(statement.End{Rows: 1, Truncated: true})}
	case "LARGE":
		return append(append([]event{reads, reports(schemaOf(things))}, large(n)...), ends(statement.End{Rows: int64(n)}))
	case "RETURN":
		return append(append([]event{writes, reports(schemaOf(things))}, large(n)...), ends(statement.End{Rows: int64(n)}))
	case "PARTS":
		return append(append([]event{reads, reports(schemaOf(things))}, large(3)...), func() statement.Event {
			<-e.done
			return large(1)[0]()
		}, ends(statement.End{Rows: 4}))
	case "FLAGS":
		return flags(n, 1, 1<<19)
	case "WIDE":
		return flags(n, 300, 1<<16)
	case "EMPTY":
		return []event{head("CREATE SCHEMA", true), ends(statement.End{})}
	case "QUIET":
		return []event{reads, e.waits(ctx)}
	case "WRITE":
		return []event{writes, e.waits(ctx)}
	case "COPY":
		return []event{writes, func() statement.Event { return e.copied(ctx, st, from, to) }}
	case "ALTER":
		return []event{head("OPTIMIZE", true), reports(schemaOf(numbers)), reports(numberRows()), ends(statement.End{Rows: 2})}
	case "LOST":
		return []event{writes, func() statement.Event {
			if copied := e.copied(ctx, st, from, to); copied.End.Failure != nil {
				return copied
			}
			return ends(statement.End{Failure: &statement.Failure{Fault: statement.FaultEngine, Message: "It is gone.", Unsure: true}})()
		}}
	}
	return []event{ends(statement.End{Failure: &statement.Failure{Fault: statement.FaultQuery, Message: "There is no table penguinz.", Line: 2, Column: 8}})}
}

func reports(e statement.Event) event { return func() statement.Event { return e } }

func ends(e statement.End) event { return reports(statement.Event{End: &e}) }

func head(kind string, write bool) event {
	return reports(statement.Event{Head: &statement.Head{Kind: kind, Write: write, Engine: "duckdb", RoutingReason: "It is so."}})
}

func large(n int) (rows []event) {
	for range n {
		rows = append(rows, reports(thingRows(1, strings.Repeat("x", 6<<20))))
	}
	return rows
}

func (e *engines) waits(ctx context.Context) event {
	return func() statement.Event {
		select {
		case <-e.done:
			return ends(statement.End{Rows: 7})()
		case <-ctx.Done():
			return ends(statement.End{Failure: &statement.Failure{Fault: statement.FaultCancelled, Message: "The statement was cancelled."}})()
		}
	}
}

// copied reads and writes like an engine, with the statement's own rights.
func (e *engines) copied(ctx context.Context, st statement.EngineStatement, from, to string) statement.Event {
	ws := domain.WorkspaceID(path.Base(st.Storage.Prefix))
	scope := domain.NewScope(ws, domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID), Name: "statement"}, st.Role)
	_, err := e.w.lake.Load(ctx, scope, publicTable(from), lake.KindTable, lake.LoadOptions{})
	if err == nil {
		err = lakeClient{e.w.lake, scope, publicTable(to)}.append(ctx, 1, 2)
	}
	if domain.IsCode(err, domain.CodeForbidden) {
		return ends(statement.End{Failure: &statement.Failure{Fault: statement.FaultForbidden, Message: "It writes."}})()
	}
	if err != nil {
		return ends(statement.End{Failure: &statement.Failure{Fault: statement.FaultQuery, Message: err.Error()}})()
	}
	return ends(statement.End{Rows: 2, Tables: []statement.Table{{Database: "lake", Schema: "public", Table: from}, {Database: "lake", Schema: "public", Table: to, Target: true}}})()
}

// script implements statement.Stream.
type script struct {
	cancel context.CancelFunc
	events []event
}

func (s *script) Next() (statement.Event, error) {
	if len(s.events) == 0 {
		return statement.Event{}, errors.New("the stream is at its end")
	}
	next := s.events[0]
	s.events = s.events[1:]
	return next(), nil
}

func (s *script) Close() { s.cancel() }

var things = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: arrow.PrimitiveTypes.Int64},
	{Name: "price", Type: &arrow.Decimal128Type{Precision: 38, Scale: 2}, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

// numbers are the metrics of a maintenance statement.
var numbers = arrow.NewSchema([]arrow.Field{{Name: "metric_name", Type: arrow.BinaryTypes.String}, {Name: "metric_value", Type: arrow.PrimitiveTypes.Int64}}, nil)

func numberRows() statement.Event {
	b := array.NewRecordBuilder(memory.DefaultAllocator, numbers)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"deleted_data_files_count", "kept"}, nil)
	b.Field(1).(*array.Int64Builder).AppendValues([]int64{3, 9007199254740993}, nil)
	return batchOf(b)
}

const arrowEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// arrowStream returns Arrow IPC without its end marker.
func arrowStream(schema *arrow.Schema, batches ...arrow.RecordBatch) []byte {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	for _, batch := range batches {
		if err := w.Write(batch); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte(arrowEnd))
}

func schemaOf(schema *arrow.Schema) statement.Event {
	return statement.Event{Schema: arrowStream(schema)}
}

func batchOf(b *array.RecordBuilder) statement.Event {
	batch := b.NewRecordBatch()
	defer batch.Release()
	return statement.Event{Batch: &statement.ResultBatch{Rows: batch.NumRows(), JSON: rows.Size(batch), Data: arrowStream(batch.Schema(), batch)[len(arrowStream(batch.Schema())):]}}
}

func thingRows(rows int, text string) statement.Event {
	b := array.NewRecordBuilder(memory.DefaultAllocator, things)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(9007199254740993 + int64(i))
		if err := b.Field(1).AppendValueFromString(wide); err != nil {
			panic(err)
		}
		b.Field(2).(*array.StringBuilder).Append(text)
	}
	return batchOf(b)
}

// flags returns batches of booleans; eight booleans are one byte.
func flags(batches, columns, rows int) []event {
	fields := make([]arrow.Field, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprint("flag", i), Type: arrow.FixedWidthTypes.Boolean}
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	values := make([]bool, rows)
	for i := range fields {
		b.Field(i).(*array.BooleanBuilder).AppendValues(values, nil)
	}
	one := batchOf(b)
	events := []event{head("SELECT", false), reports(schemaOf(schema))}
	for range batches {
		events = append(events, reports(one))
	}
	return append(events, ends(statement.End{Rows: int64(batches * rows)}))
}
