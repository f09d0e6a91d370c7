package model

import (
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

// Lineage is the tables that a statement read and wrote.
type Lineage struct {
	Read, Written []LineageEntry
}

// RunLineage is the tables that a run read and wrote.
type RunLineage struct {
	Lineage
	Unresolved []domain.StatementID
	Truncated  bool
}

// LineageEntry is one read or write of a table.
type LineageEntry struct {
	lineage.Fact
	External *lineage.External // set for a dataset outside the catalog
}

// NewLineage shows the tables that a statement read and wrote.
func NewLineage(l lake.Lineage) Lineage {
	return Lineage{Read: entries(l.Read), Written: entries(l.Written)}
}

func entries(all []lake.LineageEntry) []LineageEntry {
	shown := make([]LineageEntry, len(all))
	for i, e := range all {
		shown[i].LineageEntry = e
	}
	return shown
}

// NewRunLineage shows the tables that a run read and wrote.
func NewRunLineage(l lineage.OfRun) RunLineage {
	shown := RunLineage{Unresolved: l.Unresolved, Truncated: l.Truncated}
	for _, f := range l.Facts {
		e := LineageEntry{Fact: f}
		if outside, is := l.Externals[f.TableID]; is {
			e.External = &outside
		}
		if f.Direction == lake.LineageRead {
			shown.Read = append(shown.Read, e)
		} else {
			shown.Written = append(shown.Written, e)
		}
	}
	return shown
}

// Tables returns the tables of the entries.
func (l Lineage) Tables() []domain.TableID {
	var ids []domain.TableID
	for _, all := range [][]LineageEntry{l.Read, l.Written} {
		for _, e := range all {
			ids = append(ids, e.TableID)
		}
	}
	return ids
}

// FullName returns the table's name at that time.
func (e LineageEntry) FullName() string {
	if e.External != nil {
		return e.External.Name
	}
	return FullName(e.Database, e.Schema, e.Name)
}

// Namespace returns the namespace of a dataset outside the catalog.
func (e LineageEntry) Namespace() *string {
	if e.External == nil {
		return nil
	}
	return &e.External.Namespace
}

// SnapshotID returns the table's snapshot at that time.
func (e LineageEntry) SnapshotID() *int64 { return snapshotOf(e.Fact) }

// StatementID returns the statement of the entry.
func (e LineageEntry) StatementID() *domain.StatementID { return statementOf(e.Fact) }

// TaskKey returns the task of the entry.
func (e LineageEntry) TaskKey() *string { return optional(e.Fact.TaskKey) }

func snapshotOf(f lineage.Fact) *int64 {
	if f.SnapshotID == 0 {
		return nil
	}
	return &f.SnapshotID
}

func statementOf(f lineage.Fact) *domain.StatementID {
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

// LineageGraph is the data flow into and out of a table.
type LineageGraph struct {
	Root      string
	At        time.Time
	Nodes     []LineageNode
	Edges     []LineageEdge
	Truncated bool
}

// NewLineageGraph shows a graph.
func NewLineageGraph(g lineage.Graph) LineageGraph {
	shown := LineageGraph{Root: g.Root, At: g.At, Nodes: make([]LineageNode, len(g.Nodes)), Edges: make([]LineageEdge, len(g.Edges)), Truncated: g.Truncated}
	for i, n := range g.Nodes {
		shown.Nodes[i] = LineageNode{n}
	}
	for i, e := range g.Edges {
		shown.Edges[i] = LineageEdge{e}
	}
	return shown
}

// LineageNode is a node as the schema shows it: empty text is null.
type LineageNode struct{ lineage.Node }

// Namespace returns the namespace of a node outside the platform.
func (n LineageNode) Namespace() *string { return optional(n.Node.Namespace) }

// JobID returns a task's job.
func (n LineageNode) JobID() *domain.JobID {
	if n.Node.JobID == "" {
		return nil
	}
	return &n.Node.JobID
}

// TaskKey returns a task's key.
func (n LineageNode) TaskKey() *string { return optional(n.Node.TaskKey) }

// RunID returns the latest run of a task.
func (n LineageNode) RunID() *domain.RunID { return runOf(n.Node.RunID) }

// Text returns the beginning of a statement's text.
func (n LineageNode) Text() *string { return optional(n.Node.Text) }

// By returns a statement's sender.
func (n LineageNode) By() *string { return optional(n.Actor) }

// LineageEdge is an edge as the schema shows it.
type LineageEdge struct{ lineage.Edge }

// SnapshotID returns the snapshot of the latest read or write.
func (e LineageEdge) SnapshotID() *int64 { return snapshotOf(e.Fact) }

// StatementID returns the statement of the latest read or write.
func (e LineageEdge) StatementID() *domain.StatementID { return statementOf(e.Fact) }

// RunID returns the run of the latest read or write.
func (e LineageEdge) RunID() *domain.RunID { return runOf(e.Fact.RunID) }
