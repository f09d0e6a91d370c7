package lake

import (
	"context"
	"encoding/json"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// place is where something new is to be: its database, its schema, and a row begun.
type place struct {
	fence  fence
	row    domain.LakeTable
	chosen bool // the location, by the client
}

// newPlace looks the schema up, and chooses an id and, where the client did not, a location.
func (c *Catalog) newPlace(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind, location string) (place, error) {
	p := place{fence: c.fence(s), chosen: location != ""}
	if err := domain.ValidLakeName("name", r.Name); err != nil {
		return p, err
	}
	p.row = domain.LakeTable{
		ID: domain.NewTableID(), Kind: kind, Schema: r.Schema, Name: r.Name, CreatedBy: s.Actor(), UpdatedBy: s.Actor(), CreatedAt: c.Clock.Now(),
	}
	p.row.UpdatedAt = p.row.CreatedAt
	err := c.Store.In(ctx, s, func(tx domain.Tx) error {
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

// makeDirs makes the directories that engines expect of a table in files.
func (c *Catalog) makeDirs(ctx context.Context, location string) error {
	return c.Files.MakeDirs(ctx, location+"/data/", location+"/metadata/")
}

// Create makes a table. NoSuchWarehouse, NoSuchNamespace, AlreadyExists; CodeInvalid for a schema, spec, order, property or location that cannot be. A staged one is kept
// nowhere: its key is of no use, and a commit with assert-create follows.
func (c *Catalog) Create(ctx context.Context, s domain.Scope, database, schema string, n NewTable, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(keep func(domain.Tx, domain.LakeTable) error) (Loaded, error) {
		p, err := c.newPlace(ctx, s, Ref{database, schema, n.Name}, domain.KindTable, n.Location)
		if err != nil {
			return Loaded{}, err
		}
		if err := c.ownPaths(ctx, s, p.row.ID, n.Properties); err != nil {
			return Loaded{}, err
		}
		meta, err := n.metadata(p)
		if err != nil {
			return Loaded{}, err
		}
		if n.Stage {
			return c.stage(ctx, p, meta)
		}
		made := prepared{place: p, action: domain.TableCreate, wrote: []int64{0}}
		if err := made.fill(p.row, meta); err != nil {
			return Loaded{}, err
		}
		return c.finish(ctx, s, &made, keep)
	})
}

func (c *Catalog) stage(ctx context.Context, p place, meta table.Metadata) (Loaded, error) {
	body, err := json.Marshal(meta)
	if err != nil {
		return Loaded{}, err
	}
	summarise(&p.row, meta)
	return Loaded{Table: p.row, Metadata: body}, c.makeDirs(ctx, p.row.Location)
}

// metadata is that of a new table.
func (n NewTable) metadata(p place) (meta table.Metadata, err error) {
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
