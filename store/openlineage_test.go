package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/store"
)

// event is an OpenLineage event of the numbered run.
func (w *traced) event(kind string, run int, inputs, outputs string) []lineage.RunEvent {
	w.t.Helper()
	body := fmt.Sprintf(`{"eventType":%q,"eventTime":%q,"producer":"https://example.com","schemaURL":"https://openlineage.io/spec/2-0-2/OpenLineage.json",
		"run":{"runId":"00000000-0000-4000-8000-%012d","facets":{"spark":{"_producer":"x","plan":[1,{}]}}},"job":{"namespace":"etl","name":"nightly"},"inputs":[%s],"outputs":[%s]}`,
		kind, w.clock.Now().Format(time.RFC3339Nano), run, inputs, outputs)
	events, err := lineage.ParseRunEvents([]byte(body), w.clock.Now())
	require.NoError(w.t, err)
	return events
}

func (w *traced) report(s domain.Scope, events []lineage.RunEvent) {
	w.t.Helper()
	require.NoError(w.t, w.lineages.Report(w.t.Context(), s, events))
}

// TestReportedLineage: datasets that name our tables are those tables; others are external. A
// repeated event changes nothing.
func TestReportedLineage(t *testing.T) {
	w := newTraced(t)
	clean := w.table("clean")
	const raw = `{"namespace":"s3://raw","name":"events"}`
	complete := w.event("COMPLETE", 1, raw, `{"namespace":"millpond","name":"lake.public.clean","facets":{"version":{"datasetVersion":"77"},
		"columnLineage":{"fields":{"day":{"inputFields":[{"namespace":"s3://raw","name":"events","field":"ts"}]}}}}}`)
	w.report(w.admin, w.event("START", 1, raw, ""))
	w.report(w.admin, complete)
	g := w.graph(lineage.Query{Table: "lake.public.clean", Way: lineage.Upstream})
	require.Equal(t, "clean nightly events", shown(g))
	require.Equal(t, []lineage.NodeKind{lineage.NodeTable, lineage.NodeJob, lineage.NodeDataset}, []lineage.NodeKind{g.Nodes[0].Kind, g.Nodes[1].Kind, g.Nodes[2].Kind})
	require.Equal(t, "s3://raw", g.Nodes[2].Namespace)
	require.Equal(t, int64(77), g.Edges[0].SnapshotID)
	require.Equal(t, []string{"day"}, g.Edges[0].Columns)
	require.Equal(t, []string{"ts"}, g.Edges[1].Columns, "the second event knew the columns of the first one's input")

	w.clock.move(time.Minute)
	w.report(w.admin, complete)
	again := w.graph(lineage.Query{Table: string(clean), Way: lineage.Upstream})
	require.Equal(t, g.Edges, again.Edges)
	outside := w.graph(lineage.Query{Table: g.Nodes[2].ID, Way: lineage.Downstream})
	require.Equal(t, "events nightly clean", shown(outside))

	// Other names of the table, and names that only look like it.
	for number, dataset := range map[int]string{
		2: `{"namespace":"file","name":"/lake/clean"}`,
		3: `{"namespace":"file:///","name":"lake/clean"}`,
		4: `{"namespace":"s3://x","name":"y","facets":{"symlinks":{"identifiers":[{"namespace":"http://here/api/v1/iceberg","name":"public.clean","type":"TABLE"}]}}}`,
		5: `{"namespace":"iceberg://here","name":"LAKE.public.clean"}`,
	} {
		w.report(w.admin, w.event("COMPLETE", number, dataset, ""))
	}
	require.Equal(t, int64(4), w.graph(lineage.Query{Table: string(clean), Way: lineage.Downstream}).Edges[0].Count)
	w.report(w.admin, w.event("COMPLETE", 6, `{"namespace":"postgres://db:5432","name":"lake.public.clean"},{"namespace":"x","name":"public.clean"},{"namespace":"x","name":"lake..clean"}`, ""))
	require.Equal(t, int64(4), w.graph(lineage.Query{Table: string(clean), Way: lineage.Downstream}).Edges[0].Count)
}

// TestLostRunsTakeBackTheirOutputs: outputs that a run reported at its start are removed when it
// fails.
func TestLostRunsTakeBackTheirOutputs(t *testing.T) {
	w := newTraced(t)
	w.table("clean")
	const out = `{"namespace":"millpond","name":"lake.public.clean"}`
	w.report(w.admin, w.event("START", 1, "", out))
	require.Len(t, w.graph(lineage.Query{Table: "lake.public.clean"}).Nodes, 2)
	w.report(w.admin, w.event("FAIL", 1, "", out))
	require.Len(t, w.graph(lineage.Query{Table: "lake.public.clean"}).Nodes, 1)
}

// TestLostRunsStayLost: a failed run has no outputs, however its id is spelled and whatever is sent
// again.
func TestLostRunsStayLost(t *testing.T) {
	w := newTraced(t)
	w.table("clean")
	_, process := w.process(w.jobNamed("load"))
	task := domain.NewScope(w.admin.Workspace(), process, domain.RoleEditor)
	const out = `{"namespace":"millpond","name":"lake.public.clean"}`
	for i, scope := range []domain.Scope{w.admin, task} {
		start := w.event("START", 170+i, "", out)
		start[0].Run.RunID = strings.Replace(start[0].Run.RunID, "4000", "4abc", 1)
		fail := w.event("FAIL", 170+i, "", "")
		fail[0].Run.RunID = strings.ToUpper(start[0].Run.RunID)
		nodes := func() int { return len(w.graph(lineage.Query{Table: "lake.public.clean"}).Nodes) }
		w.report(scope, start)
		require.Equal(t, 2, nodes())
		w.report(scope, fail)
		require.Equal(t, 1, nodes())
		w.report(scope, start)
		require.Equal(t, 1, nodes(), "the start was sent again")
		w.report(scope, append(start, fail...))
		require.Equal(t, 1, nodes())
	}
	w.report(w.admin, w.event("COMPLETE", 199, "", out))
	require.Len(t, w.graph(lineage.Query{Table: "lake.public.clean"}).Nodes, 2, "another run is none of theirs")
}

// TestToldBeforeItWasSeen: a table that a task reports and then uses has one entry: the catalog's,
// with the reported columns.
func TestToldBeforeItWasSeen(t *testing.T) {
	w := newTraced(t)
	run, process := w.process(w.jobNamed("load"))
	task := domain.NewScope(w.admin.Workspace(), process, domain.RoleEditor)
	w.table("raw")
	w.table("clean")
	w.report(task, w.event("START", 1, `{"namespace":"m","name":"lake.public.raw"}`, `{"namespace":"m","name":"lake.public.clean",
		"facets":{"columnLineage":{"fields":{"day":{"inputFields":[{"namespace":"m","name":"lake.public.raw","field":"ts"}]}}}}}`))
	w.note(process, lake.LineageRead, "raw", 5)
	w.note(process, lake.LineageWritten, "clean", 6)
	w.note(process, lake.LineageWritten, "clean", 7)
	found, err := w.lineages.OfRun(t.Context(), w.admin, run)
	require.NoError(t, err)
	snapshots := map[int64][]string{}
	for _, f := range found.Facts {
		require.Empty(t, f.Source)
		snapshots[f.SnapshotID] = f.Columns
	}
	require.Len(t, found.Facts, 3)
	require.Equal(t, map[int64][]string{5: {"ts"}, 6: {"day"}, 7: nil}, snapshots)

	// The same if an external job reports the snapshot only at its end.
	const out = `{"namespace":"millpond","name":"lake.public.clean"}`
	w.report(w.admin, w.event("START", 2, "", out))
	w.report(w.admin, w.event("COMPLETE", 2, "", `{"namespace":"millpond","name":"lake.public.clean","facets":{"version":{"datasetVersion":"77"}}}`))
	for _, edge := range w.graph(lineage.Query{Table: "lake.public.clean", Way: lineage.Upstream}).Edges {
		if edge.Actor.Kind == lineage.ActorExternal {
			require.Equal(t, int64(77), edge.SnapshotID)
			require.Equal(t, int64(1), edge.Count)
		}
	}
}

// TestReportsAreBounded: names in many events are looked up at once, and a dataset has only a few
// other names.
func TestReportsAreBounded(t *testing.T) {
	w := newTraced(t)
	clean := w.table("clean")
	symlinks := func(n int) string {
		return `{"namespace":"s3://x","name":"y","facets":{"symlinks":{"identifiers":[` +
			strings.Repeat(`{"namespace":"n","name":"a.b.c"},`, n-1) + `{"namespace":"n","name":"` + string(w.database) + `.Public.CLEAN"}]}}}`
	}
	w.report(w.admin, w.event("COMPLETE", 1, symlinks(10), ""))
	require.Len(t, w.graph(lineage.Query{Table: string(clean), Way: lineage.Downstream}).Edges, 1)
	body := strings.Replace(`{"eventType":"START","eventTime":"2026-01-01T00:00:00Z","producer":"p","schemaURL":"s","run":{"runId":"00000000-0000-4000-8000-000000000001"},
		"job":{"namespace":"etl","name":"nightly"},"inputs":[@],"outputs":[]}`, "@", symlinks(11), 1)
	_, err := lineage.ParseRunEvents([]byte(body), w.clock.Now())
	require.Equal(t, domain.CodeInvalid, code(err))
	require.ErrorContains(t, err, "at most 10")

	var events []lineage.RunEvent
	for i := range 500 {
		events = append(events, w.event("START", 1000+i, fmt.Sprintf(`{"namespace":"m","name":"lake.public.clean"},{"namespace":"s3://b","name":"d%d"}`, i), `{"namespace":"file","name":"/lake/clean"}`)...)
	}
	counted := &countingStore{Store: store.For[lineage.Tx](w.store)}
	lineages := *w.lineages
	lineages.Store = counted
	require.NoError(t, lineages.Report(t.Context(), w.admin, events))
	require.Equal(t, 2, counted.finds)
	require.Equal(t, 1, counted.inserts)
	g := w.graph(lineage.Query{Table: string(clean), Way: lineage.Downstream, Depth: 1})
	require.Equal(t, int64(501), g.Edges[0].Count)
}

// countingStore counts how often lineage is read and written.
type countingStore struct {
	domain.Store[lineage.Tx]
	finds, inserts int
}

// In implements domain.Store.
func (c *countingStore) In(ctx context.Context, s domain.Scope, fn func(lineage.Tx) error) error {
	return c.Store.In(ctx, s, func(tx lineage.Tx) error { return fn(countingTx{tx, c}) })
}

type countingTx struct {
	lineage.Tx
	of *countingStore
}

func (c countingTx) LakeTablesNamed(ctx context.Context, names []lake.TableName) ([]lake.Table, error) {
	c.of.finds++
	return c.Tx.LakeTablesNamed(ctx, names)
}

func (c countingTx) LakeTablesAt(ctx context.Context, locations []string) (map[string]lake.Table, error) {
	c.of.finds++
	return c.Tx.LakeTablesAt(ctx, locations)
}

func (c countingTx) FindLakeTable(ctx context.Context, database, schema, name string) (lake.Table, error) {
	c.of.finds++
	return c.Tx.FindLakeTable(ctx, database, schema, name)
}

func (c countingTx) InsertLineageFacts(ctx context.Context, facts []lineage.Fact) error {
	c.of.inserts++
	return c.Tx.InsertLineageFacts(ctx, facts)
}

// TestReportedByATask: reports of a task's process belong to its run. What the catalog saw it do
// has one entry.
func TestReportedByATask(t *testing.T) {
	w := newTraced(t)
	run, process := w.process(w.jobNamed("load"))
	w.note(process, lake.LineageRead, "raw", 5)
	scope := domain.NewScope(w.admin.Workspace(), process, domain.RoleEditor)
	w.report(scope, w.event("COMPLETE", 1, `{"namespace":"m","name":"lake.public.raw"},{"namespace":"s3://a","name":"b"}`,
		`{"namespace":"s3://a","name":"c","facets":{"columnLineage":{"fields":{"x":{"inputFields":[{"namespace":"m","name":"lake.public.raw","field":"id"}]}}}}}`))
	found, err := w.lineages.OfRun(t.Context(), w.admin, run)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"raw", "b"}, names(found.Facts, lake.LineageRead))
	require.Equal(t, []string{"c"}, names(found.Facts, lake.LineageWritten))
	require.Len(t, found.Externals, 2)
	for _, f := range found.Facts {
		require.Equal(t, run, f.RunID)
		if f.Name == "raw" {
			require.Equal(t, int64(5), f.SnapshotID)
			require.Equal(t, []string{"id"}, f.Columns)
		}
	}
	err = w.lineages.Report(t.Context(), domain.NewScope(w.admin.Workspace(), process, domain.RoleViewer), w.event("START", 1, "", ""))
	require.Equal(t, domain.CodeForbidden, code(err))
}

// receiver accepts events, once it works.
type receiver struct {
	fail   error
	events []string
}

func (r *receiver) Receive(_ context.Context, event []byte) error {
	if r.fail != nil {
		return r.fail
	}
	r.events = append(r.events, string(event))
	return nil
}

// oddOutbox has an extra event that cannot be built.
type oddOutbox struct {
	lineage.Outbox
	odd []lineage.EventRef
}

// LineageEvents implements lineage.Outbox.
func (o *oddOutbox) LineageEvents(ctx context.Context, limit int) ([]lineage.EventRef, error) {
	all, err := o.Outbox.LineageEvents(ctx, limit)
	all, o.odd = append(o.odd, all...), nil
	return all, err
}

// TestLineageEvents: nothing is sent before a receiver wants it. Then each change is sent in order
// until it is received. Week-old events are dropped.
func TestLineageEvents(t *testing.T) {
	w := newTraced(t)
	w.attempt() // before a receiver wants events
	r := &receiver{fail: errors.New("away")}
	var reported []error
	emitter := &lineage.Emitter{
		Store: store.For[lineage.Tx](w.store), Outbox: w.system, Receiver: r, Clock: w.clock, URL: "http://here", CatalogURL: "http://here/api/v1/iceberg", Report: func(err error) { reported = append(reported, err) },
	}
	deliver := func() error { _, err := emitter.Deliver(t.Context()); return err }
	require.NoError(t, deliver(), "there is nothing to tell")
	run, process := w.process(w.jobNamed("load"))
	w.note(process, lake.LineageRead, "raw", 5)
	require.ErrorContains(t, deliver(), "away")
	require.ErrorContains(t, deliver(), "away")
	require.NoError(t, w.exit(domain.AttemptID(process.ID), 3))
	r.fail = nil
	require.NoError(t, deliver())
	require.Len(t, r.events, 4)
	told := func(i int, parts ...string) {
		t.Helper()
		for _, part := range parts {
			require.Contains(t, r.events[i], part)
		}
	}
	starts, ends := strings.Join(r.events[:2], "\n"), strings.Join(r.events[2:], "\n")
	require.Equal(t, 2, strings.Count(starts, `"eventType":"START"`))
	require.Equal(t, 2, strings.Count(ends, `"eventType":"FAIL"`))
	require.Contains(t, starts, `"name":"load.command"`)
	told(3, `"name":"lake.public.raw"`, `"datasetVersion":"5"`, `"namespace":"http://here/`+string(w.admin.Workspace()), "errorMessage")
	require.NoError(t, deliver())
	require.Len(t, r.events, 4, "what was received is not told again")

	// An event that the receiver always refuses blocks no other.
	r.fail = domain.Invalid("", "wrong")
	w.process(w.jobNamed("next"))
	require.NoError(t, deliver())
	require.Len(t, reported, 2)
	// Nor does an event that cannot be built.
	r.fail = nil
	emitter.Outbox = &oddOutbox{Outbox: w.system, odd: []lineage.EventRef{{Workspace: w.admin.Workspace(), Kind: "run", Subject: "no id of ours", Status: "running"}}}
	w.process(w.jobNamed("after"))
	require.NoError(t, deliver())
	require.Len(t, r.events, 6)
	require.Len(t, reported, 3)
	require.ErrorContains(t, reported[2], "could not be made")

	r.fail = errors.New("away")
	w.process(w.jobNamed("old"))
	w.clock.move(8 * 24 * time.Hour)
	require.NoError(t, deliver())
	require.ErrorContains(t, reported[3], "2 OpenLineage events were dropped")

	var none *lineage.Emitter = &lineage.Emitter{Store: store.For[lineage.Tx](w.store), Outbox: w.system, Clock: w.clock, Report: emitter.Report}
	_, err := none.Deliver(t.Context())
	require.NoError(t, err)
	w.in(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.UpdateRun(ctx, run, func(r *job.Run) error { r.Status = job.RunRunning; return nil })
		return err
	})
	left, err := w.system.LineageEvents(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, left, "nobody wants to know any more")
}
