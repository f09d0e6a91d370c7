package lake

import (
	"context"

	"github.com/apache/iceberg-go/view"

	"github.com/millpond/millpond/domain"
)

// Registration asks for a table or a view of metadata that is there already.
type Registration struct {
	Name             string
	MetadataLocation string
	Overwrite        bool // what is there of this name is to be this from now on
}

// Register makes a table or a view of a metadata file in the workspace's storage, whose uuid stays. Its files are never purged. A dropped table, not to be purged, that was
// at its location can no longer be restored. NoSuchWarehouse, NoSuchNamespace, NoSuchFile, AlreadyExists; CodeInvalid for metadata that cannot be read or
// leads out of the workspace's storage.
func (c *Catalog) Register(ctx context.Context, s domain.Scope, database, schema string, n Registration, kind domain.TableKind, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	ch := Change{Ref: Ref{database, schema, n.Name}}
	return c.onceLoaded(ctx, s, key, func(keep func(domain.Tx, domain.LakeTable) error) (Loaded, error) {
		return retried(ctx, c, s, []Change{ch}, func([]*turn) (Loaded, error) {
			p, err := c.registration(ctx, s, ch.Ref, n, kind)
			if err != nil {
				return Loaded{}, err
			}
			return c.finish(ctx, s, p, keep)
		})
	})
}

func (c *Catalog) registration(ctx context.Context, s domain.Scope, r Ref, n Registration, kind domain.TableKind) (*prepared, error) {
	f := c.fence(s)
	file, err := f.canonical("metadata-location", n.MetadataLocation)
	if err != nil {
		return nil, err
	}
	p, err := c.registeredPlace(ctx, s, r, kind, n.Overwrite)
	if err != nil {
		return nil, err
	}
	if p.doc, err = c.registrable(ctx, file); err != nil {
		return nil, err
	}
	if p.row.Location, err = p.describe(kind); err != nil {
		return nil, err
	}
	if err := c.ownPaths(ctx, s, p.row.ID, p.properties()); err != nil {
		return nil, err
	}
	before := p.row.MetadataLocation
	p.row.MetadataLocation, p.row.Registered, p.there, p.chosen = file, true, true, true
	p.row.Version = max(p.row.Version+1, fileVersion(file))
	p.action = action(kind, domain.TableRegister, domain.ViewCreate)
	p.old = before
	return p, c.adopt(ctx, s, p)
}

// registeredPlace is a new place, or that of what is to be overwritten.
func (c *Catalog) registeredPlace(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind, overwrite bool) (*prepared, error) {
	at, err := c.newPlace(ctx, s, r, kind, "")
	if ReasonOf(err) != AlreadyExists || !overwrite {
		return &prepared{place: at}, err
	}
	row, err := c.overwritten(ctx, s, r, kind)
	row.UpdatedBy, row.UpdatedAt = s.Actor(), c.Clock.Now()
	return &prepared{place: place{fence: c.fence(s), row: row}}, err
}

// overwritten is the table or view of the name; AlreadyExists for one of the other kind, errLost where it is gone meanwhile.
func (c *Catalog) overwritten(ctx context.Context, s domain.Scope, r Ref, kind domain.TableKind) (row domain.LakeTable, err error) {
	err = c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		row, err = tx.FindLakeTable(ctx, r.Database, r.Schema, r.Name)
		return err
	})
	switch {
	case domain.IsCode(err, domain.CodeNotFound):
		return row, errLost
	case err == nil && row.Kind != kind:
		return row, failed(AlreadyExists, "%q is a %s and cannot become a %s; drop it first, or choose another name.", r.Name, row.Kind, kind)
	}
	return row, err
}

// describe reads the metadata into the row, and returns its location.
func (p *prepared) describe(kind domain.TableKind) (location string, err error) {
	err = invalid("metadata-location", func() error {
		if kind == domain.KindView {
			location, err = p.describeView()
		} else {
			location, err = p.describeTable()
		}
		return err
	})
	if err != nil {
		return "", err
	}
	location, err = p.fence.chosen(location)
	p.moved = p.row.MetadataLocation != "" && location != p.row.Location
	return location, err
}

func (p *prepared) describeTable() (location string, err error) {
	meta, err := p.doc.metadata()
	if err != nil {
		return "", err
	}
	if err := p.fence.checkAll(meta); err != nil {
		return "", err
	}
	summarise(&p.row, meta)
	return meta.Location(), nil
}

func (p *prepared) describeView() (location string, err error) {
	meta, err := view.ParseMetadataBytes(p.doc.json)
	if err != nil {
		return "", err
	}
	p.row.UUID, p.row.FormatVersion = meta.ViewUUID().String(), meta.FormatVersion()
	return meta.Location(), p.fence.checkProperties(meta.Properties())
}

// properties are those of a table's metadata.
func (p *prepared) properties() map[string]string {
	if p.row.Kind == domain.KindView {
		return nil
	}
	meta, err := p.doc.metadata()
	if err != nil {
		return nil
	}
	return meta.Properties()
}

// adopt takes over the place of a table that was dropped to be registered again.
func (c *Catalog) adopt(ctx context.Context, s domain.Scope, p *prepared) error {
	return c.Store.In(ctx, s, func(tx domain.Tx) error {
		there, err := tx.TableAt(ctx, p.row.Location)
		switch {
		case domain.IsCode(err, domain.CodeNotFound):
			return nil
		case err != nil:
			return err
		case there.ID != p.row.ID && there.DroppedAt != nil && !there.Purge:
			p.adopts = there.ID
		}
		return nil
	})
}
