// Package lake is the Iceberg catalog: namespaces, tables, views and their commits. A metadata file
// describes a table and never changes. The database stores the pointer to the current file, and a
// commit is a compare-and-swap of that pointer. Every path from a client is hostile until it is
// canonical and strictly under the workspace's own prefix.
package lake

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
)

// Options configure a Catalog.
type Options struct {
	Store      domain.Store[Tx]
	Quick      Quick // may be nil
	System     System
	Files      Files
	Clock      domain.Clock
	CacheBytes int64       // of metadata in memory; 0 means 256 MiB
	Report     func(error) // harmless failures, such as a file that could not be removed; may be nil
}

// Catalog serves the tables and views of all workspaces.
type Catalog struct {
	Options
	cache      *cache
	partitions partitionCache
	lists      *listCache
	bounds     bounds
	locks      *tableLocks
	samples    samples
}

// Quick replaces some transactions by one round trip.
type Quick interface {
	// FindLakeTable finds the live table or view with the name; CodeNotFound.
	FindLakeTable(ctx context.Context, s domain.Scope, database, schema, name string) (Table, error)
	// NoteLakeTable is FindLakeTable. It also records the scope's actor as reader if the kind
	// matches.
	NoteLakeTable(ctx context.Context, s domain.Scope, database, schema, name string, kind TableKind, at time.Time) (Table, error)
	// SwapLakeTable is lake.Tx's with an audit row.
	SwapLakeTable(ctx context.Context, s domain.Scope, t Table, old string, e domain.AuditEvent) (swapped bool, err error)
}

// New returns a catalog.
func New(o Options) *Catalog {
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return &Catalog{Options: o, cache: newCache(o.CacheBytes), partitions: newPartitionCache(partitionBytes), lists: newBoundedCache[string, []string](listBytes), bounds: usualBounds, locks: newTableLocks()}
}

// Ref names a table or a view.
type Ref struct {
	Database string // its name or id
	Schema   string // levels joined by "."
	Name     string
}

// Key makes a request repeatable: the repeated request gets the first answer, for half an hour. The
// zero Key does nothing.
type Key struct {
	Key  string // as the client sent it
	Hash []byte // of the request with its method and path; CodeConflict for another hash under the same key
}

// Loaded is a table or a view with its metadata.
type Loaded struct {
	Table            Table
	MetadataLocation string          // empty for a staged table
	Metadata         json.RawMessage // the whole file, or with the snapshots asked for; nil when Unchanged; read-only
	Tag              string          // identifies the table's state: equal tags, equal metadata; empty for a staged table
	Unchanged        bool            // LoadOptions.Unchanged returned true
}

// LoadOptions shape a load.
type LoadOptions struct {
	RefsOnly  bool                  // only the snapshots that branches and tags name
	Unchanged func(tag string) bool // reports whether the caller has this state already; may be nil
}

// NewTable asks for a table. Schema, PartitionSpec and SortOrder are JSON of the Iceberg protocol.
type NewTable struct {
	Name          string
	Location      string // empty lets the catalog choose
	Schema        json.RawMessage
	PartitionSpec json.RawMessage // nil means none
	SortOrder     json.RawMessage // nil means none
	Properties    map[string]string
	Stage         bool // store only the directories, for a day; a commit with assert-create follows
}

// NewView asks for a view. Schema and Version are JSON of the Iceberg protocol.
type NewView struct {
	Name       string
	Location   string
	Schema     json.RawMessage
	Version    json.RawMessage
	Properties map[string]string
}

// Change is one table's part of a commit: JSON arrays of the Iceberg protocol.
type Change struct {
	Ref          Ref
	Requirements json.RawMessage
	Updates      json.RawMessage
	Erase        *Erasure // files that the change removes from a table, or nil
}

// SchemaChange is the result of changing a schema's properties.
type SchemaChange struct {
	Updated []string `json:"updated"`
	Removed []string `json:"removed"`
	Missing []string `json:"missing"`
}

// Times of the catalog.
const (
	AnswerTime = 30 * time.Minute // how long answers to keys are stored
	workTime   = 30 * time.Second // limit of a change's transaction, even if its caller has left
)

// lasting returns a context for work that must finish even if the caller has left.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), workTime)
}
