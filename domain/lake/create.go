package lake

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// target is the fence and the partly filled row of a new table or view.
type target struct {
	fence  fence
	row    Table
	chosen bool   // the client chose the location
	staged chosen // directories whose stage ends when the table is created
}

// newTarget looks the schema up, and chooses an id and, unless the client gave one, a location.
func (c *Catalog) newTarget(ctx context.Context, s domain.Scope, r Ref, kind TableKind, location string) (target, error) {
	p := target{fence: c.fence(s), chosen: location != ""}
	if err := ValidLakeName("name", r.Name); err != nil {
		return p, err
	}
	p.row = Table{
		ID: NewTableID(), Kind: kind, Schema: r.Schema, Name: r.Name, CreatedBy: s.Actor(), UpdatedBy: s.Actor(), CreatedAt: c.Clock.Now(),
	}
	p.row.UpdatedAt = p.row.CreatedAt
	err := c.Store.In(ctx, s, func(tx Tx) error {
		d, err := warehouse(ctx, tx, r.Database)
		if err != nil {
			return err
		}
		l, err := namespace(ctx, tx, d, r.Schema)
		p.row.DatabaseID, p.row.Database, p.row.Schema = d.ID, d.Name, l.Name
		if err != nil {
			return err
		}
		if _, err := tx.FindLakeTable(ctx, r.Database, r.Schema, r.Name); !domain.IsCode(err, domain.CodeNotFound) {
			if err == nil {
				err = exists(r.Name)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	p.row.Location = p.fence.defaultLocation(p.row.DatabaseID, p.row.ID, r.Name)
	if p.chosen {
		p.row.Location, err = p.fence.chosen(location)
	}
	return p, err
}

// makeDirs creates the directories that engines expect of a table on a file system.
func (c *Catalog) makeDirs(ctx context.Context, location string) error {
	return c.Files.MakeDirs(ctx, location+"/data/", location+"/metadata/")
}

// Create creates a table. NoSuchWarehouse, NoSuchNamespace, AlreadyExists; CodeInvalid for an
// invalid schema, spec, order, property or location; CodeConflict for a directory that holds files.
// For a staged table only its directories are stored, for a day, and a commit with assert-create
// follows. Its key has no effect.
func (c *Catalog) Create(ctx context.Context, s domain.Scope, database, schema string, n NewTable, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(record func(Tx, Table) error) (Loaded, error) {
		p, err := c.newTarget(ctx, s, Ref{database, schema, n.Name}, KindTable, n.Location)
		if err != nil {
			return Loaded{}, err
		}
		meta, err := n.metadata(p)
		if err != nil {
			return Loaded{}, err
		}
		dirs, err := p.fence.choices(p.row.Location, n.Properties)
		if err != nil {
			return Loaded{}, err
		}
		if err := c.vacant(ctx, s, p.row.ID, p.chosenOf(dirs)); err != nil {
			return Loaded{}, err
		}
		if n.Stage {
			return c.stage(ctx, s, p, meta, dirs)
		}
		made := prepared{target: p, action: domain.TableCreate, wrote: []int64{0}}
		if err := made.fill(p.row, meta); err != nil {
			return Loaded{}, err
		}
		return c.finish(ctx, s, &made, record)
	})
}

// chosenOf returns the directories of a new table that the client chose.
func (p target) chosenOf(dirs chosen) chosen {
	if p.chosen {
		return dirs
	}
	dirs = maps.Clone(dirs)
	delete(dirs, p.row.Location)
	return dirs
}

// stage stores the new table's directories. A later commit can then create the table with the files
// that its writer puts there.
func (c *Catalog) stage(ctx context.Context, s domain.Scope, p target, meta table.Metadata, dirs chosen) (Loaded, error) {
	body, err := json.Marshal(meta)
	if err != nil {
		return Loaded{}, err
	}
	if err := c.stageLocations(ctx, s, dirs); err != nil {
		return Loaded{}, err
	}
	summarise(&p.row, meta)
	return Loaded{Table: p.row, Metadata: body}, c.makeDirs(ctx, p.row.Location)
}

// metadata builds the metadata of a new table.
func (n NewTable) metadata(p target) (meta table.Metadata, err error) {
	if err := p.fence.checkProperties(n.Properties); err != nil {
		return nil, err
	}
	err = invalid("schema", func() error {
		schema := new(iceberg.Schema)
		if err := json.Unmarshal(n.Schema, schema); err != nil {
			return err
		}
		spec, order := iceberg.UnpartitionedSpec, table.UnsortedSortOrder
		if given(n.PartitionSpec) {
			spec = new(iceberg.PartitionSpec)
			if err := json.Unmarshal(n.PartitionSpec, spec); err != nil {
				return err
			}
		}
		if given(n.SortOrder) {
			if err := json.Unmarshal(n.SortOrder, &order); err != nil {
				return err
			}
		}
		properties := iceberg.Properties{}
		for name, value := range n.Properties {
			properties[name] = value
		}
		meta, err = table.NewMetadataWithUUID(schema, spec, order, p.row.Location, properties, uuid.New())
		return err
	})
	return meta, err
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
