package domain

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Database holds schemas, which hold tables and views. It is the warehouse and the prefix of an
// Iceberg REST client. Names of databases, schemas and tables are stored as given. They are unique
// and found without regard to case, as in SQL: Events and events are the same table. A
// case-sensitive client works too if it spells each name in one way.
type Database struct {
	ID        DatabaseID
	Name      string // unique in the workspace
	CreatedBy Actor
	CreatedAt time.Time
}

// The database and schema that a workspace starts with. Unqualified names resolve in them.
const (
	DefaultDatabase = "lake"
	DefaultSchema   = "public"
)

// reservedDatabases are names that engines use for their own catalogs.
var reservedDatabases = []string{"main", "default", "system", "temp", "memory", "information_schema", "pg_catalog"}

// FoldName returns the form in which names of the catalog are compared.
func FoldName(name string) string { return strings.ToLower(name) }

// DatabaseTx reads and writes databases.
type DatabaseTx interface {
	Database(ctx context.Context, id DatabaseID) (Database, error)
	// FindDatabase finds a database by its id, or by its name in any case.
	FindDatabase(ctx context.Context, idOrName string) (Database, error)
	// Databases returns databases, oldest first.
	Databases(ctx context.Context, after DatabaseID, limit int) ([]Database, error)
	DatabasesByID(ctx context.Context, ids []DatabaseID) ([]Database, error)
	// DatabaseNames returns the names of all databases, in alphabetical order.
	DatabaseNames(ctx context.Context) ([]string, error)
	// InsertDatabase adds the database with its schema DefaultSchema. It returns CodeConflict if
	// the name is in use.
	InsertDatabase(ctx context.Context, d Database) error
	// DeleteDatabase removes the database with its schemas, after blocking creations in them. It
	// returns CodeConflict if a live table or view is in it.
	DeleteDatabase(ctx context.Context, id DatabaseID) error
}

// Databases manages the databases of a workspace.
type Databases struct {
	Store Store[LakeModTx]
	Clock Clock
}

// NewDatabase describes the database to create.
type NewDatabase struct {
	Name string
}

// Get returns one database.
func (d *Databases) Get(ctx context.Context, s Scope, id DatabaseID) (found Database, err error) {
	return d.find(ctx, s, func(tx LakeModTx) (Database, error) { return tx.Database(ctx, id) })
}

// Find returns the database with the id, or else the one with the name in any case.
func (d *Databases) Find(ctx context.Context, s Scope, idOrName string) (Database, error) {
	return d.find(ctx, s, func(tx LakeModTx) (Database, error) { return tx.FindDatabase(ctx, idOrName) })
}

func (d *Databases) find(ctx context.Context, s Scope, read func(LakeModTx) (Database, error)) (found Database, err error) {
	if err := Authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx LakeModTx) (err error) {
		found, err = read(tx)
		return err
	})
	return found, err
}

// List returns databases, oldest first.
func (d *Databases) List(ctx context.Context, s Scope, p Page) (List[Database], error) {
	if err := Authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return List[Database]{}, err
	}
	const list = "databases"
	after, limit, err := p.After(list)
	if err != nil {
		return List[Database]{}, err
	}
	var rows []Database
	err = d.Store.In(ctx, s, func(tx LakeModTx) (err error) {
		rows, err = tx.Databases(ctx, DatabaseID(after), limit+1)
		return err
	})
	return PageOf(list, rows, limit, func(d Database) string { return string(d.ID) }), err
}

// ByID returns those databases with the given ids that are in the workspace.
func (d *Databases) ByID(ctx context.Context, s Scope, ids []DatabaseID) (found []Database, err error) {
	if err := Authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return nil, err
	}
	err = d.Store.In(ctx, s, func(tx LakeModTx) (err error) {
		found, err = tx.DatabasesByID(ctx, ids)
		return err
	})
	return found, err
}

// Create makes a database with the schema DefaultSchema.
func (d *Databases) Create(ctx context.Context, s Scope, n NewDatabase, key Idempotency) (made Database, err error) {
	if err := Authorize(ctx, d.Store, s, DatabaseCreate); err != nil {
		return Database{}, err
	}
	if n.Name, err = validDatabaseName(n.Name); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx LakeModTx) error {
		id, err := Once(ctx, tx, s, key, DatabaseCreate, n, func() (DatabaseID, error) {
			fresh := newDatabase(n.Name, s.Actor(), d.Clock.Now())
			if err := tx.InsertDatabase(ctx, fresh); err != nil {
				return "", err
			}
			return fresh.ID, Audited(ctx, tx, s, DatabaseCreate, "database", fresh.ID)
		})
		if err != nil {
			return err
		}
		made, err = tx.Database(ctx, id)
		return err
	})
	return made, err
}

func newDatabase(name string, by Actor, now time.Time) Database {
	return Database{ID: NewID[DatabaseID](PrefixDatabase), Name: name, CreatedBy: by, CreatedAt: now}
}

// Delete removes a database without tables and views. Its dropped tables can no longer be restored.
func (d *Databases) Delete(ctx context.Context, s Scope, id DatabaseID) error {
	if err := Authorize(ctx, d.Store, s, DatabaseDelete); err != nil {
		return err
	}
	return d.Store.In(ctx, s, func(tx LakeModTx) error {
		if err := tx.DeleteDatabase(ctx, id); err != nil {
			return err
		}
		return Audited(ctx, tx, s, DatabaseDelete, "database", id)
	})
}

func validDatabaseName(name string) (string, error) {
	name, err := ValidName("name", name)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "./\\%") {
		return "", Invalid("name", "The name %q holds a dot, a slash, a backslash or a percent sign; leave it out.", name)
	}
	if slices.Contains(reservedDatabases, FoldName(name)) || strings.HasPrefix(FoldName(name), PrefixDatabase+"_") {
		return "", Invalid("name", "The name %q is reserved for engines or ids; choose another one.", name)
	}
	return name, nil
}

// ValidLakeName refuses names that a table, a view or one level of a schema cannot have: empty
// names, more than 255 characters, slashes, and unprintable characters.
func ValidLakeName(field, name string) error {
	switch n := utf8.RuneCountInString(name); {
	case name == "" || strings.TrimSpace(name) != name:
		return Invalid(field, "The name %q is empty, or begins or ends with a space; give another name.", name)
	case !utf8.ValidString(name) || n > maxLakeName:
		return Invalid(field, "The name %q is not valid UTF-8, or longer than %d characters.", name, maxLakeName)
	case strings.ContainsAny(name, "/\\") || strings.ContainsFunc(name, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }):
		return Invalid(field, "The name %q holds a slash, a backslash or a character that cannot be shown; leave it out.", name)
	}
	return nil
}

const maxLakeName = 255 // characters
