package lake

import (
	"context"

	"github.com/apache/iceberg-go/view"

	"github.com/millpond/millpond/domain"
)

// Registration asks for a table or a view with existing metadata.
type Registration struct {
	Name             string
	MetadataLocation string
	Overwrite        bool // replaces an existing table or view of this name
}

// Register makes a table or a view from a metadata file in the workspace's storage, and keeps its
// uuid. Its files are never purged. It takes over the directories of a dropped table at its
// location: that table is not purged, and can no longer be restored. NoSuchWarehouse,
// NoSuchNamespace, NoSuchFile, AlreadyExists; CodeConflict if a purge is already removing the
// files; CodeInvalid for metadata that cannot be read or leads out of the workspace's storage.
func (c *Catalog) Register(ctx context.Context, s domain.Scope, database, schema string, n Registration, kind TableKind, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	ch := Change{Ref: Ref{database, schema, n.Name}}
	return c.onceLoaded(ctx, s, key, func(record func(Tx, Table) error) (Loaded, error) {
		return retried(ctx, c, s, []Change{ch}, func([]*tableLock) (Loaded, error) {
			p, err := c.registration(ctx, s, ch.Ref, n, kind)
			if err != nil {
				return Loaded{}, err
			}
			return c.finish(ctx, s, p, record)
		})
	})
}

func (c *Catalog) registration(ctx context.Context, s domain.Scope, r Ref, n Registration, kind TableKind) (*prepared, error) {
	f := c.fence(s)
	file, err := f.canonical("metadata-location", n.MetadataLocation)
	if err != nil {
		return nil, err
	}
	p, err := c.registerTarget(ctx, s, r, kind, n.Overwrite)
	if err != nil {
		return nil, err
	}
	if p.row.MetadataLocation != "" {
		p.old = stateOf(p.row)
	}
	p.row.MetadataLocation, p.row.Version = file, max(p.row.Version+1, fileVersion(file))
	if p.doc, err = c.registrable(ctx, stateOf(p.row)); err != nil {
		return nil, err
	}
	if p.row.Location, err = p.describe(kind); err != nil {
		return nil, err
	}
	if err := c.checkManifests(ctx, s, nil, p.added()); err != nil {
		return nil, err
	}
	dirs, err := f.choices("", p.properties())
	if err != nil {
		return nil, err
	}
	if err := c.adopt(ctx, s, p); err != nil {
		return nil, err
	}
	if _, err := c.foreign(ctx, s, dirs, p.row.ID, p.adopts); err != nil {
		return nil, err
	}
	p.row.Registered, p.there, p.chosen = true, true, true
	p.action = action(kind, domain.TableRegister, domain.ViewCreate)
	return p, nil
}

// registerTarget returns a new target, or that of the table or view to overwrite.
func (c *Catalog) registerTarget(ctx context.Context, s domain.Scope, r Ref, kind TableKind, overwrite bool) (*prepared, error) {
	at, err := c.newTarget(ctx, s, r, kind, "")
	if ReasonOf(err) != AlreadyExists || !overwrite {
		return &prepared{target: at}, err
	}
	row, err := c.overwritten(ctx, s, r, kind)
	row.UpdatedBy, row.UpdatedAt = s.Actor(), c.Clock.Now()
	return &prepared{target: target{fence: c.fence(s), row: row}}, err
}

// overwritten returns the table or view with the name. AlreadyExists if it has the other kind;
// errLost if it is gone.
func (c *Catalog) overwritten(ctx context.Context, s domain.Scope, r Ref, kind TableKind) (row Table, err error) {
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
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
func (p *prepared) describe(kind TableKind) (location string, err error) {
	err = invalid("metadata-location", func() error {
		if kind == KindView {
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
	p.moved = !p.isNew() && location != p.row.Location
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

// added returns all snapshots of a registered table, oldest first.
func (p *prepared) added() (all []addedSnapshot) {
	meta, err := p.doc.metadata()
	if err != nil || p.row.Kind == KindView {
		return nil
	}
	for _, s := range meta.Snapshots() {
		all = append(all, addedSnapshot{s.ManifestList, s.ManifestLocations, s.ParentSnapshotID})
	}
	return all
}

// properties returns the properties of a table's metadata; nil for a view.
func (p *prepared) properties() map[string]string {
	if p.row.Kind == KindView {
		return nil
	}
	meta, err := p.doc.metadata()
	if err != nil {
		return nil
	}
	return meta.Properties()
}

// adopt takes over the directories of a dropped table. CodeConflict once its purge may have begun:
// files may be gone.
func (c *Catalog) adopt(ctx context.Context, s domain.Scope, p *prepared) error {
	return c.Store.In(ctx, s, func(tx Tx) error {
		there, err := tx.TableAt(ctx, p.row.Location)
		switch {
		case domain.IsCode(err, domain.CodeNotFound):
			return nil
		case err != nil:
			return err
		case there.ID == p.row.ID || there.DroppedAt == nil:
			return nil
		case there.Purge && !c.Clock.Now().Before(*there.PurgeAfter):
			return domain.Errorf(domain.CodeConflict, "The table %s at %s was dropped with purge, and its files are being removed; it can no longer be registered.", there.Name, p.row.Location)
		}
		p.adopts = there.ID
		return nil
	})
}
