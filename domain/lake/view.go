package lake

import (
	"context"
	"encoding/json"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/view"

	"github.com/millpond/millpond/domain"
)

// CreateView creates a view. NoSuchWarehouse, NoSuchNamespace, AlreadyExists; CodeInvalid.
func (c *Catalog) CreateView(ctx context.Context, s domain.Scope, database, schema string, n NewView, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(record func(Tx, Table) error) (Loaded, error) {
		at, err := c.newTarget(ctx, s, Ref{database, schema, n.Name}, KindView, n.Location)
		if err != nil {
			return Loaded{}, err
		}
		p := &prepared{target: at, action: domain.ViewCreate, wrote: []int64{0}}
		meta, err := n.metadata(at)
		if err != nil {
			return Loaded{}, err
		}
		dirs, err := at.fence.choices(at.row.Location, n.Properties)
		if err != nil {
			return Loaded{}, err
		}
		if err := c.vacant(ctx, s, at.row.ID, at.chosenOf(dirs)); err != nil {
			return Loaded{}, err
		}
		if err := p.fillView(at.row, meta); err != nil {
			return Loaded{}, err
		}
		return c.finish(ctx, s, p, record)
	})
}

func (p *prepared) fillView(row Table, meta view.Metadata) error {
	row.UUID, row.FormatVersion = meta.ViewUUID().String(), meta.FormatVersion()
	directory, err := p.fence.metadataDirectory(row.Location, meta.Properties())
	if err != nil {
		return err
	}
	body, err := json.Marshal(meta)
	if err != nil {
		return unwritable(err)
	}
	return p.name(row, directory, &document{json: body})
}

// CommitView changes a view. CommitFailed if a requirement does not hold; NoSuchWarehouse,
// NoSuchView, CommitStateUnknown; CodeInvalid.
func (c *Catalog) CommitView(ctx context.Context, s domain.Scope, ch Change, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(record func(Tx, Table) error) (Loaded, error) {
		return retried(ctx, c, s, []Change{ch}, func([]*tableLock) (Loaded, error) {
			p, err := c.prepareView(ctx, s, ch)
			if err != nil {
				return Loaded{}, err
			}
			return c.finish(ctx, s, p, record)
		})
	})
}

func (c *Catalog) prepareView(ctx context.Context, s domain.Scope, ch Change) (*prepared, error) {
	row, err := c.row(ctx, s, ch.Ref, KindView)
	if err != nil {
		return nil, err
	}
	d, err := c.document(ctx, stateOf(row))
	if err != nil {
		return nil, err
	}
	p := &prepared{target: target{fence: c.fence(s)}, old: stateOf(row), action: domain.ViewCommit, wrote: []int64{0}}
	var meta view.Metadata
	var location string
	err = invalid("updates", func() error {
		meta, location, err = ch.applyView(p.fence, row, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	if meta == nil {
		p.row, p.doc, p.noop = row, d, true
		return p, nil
	}
	next := row
	next.Version++
	if location != "" {
		next.Location = location
	}
	next.UpdatedBy, next.UpdatedAt = s.Actor(), c.Clock.Now()
	p.moved = next.Location != row.Location
	dirs, err := p.fence.choices(location, meta.Properties())
	if err != nil {
		return nil, err
	}
	if err := c.vacant(ctx, s, row.ID, dirs); err != nil {
		return nil, err
	}
	return p, p.fillView(next, meta)
}

// applyView builds the next metadata, nil when nothing changes. The location is where the updates
// move the view to, or empty.
func (ch Change) applyView(f fence, row Table, d *document) (meta view.Metadata, location string, err error) {
	base, err := view.ParseMetadataBytes(d.json)
	if err != nil {
		return nil, "", err
	}
	var requirements view.Requirements
	var updates view.Updates
	if given(ch.Requirements) {
		if err := json.Unmarshal(ch.Requirements, &requirements); err != nil {
			return nil, "", err
		}
	}
	if err := json.Unmarshal(ch.Updates, &updates); err != nil {
		return nil, "", err
	}
	for _, q := range requirements {
		if err := q.Validate(base); err != nil {
			return nil, "", failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	builder, err := view.MetadataBuilderFromBase(base)
	if err != nil {
		return nil, "", err
	}
	for _, u := range updates {
		if err := u.Apply(builder); err != nil {
			return nil, "", err
		}
	}
	if err := builder.Err(); err != nil {
		return nil, "", err
	}
	if !builder.HasChanges() {
		return nil, "", nil
	}
	meta, err = builder.Build()
	if err != nil {
		return nil, "", err
	}
	if err := f.checkProperties(meta.Properties()); err != nil {
		return nil, "", err
	}
	if meta.Location() == base.Location() {
		return meta, "", nil
	}
	location, err = f.elsewhere(meta.Location(), row.Location)
	if err == nil && location != "" && location != meta.Location() {
		err = domain.Invalid("location", "Write the location as %q.", location)
	}
	return meta, location, err
}

// metadata builds the metadata of a new view.
func (n NewView) metadata(p target) (meta view.Metadata, err error) {
	if err := p.fence.checkProperties(n.Properties); err != nil {
		return nil, err
	}
	err = invalid("view-version", func() error {
		schema, version := new(iceberg.Schema), new(view.Version)
		if err := json.Unmarshal(n.Schema, schema); err != nil {
			return err
		}
		if err := json.Unmarshal(n.Version, version); err != nil {
			return err
		}
		meta, err = view.NewMetadata(version, schema, p.row.Location, n.Properties)
		return err
	})
	return meta, err
}

// viewColumns returns the columns of the view's current schema.
func (c *Catalog) viewColumns(ctx context.Context, row Table) ([]Column, error) {
	d, err := c.document(ctx, stateOf(row))
	if err != nil {
		return nil, err
	}
	meta, err := view.ParseMetadataBytes(d.json)
	if err != nil {
		return nil, damaged(row, err)
	}
	return columns(meta.CurrentSchema()), nil
}
