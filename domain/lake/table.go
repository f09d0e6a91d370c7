package lake

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// TableKind is the kind of a name in a schema.
type TableKind string

// The kinds.
const (
	KindTable TableKind = "table"
	KindView  TableKind = "view"
)

// UndropTime is how long a dropped table can be restored. Its files stay until then.
const UndropTime = 7 * 24 * time.Hour

// Table is the row of a table or a view: the location of its metadata, and values from it. Each
// commit writes everything except names and drops.
type Table struct {
	ID               domain.TableID
	Kind             TableKind
	DatabaseID       domain.DatabaseID
	Database         string // the database's name
	Schema           string // the schema's name, levels joined by "."
	Name             string // unique among the live tables and views of its schema
	UUID             string
	Location         string // without a slash at the end
	MetadataLocation string
	Version          int // increases with each commit, from 0
	FormatVersion    int
	Registered       bool // its files came from elsewhere and are never removed
	Snapshot         *TableSnapshot
	// RowCount is total-records less total-position-deletes; nil if unknown or wrong by equality
	// deletes.
	RowCount    *int64
	DataBytes   *int64     // size of the data files; nil if unknown
	DataFiles   *int64     // nil if unknown
	DeleteFiles *int64     // nil if unknown
	DeletedRows *int64     // rows in delete files; nil if unknown
	Snapshots   *int64     // nil if unknown
	ExpirableAt *time.Time // when the oldest expirable snapshot was replaced; nil if there is none or Snapshots is nil
	CreatedBy   domain.Actor
	UpdatedBy   domain.Actor
	CreatedAt   time.Time
	UpdatedAt   time.Time
	DroppedAt   *time.Time
	Purge       bool       // when dropped: its files are deleted too
	PurgeAfter  *time.Time // when dropped: it can be restored until then
}

// Detached reports whether the table was dropped without purge. Its files stay until it is purged,
// or its metadata file is registered.
func (t Table) Detached() bool {
	return t.DroppedAt != nil && !t.Purge && !t.Registered && t.Kind == KindTable
}

// TableSnapshot is the current snapshot of a table.
type TableSnapshot struct {
	ID        int64
	At        time.Time
	Operation string // append, overwrite, delete, replace
}

// TableName names a table or a view.
type TableName struct {
	Database string // its name or id
	Schema   string // levels joined by "."
	Name     string
}

// TableFilter narrows a list of tables. Zero fields are ignored, except Dropped: dropped tables
// have a separate list.
type TableFilter struct {
	Database domain.DatabaseID `json:"d,omitempty"`
	Schema   string            `json:"s,omitempty"`
	Kind     TableKind         `json:"k,omitempty"`
	Dropped  bool              `json:"x,omitempty"`
}

// tableTx reads and writes tables and views. It finds names in any case.
type tableTx interface {
	// FindLakeTable returns the live table of the name. The database is a name or an id.
	FindLakeTable(ctx context.Context, database, schema, name string) (Table, error)
	// LakeTable returns a live or dropped table.
	LakeTable(ctx context.Context, id domain.TableID) (Table, error)
	LockLakeTable(ctx context.Context, id domain.TableID) (Table, error)
	// LakeTables returns tables, oldest first.
	LakeTables(ctx context.Context, f TableFilter, after domain.TableID, limit int) ([]Table, error)
	// LakeTableNames returns the names of the schema's live tables or views, in the order of their
	// folded names.
	LakeTableNames(ctx context.Context, database domain.DatabaseID, schema string, kind TableKind, after string, limit int) ([]string, error)
	LakeTablesByID(ctx context.Context, ids []domain.TableID) ([]Table, error)
	// InsertLakeTable adds the table, claims its location, and prevents that its schema is dropped
	// meanwhile. It compares a location that a client chose with all others.
	InsertLakeTable(ctx context.Context, t Table, chosen bool) (Inserted, error)
	// SwapLakeTable writes the row of a commit, and ends the exclusive turn of its writer,
	// UpdatedBy. The table must be live, and have the row's database, schema and name. Its metadata
	// location must be old, and its version below the row's. No other writer may have an exclusive
	// turn.
	SwapLakeTable(ctx context.Context, t Table, old string) (swapped bool, err error)
	// FenceLakeTable raises the version of a row whose metadata location is still old, regardless
	// of turns. Later swaps to a version that is not above it fail.
	FenceLakeTable(ctx context.Context, id domain.TableID, old string, version int) (fenced bool, err error)
	// NoteLostRace records that the writer lost the race for the table. After the third loss within
	// a minute the writer gets an exclusive turn until the given time, unless another writer has
	// one. After an unused turn there is none for a minute.
	NoteLostRace(ctx context.Context, id domain.TableID, writer domain.Actor, now, until time.Time) error
	// TurnOfAnother reports whether another writer has an exclusive turn on the table now.
	TurnOfAnother(ctx context.Context, id domain.TableID, writer domain.Actor, now time.Time) (bool, error)
	// LockLocations prevents all other transactions in the workspace from claiming locations that
	// are compared. Call it before locking rows.
	LockLocations(ctx context.Context) error
	// TakeLocation adds a location to the table; false if it overlaps with another table's.
	TakeLocation(ctx context.Context, id domain.TableID, location string) (bool, error)
	// TakePath is TakeLocation for a directory from a property of the table.
	TakePath(ctx context.Context, id domain.TableID, directory string) (bool, error)
	// LocationOwners returns the tables that own exactly these locations, or name them in a
	// property.
	LocationOwners(ctx context.Context, locations []string) (map[string]domain.TableID, error)
	// TableLocations returns the table's past and present locations, and the directories of its
	// write.*.path properties, unchanged.
	TableLocations(ctx context.Context, id domain.TableID) ([]string, error)
	// TableAt returns the table that owns or owned exactly this location, or CodeNotFound.
	TableAt(ctx context.Context, location string) (Table, error)
	// StageLocations records that the locations held no file at the time; false if the workspace
	// would have more than most of them.
	StageLocations(ctx context.Context, locations []string, at time.Time, most int) (bool, error)
	// StagedLocations returns those of the locations that were staged since the given time.
	StagedLocations(ctx context.Context, locations []string, since time.Time) ([]string, error)
	// ForgetStages removes staged locations.
	ForgetStages(ctx context.Context, locations []string) error
	// LakeTablesNamed returns the live tables of the names, in any case and without an order.
	LakeTablesNamed(ctx context.Context, names []TableName) ([]Table, error)
	// LakeTablesAt returns the live tables that own or owned exactly these locations, by location.
	LakeTablesAt(ctx context.Context, locations []string) (map[string]Table, error)
	// RenameLakeTable changes a live table's schema and name. The result is as for an insert.
	RenameLakeTable(ctx context.Context, id domain.TableID, database domain.DatabaseID, schema, name string) (Inserted, error)
	// DropLakeTable drops a live table; false if it was not live. Without purge it becomes
	// detached, unless it is registered.
	DropLakeTable(ctx context.Context, id domain.TableID, at, purgeAfter time.Time, purge bool) (bool, error)
	// UndropLakeTable restores a dropped table. The result is as for an insert.
	UndropLakeTable(ctx context.Context, id domain.TableID) (Inserted, error)
	// PurgeLakeTable schedules the purge of a dropped table, not before the time and not while it
	// can be restored.
	PurgeLakeTable(ctx context.Context, id domain.TableID, at time.Time) error
	// ForgetLakeTable removes a dropped table's row and locations.
	ForgetLakeTable(ctx context.Context, id domain.TableID) error
	// AdoptLakeTable is ForgetLakeTable, but moves the locations to the heir. The heir's row must
	// exist by the end of the transaction.
	AdoptLakeTable(ctx context.Context, id, heir domain.TableID) error
	// PostponePurge records that the purge of a dropped table has failed. It is due again an hour
	// after from; the delay doubles each time, up to a day.
	PostponePurge(ctx context.Context, id domain.TableID, from time.Time) error
}

// System reads across workspaces to find the catalog's work.
type System interface {
	// DueTables returns the dropped tables that can no longer be restored, oldest first. It omits
	// postponed purges until they are due.
	DueTables(ctx context.Context, now time.Time, limit int) ([]TableRef, error)
	// DueErasures returns the due erasures, oldest first. It omits postponed ones until they are
	// due.
	DueErasures(ctx context.Context, now time.Time, limit int) ([]ErasureRef, error)
	// ForgetLakeStages removes the locations that were staged before the given time.
	ForgetLakeStages(ctx context.Context, before time.Time) error
	// ForgetLostRaces removes the records of races that were lost before the given time.
	ForgetLostRaces(ctx context.Context, before time.Time) error
	// ForgetLakeAnswers removes the answers that were stored before the given time.
	ForgetLakeAnswers(ctx context.Context, before time.Time) error
}

// TableRef names a table across workspaces.
type TableRef struct {
	Workspace domain.WorkspaceID
	Table     domain.TableID
}

// Answer is the answer to a catalog change with an idempotency key.
type Answer struct {
	Key  string
	Hash []byte // hash of the request
	Body []byte // JSON
}

// answerTx stores answers, by actor and key, for half an hour.
type answerTx interface {
	// LakeAnswer returns CodeNotFound if there is no answer.
	LakeAnswer(ctx context.Context, actor, key string, since time.Time) (Answer, error)
	// KeepLakeAnswer stores the answer; false if the key has one already. It waits for a
	// transaction that is storing one.
	KeepLakeAnswer(ctx context.Context, actor string, a Answer, at, since time.Time) (bool, error)
}

// NewTableID generates the id of a table or a view.
func NewTableID() domain.TableID { return domain.NewID[domain.TableID](domain.PrefixTable) }
