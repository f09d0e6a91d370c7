// Package model has the schema's types that the domain does not need.
package model

import (
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
)

// Connection is a page of a list.
type Connection[T any] struct {
	Edges    []Edge[T]
	PageInfo PageInfo
}

// Edge is one item of a page, with the cursor after it.
type Edge[T any] struct {
	Cursor string
	Node   T
}

// PageInfo is where a page ends.
type PageInfo struct {
	EndCursor   *string
	HasNextPage bool
}

// The connections of the schema and their edges.
type (
	AgentConnection          = Connection[machine.Agent]
	AgentEdge                = Edge[machine.Agent]
	APIKeyConnection         = Connection[identity.APIKey]
	APIKeyEdge               = Edge[identity.APIKey]
	ComputeConnection        = Connection[Compute]
	ComputeEdge              = Edge[Compute]
	JobConnection            = Connection[job.Job]
	JobEdge                  = Edge[job.Job]
	MemberConnection         = Connection[identity.Member]
	MemberEdge               = Edge[identity.Member]
	RunConnection            = Connection[job.Run]
	RunEdge                  = Edge[job.Run]
	StatementConnection      = Connection[Statement]
	StatementEdge            = Edge[Statement]
	DatabaseConnection       = Connection[Database]
	DatabaseEdge             = Edge[Database]
	LakeSchemaConnection     = Connection[LakeSchema]
	LakeSchemaEdge           = Edge[LakeSchema]
	LakeTableConnection      = Connection[LakeTable]
	LakeTableEdge            = Edge[LakeTable]
	SnapshotConnection       = Connection[Snapshot]
	SnapshotEdge             = Edge[Snapshot]
	TableHistoryConnection   = Connection[lake.HistoryEntry]
	TableHistoryEdge         = Edge[lake.HistoryEntry]
	TablePartitionConnection = Connection[TablePartition]
	TablePartitionEdge       = Edge[TablePartition]
	DataFileConnection       = Connection[DataFile]
	DataFileEdge             = Edge[DataFile]
	MaintenanceRunConnection = Connection[MaintenanceRun]
	MaintenanceRunEdge       = Edge[MaintenanceRun]
	ExperimentConnection     = Connection[Experiment]
	ExperimentEdge           = Edge[Experiment]
	TrackingRunConnection    = Connection[TrackingRun]
	TrackingRunEdge          = Edge[TrackingRun]
	WarehouseConnection      = Connection[Warehouse]
	WarehouseEdge            = Edge[Warehouse]
)

// NewConnection shows one page of a list.
func NewConnection[T any](l domain.List[T]) Connection[T] {
	c := Connection[T]{Edges: make([]Edge[T], len(l.Items)), PageInfo: PageInfo{HasNextPage: l.Next != ""}}
	for i, item := range l.Items {
		c.Edges[i] = Edge[T]{Cursor: l.Cursor(item), Node: item}
	}
	if n := len(c.Edges); n > 0 {
		c.PageInfo.EndCursor = &c.Edges[n-1].Cursor
	}
	return c
}

// Mapped returns the connection with each item converted by show.
func Mapped[A, B any](c Connection[A], show func(A) B) Connection[B] {
	mapped := Connection[B]{Edges: make([]Edge[B], len(c.Edges)), PageInfo: c.PageInfo}
	for i, e := range c.Edges {
		mapped.Edges[i] = Edge[B]{Cursor: e.Cursor, Node: show(e.Node)}
	}
	return mapped
}
