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
	purgeMargin = time.Hour // after the time in which a table can be restored: clocks of replicas differ
)

// Purge deletes dropped tables that can no longer be restored: all their rows, and the files of
// those dropped with purge. It also deletes expired answers and stages. A failing table is retried
// with growing delays, and does not block others. Several replicas may run it at once.
func (c *Catalog) Purge(ctx context.Context) error {
	now := c.Clock.Now()
	before := now.Add(-purgeMargin)
	return errors.Join(
		c.System.ForgetLakeAnswers(ctx, now.Add(-2*AnswerTime)), c.System.ForgetLakeStages(ctx, now.Add(-2*stageTime)),
		c.System.ForgetLostRaces(ctx, now.Add(-AnswerTime)),
		eachDue(purgeBatch, func() ([]TableRef, error) { return c.System.DueTables(ctx, before, purgeBatch) }, func(ref TableRef) (failed, fatal error) {
			s := domain.SystemScope(ref.Workspace, "purge")
			if err := c.purge(ctx, s, ref.Table); err != nil {
				return fmt.Errorf("purging the table %s: %w", ref.Table, err),
					c.Store.In(ctx, s, func(tx Tx) error { return tx.PostponePurge(ctx, ref.Table, before) })
			}
			return nil, nil
		}),
	)
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
	err = c.Store.In(ctx, s, func(tx Tx) error {
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

// removeFiles removes all files in the table's own directories: its present and former locations
// and write.*.path directories. Files that its manifests name elsewhere stay: other tables may use
// them.
func (c *Catalog) removeFiles(ctx context.Context, s domain.Scope, row Table) error {
	if collected, err := c.collected(ctx, s, row); err != nil || !collected {
		return err
	}
	var directories []string
	err := c.Store.In(ctx, s, func(tx Tx) (err error) {
		directories, err = tx.TableLocations(ctx, row.ID)
		return err
	})
	if err != nil {
		return err
	}
	for _, directory := range directories {
		if err := c.removeAll(ctx, s, directory); err != nil {
			return err
		}
	}
	return nil
}

// gcEnabled is the property by which a table declares that others use its files too. If it is
// false, no file is ever removed.
const gcEnabled = "gc.enabled"

// collected reports whether the table's properties allow removing its files. A table whose metadata
// can never be read is collected.
func (c *Catalog) collected(ctx context.Context, s domain.Scope, row Table) (bool, error) {
	if row.Kind == KindView {
		return true, nil
	}
	t, err := c.openRow(ctx, s, row)
	switch {
	case err == nil:
		return t.meta.Properties().GetBool(gcEnabled, true), nil
	case lasts(err):
		c.Report(fmt.Errorf("the table %s is purged without its metadata: %w", row.ID, err))
		return true, nil
	}
	return false, err
}

// lasts reports whether the metadata can never be read. Any other failure may pass.
func lasts(err error) bool {
	return ReasonOf(err) == NoSuchFile || domain.IsCode(err, domain.CodeInvalid) || domain.IsCode(err, domain.CodeTooLarge)
}

// removeAll removes all files in the directory, and the directories.
func (c *Catalog) removeAll(ctx context.Context, s domain.Scope, directory string) error {
	location, err := c.fence(s).chosen(directory)
	if err != nil {
		return err
	}
	err = c.Files.List(ctx, location+"/", func(file FileInfo) error { return c.Files.Delete(ctx, file.URI) })
	if err != nil {
		return err
	}
	return c.Files.RemoveDirs(ctx, location+"/")
}
