package domain

import (
	"context"
	"time"
)

// LineageDirection says what was done with a table.
type LineageDirection string

// The directions.
const (
	LineageRead    LineageDirection = "read"
	LineageWritten LineageDirection = "written"
)

// LineageEntry says that a run's attempt or a statement read or wrote a table as of a snapshot. Names are those of that moment.
type LineageEntry struct {
	At         time.Time
	Actor      Actor // of the kind ActorRun or ActorStatement
	Direction  LineageDirection
	TableID    TableID
	Database   string
	Schema     string
	Name       string
	SnapshotID int64    // 0 where the table had none, and for views
	Columns    []string // nil where they are not known
}

// Lineage is what was read and what was written, oldest first.
type Lineage struct {
	Read, Written []LineageEntry
}

// LineageTx keeps what was read and written.
type LineageTx interface {
	// InsertLineage adds entries; what is known already stays as it is. Of a statement or an attempt that is over, nothing more is written: CodeConflict.
	InsertLineage(ctx context.Context, entries []LineageEntry) error
	// HoldWriter keeps a statement or an attempt from ending before the transaction does: its end, once written, tells all that it has changed. CodeConflict for
	// one that is over. Other actors are never over.
	HoldWriter(ctx context.Context, a Actor) error
	// LineageOf is that of the actors together.
	LineageOf(ctx context.Context, actors ...Actor) (Lineage, error)
}
