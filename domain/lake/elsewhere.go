package lake

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"syscall"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"

	"github.com/millpond/millpond/domain"
)

// elsewhere finds the files that a table's metadata names outside of its places.
type elsewhere struct {
	of      opened
	io      *watchedIO
	places  []string
	remove  func(files []string) error
	data    map[string]bool // named by manifests, and not yet removed
	others  map[string]bool // the manifests themselves, and what the metadata names: they go when all data is gone
	stopped error           // removing has failed, or the caller has gone
}

// removeElsewhere removes what the table's metadata names outside of its places: fenced, and in no other table's. Data goes while manifests are read, so that no more than
// some names of it are in memory, and what names it goes after it.
func (c *Catalog) removeElsewhere(ctx context.Context, s domain.Scope, t opened) error {
	e := elsewhere{of: t, io: &watchedIO{fencedIO: t.io}, data: map[string]bool{}, others: map[string]bool{}}
	e.remove = func(files []string) error { return c.removeUnowned(ctx, s, t.row.ID, files) }
	err := c.Store.In(ctx, s, func(tx domain.Tx) (err error) {
		e.places, _, err = tx.TableLocations(ctx, t.row.ID)
		return err
	})
	if err != nil {
		return err
	}
	odd := invalid("metadata", func() error {
		e.gather(ctx)
		return nil
	})
	if err := errors.Join(e.stopped, e.io.failed, ctx.Err()); err != nil {
		return err
	}
	for _, files := range []map[string]bool{e.data, e.others} {
		if err := e.remove(slices.Sorted(maps.Keys(files))); err != nil {
			return err
		}
	}
	return odd
}

func (e *elsewhere) add(to map[string]bool, path string) {
	uri, err := e.of.io.fence.canonical("path", path)
	if err != nil || uri == e.of.row.MetadataLocation || slices.ContainsFunc(e.places, func(place string) bool { return inside(uri, place) }) {
		return
	}
	to[uri] = true
}

// gather reads every manifest of every snapshot once. What can never be read, or must not be, is passed over: it can have no files that are ours to remove.
func (e *elsewhere) gather(ctx context.Context) {
	for old := range e.of.meta.PreviousFiles() {
		e.add(e.others, old.MetadataFile)
	}
	for s := range e.of.meta.Statistics() {
		e.add(e.others, s.StatisticsPath)
	}
	for s := range e.of.meta.PartitionStatistics() {
		e.add(e.others, s.StatisticsPath)
	}
	seen := map[string]bool{}
	for _, snapshot := range e.of.meta.Snapshots() {
		e.add(e.others, snapshot.ManifestList)
		manifests, err := snapshot.Manifests(e.io)
		if err != nil {
			continue
		}
		for _, m := range manifests {
			if e.stopped = errors.Join(e.stopped, ctx.Err()); e.stopped != nil || e.io.failed != nil {
				return
			}
			if !seen[m.FilePath()] {
				seen[m.FilePath()] = true
				e.manifest(m)
			}
		}
	}
}

// elsewhereBatch bounds how many files of data are removed at once.
const elsewhereBatch = 10_000

func (e *elsewhere) manifest(m iceberg.ManifestFile) {
	e.add(e.others, m.FilePath())
	for entry, err := range m.Entries(e.io, false) {
		if err != nil {
			return
		}
		e.add(e.data, entry.DataFile().FilePath())
		if len(e.data) < elsewhereBatch {
			continue
		}
		if e.stopped = e.remove(slices.Sorted(maps.Keys(e.data))); e.stopped != nil {
			return
		}
		clear(e.data)
	}
}

// ownerBatch bounds how many directories are asked for at once.
const ownerBatch = 10_000

// removeUnowned removes those of the files that lie in no other table's location.
func (c *Catalog) removeUnowned(ctx context.Context, s domain.Scope, id domain.TableID, files []string) error {
	f := c.fence(s)
	dirs := map[string]bool{}
	for _, uri := range files {
		for _, dir := range append(f.around(uri), uri) {
			dirs[dir] = true
		}
	}
	owned := map[string]bool{}
	for batch := range slices.Chunk(slices.Collect(maps.Keys(dirs)), ownerBatch) {
		err := c.Store.In(ctx, s, func(tx domain.Tx) error {
			owners, err := tx.LocationOwners(ctx, batch)
			for dir, owner := range owners {
				owned[dir] = owned[dir] || owner != id
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, uri := range files {
		if slices.ContainsFunc(append(f.around(uri), uri), func(dir string) bool { return owned[dir] }) {
			continue
		}
		if err := c.removeFile(ctx, uri); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes a file that a manifest names. What is a directory, or can be no file, is passed over: it is not what the table wrote.
func (c *Catalog) removeFile(ctx context.Context, uri string) error {
	err := c.Files.Delete(ctx, uri)
	if err == nil || domain.IsCode(err, domain.CodeInvalid) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil
	}
	file, opening := c.Files.Open(ctx, uri)
	if opening == nil {
		return errors.Join(err, file.Close())
	}
	if domain.IsCode(opening, domain.CodeInvalid) {
		return nil
	}
	return err
}

// watchedIO notes the first failure of the storage that may be over at the next try.
type watchedIO struct {
	fencedIO
	failed error
}

// Open implements io.IO of iceberg-go.
func (w *watchedIO) Open(name string) (iceio.File, error) {
	file, err := w.fencedIO.Open(name)
	if err != nil {
		return nil, w.note(err)
	}
	return watchedFile{file, w}, nil
}

// note keeps the error, unless it says what the file is: not there, not to be opened, or at its end.
func (w *watchedIO) note(err error) error {
	lasting := err == nil || domain.IsCode(err, domain.CodeNotFound) || domain.IsCode(err, domain.CodeInvalid) || domain.IsCode(err, domain.CodeTooLarge) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ENAMETOOLONG)
	if !lasting && w.failed == nil {
		w.failed = err
	}
	return err
}

// watchedFile is an open file of a watchedIO.
type watchedFile struct {
	iceio.File
	io *watchedIO
}

// Read implements io.Reader.
func (f watchedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.io.note(err)
}

// ReadAt implements io.ReaderAt.
func (f watchedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	return n, f.io.note(err)
}
