package lake

import (
	"context"
	"maps"
	"slices"

	"github.com/millpond/millpond/domain"
)

// warehouse returns the database with the name or id; NoSuchWarehouse.
func warehouse(ctx context.Context, tx Tx, database string) (Database, error) {
	d, err := tx.FindDatabase(ctx, database)
	if domain.IsCode(err, domain.CodeNotFound) {
		return d, failed(NoSuchWarehouse, "There is no database %q in this workspace.", database)
	}
	return d, err
}

func missingSchema(schema string) error {
	return failed(NoSuchNamespace, "There is no schema %q in this database.", schema)
}

// namespace returns the schema with the name, ignoring case; NoSuchNamespace.
func namespace(ctx context.Context, tx Tx, d Database, schema string) (Schema, error) {
	l, err := tx.LakeSchema(ctx, d.ID, schema)
	if domain.IsCode(err, domain.CodeNotFound) {
		return l, missingSchema(schema)
	}
	return l, err
}

// read runs a transaction if the actor may read the catalog. The permission check needs no query.
func (c *Catalog) read(ctx context.Context, s domain.Scope, fn func(Tx) error) error {
	if err := domain.Authorize(ctx, c.Store, s, domain.CatalogRead); err != nil {
		return err
	}
	return c.Store.In(ctx, s, fn)
}

func (c *Catalog) mayWrite(ctx context.Context, s domain.Scope) error {
	return domain.Authorize(ctx, c.Store, s, domain.CatalogWrite)
}

// Warehouse returns the database with the name or id; NoSuchWarehouse.
func (c *Catalog) Warehouse(ctx context.Context, s domain.Scope, database string) (d Database, err error) {
	err = c.read(ctx, s, func(tx Tx) (err error) {
		d, err = warehouse(ctx, tx, database)
		return err
	})
	return d, err
}

// everything is the limit for a whole list.
const everything = 1 << 30

// cut returns a page of names, and the name after which the next page begins. names were read with
// the limit plus one.
func cut(names []string, limit int) (page []string, next string) {
	if limit == 0 || len(names) <= limit {
		return names, ""
	}
	return names[:limit], names[limit-1]
}

func oneMore(limit int) int {
	if limit <= 0 {
		return everything
	}
	return limit + 1
}

// SchemaNames returns the full names of the schemas directly in parent, after the given name. An
// empty parent means the first level. It returns at most limit names; 0 means all. next is where to
// continue, empty at the end. NoSuchWarehouse; NoSuchNamespace for a missing parent.
func (c *Catalog) SchemaNames(ctx context.Context, s domain.Scope, database, parent, after string, limit int) (names []string, next string, err error) {
	err = c.read(ctx, s, func(tx Tx) error {
		d, err := warehouse(ctx, tx, database)
		if err != nil {
			return err
		}
		if parent != "" {
			if _, err := namespace(ctx, tx, d, parent); err != nil {
				return err
			}
		}
		found, err := tx.LakeSchemas(ctx, d.ID, parent, false, after, oneMore(limit))
		names = make([]string, len(found))
		for i, l := range found {
			names[i] = l.Name
		}
		return err
	})
	names, next = cut(names, limit)
	return names, next, err
}

// Schemas lists the schemas of the database, of every level, by name.
func (c *Catalog) Schemas(ctx context.Context, s domain.Scope, database string, p domain.Page) (domain.List[Schema], error) {
	const list = "schemas"
	after, limit, err := p.After(domain.ListName(list, database))
	if err != nil {
		return domain.List[Schema]{}, err
	}
	var found []Schema
	err = c.read(ctx, s, func(tx Tx) error {
		d, err := warehouse(ctx, tx, database)
		if err != nil {
			return err
		}
		found, err = tx.LakeSchemas(ctx, d.ID, "", true, after, limit+1)
		for i := range found {
			c.setLocation(s, &found[i])
		}
		return err
	})
	return domain.PageOf(domain.ListName(list, database), found, limit, func(l Schema) string { return FoldName(l.Name) }), err
}

// setLocation adds the property location to a schema without it. Engines derive table locations
// from it.
func (c *Catalog) setLocation(s domain.Scope, l *Schema) {
	if l.Properties == nil {
		l.Properties = map[string]string{}
	}
	if l.Properties["location"] == "" {
		l.Properties["location"] = c.fence(s).prefix() + string(l.DatabaseID) + "/schema" + slug(l.Name)
	}
}

// Schema returns the schema with the name, ignoring case; NoSuchWarehouse, NoSuchNamespace. Its
// properties include a location, without a slash at its end.
func (c *Catalog) Schema(ctx context.Context, s domain.Scope, database, schema string) (l Schema, err error) {
	err = c.read(ctx, s, func(tx Tx) error {
		d, err := warehouse(ctx, tx, database)
		if err == nil {
			l, err = namespace(ctx, tx, d, schema)
		}
		return err
	})
	if err == nil {
		c.setLocation(s, &l)
	}
	return l, err
}

// maxProperties bounds the properties of a schema in bytes.
const maxProperties = 64 << 10

// schemaProperties bounds the properties and fences their location.
func (c *Catalog) schemaProperties(s domain.Scope, properties map[string]string) (map[string]string, error) {
	size := 0
	for name, value := range properties {
		size += len(name) + len(value)
	}
	if size > maxProperties {
		return nil, domain.Invalid("properties", "The properties have %d bytes; use at most %d.", size, maxProperties)
	}
	properties = maps.Clone(properties)
	if properties == nil {
		properties = map[string]string{}
	}
	if raw := properties["location"]; raw != "" {
		location, err := c.fence(s).directory("location", raw)
		if err != nil {
			return nil, err
		}
		properties["location"] = location
	}
	return properties, nil
}

// CreateSchema creates a schema, whose parent must exist. NoSuchWarehouse, NoSuchNamespace for the
// parent, AlreadyExists.
func (c *Catalog) CreateSchema(ctx context.Context, s domain.Scope, database, schema string, properties map[string]string, key Key) (Schema, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Schema{}, err
	}
	return once(ctx, c, s, key, func(record func(Tx, Schema) error) (l Schema, err error) {
		if err := ValidSchemaName(schema); err != nil {
			return l, err
		}
		if properties, err = c.schemaProperties(s, properties); err != nil {
			return l, err
		}
		err = c.changing(ctx, s, func(tx Tx) error {
			d, err := warehouse(ctx, tx, database)
			if err != nil {
				return err
			}
			l = Schema{DatabaseID: d.ID, Name: schema, Properties: properties, CreatedBy: s.Actor(), CreatedAt: c.Clock.Now()}
			done, err := tx.InsertLakeSchema(ctx, l)
			switch {
			case err != nil:
				return err
			case done == InsertedNowhere:
				return missingSchema(l.Parent())
			case done == InsertedNot:
				return failed(AlreadyExists, "The schema %q exists already.", schema)
			}
			if l, err = tx.LakeSchema(ctx, d.ID, schema); err != nil {
				return err
			}
			c.setLocation(s, &l)
			if record != nil {
				if err := record(tx, l); err != nil {
					return err
				}
			}
			return domain.Audited(ctx, tx, s, domain.SchemaCreate, "schema", d.Name+"."+l.Name)
		})
		return l, err
	})
}

// UpdateSchema sets and removes properties. NoSuchWarehouse, NoSuchNamespace; UnprocessableEntity
// for a name that is both set and removed.
func (c *Catalog) UpdateSchema(ctx context.Context, s domain.Scope, database, schema string, updates map[string]string, removals []string, key Key) (SchemaChange, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return SchemaChange{}, err
	}
	return once(ctx, c, s, key, func(record func(Tx, SchemaChange) error) (done SchemaChange, err error) {
		for _, name := range removals {
			if _, both := updates[name]; both {
				return done, failed(UnprocessableEntity, "The property %q is both set and removed.", name)
			}
		}
		if updates, err = c.schemaProperties(s, updates); err != nil {
			return done, err
		}
		err = c.changing(ctx, s, func(tx Tx) error {
			d, err := warehouse(ctx, tx, database)
			if err != nil {
				return err
			}
			l, err := lockNamespace(ctx, tx, d, schema)
			if err != nil {
				return err
			}
			done = change(l.Properties, updates, removals)
			if _, err := c.schemaProperties(s, l.Properties); err != nil { // they may exceed the bound now
				return err
			}
			if err := tx.SetLakeSchemaProperties(ctx, d.ID, schema, l.Properties); err != nil {
				return err
			}
			if record != nil {
				if err := record(tx, done); err != nil {
					return err
				}
			}
			return domain.Audited(ctx, tx, s, domain.SchemaUpdate, "schema", d.Name+"."+l.Name)
		})
		return done, err
	})
}

// change applies updates and removals to the properties.
func change(properties, updates map[string]string, removals []string) SchemaChange {
	done := SchemaChange{Updated: slices.Sorted(maps.Keys(updates)), Removed: []string{}, Missing: []string{}}
	if done.Updated == nil {
		done.Updated = []string{}
	}
	maps.Copy(properties, updates)
	for _, name := range removals {
		if _, has := properties[name]; has {
			delete(properties, name)
			done.Removed = append(done.Removed, name)
		} else {
			done.Missing = append(done.Missing, name)
		}
	}
	return done
}

func lockNamespace(ctx context.Context, tx Tx, d Database, schema string) (Schema, error) {
	l, err := tx.LockLakeSchema(ctx, d.ID, schema)
	if domain.IsCode(err, domain.CodeNotFound) {
		return l, missingSchema(schema)
	}
	return l, err
}

// DropSchema removes an empty schema. NoSuchWarehouse, NoSuchNamespace, NamespaceNotEmpty.
func (c *Catalog) DropSchema(ctx context.Context, s domain.Scope, database, schema string, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	return c.onceDone(ctx, s, key, func(ctx context.Context, tx Tx) error {
		d, err := warehouse(ctx, tx, database)
		if err != nil {
			return err
		}
		l, err := lockNamespace(ctx, tx, d, schema)
		if err != nil {
			return err
		}
		empty, err := tx.LakeSchemaEmpty(ctx, d.ID, schema)
		if err != nil {
			return err
		}
		if !empty {
			return failed(NamespaceNotEmpty, "The schema %q is not empty; drop its tables, views and schemas first.", schema)
		}
		if err := tx.DeleteLakeSchema(ctx, d.ID, schema); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.SchemaDrop, "schema", d.Name+"."+l.Name)
	})
}
