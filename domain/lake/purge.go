package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/millpond/millpond/domain"
)

const (
	purgeBatch  = 100       // tables at a time
	purgeMargin = time.Hour // beyond the time in which a table can be restored: clocks of replicas differ
)

// Purge ends what was dropped and can no longer be restored: the files of what was dropped with purge go, and the rows of all. Answers that were kept for
// long enough go as well. What fails is tried again at the next time. Several replicas may do it at once.
func (c *Catalog) Purge(ctx context.Context) error {
	now := c.Clock.Now()
	failed := []error{c.System.ForgetLakeAnswers(ctx, now.Add(-2*AnswerTime))}
	due, err := c.System.DueTables(ctx, now.Add(-purgeMargin), purgeBatch)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for _, ref := range due {
		if err := c.purge(ctx, domain.SystemScope(ref.Workspace, "purge"), ref.Table); err != nil {
			failed = append(failed, fmt.Errorf("purging the table %s: %w", ref.Table, err))
		}
	}
	return errors.Join(failed...)
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

// removeFiles removes first what the table's manifests name elsewhere, which cannot be known any more without them, and then all under its location.
func (c *Catalog) removeFiles(ctx context.Context, s domain.Scope, row domain.LakeTable) error {
	f := c.fence(s)
	location, err := f.chosen(row.Location)
	if err != nil {
		return err
	}
	elsewhere, err := c.filesElsewhere(ctx, s, row)
	if err != nil {
		c.Report(fmt.Errorf("the table %s is purged without its files outside of its location: %w", row.ID, err))
	}
	for _, uri := range elsewhere {
		if err := c.Files.Delete(ctx, uri); err != nil {
			return err
		}
	}
	err = c.Files.List(ctx, location+"/", func(file FileInfo) error { return c.Files.Delete(ctx, file.URI) })
	if err != nil {
		return err
	}
	return c.Files.RemoveDirs(ctx, location+"/")
}

// filesElsewhere are the files that the table's metadata names outside of its location: fenced, and in no other table's location.
func (c *Catalog) filesElsewhere(ctx context.Context, s domain.Scope, row domain.LakeTable) ([]string, error) {
	if row.Kind == domain.KindView {
		return nil, nil
	}
	t, err := c.openRow(ctx, s, row)
	if err != nil {
		return nil, err
	}
	found := elsewhere{of: t, files: map[string]bool{}}
	err = invalid("metadata", func() error { return found.gather(ctx) })
	if err != nil {
		return nil, err
	}
	files := slices.Sorted(maps.Keys(found.files))
	return c.unowned(ctx, s, files)
}

// elsewhere gathers files outside of a table's location.
type elsewhere struct {
	of    opened
	files map[string]bool
}

func (e elsewhere) add(path string) {
	uri, err := e.of.io.fence.canonical("path", path)
	if err == nil && !inside(uri, e.of.row.Location) {
		e.files[uri] = true
	}
}

// gather reads every manifest of every snapshot once. What cannot be read, or must not be, is passed over: it can have no files that are ours to remove.
func (e elsewhere) gather(ctx context.Context) error {
	e.add(e.of.row.MetadataLocation)
	for old := range e.of.meta.PreviousFiles() {
		e.add(old.MetadataFile)
	}
	for s := range e.of.meta.Statistics() {
		e.add(s.StatisticsPath)
	}
	for s := range e.of.meta.PartitionStatistics() {
		e.add(s.StatisticsPath)
	}
	seen := map[string]bool{}
	for _, snapshot := range e.of.meta.Snapshots() {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.add(snapshot.ManifestList)
		manifests, err := snapshot.Manifests(e.of.io)
		if err != nil {
			continue
		}
		for _, m := range manifests {
			if !seen[m.FilePath()] {
				seen[m.FilePath()] = true
				e.manifest(m)
			}
		}
	}
	return nil
}

func (e elsewhere) manifest(m iceberg.ManifestFile) {
	e.add(m.FilePath())
	for entry, err := range m.Entries(e.of.io, false) {
		if err != nil {
			return
		}
		e.add(entry.DataFile().FilePath())
	}
}

// around are the directories that the file is in, from its own up to the workspace's.
func (f fence) around(uri string) (dirs []string) {
	for i := strings.LastIndexByte(uri, '/'); i > len(f.prefix()); i = strings.LastIndexByte(uri[:i], '/') {
		dirs = append(dirs, uri[:i])
	}
	return dirs
}

// ownerBatch bounds how many directories are asked for at once.
const ownerBatch = 10_000

// unowned are those of the files that lie in no table's location.
func (c *Catalog) unowned(ctx context.Context, s domain.Scope, files []string) ([]string, error) {
	f := c.fence(s)
	dirs := map[string]bool{}
	for _, uri := range files {
		for _, dir := range f.around(uri) {
			dirs[dir] = true
		}
	}
	owned := map[string]bool{}
	for batch := range slices.Chunk(slices.Collect(maps.Keys(dirs)), ownerBatch) {
		err := c.Store.In(ctx, s, func(tx domain.Tx) error {
			owners, err := tx.LocationOwners(ctx, batch)
			for dir := range owners {
				owned[dir] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(files, func(uri string) bool {
		return slices.ContainsFunc(f.around(uri), func(dir string) bool { return owned[dir] })
	}), nil
}

// ownPaths refuses properties that lead writers into another table's location: its purge would take their files along.
func (c *Catalog) ownPaths(ctx context.Context, s domain.Scope, id domain.TableID, properties map[string]string) error {
	f := c.fence(s)
	named := map[string]string{} // directories by the property that leads into them
	for _, name := range pathProperties {
		if value, has := properties[name]; has {
			uri, err := f.directory(name, value)
			if err != nil {
				return err
			}
			for _, dir := range append(f.around(uri), uri) {
				named[dir] = name
			}
		}
	}
	if len(named) == 0 {
		return nil
	}
	return c.Store.In(ctx, s, func(tx domain.Tx) error {
		owners, err := tx.LocationOwners(ctx, slices.Collect(maps.Keys(named)))
		for dir, owner := range owners {
			if owner != id {
				return domain.Invalid(named[dir], "The property %s leads into the location of another table, %s; choose another place.", named[dir], dir)
			}
		}
		return err
	})
}
