// Package model has the schema's types that the domain has no use for.
package model

import (
	"github.com/millpond/millpond/domain"
)

// Connection is a page of a list, as the schema shows every list.
type Connection[T any] struct {
	Edges    []Edge[T]
	PageInfo PageInfo
}

// Edge is one thing of a page and the cursor to read on from after it.
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
	AgentConnection  = Connection[domain.Agent]
	AgentEdge        = Edge[domain.Agent]
	APIKeyConnection = Connection[domain.APIKey]
	APIKeyEdge       = Edge[domain.APIKey]
	JobConnection    = Connection[domain.Job]
	JobEdge          = Edge[domain.Job]
	MemberConnection = Connection[domain.Member]
	MemberEdge       = Edge[domain.Member]
	RunConnection    = Connection[domain.Run]
	RunEdge          = Edge[domain.Run]
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
