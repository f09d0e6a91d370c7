package lineage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Bounds of a lineage graph.
const (
	MaxDepth = 10    // in tables
	MaxNodes = 1_000 // in one graph
	MaxCount = 10_000
)

// Way is the direction in which a lineage graph is followed.
type Way string

// The ways.
const (
	Upstream   Way = "upstream"   // where the data came from
	Downstream Way = "downstream" // where it went
	BothWays   Way = "both"
)

// Query describes a graph to read.
type Query struct {
	Table string // database.schema.table, or the id of a table or a dataset
	Way   Way
	Depth int        // in tables from the root, 1 to MaxDepth; 0 stands for 3
	At    *time.Time // shows the graph as of then; nil for now
}

// NodeKind is the kind of a node.
type NodeKind string

// The kinds of nodes.
const (
	NodeTable     NodeKind = "table"
	NodeDataset   NodeKind = "dataset"      // external
	NodeTask      NodeKind = "task"         // a job's task, with all its runs
	NodeStatement NodeKind = "statement"    // not part of a run
	NodeJob       NodeKind = "external_job" // external
)

// Node is a table, or a process that reads and writes tables.
type Node struct {
	ID        string
	Kind      NodeKind
	Name      string // database.schema.table, a task's job, or a statement's kind
	Namespace string // of external nodes
	Dropped   bool   // the table no longer exists
	JobID     domain.JobID
	TaskKey   string
	RunID     domain.RunID // the latest at that time
	Text      string       // the beginning of a statement
	Actor     string       // who ran the statement
	Distance  int          // in tables from the root
}

// Edge says that a process read or wrote a table, and how often.
type Edge struct {
	Fact        // the latest at that time
	Count int64 // at that time; MaxCount stands for that and more
}

// From returns the id of the node that the data came from.
func (e Edge) From() string { from, _ := e.ends(); return from }

// To returns the id of the node that the data went to.
func (e Edge) To() string { _, to := e.ends(); return to }

func (e Edge) ends() (from, to string) {
	if e.Direction == lake.LineageRead {
		return string(e.TableID), string(e.Process)
	}
	return string(e.Process), string(e.TableID)
}

// Graph is the graph upstream and downstream of a table.
type Graph struct {
	Root      string // id of the table
	At        time.Time
	Nodes     []Node // nearest first
	Edges     []Edge
	Truncated bool // limited to MaxNodes
}

// StatementBrief is the part of a statement that a graph shows.
type StatementBrief struct {
	ID        domain.StatementID
	Kind      string
	Text      string // its beginning
	CreatedBy string
}

// graphTx reads the lineage graph, each method for many nodes at once.
type graphTx interface {
	// ProcessesOf returns edges of the direction from the tables, up to the time. Tasks and jobs
	// come first, then statements, newest first.
	ProcessesOf(ctx context.Context, tables []domain.TableID, d lake.LineageDirection, at time.Time, limit int) ([]Edge, error)
	// TablesOf returns edges of the direction from the processes, up to the time.
	TablesOf(ctx context.Context, processes []ProcessID, d lake.LineageDirection, at time.Time, limit int) ([]Edge, error)
	// LineageTable returns the latest entry up to the time of the table, or of the name at that
	// time. It returns CodeNotFound if there is none.
	LineageTable(ctx context.Context, id domain.TableID, key string, at time.Time) (lake.LineageEntry, error)
	StatementBriefs(ctx context.Context, ids []domain.StatementID) ([]StatementBrief, error)
	EventStatement(ctx context.Context, id domain.StatementID) (EventStatement, error)
}

// Graph returns the lineage graph of a table. Each step is one query. Its cost grows with the
// number of edges, not with their counts.
func (l *Lineages) Graph(ctx context.Context, s domain.Scope, q Query) (g Graph, err error) {
	if err := domain.Authorize(ctx, l.Store, s, domain.LineageShow); err != nil {
		return g, err
	}
	if err := q.complete(); err != nil {
		return g, err
	}
	err = l.Store.In(ctx, s, func(tx Tx) error {
		w := &lineageWalk{ctx: ctx, tx: tx, at: l.Clock.Now(), now: true, nodes: map[string]*Node{}, edges: map[[2]string]bool{}}
		if q.At != nil {
			w.at, w.now = *q.At, false
		}
		root, err := w.root(q.Table)
		if err != nil {
			return err
		}
		w.add(Node{ID: string(root.TableID), Kind: tableNode(root.TableID), Name: dotted(root)})
		for _, way := range []Way{Upstream, Downstream} {
			if q.Way == way || q.Way == BothWays {
				if err := w.follow(way, root.TableID, q.Depth); err != nil {
					return err
				}
			}
		}
		g, err = w.graph(string(root.TableID))
		return err
	})
	return g, err
}

func (q *Query) complete() error {
	q.Way, q.Depth = cmp.Or(q.Way, BothWays), cmp.Or(q.Depth, 3)
	switch {
	case q.Table == "":
		return domain.Invalid("table", "table is missing; name one as database.schema.table, or give its id.")
	case q.Way != Upstream && q.Way != Downstream && q.Way != BothWays:
		return domain.Invalid("direction", "%q is not a direction; use upstream, downstream or both.", string(q.Way))
	case q.Depth < 1 || q.Depth > MaxDepth:
		return domain.Invalid("depth", "depth is %d; use 1 to %d.", q.Depth, MaxDepth)
	}
	return nil
}

func dotted(e lake.LineageEntry) string { return e.Database + "." + e.Schema + "." + e.Name }

func tableNode(id domain.TableID) NodeKind {
	if id.External() {
		return NodeDataset
	}
	return NodeTable
}

// lineageWalk follows lineage from table to table.
type lineageWalk struct {
	ctx       context.Context
	tx        Tx
	at        time.Time
	now       bool // at is the current time
	nodes     map[string]*Node
	order     []*Node
	edges     map[[2]string]bool
	found     []Edge
	truncated bool
}

// root finds the table by its id, or by its name at that time.
func (w *lineageWalk) root(table string) (lake.LineageEntry, error) {
	parts := strings.Split(table, ".")
	byID := len(parts) == 1
	if !byID && len(parts) < 3 || byID && !strings.HasPrefix(table, domain.PrefixTable+"_") && !domain.TableID(table).External() {
		return lake.LineageEntry{}, domain.Invalid("table", "%q is not a table; name one as database.schema.table, or give its id.", table)
	}
	seen, key := domain.TableID(table), ""
	if !byID {
		seen, key = "", lake.FoldName(table)
	}
	if w.now || byID {
		live, err := w.live(table, parts)
		if err == nil || !domain.IsCode(err, domain.CodeNotFound) {
			return live, err
		}
	}
	e, err := w.tx.LineageTable(w.ctx, seen, key, w.at)
	if !domain.IsCode(err, domain.CodeNotFound) {
		return e, err
	}
	live, err := w.live(table, parts) // it existed without lineage
	if domain.IsCode(err, domain.CodeNotFound) {
		err = domain.NotFound("table", table)
	}
	return live, err
}

// live finds the table in the catalog, unless it was created later.
func (w *lineageWalk) live(table string, parts []string) (lake.LineageEntry, error) {
	var t lake.Table
	var err error
	switch n := len(parts); {
	case domain.TableID(table).External():
		return w.outside(domain.TableID(table))
	case n == 1:
		t, err = w.tx.LakeTable(w.ctx, domain.TableID(table))
	default:
		t, err = w.tx.FindLakeTable(w.ctx, parts[0], strings.Join(parts[1:n-1], "."), parts[n-1])
	}
	if err == nil && t.CreatedAt.After(w.at) {
		err = domain.Errorf(domain.CodeNotFound, "The table %s did not exist yet at %s.", table, w.at.Format(time.RFC3339))
	}
	return lake.LineageEntry{TableID: t.ID, Database: t.Database, Schema: t.Schema, Name: t.Name}, err
}

func (w *lineageWalk) outside(id domain.TableID) (lake.LineageEntry, error) {
	found, err := w.tx.Externals(w.ctx, []string{string(id)})
	if err == nil && len(found) == 0 {
		err = domain.NotFound("dataset", id)
	}
	return lake.LineageEntry{TableID: id}, err
}

// add adds a node, unless the graph is full.
func (w *lineageWalk) add(n Node) bool {
	if w.nodes[n.ID] != nil {
		return true
	}
	if len(w.order) >= MaxNodes {
		w.truncated = true
		return false
	}
	w.nodes[n.ID] = &n
	w.order = append(w.order, &n)
	return true
}

// follow adds the graph in one direction, up to depth tables away.
func (w *lineageWalk) follow(way Way, root domain.TableID, depth int) error {
	toProcess, toTable := lake.LineageRead, lake.LineageWritten
	if way == Upstream {
		toProcess, toTable = lake.LineageWritten, lake.LineageRead
	}
	visited := map[string]bool{string(root): true}
	tables := []domain.TableID{root}
	for distance := 1; distance <= depth && len(tables) > 0; distance++ {
		edges, err := w.tx.ProcessesOf(w.ctx, tables, toProcess, w.at, MaxNodes+1)
		if err != nil {
			return err
		}
		processes := step(w, edges, visited, distance, func(e Edge) ProcessID { return e.Process })
		if len(processes) == 0 {
			return nil
		}
		if edges, err = w.tx.TablesOf(w.ctx, processes, toTable, w.at, MaxNodes+1); err != nil {
			return err
		}
		tables = step(w, edges, visited, distance, func(e Edge) domain.TableID { return e.TableID })
	}
	return nil
}

// step adds edges with the nodes at their far ends. It returns the nodes that were not visited yet.
func step[T ~string](w *lineageWalk, edges []Edge, visited map[string]bool, distance int, far func(Edge) T) (next []T) {
	w.truncated = w.truncated || len(edges) > MaxNodes
	for _, e := range edges {
		id := far(e)
		node := Node{ID: string(id), Distance: distance}
		node.describe(e.Fact, string(id) == string(e.TableID))
		if !w.add(node) {
			continue
		}
		if ends := [2]string{e.From(), e.To()}; !w.edges[ends] {
			w.edges[ends] = true
			w.found = append(w.found, e)
		}
		if !visited[string(id)] {
			visited[string(id)] = true
			next = append(next, id)
		}
	}
	return next
}

func (n *Node) describe(f Fact, table bool) {
	switch {
	case table:
		n.Kind, n.Name = tableNode(f.TableID), dotted(f.LineageEntry)
	case strings.HasPrefix(n.ID, domain.PrefixJob+"_"):
		job, _, _ := strings.Cut(n.ID, "/")
		n.Kind, n.Name, n.JobID, n.TaskKey, n.RunID = NodeTask, f.Actor.Name, domain.JobID(job), f.TaskKey, f.RunID
	case strings.HasPrefix(n.ID, domain.PrefixStatement+"_"):
		n.Kind, n.Actor = NodeStatement, f.Actor.Name
	default:
		n.Kind = NodeJob
	}
}

// graph adds to the nodes what lineage itself does not store.
func (w *lineageWalk) graph(root string) (Graph, error) {
	var externals []string
	var statements []domain.StatementID
	var tables []domain.TableID
	for _, n := range w.order {
		switch n.Kind {
		case NodeDataset, NodeJob:
			externals = append(externals, n.ID)
		case NodeStatement:
			statements = append(statements, domain.StatementID(n.ID))
		case NodeTable:
			tables = append(tables, domain.TableID(n.ID))
		}
	}
	if err := w.nameTables(tables); err != nil {
		return Graph{}, err
	}
	outside, err := w.tx.Externals(w.ctx, externals)
	if err != nil {
		return Graph{}, err
	}
	for id, e := range outside {
		w.nodes[id].Namespace, w.nodes[id].Name = e.Namespace, e.Name
	}
	if err := w.nameTasks(); err != nil {
		return Graph{}, err
	}
	briefs, err := w.tx.StatementBriefs(w.ctx, statements)
	for _, b := range briefs {
		n := w.nodes[string(b.ID)]
		n.Name, n.Text, n.Actor = b.Kind, b.Text, b.CreatedBy
	}
	g := Graph{Root: root, At: w.at, Edges: w.found, Truncated: w.truncated}
	for _, n := range w.order {
		g.Nodes = append(g.Nodes, *n)
	}
	slices.SortStableFunc(g.Nodes, func(a, b Node) int { return cmp.Compare(a.Distance, b.Distance) })
	return g, err
}

// nameTables sets the current names of the tables. For a time in the past, the names stay those of
// the entries.
func (w *lineageWalk) nameTables(ids []domain.TableID) error {
	rows, err := w.tx.LakeTablesByID(w.ctx, ids)
	there := map[domain.TableID]bool{}
	for _, t := range rows {
		n := w.nodes[string(t.ID)]
		there[t.ID] = t.DroppedAt == nil || t.DroppedAt.After(w.at)
		if w.now && there[t.ID] {
			n.Name = t.Database + "." + t.Schema + "." + t.Name
		}
	}
	for _, id := range ids {
		w.nodes[string(id)].Dropped = !there[id]
	}
	return err
}

// nameTasks sets the job's name of each task, as of the start of the run that is shown.
func (w *lineageWalk) nameTasks() error {
	var ids []domain.RunID
	for _, n := range w.order {
		if n.Kind == NodeTask {
			ids = append(ids, n.RunID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	runs, err := w.tx.RunsByID(w.ctx, ids)
	names := make(map[domain.RunID]string, len(runs))
	for _, r := range runs {
		names[r.ID] = r.JobName
	}
	for _, n := range w.order {
		if n.Kind == NodeTask {
			n.Name = cmp.Or(names[n.RunID], n.Name)
		}
	}
	return err
}
