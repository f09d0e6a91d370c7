package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// traced is a workspace for lineage tests.
type traced struct {
	dsn string
	*tenant
	lineages *lineage.Lineages
	database domain.DatabaseID
	ids      map[string]domain.TableID
	began    time.Time
}

func newTraced(t testing.TB) *traced {
	opened, dsn := openDSN(t)
	w := &traced{tenant: newTenant(t, opened, "ours"), dsn: dsn, ids: map[string]domain.TableID{}}
	w.lineages = &lineage.Lineages{Store: store.For[lineage.Tx](w.store), Clock: w.clock, CatalogURL: "http://here/api/v1/iceberg"}
	w.began = w.clock.Now()
	w.clock.move(time.Hour)
	w.in(func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.FindDatabase(ctx, "lake")
		w.database = d.ID
		return err
	})
	w.connect("s1", 100)
	return w
}

func (w *traced) in(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	in(w.t, w.store, w.admin, fn)
}

// table returns a table of lake.public, and creates it once.
func (w *traced) table(name string) domain.TableID { return w.make(name, lake.KindTable) }

func (w *traced) make(name string, kind lake.TableKind) domain.TableID {
	w.t.Helper()
	if id, ok := w.ids[name]; ok {
		return id
	}
	id := lake.NewTableID()
	w.ids[name] = id
	w.in(func(ctx context.Context, tx *store.Tx) error {
		done, err := tx.InsertLakeTable(ctx, lake.Table{
			ID: id, Kind: kind, DatabaseID: w.database, Schema: "public", Name: name, UUID: string(id), Location: "file:///lake/" + name, MetadataLocation: "file:///m/" + name,
			FormatVersion: 2, CreatedBy: w.admin.Actor(), CreatedAt: w.began,
		}, false)
		require.Equal(w.t, lake.InsertedNow, done)
		return err
	})
	return id
}

// note records lineage of an actor, as the catalog does, at the time of the clock.
func (w *traced) note(actor domain.Actor, d lake.LineageDirection, table string, snapshot int64) {
	w.t.Helper()
	id := w.table(table)
	w.in(func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertLineage(ctx, []lake.LineageEntry{{
			At: w.clock.Now(), Actor: actor, Direction: d, TableID: id, Database: "lake", Schema: "public", Name: table, SnapshotID: snapshot,
		}})
	})
}

func (w *traced) jobNamed(name string) job.Job {
	w.t.Helper()
	j, err := w.services.Jobs.Create(w.t.Context(), w.admin, job.NewJob{Name: name, Spec: job.Spec{Command: "true"}}, domain.Idempotency{})
	require.NoError(w.t, err)
	return j
}

// process runs the job and returns its run and its process.
func (w *traced) process(j job.Job) (domain.RunID, domain.Actor) {
	w.t.Helper()
	run := w.start(j.ID)
	id := w.delivered().Attempt.ID
	w.begin(id)
	return run.ID, domain.Actor{Kind: domain.ActorRun, ID: string(id), Name: j.Name}
}

var statements int

// statement is a statement of a person, or of a run.
func (w *traced) statement(query string, run domain.RunID) domain.Actor {
	w.t.Helper()
	statements++
	st := statement.Statement{
		ID: domain.StatementID(fmt.Sprintf("stm_%026d", statements)), Warehouse: "wh_1", Query: query, Database: "lake", Schema: "public", CreatedBy: w.admin.Actor(), Role: domain.RoleEditor,
		RunID: run, CreatedAt: w.clock.Now(), State: statement.Running, Replica: "rep_1",
	}
	w.in(func(ctx context.Context, tx *store.Tx) error { return tx.InsertStatement(ctx, st) })
	return domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID), Name: "me"}
}

func (w *traced) graph(q lineage.Query) lineage.Graph {
	w.t.Helper()
	g, err := w.lineages.Graph(w.t.Context(), w.admin, q)
	require.NoError(w.t, err)
	return g
}

// shown lists the nodes of a graph by name, and statements and external nodes by kind.
func shown(g lineage.Graph) string {
	var all []string
	for _, n := range g.Nodes {
		all = append(all, strings.TrimPrefix(n.Name, "lake.public."))
	}
	return strings.Join(all, " ")
}

func names(facts []lineage.Fact, d lake.LineageDirection) (all []string) {
	for _, f := range facts {
		if f.Direction == d {
			all = append(all, f.Name)
		}
	}
	return all
}

// TestRunLineage: a run's lineage is that of all its attempts and statements, and nothing else.
func TestRunLineage(t *testing.T) {
	w := newTraced(t)
	run, process := w.process(w.jobNamed("load"))
	empty, err := w.lineages.OfRun(t.Context(), w.admin, run)
	require.NoError(t, err)
	require.Empty(t, empty.Facts)
	w.note(process, lake.LineageRead, "raw", 1)
	w.clock.move(time.Second)
	w.note(w.statement("INSERT", run), lake.LineageWritten, "clean", 2)
	w.note(w.statement("SELECT", ""), lake.LineageRead, "other", 3)
	_, another := w.process(w.jobNamed("another"))
	w.note(another, lake.LineageRead, "other", 3)

	found, err := w.lineages.OfRun(t.Context(), w.admin, run)
	require.NoError(t, err)
	require.Equal(t, []string{"raw"}, names(found.Facts, lake.LineageRead))
	require.Equal(t, []string{"clean"}, names(found.Facts, lake.LineageWritten))
	require.Equal(t, int64(2), found.Facts[1].SnapshotID)
	require.Equal(t, domain.ActorStatement, found.Facts[1].Actor.Kind)
	_, err = w.lineages.OfRun(t.Context(), w.admin, "run_nothing")
	require.Equal(t, domain.CodeNotFound, code(err))
}

// TestLineageGraph: from a table to its sources and results, to the given depth and as of the given
// time.
func TestLineageGraph(t *testing.T) {
	w := newTraced(t)
	load, report := w.jobNamed("load"), w.jobNamed("report")
	run, process := w.process(load)
	w.note(process, lake.LineageRead, "raw", 1)
	w.note(w.statement("INSERT INTO clean", run), lake.LineageWritten, "clean", 2)
	first := w.clock.Now()
	w.clock.move(time.Hour)
	again, process := w.process(load)
	w.note(process, lake.LineageRead, "raw", 1)
	w.note(process, lake.LineageWritten, "clean", 3)
	w.note(process, lake.LineageRead, "late", 1)
	_, process = w.process(report)
	w.note(process, lake.LineageRead, "clean", 3)
	w.note(process, lake.LineageWritten, "daily", 1)
	w.note(w.statement("SELECT * FROM daily", ""), lake.LineageRead, "daily", 1)

	g := w.graph(lineage.Query{Table: "lake.public.daily", Way: lineage.Upstream, Depth: 10})
	require.Equal(t, "daily report clean load raw late", shown(g))
	require.Len(t, g.Edges, 5)
	for _, e := range g.Edges {
		if e.Name == "raw" || e.Name == "clean" && e.Direction == lake.LineageWritten {
			require.Equal(t, int64(2), e.Count, "both runs of load are one node")
			require.Equal(t, again, e.RunID, "the latest is shown")
		}
	}
	require.Equal(t, string(load.ID), g.Nodes[3].ID)
	require.Equal(t, again, g.Nodes[3].RunID)
	require.False(t, g.Truncated)

	require.Equal(t, "daily report clean", shown(w.graph(lineage.Query{Table: "LAKE.public.Daily", Way: lineage.Upstream, Depth: 1})))
	down := w.graph(lineage.Query{Table: "lake.public.raw", Way: lineage.Downstream, Depth: 2})
	require.Equal(t, "raw load clean report daily", shown(down))
	both := w.graph(lineage.Query{Table: string(w.ids["daily"])})
	require.Len(t, both.Nodes, 7, "with the statement that read it")
	require.True(t, slices.ContainsFunc(both.Nodes, func(n lineage.Node) bool {
		return n.Kind == lineage.NodeStatement && n.Text == "SELECT * FROM daily"
	}))

	then := w.graph(lineage.Query{Table: "lake.public.clean", At: &first})
	require.Equal(t, "clean load raw", shown(then), "what came later is not there")
	require.Equal(t, int64(1), then.Edges[0].Count)
	require.Equal(t, run, then.Nodes[1].RunID)

	alone := w.table("alone")
	require.Equal(t, "alone", shown(w.graph(lineage.Query{Table: string(alone)})))
	for _, table := range []string{"", "clean", "public.clean", "lake.public.nothing", "tbl_nothing", "ext_nothing"} {
		_, err := w.lineages.Graph(t.Context(), w.admin, lineage.Query{Table: table})
		require.Contains(t, []domain.Code{domain.CodeInvalid, domain.CodeNotFound}, code(err), table)
	}
	before := w.began.Add(-time.Hour)
	_, err := w.lineages.Graph(t.Context(), w.admin, lineage.Query{Table: string(alone), At: &before})
	require.Equal(t, domain.CodeNotFound, code(err), "it was not there yet")
}

// TestLineageNamesOfThen: a renamed table has its old name in the past and its new name now.
func TestLineageNamesOfThen(t *testing.T) {
	w := newTraced(t)
	w.note(w.statement("SELECT", ""), lake.LineageRead, "old", 1)
	then := w.clock.Now()
	w.clock.move(time.Hour)
	w.in(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.RenameLakeTable(ctx, w.ids["old"], w.database, "public", "new")
		return err
	})
	require.Equal(t, "lake.public.new", w.graph(lineage.Query{Table: "lake.public.new"}).Nodes[0].Name)
	past := w.graph(lineage.Query{Table: "lake.public.old", At: &then})
	require.Equal(t, "lake.public.old", past.Nodes[0].Name)
	require.Len(t, past.Nodes, 2)
	require.Equal(t, string(w.ids["old"]), past.Root)
}

// TestLineageGraphIsBounded: a table with many readers shows its jobs, and then the newest
// statements, up to the bound.
func TestLineageGraphIsBounded(t *testing.T) {
	w := newTraced(t)
	_, process := w.process(w.jobNamed("load"))
	w.note(process, lake.LineageRead, "busy", 1)
	db := w.table("busy")
	var facts []lake.LineageEntry
	for i := range 3000 {
		facts = append(facts, lake.LineageEntry{
			At: w.clock.Now().Add(time.Duration(i) * time.Millisecond), Actor: domain.Actor{Kind: domain.ActorStatement, ID: fmt.Sprintf("stm_busy%06d", i)}, Direction: lake.LineageRead,
			TableID: db, Database: "lake", Schema: "public", Name: "busy",
		})
	}
	w.in(func(ctx context.Context, tx *store.Tx) error { return tx.InsertLineage(ctx, facts) })
	w.clock.move(time.Hour)
	g := w.graph(lineage.Query{Table: "lake.public.busy"})
	require.True(t, g.Truncated)
	require.Len(t, g.Nodes, lineage.MaxNodes)
	require.Equal(t, lineage.NodeTask, g.Nodes[1].Kind)
	require.Equal(t, "stm_busy002999", g.Nodes[2].ID)
	require.Len(t, g.Edges, lineage.MaxNodes-1)
}

// TestSettledLineage: at a statement's end, wrong entries are removed, entries that the catalog
// missed are added, and columns are filled in.
func TestSettledLineage(t *testing.T) {
	w := newTraced(t)
	source := w.table("source")
	w.table("target")
	settle := func(actor domain.Actor, resolution lineage.Resolution, s lineage.Settlement) (l lake.Lineage) {
		s.Statement = domain.StatementID(actor.ID)
		w.in(func(ctx context.Context, tx *store.Tx) (err error) {
			st, err := tx.Statement(ctx, s.Statement)
			require.NoError(t, err)
			now := w.clock.Now()
			st.State, st.FinishedAt, st.Resolution = statement.Succeeded, &now, resolution
			require.NoError(t, tx.UpdateStatement(ctx, st, nil))
			require.NoError(t, tx.SettleLineage(ctx, s))
			l, err = tx.LineageOf(ctx, actor)
			return err
		})
		return l
	}
	load := func(query string) domain.Actor {
		actor := w.statement(query, "")
		w.note(actor, lake.LineageRead, "source", 1)
		w.note(actor, lake.LineageRead, "target", 1)
		w.note(actor, lake.LineageWritten, "target", 2)
		return actor
	}
	entry := func(d lake.LineageDirection, name string, snapshot int64) lake.LineageEntry {
		return lake.LineageEntry{At: w.clock.Now(), Direction: d, TableID: w.ids[name], Database: "lake", Schema: "public", Name: name, SnapshotID: snapshot}
	}
	actor := load("INSERT")
	then := entry(lake.LineageRead, "source", 7)
	then.Actor, then.Columns = actor, []string{"a"}
	l := settle(actor, lineage.Resolved, lineage.Settlement{
		Columns: map[domain.TableID][]string{source: {"a", "b"}}, Removed: []lake.LineageEntry{entry(lake.LineageRead, "target", 1), entry(lake.LineageWritten, "target", 1)},
		Added: []lake.LineageEntry{then},
	})
	require.Len(t, l.Read, 2)
	columns := map[int64][]string{}
	for _, e := range l.Read {
		require.Equal(t, source, e.TableID)
		columns[e.SnapshotID] = e.Columns
	}
	require.Equal(t, map[int64][]string{1: {"a", "b"}, 7: {"a"}}, columns)
	require.Len(t, l.Written, 1, "it is of another snapshot")
	require.Nil(t, l.Written[0].Columns)
	g := w.graph(lineage.Query{Table: "lake.public.source"})
	require.Equal(t, actor.ID, g.Nodes[1].ID, "what was added has its process")
	settle(load("INSERT"), lineage.Resolved, lineage.Settlement{})
	settle(load("SELECT"), lineage.Unresolved, lineage.Settlement{})
	settle(w.statement("SELECT 1", ""), lineage.None, lineage.Settlement{})

	c, err := w.lineages.Coverage(t.Context(), w.admin, w.began)
	require.NoError(t, err)
	require.Equal(t, lineage.Coverage{None: 1, Resolved: 2, Unresolved: 1}, c)
	share, ok := c.Share()
	require.True(t, ok)
	require.InDelta(t, 2.0/3, share, 1e-9)
	everywhere, err := w.system.LineageCoverage(t.Context(), w.began)
	require.NoError(t, err)
	require.Equal(t, c, everywhere)
	later, err := w.lineages.Coverage(t.Context(), w.admin, w.clock.Now().Add(time.Second))
	require.NoError(t, err)
	require.Zero(t, later)
}

// trace gives the workspace lineage of the attempt, and of a statement of its run.
func (w *tenant) trace(attempt domain.AttemptID, run domain.RunID) (domain.StatementID, lineage.Fact) {
	w.t.Helper()
	table := domain.TableID("ext_" + w.admin.Workspace())
	fact := lineage.Fact{Source: "s", LineageEntry: lake.LineageEntry{
		At: now, Actor: domain.Actor{Kind: domain.ActorRun, ID: string(attempt)}, Direction: lake.LineageRead, TableID: table, Name: "t",
	}}
	st := statement.Statement{
		ID: domain.StatementID("stm_t" + string(w.admin.Workspace())), Query: "SELECT", CreatedBy: w.admin.Actor(), Role: domain.RoleViewer, RunID: run, CreatedAt: now, State: statement.Running,
	}
	of := fact
	of.Actor = domain.Actor{Kind: domain.ActorStatement, ID: string(st.ID)}
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(w.t, tx.InsertStatement(ctx, st))
		st.State, st.FinishedAt, st.Resolution = statement.Succeeded, &now, lineage.Unresolved
		require.NoError(w.t, tx.UpdateStatement(ctx, st, nil))
		require.NoError(w.t, tx.SaveExternals(ctx, []lineage.External{{ID: string(table), Namespace: "n", Name: "t"}}, now))
		return tx.InsertLineageFacts(ctx, []lineage.Fact{fact, of})
	})
	return st.ID, fact
}
