// Package lake is the Iceberg catalog: namespaces, tables, views and their commits. What a table is lies in its metadata file, which is never changed;
// the database has the pointer to the current one, and a commit is a compare-and-swap of that pointer. Every path that a client names is hostile until
// it is canonical and strictly under the workspace's own prefix.
package lake

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
)

// Options are what a Catalog needs.
type Options struct {
	Store      domain.Store
	System     domain.LakeSystem
	Files      Files
	Clock      domain.Clock
	CacheBytes int64       // of metadata kept in memory; 0 stands for 256 MiB
	Report     func(error) // what went wrong and harmed nothing, such as a file that could not be removed; may be nil
}

// Catalog serves the tables and views of all workspaces.
type Catalog struct {
	Options
	cache      *cache
	partitions *partitionCache
	bounds     bounds
	turns      *turns
	quick      quick
}

// quick is a store that does in one round trip what otherwise takes a transaction.
type quick interface {
	// FindLakeTable finds a live table or view of the name; CodeNotFound.
	FindLakeTable(ctx context.Context, s domain.Scope, database, schema, name string) (domain.LakeTable, error)
	// NoteLakeTable is FindLakeTable, and notes that the scope's actor has read it if it is of the kind.
	NoteLakeTable(ctx context.Context, s domain.Scope, database, schema, name string, kind domain.TableKind, at time.Time) (domain.LakeTable, error)
	// SwapLakeTable is domain.LakeTableTx's with an audit row.
	SwapLakeTable(ctx context.Context, s domain.Scope, t domain.LakeTable, old string, e domain.AuditEvent) (swapped bool, err error)
}

// New makes a catalog.
func New(o Options) *Catalog {
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	quick, _ := o.Store.(quick)
	return &Catalog{Options: o, cache: newCache(o.CacheBytes), partitions: newPartitionCache(partitionBytes), bounds: usualBounds, turns: newTurns(), quick: quick}
}

// Ref names a table or a view.
type Ref struct {
	Database string // its name or id
	Schema   string // levels joined by "."
	Name     string
}

// Key makes a change one that can be sent again: it is answered as it was the first time, for half an hour. The zero Key does nothing.
type Key struct {
	Key  string // as the client sent it
	Hash []byte // of the request with its method and path; another one under the same key is refused with CodeConflict
}

// Loaded is a table or a view with its metadata.
type Loaded struct {
	Table            domain.LakeTable
	MetadataLocation string          // empty for a staged table
	Metadata         json.RawMessage // the file as it is, or with the snapshots asked for; nil when Unchanged; must not be changed
	Unchanged        bool            // as LoadOptions.Unchanged said
}

// LoadOptions shape a load.
type LoadOptions struct {
	RefsOnly  bool                               // only the snapshots that branches and tags name
	Unchanged func(metadataLocation string) bool // the caller has this already and needs no metadata; may be nil
}

// NewTable asks for a table. Schema, PartitionSpec and SortOrder are JSON as the Iceberg protocol has it.
type NewTable struct {
	Name          string
	Location      string // empty lets the catalog choose
	Schema        json.RawMessage
	PartitionSpec json.RawMessage // nil means none
	SortOrder     json.RawMessage // nil means none
	Properties    map[string]string
	Stage         bool // nothing is kept but its directories; a commit with assert-create follows
}

// NewView asks for a view. Schema and Version are JSON as the Iceberg protocol has it.
type NewView struct {
	Name       string
	Location   string
	Schema     json.RawMessage
	Version    json.RawMessage
	Properties map[string]string
}

// Change is one table's part of a commit: JSON arrays as the Iceberg protocol has them.
type Change struct {
	Ref          Ref
	Requirements json.RawMessage
	Updates      json.RawMessage
}

// SchemaChange is what came of a change of a schema's properties.
type SchemaChange struct {
	Updated []string `json:"updated"`
	Removed []string `json:"removed"`
	Missing []string `json:"missing"`
}

// Times of the catalog.
const (
	AnswerTime = 30 * time.Minute // that answers to keys are kept
	workTime   = 30 * time.Second // of a change's transaction, whoever has gone away meanwhile
)

// lasting is a context for what must come to its end although the caller may have gone.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), workTime)
}
