package lake

import (
	"context"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// Schema holds tables, views and schemas. Iceberg calls it a namespace.
type Schema struct {
	DatabaseID domain.DatabaseID
	Name       string // its levels, joined by "."; unique in the database
	Properties map[string]string
	CreatedBy  domain.Actor
	CreatedAt  time.Time
}

// Parent returns the name of the parent schema; empty at the first level.
func (l Schema) Parent() string { return SchemaParent(l.Name) }

// SchemaParent returns the name of the named schema's parent; empty at the first level.
func SchemaParent(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return ""
}

// ValidSchemaName refuses names that a schema cannot have: a level that fails ValidLakeName, or
// more than ten levels.
func ValidSchemaName(name string) error {
	levels := strings.Split(name, ".")
	if len(levels) > maxSchemaLevels || len(name) > maxSchemaName {
		return domain.Invalid("schema", "The schema %q has more than %d levels or %d bytes.", name, maxSchemaLevels, maxSchemaName)
	}
	for _, level := range levels {
		if err := ValidLakeName("schema", level); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxSchemaLevels = 10
	maxSchemaName   = 1024 // bytes
)

// schemaTx reads and writes schemas. It finds names in any case.
type schemaTx interface {
	// LakeSchema returns CodeNotFound if there is no such schema.
	LakeSchema(ctx context.Context, database domain.DatabaseID, name string) (Schema, error)
	// LakeSchemas returns the schemas directly below the parent or, with all, at every level below
	// it. They are in the order of their folded names. The parent is empty for the first level.
	LakeSchemas(ctx context.Context, database domain.DatabaseID, parent string, all bool, after string, limit int) ([]Schema, error)
	// InsertLakeSchema adds a schema, and prevents that its parent is dropped meanwhile. The result
	// says whether the parent is missing or the name is in use.
	InsertLakeSchema(ctx context.Context, l Schema) (Inserted, error)
	// LockLakeSchema returns the schema and blocks creations in it until the end of the
	// transaction.
	LockLakeSchema(ctx context.Context, database domain.DatabaseID, name string) (Schema, error)
	SetLakeSchemaProperties(ctx context.Context, database domain.DatabaseID, name string, properties map[string]string) error
	// LakeSchemaEmpty reports whether a locked schema holds no live table, no view and no schema.
	LakeSchemaEmpty(ctx context.Context, database domain.DatabaseID, name string) (bool, error)
	DeleteLakeSchema(ctx context.Context, database domain.DatabaseID, name string) error
}

// Inserted is the result of an insert into the catalog.
type Inserted int

// The results of an insert.
const (
	InsertedNow      Inserted = iota
	InsertedNot               // the name is in use
	InsertedNowhere           // the parent schema does not exist
	InsertedOverlaid          // its location equals, contains or lies in another table's
)
