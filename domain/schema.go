package domain

import (
	"context"
	"strings"
	"time"
)

// LakeSchema holds tables, views and schemas; a namespace, as Iceberg calls it.
type LakeSchema struct {
	DatabaseID DatabaseID
	Name       string // its levels, joined by "."; unique in the database
	Properties map[string]string
	CreatedBy  Actor
	CreatedAt  time.Time
}

// Parent is the schema that this one is in, and empty for one of the first level.
func (l LakeSchema) Parent() string { return SchemaParent(l.Name) }

// SchemaParent is the name of the schema that the named one is in, and empty for one of the first level.
func SchemaParent(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return ""
}

// ValidSchemaName refuses what cannot be the name of a schema: a level that is no ValidLakeName, or more than ten levels.
func ValidSchemaName(name string) error {
	levels := strings.Split(name, ".")
	if len(levels) > maxSchemaLevels || len(name) > maxSchemaName {
		return Invalid("schema", "The schema %q has more than %d levels or %d bytes.", name, maxSchemaLevels, maxSchemaName)
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

// LakeSchemaTx keeps schemas. Names are found in any case.
type LakeSchemaTx interface {
	// LakeSchema is not found with CodeNotFound.
	LakeSchema(ctx context.Context, database DatabaseID, name string) (LakeSchema, error)
	// LakeSchemas are those directly in the parent, which is empty for the first level, or with all below it as well, in the order of their folded names.
	LakeSchemas(ctx context.Context, database DatabaseID, parent string, all bool, after string, limit int) ([]LakeSchema, error)
	// InsertLakeSchema adds a schema, and keeps its parent from being dropped meanwhile. It says which of them there is not, or that the schema is there already.
	InsertLakeSchema(ctx context.Context, l LakeSchema) (Inserted, error)
	// LockLakeSchema returns the schema, and nothing can be made in it until the end of the transaction.
	LockLakeSchema(ctx context.Context, database DatabaseID, name string) (LakeSchema, error)
	SetLakeSchemaProperties(ctx context.Context, database DatabaseID, name string, properties map[string]string) error
	// LakeSchemaEmpty says that a locked schema has no live table, no view and no schema in it.
	LakeSchemaEmpty(ctx context.Context, database DatabaseID, name string) (bool, error)
	DeleteLakeSchema(ctx context.Context, database DatabaseID, name string) error
}

// Inserted says what came of an insert into the catalog.
type Inserted int

// What comes of an insert.
const (
	InsertedNow      Inserted = iota
	InsertedNot               // something of this name is there already
	InsertedNowhere           // the schema that it should be in is not there
	InsertedOverlaid          // its location is another table's, or in it, or around it
)
