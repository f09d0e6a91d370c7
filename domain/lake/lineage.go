package lake

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// LineageDirection says whether a table was read or written.
type LineageDirection string

// The directions.
const (
	LineageRead    LineageDirection = "read"
	LineageWritten LineageDirection = "written"
)

// LineageEntry says that a run's attempt or a statement read or wrote a table as of a snapshot.
// Names are those at that time.
type LineageEntry struct {
	At         time.Time
	Actor      domain.Actor // of the kind ActorRun or ActorStatement
	Direction  LineageDirection
	TableID    domain.TableID
	Database   string
	Schema     string
	Name       string
	SnapshotID int64    // 0 for views, and for tables without a snapshot
	Columns    []string // nil if unknown
}

// Lineage lists the tables that were read and written, oldest first.
type Lineage struct {
	Read, Written []LineageEntry
}

// lineageTx stores lineage entries.
type lineageTx interface {
	// InsertLineage adds entries and leaves existing ones unchanged. It returns CodeConflict if the
	// statement or attempt has ended.
	InsertLineage(ctx context.Context, entries []LineageEntry) error
	// HoldWriter must be called first in a transaction that changes the catalog. It records the
	// change in the row of a statement. It also locks the statement or attempt, which cannot end
	// before the transaction does: its end includes all of its changes. It returns CodeConflict if
	// the actor has ended. Other actors never end.
	HoldWriter(ctx context.Context, a domain.Actor) error
	// LineageOf returns the combined lineage of the actors.
	LineageOf(ctx context.Context, actors ...domain.Actor) (Lineage, error)
}

// Same reports whether both entries have the same table and snapshot.
func (e LineageEntry) Same(o LineageEntry) bool {
	return e.TableID == o.TableID && e.SnapshotID == o.SnapshotID
}
