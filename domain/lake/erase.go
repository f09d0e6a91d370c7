package lake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// Erasure names the files that a commit removes from the table. The writer has stored their names
// in a list. They are erased after the given time.
type Erasure struct {
	List  string        // UUID, which names the list (see listFile)
	After time.Duration // from MinEraseAfter to MaxEraseAfter
}

func (e *Erasure) validate() error {
	if e == nil {
		return nil
	}
	if id, err := uuid.Parse(e.List); err != nil || id.String() != e.List {
		return domain.Invalid("erase-list", "The list of files to erase is %q; name it by a UUID.", e.List)
	}
	if e.After < MinEraseAfter || e.After > MaxEraseAfter {
		return domain.Invalid("erase-after", "Files are erased after %s; use %s to %s.", e.After, MinEraseAfter, MaxEraseAfter)
	}
	return nil
}

// listFile is the file of a list, for a table at the location.
func listFile(location, id string) string { return location + "/metadata/erase-" + id + ".names" }

// forget records the erasure in the commit's transaction.
func (p *prepared) forget(ctx context.Context, tx Tx, now time.Time) error {
	if p.erase == nil {
		return nil
	}
	return tx.InsertLakeErasure(ctx, DueErasure{
		ID: p.erase.List, TableID: p.row.ID, List: listFile(p.row.Location, p.erase.List), CreatedAt: now, DueAt: now.Add(p.erase.After),
	})
}

// Bounds of erasing.
const (
	erasureBatch    = 100                 // lists at a time
	namesInMemory   = 100_000             // names of a list
	filesAtOnce     = 16                  // files erased under one row lock
	lockedTime      = 5 * time.Second     // for erasing them; commits to the table wait that long
	erasersAtOnce   = 16                  // concurrent requests to the storage
	erasureTries    = 10                  // in a row, while others commit to the table
	maxErasureBytes = 1 << 30             // read of a list; the removal of orphans erases the rest
	erasureMaxAge   = 30 * 24 * time.Hour // after which a failing list is given up
)

// Erase erases the files of the due lists, except those that the table names again. A failing list
// is retried with growing delays, and does not block others. Several replicas may run it at once.
// An interrupted erasure starts again: erasing a file twice is harmless.
func (c *Catalog) Erase(ctx context.Context) error {
	now := c.Clock.Now()
	return eachDue(erasureBatch, func() ([]ErasureRef, error) { return c.System.DueErasures(ctx, now, erasureBatch) }, func(ref ErasureRef) (failed, fatal error) {
		s := domain.SystemScope(ref.Workspace, "erasure")
		if err := c.eraseList(ctx, s, ref.ID, now); err != nil {
			return fmt.Errorf("erasing the files of the list %s: %w", ref.ID, err),
				c.Store.In(ctx, s, func(tx Tx) error { return tx.PostponeLakeErasure(ctx, ref.ID, now) })
		}
		return nil, nil
	})
}

// eachDue calls do for what is due, in batches, until nothing is left. What failed must be
// postponed by do; if that fails too, which is fatal, it would be due again at once. It returns all
// failures.
func eachDue[T any](batch int, next func() ([]T, error), do func(T) (failed, fatal error)) error {
	var all []error
	for {
		due, err := next()
		if err != nil {
			return errors.Join(append(all, err)...)
		}
		for _, item := range due {
			failed, fatal := do(item)
			all = append(all, failed)
			if fatal != nil {
				return errors.Join(append(all, fatal)...)
			}
		}
		if len(due) < batch {
			return errors.Join(all...)
		}
	}
}

func (c *Catalog) eraseList(ctx context.Context, s domain.Scope, id string, now time.Time) error {
	var e DueErasure
	var row Table
	err := c.Store.In(ctx, s, func(tx Tx) (err error) {
		if e, err = tx.LakeErasure(ctx, id); err != nil {
			return err
		}
		row, err = tx.LakeTable(ctx, e.TableID)
		return err
	})
	if domain.IsCode(err, domain.CodeNotFound) { // it was done meanwhile, or the table was purged
		return nil
	}
	if err != nil {
		return err
	}
	err = c.eraseNamed(ctx, s, e, row)
	if err != nil && (ctx.Err() != nil || now.Sub(e.DueAt) < erasureMaxAge) {
		return err
	}
	if err != nil {
		c.Report(fmt.Errorf("the files of the list %s are not erased, since the files that the table needs cannot be determined: %w", id, err))
	}
	if err := c.Files.Delete(ctx, e.List); err != nil {
		return err
	}
	return c.Store.In(ctx, s, func(tx Tx) error { return tx.DeleteLakeErasure(ctx, id) })
}

// eraseNamed erases the listed files in the table's own directories that its metadata does not
// name. It erases nothing of a table that shares its files with others.
func (c *Catalog) eraseNamed(ctx context.Context, s domain.Scope, e DueErasure, row Table) error {
	if t, err := c.openRow(ctx, s, row); err != nil || row.Registered || !t.meta.Properties().GetBool(gcEnabled, true) {
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
	file, err := c.Files.Open(ctx, e.List)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	f, names := c.fence(s), map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(file, maxErasureBytes))
	for lines.Scan() {
		uri, err := f.canonical("list", f.prefix()+lines.Text())
		if err != nil || !slices.ContainsFunc(directories, func(p string) bool { return inside(uri, p) && uri != p }) {
			continue
		}
		if names[uri] = true; len(names) < namesInMemory {
			continue
		}
		if err := c.eraseUnneeded(ctx, s, row.ID, names); err != nil {
			return err
		}
		clear(names)
	}
	return errors.Join(lines.Err(), c.eraseUnneeded(ctx, s, row.ID, names))
}

// eraseUnneeded erases those files that the table does not name. It checks again when the table has
// changed. It erases under the row lock, so that no commit names a file that is being erased. It
// returns CodeConflict if the table changes all the time.
func (c *Catalog) eraseUnneeded(ctx context.Context, s domain.Scope, id domain.TableID, names map[string]bool) error {
	checked, seen := "", map[string]bool{}
	for tries := 0; len(names) > 0; tries++ {
		if tries >= erasureTries {
			return domain.Errorf(domain.CodeConflict, "The table %s is written too often to erase its files now.", id)
		}
		t, err := c.open(ctx, s, id)
		if domain.IsCode(err, domain.CodeNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.row.MetadataLocation != checked {
			if err := spare(ctx, t, names, seen); err != nil {
				return err
			}
			checked = t.row.MetadataLocation
		}
		batch := some(names, filesAtOnce)
		err = c.Store.In(ctx, s, func(tx Tx) error {
			row, err := tx.LockLakeTable(ctx, id)
			if err != nil || row.MetadataLocation != checked {
				batch = nil
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, lockedTime)
			defer cancel()
			return c.deleteAll(ctx, batch)
		})
		if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return err
		}
		if len(batch) > 0 {
			tries = -1
		}
		for _, uri := range batch {
			delete(names, uri)
		}
	}
	return nil
}

func some(names map[string]bool, n int) []string {
	var all []string
	for name := range names {
		if len(all) == n {
			break
		}
		all = append(all, name)
	}
	return all
}

// spare removes from names the files that the table's metadata names. seen holds the lists and
// manifests already read for these names.
func spare(ctx context.Context, t opened, names, seen map[string]bool) error {
	keep := func(path string) {
		if uri, err := t.io.fence.canonical("path", path); err == nil {
			delete(names, uri)
		}
	}
	keep(t.row.MetadataLocation)
	for old := range t.meta.PreviousFiles() {
		keep(old.MetadataFile)
	}
	for s := range t.meta.Statistics() {
		keep(s.StatisticsPath)
	}
	for s := range t.meta.PartitionStatistics() {
		keep(s.StatisticsPath)
	}
	return invalid("metadata", func() error { // iceberg-go panics on broken manifests
		for _, snapshot := range t.meta.Snapshots() {
			if keep(snapshot.ManifestList); snapshot.ManifestList != "" && seen[snapshot.ManifestList] {
				continue
			}
			manifests, err := snapshot.Manifests(t.io)
			if err != nil {
				return err
			}
			for _, m := range manifests {
				if keep(m.FilePath()); seen[m.FilePath()] {
					continue
				}
				for entry, err := range m.Entries(t.io, true) {
					if err := errors.Join(err, ctx.Err()); err != nil {
						return err
					}
					keep(entry.DataFile().FilePath())
				}
				seen[m.FilePath()] = true
			}
			seen[snapshot.ManifestList] = true
		}
		return nil
	})
}

// deleteAll deletes files concurrently. It skips URIs that the storage refuses with CodeInvalid.
func (c *Catalog) deleteAll(ctx context.Context, uris []string) error {
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for part := range slices.Chunk(uris, max(1, (len(uris)+erasersAtOnce-1)/erasersAtOnce)) {
		group.Go(func() {
			for _, uri := range part {
				if err := c.Files.Delete(ctx, uri); err != nil && !domain.IsCode(err, domain.CodeInvalid) {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}
