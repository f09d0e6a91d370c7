package lake

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// Database holds schemas, which hold tables and views. It is the warehouse and the prefix of an
// Iceberg REST client. Names of databases, schemas and tables are stored as given. They are unique
// and found without regard to case, as in SQL: Events and events are the same table. A
// case-sensitive client works too if it spells each name in one way.
type Database struct {
	ID        domain.DatabaseID
	Name      string // unique in the workspace
	CreatedBy domain.Actor
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

// databaseTx reads and writes databases.
type databaseTx interface {
	Database(ctx context.Context, id domain.DatabaseID) (Database, error)
	// FindDatabase finds a database by its id, or by its name in any case.
	FindDatabase(ctx context.Context, idOrName string) (Database, error)
	// Databases returns databases, oldest first.
	Databases(ctx context.Context, after domain.DatabaseID, limit int) ([]Database, error)
	DatabasesByID(ctx context.Context, ids []domain.DatabaseID) ([]Database, error)
	// DatabaseNames returns the names of all databases, in alphabetical order.
	DatabaseNames(ctx context.Context) ([]string, error)
	// InsertDatabase adds the database with its schema DefaultSchema. It returns CodeConflict if
	// the name is in use.
	InsertDatabase(ctx context.Context, d Database) error
	// DeleteDatabase removes the database with its schemas, after blocking creations in them. It
	// returns CodeConflict if a live table or view is in it.
	DeleteDatabase(ctx context.Context, id domain.DatabaseID) error
}

// Databases manages the databases of a workspace.
type Databases struct {
	Store domain.Store[Tx]
	Clock domain.Clock
}

// NewDatabase describes the database to create.
type NewDatabase struct {
	Name string
}

// Get returns one database.
func (d *Databases) Get(ctx context.Context, s domain.Scope, id domain.DatabaseID) (found Database, err error) {
	return d.find(ctx, s, func(tx Tx) (Database, error) { return tx.Database(ctx, id) })
}

// Find returns the database with the id, or else the one with the name in any case.
func (d *Databases) Find(ctx context.Context, s domain.Scope, idOrName string) (Database, error) {
	return d.find(ctx, s, func(tx Tx) (Database, error) { return tx.FindDatabase(ctx, idOrName) })
}

func (d *Databases) find(ctx context.Context, s domain.Scope, read func(Tx) (Database, error)) (found Database, err error) {
	if err := domain.Authorize(ctx, d.Store, s, domain.CatalogRead); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = read(tx)
		return err
	})
	return found, err
}

// List returns databases, oldest first.
func (d *Databases) List(ctx context.Context, s domain.Scope, p domain.Page) (domain.List[Database], error) {
	if err := domain.Authorize(ctx, d.Store, s, domain.CatalogRead); err != nil {
		return domain.List[Database]{}, err
	}
	const list = "databases"
	after, limit, err := p.After(list)
	if err != nil {
		return domain.List[Database]{}, err
	}
	var rows []Database
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Databases(ctx, domain.DatabaseID(after), limit+1)
		return err
	})
	return domain.PageOf(list, rows, limit, func(d Database) string { return string(d.ID) }), err
}

// ByID returns those databases with the given ids that are in the workspace.
func (d *Databases) ByID(ctx context.Context, s domain.Scope, ids []domain.DatabaseID) (found []Database, err error) {
	if err := domain.Authorize(ctx, d.Store, s, domain.CatalogRead); err != nil {
		return nil, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = tx.DatabasesByID(ctx, ids)
		return err
	})
	return found, err
}

// Create makes a database with the schema DefaultSchema.
func (d *Databases) Create(ctx context.Context, s domain.Scope, n NewDatabase, key domain.Idempotency) (made Database, err error) {
	if err := domain.Authorize(ctx, d.Store, s, domain.DatabaseCreate); err != nil {
		return Database{}, err
	}
	if n.Name, err = validDatabaseName(n.Name); err != nil {
		return Database{}, err
	}
	err = d.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, domain.DatabaseCreate, n, func() (domain.DatabaseID, error) {
			fresh := n.Database(s.Actor(), d.Clock.Now())
			if err := tx.InsertDatabase(ctx, fresh); err != nil {
				return "", err
			}
			return fresh.ID, domain.Audited(ctx, tx, s, domain.DatabaseCreate, "database", fresh.ID)
		})
		if err != nil {
			return err
		}
		made, err = tx.Database(ctx, id)
		return err
	})
	return made, err
}

// Database returns the database, with a new id.
func (n NewDatabase) Database(by domain.Actor, now time.Time) Database {
	return Database{ID: domain.NewID[domain.DatabaseID](domain.PrefixDatabase), Name: n.Name, CreatedBy: by, CreatedAt: now}
}

// Delete removes a database without tables and views. Its dropped tables can no longer be restored.
func (d *Databases) Delete(ctx context.Context, s domain.Scope, id domain.DatabaseID) error {
	if err := domain.Authorize(ctx, d.Store, s, domain.DatabaseDelete); err != nil {
		return err
	}
	return d.Store.In(ctx, s, func(tx Tx) error {
		if err := tx.DeleteDatabase(ctx, id); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.DatabaseDelete, "database", id)
	})
}

func validDatabaseName(name string) (string, error) {
	name, err := domain.ValidName("name", name)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "./\\%") {
		return "", domain.Invalid("name", "The name %q holds a dot, a slash, a backslash or a percent sign; leave it out.", name)
	}
	if slices.Contains(reservedDatabases, FoldName(name)) || strings.HasPrefix(FoldName(name), domain.PrefixDatabase+"_") {
		return "", domain.Invalid("name", "The name %q is reserved for engines or ids; choose another one.", name)
	}
	return name, nil
}

// ValidLakeName refuses names that a table, a view or one level of a schema cannot have: empty
// names, more than 255 characters, slashes, and unprintable characters.
func ValidLakeName(field, name string) error {
	switch n := utf8.RuneCountInString(name); {
	case name == "" || strings.TrimSpace(name) != name:
		return domain.Invalid(field, "The name %q is empty, or begins or ends with a space; give another name.", name)
	case !utf8.ValidString(name) || n > maxLakeName:
		return domain.Invalid(field, "The name %q is not valid UTF-8, or longer than %d characters.", name, maxLakeName)
	case strings.ContainsAny(name, "/\\") || strings.ContainsFunc(name, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }):
		return domain.Invalid(field, "The name %q holds a slash, a backslash or a character that cannot be shown; leave it out.", name)
	}
	return nil
}

const maxLakeName = 255 // characters
