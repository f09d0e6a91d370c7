package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// invalid runs code that reads a client's JSON through iceberg-go. Each error, including a panic,
// becomes CodeInvalid, except domain errors.
func invalid(field string, read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = domain.Invalid(field, "The request cannot be read: %s.", fmt.Sprint(p))
		}
	}()
	err = read()
	if _, ours := errors.AsType[*domain.Error](err); err == nil || ours {
		return err
	}
	return domain.Invalid(field, "The request is not valid: %s.", err).Because(err)
}

// prepared is a change of one table or view whose metadata is built and whose pointer is not yet
// swapped.
type prepared struct {
	target
	old     state          // the state that the change is based on; zero for a new table
	unnamed []string       // metadata files to delete after the commit
	adopts  domain.TableID // a dropped table whose files this one takes over
	doc     *document
	action  domain.Action
	wrote   []int64  // snapshots for lineage; 0 means a change without one, or a view; nil writes no lineage
	erase   *Erasure // files that the change removes, or nil
	there   bool     // the metadata file existed before, and is never discarded
	moved   bool     // to another location
	noop    bool
}

func (p *prepared) isNew() bool { return p.old == state{} }

// fill sets document and row from the metadata, for the next version.
func (p *prepared) fill(row Table, meta table.Metadata) error {
	body, err := json.Marshal(meta)
	return p.complete(row, meta, &document{json: body}, err)
}

// follow is fill for metadata that a request made from a document.
func (p *prepared) follow(row Table, from *document, meta table.Metadata, r request) error {
	if !writable(meta) {
		return p.fill(row, meta)
	}
	before, err := from.snapshots()
	if err != nil {
		return err
	}
	d, err := r.written(meta, before)
	return p.complete(row, meta, d, err)
}

// complete names the document, unless err reports that building it failed.
func (p *prepared) complete(row Table, meta table.Metadata, d *document, err error) error {
	if err != nil {
		return unwritable(err)
	}
	summarise(&row, meta)
	directory, err := p.fence.metadataDirectory(row.Location, meta.Properties())
	if err != nil {
		return err
	}
	d.parsed = meta
	return p.name(row, directory, d)
}

func unwritable(err error) error {
	return domain.Invalid("updates", "The metadata cannot be written: %s.", err).Because(err)
}

// name gives the document a unique file name; CodeTooLarge.
func (p *prepared) name(row Table, directory string, d *document) error {
	if len(d.json) > maxMetadata {
		return domain.Errorf(domain.CodeTooLarge, "The metadata of %s would have %d bytes; expire snapshots first.", row.Name, len(d.json))
	}
	row.MetadataLocation = metadataFile(directory, row.Version, uuid.NewString())
	d.state = stateOf(row)
	p.row, p.doc = row, d
	return nil
}

// maxMetadata bounds a metadata file in bytes.
const maxMetadata = 256 << 20

// write writes the metadata file, after the directories of a new table.
func (c *Catalog) write(ctx context.Context, p *prepared) error {
	if p.noop {
		return nil
	}
	if (p.isNew() || p.moved) && p.row.Kind == KindTable {
		if err := c.makeDirs(ctx, p.row.Location); err != nil {
			return err
		}
	}
	if p.there {
		return nil
	}
	return c.Files.Write(ctx, p.doc.location, p.doc.json)
}

// discard removes the metadata file of a change that certainly failed, and the directories created
// for it.
func (c *Catalog) discard(ctx context.Context, p *prepared) {
	if p.noop || p.there {
		return
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	if err := c.Files.Delete(ctx, p.doc.location); err != nil {
		c.Report(fmt.Errorf("deleting the metadata file %s of a failed commit: %w", p.doc.location, err))
	}
	if p.isNew() && !p.chosen {
		if err := c.Files.RemoveDirs(ctx, p.row.Location+"/"); err != nil {
			c.Report(fmt.Errorf("removing the directories of %s, which was not created: %w", p.row.Location, err))
		}
	}
}

// errLost means that another commit swapped the pointer first.
var errLost = errors.New("the pointer has moved")

// swap makes the change in its transaction: the pointer, the lineage and the audit row. errLost if
// another commit was first.
func (c *Catalog) swap(ctx context.Context, tx Tx, s domain.Scope, p *prepared) error {
	if p.noop {
		return nil
	}
	if p.adopts != "" {
		if err := tx.AdoptLakeTable(ctx, p.adopts, p.row.ID); err != nil {
			return err
		}
	}
	if err := p.point(ctx, tx); err != nil {
		return err
	}
	if err := p.forget(ctx, tx, c.Clock.Now()); err != nil {
		return err
	}
	if len(p.wrote) > 0 {
		if err := c.note(ctx, tx, s, LineageWritten, p.row, p.wrote...); err != nil {
			return err
		}
	}
	return audit(ctx, tx, s, p.action, p.row)
}

func (p *prepared) point(ctx context.Context, tx Tx) error {
	if p.isNew() {
		done, err := tx.InsertLakeTable(ctx, p.row, p.chosen)
		switch {
		case err != nil:
			return err
		case done == InsertedNowhere:
			return missingSchema(p.row.Schema)
		case done == InsertedOverlaid:
			return overlaid(p.row.Location)
		case done != InsertedNow:
			return exists(p.row.Name)
		}
		if len(p.staged) > 0 {
			if err := tx.ForgetStages(ctx, p.staged.names()); err != nil {
				return err
			}
		}
		return p.reservePaths(ctx, tx)
	}
	if p.moved {
		free, err := tx.TakeLocation(ctx, p.row.ID, p.row.Location)
		if err != nil {
			return err
		}
		if !free {
			return overlaid(p.row.Location)
		}
	}
	if err := p.reservePaths(ctx, tx); err != nil {
		return err
	}
	swapped, err := tx.SwapLakeTable(ctx, p.row, p.old.location)
	if err == nil && !swapped {
		err = errLost
	}
	return err
}

func overlaid(location string) error {
	return domain.Invalid("location", "The location %q is another table's, or in it, or around it; choose another one.", location)
}

// finish writes the file of one change, and then swaps its pointer. errLost if another commit was
// first; the file is deleted then. record may be nil.
func (c *Catalog) finish(ctx context.Context, s domain.Scope, p *prepared, record func(Tx, Table) error) (Loaded, error) {
	var also func(Tx) error
	if record != nil {
		also = func(tx Tx) error { return record(tx, p.row) }
	}
	if err := c.finalize(ctx, s, []*prepared{p}, also); err != nil {
		return Loaded{}, err
	}
	return Loaded{Table: p.row, MetadataLocation: p.row.MetadataLocation, Metadata: p.doc.json, Tag: stateOf(p.row).tag()}, nil
}

// finalize makes all changes together, or none of them. It finishes even if the caller leaves. also
// runs in the same transaction, and may be nil.
func (c *Catalog) finalize(ctx context.Context, s domain.Scope, all []*prepared, also func(Tx) error) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	for i, p := range all {
		if err := c.write(ctx, p); err != nil {
			c.discardAll(ctx, all[:i+1])
			return err
		}
	}
	ready, err := c.swapAll(ctx, s, all, also)
	if err != nil {
		if !ready || refused(err) {
			c.discardAll(ctx, all)
			return err
		}
		if err := c.verify(ctx, s, all, err); err != nil {
			return err
		}
	}
	for _, p := range all {
		c.finalized(ctx, p)
	}
	return nil
}

// swapAll swaps the pointers. An error after ready leaves the outcome open, unless the database
// itself refused.
func (c *Catalog) swapAll(ctx context.Context, s domain.Scope, all []*prepared, also func(Tx) error) (ready bool, err error) {
	if also == nil && len(all) == 1 && c.alone(s, all[0]) {
		p := all[0]
		row := domain.NewAudit(s, p.action, domain.OutcomeSuccess, string(p.row.Kind), string(p.row.ID), "")
		swapped, err := c.Quick.SwapLakeTable(ctx, s, p.row, p.old.location, row)
		if err == nil && !swapped {
			return false, errLost
		}
		return true, err
	}
	err = c.changing(ctx, s, func(tx Tx) error {
		ready = false
		if slices.ContainsFunc(all, func(p *prepared) bool { return p.reserves() || p.isNew() && len(all) > 1 }) {
			if err := tx.LockLocations(ctx); err != nil {
				return err
			}
		}
		for _, p := range all {
			if err := c.swap(ctx, tx, s, p); err != nil {
				return err
			}
		}
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		ready = true
		return nil
	})
	return ready, err
}

// alone reports whether the change is only a swap and its audit row.
func (c *Catalog) alone(s domain.Scope, p *prepared) bool {
	return c.Quick != nil && !noted(s) && !p.isNew() && !p.noop && p.adopts == "" && p.erase == nil && !p.reserves()
}

// reserves reports whether the change may reserve a location, which is compared with all others.
func (p *prepared) reserves() bool {
	if p.noop || p.moved || p.isNew() && p.chosen {
		return !p.noop
	}
	paths, err := p.pathsOf()
	maps.DeleteFunc(paths, func(dir, _ string) bool { return inside(dir, p.row.Location) })
	return err != nil || len(paths) > 0
}

// refused reports whether the database answered that nothing was done. All other errors, and errors
// of a failing server, leave the outcome open.
func refused(err error) bool {
	state := sqlState(err)
	switch {
	case state == "", state == "40003": // the completion is unknown
		return false
	}
	return !slices.Contains([]string{"08", "57", "58", "XX"}, state[:2])
}

// sqlState is the code of the database's answer, or "" without an answer.
func sqlState(err error) string {
	answer, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if !ok || len(answer.SQLState()) != 5 {
		return ""
	}
	return answer.SQLState()
}

func (c *Catalog) discardAll(ctx context.Context, all []*prepared) {
	for _, p := range all {
		c.discard(ctx, p)
	}
}

// verify determines whether a transaction with a lost result committed. The row lock waits for a
// transaction that is still running. If it has not committed, the row's version is raised, so that
// a late swap fails. Then its file can be removed.
func (c *Catalog) verify(ctx context.Context, s domain.Scope, all []*prepared, cause error) error {
	unknown := failed(CommitStateUnknown, "The database has gone away during the commit, which may or may not have happened; read the table again to see.").because(cause)
	i := slices.IndexFunc(all, func(p *prepared) bool { return !p.noop })
	if i < 0 {
		return nil
	}
	p := all[i]
	ctx, cancel := lasting(ctx)
	defer cancel()
	var row Table
	err := c.Store.In(ctx, s, func(tx Tx) (err error) {
		if row, err = tx.LockLakeTable(ctx, p.row.ID); err != nil || row.MetadataLocation != p.old.location || row.DroppedAt != nil {
			return err
		}
		fenced, err := tx.FenceLakeTable(ctx, row.ID, p.old.location, p.row.Version)
		if err == nil && !fenced {
			err = errLost
		}
		return err
	})
	switch {
	case err != nil: // a missing table may still be created
		return unknown
	case row.DroppedAt != nil && row.MetadataLocation == p.old.location: // it may be restored, and then swapped
		return unknown
	case row.MetadataLocation == p.row.MetadataLocation:
		return nil
	case row.MetadataLocation == p.old.location:
		c.discardAll(ctx, all)
		return cause
	}
	d, err := c.document(ctx, stateOf(row))
	if err != nil {
		return unknown
	}
	meta, err := d.metadata()
	if err != nil || row.Kind == KindView {
		return unknown
	}
	for e := range meta.PreviousFiles() {
		if e.MetadataFile == p.row.MetadataLocation {
			return nil
		}
	}
	return unknown
}

// finalized does what follows a commit: it updates the cache and deletes unnamed files.
func (c *Catalog) finalized(ctx context.Context, p *prepared) {
	if p.noop {
		return
	}
	c.cache.supersede(p.doc, p.old)
	for _, file := range p.unnamed {
		if err := c.Files.Delete(ctx, file); err != nil {
			c.Report(fmt.Errorf("deleting the old metadata file %s: %w", file, err))
		}
	}
}
