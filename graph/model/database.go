package model

import (
	"maps"
	"slices"

	"github.com/millpond/millpond/domain/lake"
)

// Database is a database as the schema shows it.
type Database struct{ lake.Database }

// NewDatabase shows a database.
func NewDatabase(d lake.Database) Database { return Database{d} }

// CreatedBy returns the creator's name.
func (d Database) CreatedBy() string { return d.Database.CreatedBy.Name }

// LakeSchema is a namespace as the schema shows it.
type LakeSchema struct{ lake.Schema }

// NewLakeSchema shows a namespace.
func NewLakeSchema(l lake.Schema) LakeSchema { return LakeSchema{l} }

// Properties returns the properties in the order of their names.
func (l LakeSchema) Properties() []Property { return NewProperties(l.Schema.Properties) }

// CreatedBy names who made it.
func (l LakeSchema) CreatedBy() string { return l.Schema.CreatedBy.Name }

// Property is a name and its value.
type Property struct {
	Name  string
	Value string
}

// NewProperties shows properties in the order of their names.
func NewProperties(all map[string]string) []Property {
	properties := make([]Property, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		properties = append(properties, Property{name, all[name]})
	}
	return properties
}

// PropertyMap reads properties. The last value of a repeated name counts.
func PropertyMap(all []Property) map[string]string {
	m := make(map[string]string, len(all))
	for _, p := range all {
		m[p.Name] = p.Value
	}
	return m
}
