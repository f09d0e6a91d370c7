package model

import (
	"time"

	"github.com/millpond/millpond/domain"
)

// Lineage is what a statement read and wrote.
type Lineage struct {
	Read, Written []LineageEntry
}

// RunLineage is what a run read and wrote.
type RunLineage struct {
	Lineage
	Unresolved []domain.StatementID
	Truncated  bool
}

// LineageEntry says that a table was read or written.
type LineageEntry struct {
	domain.LineageFact
	External *domain.External // where it is no table of ours
}

// NewLineage shows what a statement read and wrote.
func NewLineage(l domain.Lineage) Lineage {
	return Lineage{Read: entries(l.Read), Written: entries(l.Written)}
}

func entries(all []domain.LineageEntry) []LineageEntry {
	shown := make([]LineageEntry, len(all))
	for i, e := range all {
		shown[i].LineageEntry = e
	}
	return shown
}

// NewRunLineage shows what a run read and wrote.
func NewRunLineage(l domain.RunLineage) RunLineage {
	shown := RunLineage{Unresolved: l.Unresolved, Truncated: l.Truncated}
	for _, f := range l.Facts {
		e := LineageEntry{LineageFact: f}
		if outside, is := l.Externals[f.TableID]; is {
			e.External = &outside
		}
		if f.Direction == domain.LineageRead {
			shown.Read = append(shown.Read, e)
		} else {
			shown.Written = append(shown.Written, e)
		}
	}
	return shown
}

// Tables are the tables of the entries.
func (l Lineage) Tables() []domain.TableID {
	var ids []domain.TableID
	for _, all := range [][]LineageEntry{l.Read, l.Written} {
		for _, e := range all {
			ids = append(ids, e.TableID)
		}
	}
	return ids
}

// FullName is that of the moment.
func (e LineageEntry) FullName() string {
	if e.External != nil {
		return e.External.Name
	}
	return FullName(e.Database, e.Schema, e.Name)
}

// Namespace is where a dataset outside is.
func (e LineageEntry) Namespace() *string {
	if e.External == nil {
		return nil
	}
	return &e.External.Namespace
}

// SnapshotID is that of the table at the moment.
func (e LineageEntry) SnapshotID() *int64 { return snapshotOf(e.LineageFact) }

// StatementID is what did it.
func (e LineageEntry) StatementID() *domain.StatementID { return statementOf(e.LineageFact) }

// TaskKey is the task that did it.
func (e LineageEntry) TaskKey() *string { return optional(e.LineageFact.TaskKey) }

func snapshotOf(f domain.LineageFact) *int64 {
	if f.SnapshotID == 0 {
		return nil
	}
	return &f.SnapshotID
}

func statementOf(f domain.LineageFact) *domain.StatementID {
	if f.Actor.Kind != domain.ActorStatement {
		return nil
	}
	return new(domain.StatementID(f.Actor.ID))
}

func runOf(id domain.RunID) *domain.RunID {
	if id == "" {
		return nil
	}
	return &id
}

// LineageGraph is what leads to a table, and from it.
type LineageGraph struct {
	Root      string
	At        time.Time
	Nodes     []LineageNode
	Edges     []LineageEdge
	Truncated bool
}

// NewLineageGraph shows a graph.
func NewLineageGraph(g domain.LineageGraph) LineageGraph {
	shown := LineageGraph{Root: g.Root, At: g.At, Nodes: make([]LineageNode, len(g.Nodes)), Edges: make([]LineageEdge, len(g.Edges)), Truncated: g.Truncated}
	for i, n := range g.Nodes {
		shown.Nodes[i] = LineageNode{n}
	}
	for i, e := range g.Edges {
		shown.Edges[i] = LineageEdge{e}
	}
	return shown
}

// LineageNode is a node as the schema shows it: text that is empty is null.
type LineageNode struct{ domain.LineageNode }

// Namespace is that of what is outside.
func (n LineageNode) Namespace() *string { return optional(n.LineageNode.Namespace) }

// JobID is that of a task.
func (n LineageNode) JobID() *domain.JobID {
	if n.LineageNode.JobID == "" {
		return nil
	}
	return &n.LineageNode.JobID
}

// TaskKey is that of a task.
func (n LineageNode) TaskKey() *string { return optional(n.LineageNode.TaskKey) }

// RunID is the latest run of a task.
func (n LineageNode) RunID() *domain.RunID { return runOf(n.LineageNode.RunID) }

// Text is the beginning of a statement's.
func (n LineageNode) Text() *string { return optional(n.LineageNode.Text) }

// By is whose statement it is.
func (n LineageNode) By() *string { return optional(n.Actor) }

// LineageEdge is an edge as the schema shows it.
type LineageEdge struct{ domain.LineageEdge }

// SnapshotID is that of the last time.
func (e LineageEdge) SnapshotID() *int64 { return snapshotOf(e.LineageFact) }

// StatementID is what did it last.
func (e LineageEdge) StatementID() *domain.StatementID { return statementOf(e.LineageFact) }

// RunID is that of the task that did it last.
func (e LineageEdge) RunID() *domain.RunID { return runOf(e.LineageFact.RunID) }
