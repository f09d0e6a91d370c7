package domain

import (
	"context"
	"time"
)

// TableKind says what is behind a name in a schema.
type TableKind string

// The kinds.
const (
	KindTable TableKind = "table"
	KindView  TableKind = "view"
)

// UndropTime is how long a dropped table can be restored, and its files stay where they are.
const UndropTime = 7 * 24 * time.Hour

// LakeTable is the row of a table or a view: where its metadata is, and what is in it according to that. Everything but names and times of drops is
// written with the commit it tells of.
type LakeTable struct {
	ID               TableID
	Kind             TableKind
	DatabaseID       DatabaseID
	Database         string // its name
	Schema           string // its name, levels joined by "."
	Name             string // unique among the live tables and views of its schema
	UUID             string
	Location         string // without a slash at its end
	MetadataLocation string
	Version          int // grows with each commit; 0 when it was made
	FormatVersion    int
	Registered       bool // its files came from elsewhere, and are never purged
	Snapshot         *TableSnapshot
	RowCount         *int64     // total-records less total-position-deletes; nil where that would be wrong or is not known
	DataBytes        *int64     // of data files; nil where it is not known
	DataFiles        *int64     // how many; nil where it is not known
	DeleteFiles      *int64     // files of deletes; nil where it is not known
	DeletedRows      *int64     // in them; nil where it is not known
	Snapshots        *int64     // how many; nil where it is not known
	ExpirableAt      *time.Time // of the oldest snapshot that may go; nil where none may, or Snapshots is
	CreatedBy        Actor
	UpdatedBy        Actor
	CreatedAt        time.Time
	UpdatedAt        time.Time
	DroppedAt        *time.Time
	Purge            bool       // with a dropped one: its files go too
	PurgeAfter       *time.Time // with a dropped one: until then it can be restored
}

// TableSnapshot is the current snapshot of a table.
type TableSnapshot struct {
	ID        int64
	At        time.Time
	Operation string // append, overwrite, delete, replace
}

// LakeTableName names a table or a view.
type LakeTableName struct {
	Database string // its name or id
	Schema   string // levels joined by "."
	Name     string
}

// TableFilter narrows a list of tables. Zero fields do not, but for Dropped: dropped tables are listed by themselves.
type TableFilter struct {
	Database DatabaseID `json:"d,omitempty"`
	Schema   string     `json:"s,omitempty"`
	Kind     TableKind  `json:"k,omitempty"`
	Dropped  bool       `json:"x,omitempty"`
}

// LakeTableTx keeps tables and views. Names are found in any case.
type LakeTableTx interface {
	// FindLakeTable is the live one of the name, in the database of the name or id.
	FindLakeTable(ctx context.Context, database, schema, name string) (LakeTable, error)
	// LakeTable is live or dropped.
	LakeTable(ctx context.Context, id TableID) (LakeTable, error)
	LockLakeTable(ctx context.Context, id TableID) (LakeTable, error)
	// LakeTables are oldest first.
	LakeTables(ctx context.Context, f TableFilter, after TableID, limit int) ([]LakeTable, error)
	// LakeTableNames are those of the live ones of the kind in the schema, in the order of their folded names.
	LakeTableNames(ctx context.Context, database DatabaseID, schema string, kind TableKind, after string, limit int) ([]string, error)
	LakeTablesByID(ctx context.Context, ids []TableID) ([]LakeTable, error)
	// InsertLakeTable adds the table, takes its location, and keeps its schema from being dropped meanwhile. A location that a client chose is compared with all others.
	InsertLakeTable(ctx context.Context, t LakeTable, chosen bool) (Inserted, error)
	// SwapLakeTable writes the row of a commit if the table is live, still of the row's database, schema and name, its metadata location is still old, and its
	// version below the row's.
	SwapLakeTable(ctx context.Context, t LakeTable, old string) (swapped bool, err error)
	// LockLocations keeps all others in the workspace from taking locations that are compared, until the end of the transaction. It goes before the locks of rows.
	LockLocations(ctx context.Context) error
	// TakeLocation adds a location to those of the table; false says that it overlaps with another table's.
	TakeLocation(ctx context.Context, id TableID, location string) (bool, error)
	// TakePath is TakeLocation for a directory that a property of the table leads its writers into. Not all that lies there need be the table's.
	TakePath(ctx context.Context, id TableID, directory string) (bool, error)
	// LocationOwners are the tables that have exactly these locations, or are led there by a property.
	LocationOwners(ctx context.Context, locations []string) (map[string]TableID, error)
	// TableLocations are the places that the table has and has had, and the directories that properties of it have led to.
	TableLocations(ctx context.Context, id TableID) (places, paths []string, err error)
	// TableAt is the table that has or had exactly this location; CodeNotFound when there is none.
	TableAt(ctx context.Context, location string) (LakeTable, error)
	// LakeTablesNamed are the live ones of the names, in any case and in no order.
	LakeTablesNamed(ctx context.Context, names []LakeTableName) ([]LakeTable, error)
	// LakeTablesAt are the live ones that have or had exactly these locations, by them.
	LakeTablesAt(ctx context.Context, locations []string) (map[string]LakeTable, error)
	// RenameLakeTable gives a live table another schema and name. The result is that of an insert.
	RenameLakeTable(ctx context.Context, id TableID, database DatabaseID, schema, name string) (Inserted, error)
	// DropLakeTable makes a live table a dropped one; false says that it was not live.
	DropLakeTable(ctx context.Context, id TableID, at, purgeAfter time.Time, purge bool) (bool, error)
	// UndropLakeTable makes a dropped table a live one again. The result is that of an insert.
	UndropLakeTable(ctx context.Context, id TableID) (Inserted, error)
	// ForgetLakeTable removes the row of a dropped table, and its locations.
	ForgetLakeTable(ctx context.Context, id TableID) error
	// AdoptLakeTable is ForgetLakeTable, but its locations are the heir's from then on, whose row comes in the same transaction at the latest.
	AdoptLakeTable(ctx context.Context, id, heir TableID) error
	// PostponePurge notes that the purge of a dropped table has failed: it is due again an hour after from, and twice as long each time, to a day.
	PostponePurge(ctx context.Context, id TableID, from time.Time) error
}

// LakeSystem is what the catalog reads across workspaces to know where there is work.
type LakeSystem interface {
	// DueTables are dropped tables that can no longer be restored, oldest first; those whose purge has failed when they are due again.
	DueTables(ctx context.Context, now time.Time, limit int) ([]TableRef, error)
	// ForgetLakeAnswers removes the answers that were kept before the time given.
	ForgetLakeAnswers(ctx context.Context, before time.Time) error
}

// TableRef names a table across workspaces.
type TableRef struct {
	Workspace WorkspaceID
	Table     TableID
}

// LakeAnswer is how a change of the catalog that came with an idempotency key was answered.
type LakeAnswer struct {
	Key  string
	Hash []byte // of the request
	Body []byte // JSON
}

// LakeAnswerTx keeps answers, by actor and key, for half an hour.
type LakeAnswerTx interface {
	// LakeAnswer is not found with CodeNotFound.
	LakeAnswer(ctx context.Context, actor, key string, since time.Time) (LakeAnswer, error)
	// KeepLakeAnswer keeps the answer; false says that there is one for the key already. It waits for a transaction that is just keeping one.
	KeepLakeAnswer(ctx context.Context, actor string, a LakeAnswer, at, since time.Time) (bool, error)
}

// NewTableID makes the id of a table or a view.
func NewTableID() TableID { return newID[TableID](prefixTable) }
