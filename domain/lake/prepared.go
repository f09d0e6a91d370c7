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

// invalid runs what reads a client's JSON through iceberg-go: whatever it does not like, and be it by a panic, is the client's mistake.
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

// prepared is a change of one table or view that is ready: its metadata is made, and its pointer is still to be swapped.
type prepared struct {
	place
	old     string         // metadata location that the change is based on; empty for what is new
	unnamed []string       // metadata files that go when it has happened
	adopts  domain.TableID // a dropped table whose files this one takes over
	doc     *document
	action  domain.Action
	wrote   []int64 // snapshots that lineage tells of; 0 stands for a new table without one, and for a view
	there   bool    // the metadata file is there already, and stays whatever comes
	moved   bool    // to another location
	noop    bool
}

// fill makes document and row of the metadata, for the next version.
func (p *prepared) fill(row domain.LakeTable, meta table.Metadata) error {
	body, err := json.Marshal(meta)
	return p.complete(row, meta, &document{json: body}, err)
}

// follow is fill for metadata that followed from a document by a request.
func (p *prepared) follow(row domain.LakeTable, from *document, meta table.Metadata, r request) error {
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

// complete gives the document a name of its own, unless writing it has failed.
func (p *prepared) complete(row domain.LakeTable, meta table.Metadata, d *document, err error) error {
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

// name gives the document a name of its own.
func (p *prepared) name(row domain.LakeTable, directory string, d *document) error {
	if len(d.json) > maxMetadata {
		return domain.Errorf(domain.CodeTooLarge, "The metadata of %s would have %d bytes; expire snapshots first.", row.Name, len(d.json))
	}
	row.MetadataLocation = metadataFile(directory, row.Version, uuid.NewString())
	d.location = row.MetadataLocation
	p.row, p.doc = row, d
	return nil
}

// maxMetadata bounds a metadata file in bytes.
const maxMetadata = 256 << 20

// write makes the metadata file, and what a new table needs before it.
func (c *Catalog) write(ctx context.Context, p *prepared) error {
	if p.noop {
		return nil
	}
	if (p.old == "" || p.moved) && p.row.Kind == domain.KindTable {
		if err := c.makeDirs(ctx, p.row.Location); err != nil {
			return err
		}
	}
	if p.there {
		return nil
	}
	return c.Files.Write(ctx, p.doc.location, p.doc.json)
}

// discard removes the metadata file of a change that is surely lost, and the directories that were made for it.
func (c *Catalog) discard(ctx context.Context, p *prepared) {
	if p.noop || p.there {
		return
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	if err := c.Files.Delete(ctx, p.doc.location); err != nil {
		c.Report(fmt.Errorf("the metadata file %s of a lost commit: %w", p.doc.location, err))
	}
	if p.old == "" && !p.chosen {
		if err := c.Files.RemoveDirs(ctx, p.row.Location+"/"); err != nil {
			c.Report(fmt.Errorf("the directories of %s, which was not made: %w", p.row.Location, err))
		}
	}
}

// errLost says that the pointer was swapped by somebody else.
var errLost = errors.New("the pointer has moved")

// swap makes the change in its transaction: the pointer, what was done, and by whom. errLost when somebody else was first.
func (c *Catalog) swap(ctx context.Context, tx domain.Tx, s domain.Scope, p *prepared) error {
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
	if len(p.wrote) > 0 {
		if err := c.note(ctx, tx, s, domain.LineageWritten, p.row, p.wrote...); err != nil {
			return err
		}
	}
	return audit(ctx, tx, s, p.action, p.row)
}

func (p *prepared) point(ctx context.Context, tx domain.Tx) error {
	if p.old == "" {
		done, err := tx.InsertLakeTable(ctx, p.row, p.chosen)
		switch {
		case err != nil:
			return err
		case done == domain.InsertedNowhere:
			return missingSchema(p.row.Schema)
		case done == domain.InsertedOverlaid:
			return overlaid(p.row.Location)
		case done != domain.InsertedNow:
			return exists(p.row.Name)
		}
		return p.takePaths(ctx, tx)
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
	if err := p.takePaths(ctx, tx); err != nil {
		return err
	}
	swapped, err := tx.SwapLakeTable(ctx, p.row, p.old)
	if err == nil && !swapped {
		err = errLost
	}
	return err
}

func overlaid(location string) error {
	return domain.Invalid("location", "The location %q is another table's, or in it, or around it; choose another one.", location)
}

// finish writes the file of one change, and then swaps its pointer. errLost when somebody else was first; its file is gone then. keep may be nil.
func (c *Catalog) finish(ctx context.Context, s domain.Scope, p *prepared, keep func(domain.Tx, domain.LakeTable) error) (Loaded, error) {
	var also func(domain.Tx) error
	if keep != nil {
		also = func(tx domain.Tx) error { return keep(tx, p.row) }
	}
	if err := c.settle(ctx, s, []*prepared{p}, also); err != nil {
		return Loaded{}, err
	}
	return Loaded{Table: p.row, MetadataLocation: p.row.MetadataLocation, Metadata: p.doc.json}, nil
}

// settle makes changes of tables together, or none of them. What has begun comes to its end, even if the caller goes away. also, which may be nil, is of the same
// transaction.
func (c *Catalog) settle(ctx context.Context, s domain.Scope, all []*prepared, also func(domain.Tx) error) error {
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
		c.settled(ctx, p)
	}
	return nil
}

// swapAll swaps the pointers. An error after all was ready leaves open whether it has happened, unless the database itself has refused.
func (c *Catalog) swapAll(ctx context.Context, s domain.Scope, all []*prepared, also func(domain.Tx) error) (ready bool, err error) {
	if also == nil && len(all) == 1 && c.alone(s, all[0]) {
		p := all[0]
		row := domain.NewAudit(s, p.action, domain.OutcomeSuccess, string(p.row.Kind), string(p.row.ID), "")
		swapped, err := c.quick.SwapLakeTable(ctx, s, p.row, p.old, row)
		if err == nil && !swapped {
			return false, errLost
		}
		return true, err
	}
	err = c.changing(ctx, s, func(tx domain.Tx) error {
		ready = false
		if slices.ContainsFunc(all, func(p *prepared) bool { return p.places() || p.old == "" && len(all) > 1 }) {
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

// alone says that the change is a swap and its audit row, and nothing else.
func (c *Catalog) alone(s domain.Scope, p *prepared) bool {
	return c.quick != nil && !noted(s) && p.old != "" && !p.noop && p.adopts == "" && !p.places()
}

// places says that the change may take a place in the storage that is compared with all others.
func (p *prepared) places() bool {
	if p.noop || p.moved || p.old == "" && p.chosen {
		return !p.noop
	}
	paths, err := p.pathsOf()
	maps.DeleteFunc(paths, func(dir, _ string) bool { return inside(dir, p.row.Location) })
	return err != nil || len(paths) > 0
}

// refused says that the database itself has answered that nothing was done. Of what is not its answer, or tells of its own end, nothing is known.
func refused(err error) bool {
	state := sqlState(err)
	switch {
	case state == "", state == "40003": // the completion is unknown
		return false
	}
	return !slices.Contains([]string{"08", "57", "58", "XX"}, state[:2])
}

// sqlState is the code of the database's answer, and empty where it has not answered.
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

// verify finds out whether a transaction was committed whose end was not heard of. The lock waits for a transaction that is still at it, and where it was not
// committed, the row's version sees to it that a swap which is still under way comes too late: its file is to be removed.
func (c *Catalog) verify(ctx context.Context, s domain.Scope, all []*prepared, cause error) error {
	unknown := failed(CommitStateUnknown, "The database has gone away during the commit, which may or may not have happened; read the table again to see.").because(cause)
	i := slices.IndexFunc(all, func(p *prepared) bool { return !p.noop })
	if i < 0 {
		return nil
	}
	p := all[i]
	ctx, cancel := lasting(ctx)
	defer cancel()
	var row domain.LakeTable
	err := c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		if row, err = tx.LockLakeTable(ctx, p.row.ID); err != nil || row.MetadataLocation != p.old || row.DroppedAt != nil {
			return err
		}
		fenced := row
		fenced.Version = p.row.Version
		done, err := tx.SwapLakeTable(ctx, fenced, p.old)
		if err == nil && !done {
			err = errLost
		}
		return err
	})
	switch {
	case err != nil: // a table that is not there may still come
		return unknown
	case row.DroppedAt != nil && row.MetadataLocation == p.old: // it may come back, and the swap after that
		return unknown
	case row.MetadataLocation == p.row.MetadataLocation:
		return nil
	case row.MetadataLocation == p.old:
		c.discardAll(ctx, all)
		return cause
	}
	d, err := c.document(ctx, row.MetadataLocation)
	if err != nil {
		return unknown
	}
	meta, err := d.metadata()
	if err != nil || row.Kind == domain.KindView {
		return unknown
	}
	for e := range meta.PreviousFiles() {
		if e.MetadataFile == p.row.MetadataLocation {
			return nil
		}
	}
	return unknown
}

// settled is what follows a change that has happened.
func (c *Catalog) settled(ctx context.Context, p *prepared) {
	if p.noop {
		return
	}
	c.cache.supersede(p.doc, p.old)
	for _, file := range p.unnamed {
		if err := c.Files.Delete(ctx, file); err != nil {
			c.Report(fmt.Errorf("the old metadata file %s: %w", file, err))
		}
	}
}
