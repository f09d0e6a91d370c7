package domain

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Database holds schemas, which hold tables and views. It is the warehouse and the prefix of an Iceberg REST client. Names of databases, schemas
// and tables are kept as they were given, and are unique and found without regard to case, as SQL has it: what one engine calls Events and another
// events is one table. A client that minds case is served too, as long as it uses one spelling for one thing.
type Database struct {
	ID        DatabaseID
	Name      string // unique in the workspace
	CreatedBy Actor
	CreatedAt time.Time
}

// The database and schema that a workspace starts with, in which unqualified names resolve.
const (
	DefaultDatabase = "lake"
	DefaultSchema   = "public"
)

// reservedDatabases are names that engines keep for catalogs of their own.
var reservedDatabases = []string{"main", "default", "system", "temp", "memory", "information_schema", "pg_catalog"}

// FoldName is what names of the catalog are compared by.
func FoldName(name string) string { return strings.ToLower(name) }

// DatabaseTx keeps databases.
type DatabaseTx interface {
	Database(ctx context.Context, id DatabaseID) (Database, error)
	// FindDatabase finds it by its id, or by its name in any case.
	FindDatabase(ctx context.Context, idOrName string) (Database, error)
	// Databases are oldest first.
	Databases(ctx context.Context, after DatabaseID, limit int) ([]Database, error)
	DatabasesByID(ctx context.Context, ids []DatabaseID) ([]Database, error)
	// DatabaseNames are those of all databases, in their order.
	DatabaseNames(ctx context.Context) ([]string, error)
	// InsertDatabase adds the database with its schema DefaultSchema. It refuses a name that is taken with CodeConflict.
	InsertDatabase(ctx context.Context, d Database) error
	// DeleteDatabase removes it with its schemas, once nothing can be made in them any more. It refuses one that has a live table or view with CodeConflict.
	DeleteDatabase(ctx context.Context, id DatabaseID) error
}

// Databases keeps the databases of a workspace.
type Databases struct {
	Store Store
	Clock Clock
}

// NewDatabase asks for a database.
type NewDatabase struct {
	Name string
}

// Get returns one database.
func (d *Databases) Get(ctx context.Context, s Scope, id DatabaseID) (found Database, err error) {
	return d.find(ctx, s, func(tx Tx) (Database, error) { return tx.Database(ctx, id) })
}

// Find returns the database with the id, or else the name in any case.
func (d *Databases) Find(ctx context.Context, s Scope, idOrName string) (Database, error) {
	return d.find(ctx, s, func(tx Tx) (Database, error) { return tx.FindDatabase(ctx, idOrName) })
}

func (d *Databases) find(ctx context.Context, s Scope, read func(Tx) (Database, error)) (found Database, err error) {
	if err := authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = read(tx)
		return err
	})
	return found, err
}

// List returns databases, oldest first.
func (d *Databases) List(ctx context.Context, s Scope, p Page) (List[Database], error) {
	if err := authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return List[Database]{}, err
	}
	const list = "databases"
	after, limit, err := p.after(list)
	if err != nil {
		return List[Database]{}, err
	}
	var rows []Database
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Databases(ctx, DatabaseID(after), limit+1)
		return err
	})
	return page(list, rows, limit, func(d Database) string { return string(d.ID) }), err
}

// ByID returns those of the databases that are in the workspace.
func (d *Databases) ByID(ctx context.Context, s Scope, ids []DatabaseID) (found []Database, err error) {
	if err := authorize(ctx, d.Store, s, CatalogRead); err != nil {
		return nil, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = tx.DatabasesByID(ctx, ids)
		return err
	})
	return found, err
}

// Create makes a database with the schema DefaultSchema.
func (d *Databases) Create(ctx context.Context, s Scope, n NewDatabase, key Idempotency) (made Database, err error) {
	if err := authorize(ctx, d.Store, s, DatabaseCreate); err != nil {
		return Database{}, err
	}
	if n.Name, err = validDatabaseName(n.Name); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) error {
		id, err := once(ctx, tx, s, key, DatabaseCreate, n, func() (DatabaseID, error) {
			fresh := newDatabase(n.Name, s.actor, d.Clock.Now())
			if err := tx.InsertDatabase(ctx, fresh); err != nil {
				return "", err
			}
			return fresh.ID, audited(ctx, tx, s, DatabaseCreate, "database", fresh.ID)
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
	return Database{ID: newID[DatabaseID](prefixDatabase), Name: name, CreatedBy: by, CreatedAt: now}
}

// Delete removes a database in which there is no table and no view. Dropped tables of it can no longer be restored.
func (d *Databases) Delete(ctx context.Context, s Scope, id DatabaseID) error {
	if err := authorize(ctx, d.Store, s, DatabaseDelete); err != nil {
		return err
	}
	return d.Store.In(ctx, s, func(tx Tx) error {
		if err := tx.DeleteDatabase(ctx, id); err != nil {
			return err
		}
		return audited(ctx, tx, s, DatabaseDelete, "database", id)
	})
}

func validDatabaseName(name string) (string, error) {
	name, err := validName("name", name)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "./\\%") {
		return "", Invalid("name", "The name %q holds a dot, a slash, a backslash or a percent sign; leave it out.", name)
	}
	if slices.Contains(reservedDatabases, FoldName(name)) || strings.HasPrefix(FoldName(name), prefixDatabase+"_") {
		return "", Invalid("name", "The name %q is kept for the engines or for ids; choose another one.", name)
	}
	return name, nil
}

// ValidLakeName refuses what cannot be the name of a table, a view or one level of a schema: nothing, more than 255 characters, and what is in paths or on no screen.
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
