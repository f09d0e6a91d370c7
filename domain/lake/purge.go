package lake

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millpond/millpond/domain"
)

const (
	purgeBatch  = 100       // tables at a time
	purgeMargin = time.Hour // beyond the time in which a table can be restored: clocks of replicas differ
)

// Purge ends what was dropped and can no longer be restored: the files of what was dropped with purge go, and the rows of all. Answers that were kept for
// long enough go as well. A table that fails waits for its next try, longer each time, and holds up no other. Several replicas may do it at once.
func (c *Catalog) Purge(ctx context.Context) error {
	now := c.Clock.Now()
	failed := []error{c.System.ForgetLakeAnswers(ctx, now.Add(-2*AnswerTime))}
	for before := now.Add(-purgeMargin); ; {
		due, err := c.System.DueTables(ctx, before, purgeBatch)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, ref := range due {
			s := domain.SystemScope(ref.Workspace, "purge")
			err := c.purge(ctx, s, ref.Table)
			if err == nil {
				continue
			}
			failed = append(failed, fmt.Errorf("purging the table %s: %w", ref.Table, err))
			err = c.Store.In(ctx, s, func(tx domain.Tx) error { return tx.PostponePurge(ctx, ref.Table, before) })
			if err != nil { // it would be due again at once
				return errors.Join(append(failed, err)...)
			}
		}
		if len(due) < purgeBatch {
			return errors.Join(failed...)
		}
	}
}

func (c *Catalog) purge(ctx context.Context, s domain.Scope, id domain.TableID) error {
	row, err := c.TableByID(ctx, s, id)
	if domain.IsCode(err, domain.CodeNotFound) || err == nil && row.DroppedAt == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if row.Purge && !row.Registered {
		if err := c.removeFiles(ctx, s, row); err != nil {
			return err
		}
	}
	err = c.Store.In(ctx, s, func(tx domain.Tx) error {
		if err := tx.ForgetLakeTable(ctx, id); err != nil {
			return err
		}
		return audit(ctx, tx, s, domain.TablePurge, row)
	})
	if domain.IsCode(err, domain.CodeNotFound) { // another replica was first
		return nil
	}
	return err
}

// removeFiles removes first the files that the table's manifests name elsewhere, which cannot be known any more without them, then all in the places that it has and has
// had, and at the end its metadata file: a purge that has failed half-way finds what it needs to go on.
func (c *Catalog) removeFiles(ctx context.Context, s domain.Scope, row domain.LakeTable) error {
	if row.Kind == domain.KindTable {
		t, err := c.openRow(ctx, s, row)
		switch {
		case err == nil && !t.meta.Properties().GetBool(gcEnabled, true):
			return nil
		case err == nil:
			err = c.removeElsewhere(ctx, s, t)
		}
		if err != nil && !lasts(err) {
			return err
		}
		if err != nil {
			c.Report(fmt.Errorf("the table %s is purged without its files outside of its location: %w", row.ID, err))
		}
	}
	var places, paths []string
	err := c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		places, paths, err = tx.TableLocations(ctx, row.ID)
		return err
	})
	if err != nil {
		return err
	}
	for _, place := range places {
		if err := c.removeAll(ctx, s, place, row.MetadataLocation); err != nil {
			return err
		}
	}
	if err := c.removeLast(ctx, s, row); err != nil {
		return err
	}
	for _, dir := range append(places, paths...) {
		if err := c.Files.RemoveDirs(ctx, dir+"/"); err != nil {
			return err
		}
	}
	return nil
}

// gcEnabled is the property by which a table says that its files are not only its own: with false none is ever removed.
const gcEnabled = "gc.enabled"

// lasts says that the metadata cannot be read, and never will be: any other failure may be over at the next try.
func lasts(err error) bool {
	return ReasonOf(err) == NoSuchFile || domain.IsCode(err, domain.CodeInvalid) || domain.IsCode(err, domain.CodeTooLarge)
}

// removeAll removes all files of a place but one.
func (c *Catalog) removeAll(ctx context.Context, s domain.Scope, place, but string) error {
	location, err := c.fence(s).chosen(place)
	if err != nil {
		return err
	}
	return c.Files.List(ctx, location+"/", func(file FileInfo) error {
		if file.URI == but {
			return nil
		}
		return c.Files.Delete(ctx, file.URI)
	})
}

// removeLast removes the current metadata file, unless it is in a place that is another table's by now.
func (c *Catalog) removeLast(ctx context.Context, s domain.Scope, row domain.LakeTable) error {
	file, err := c.fence(s).canonical("metadata-location", row.MetadataLocation)
	if err != nil {
		return err
	}
	return c.removeUnowned(ctx, s, row.ID, []string{file})
}
