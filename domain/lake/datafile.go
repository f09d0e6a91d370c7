package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// DataFile is one file of a snapshot.
type DataFile struct {
	Path      string
	Content   string // data, position_deletes, equality_deletes
	Format    string // parquet, orc, avro, puffin
	Partition string // such as day=2026-01-01/kind=a; empty where the table has no partitions
	SpecID    int
	Records   int64
	Bytes     int64
	ordinal   string
}

var contents = map[iceberg.ManifestEntryContent]string{
	iceberg.EntryContentData: "data", iceberg.EntryContentPosDeletes: "position_deletes", iceberg.EntryContentEqDeletes: "equality_deletes",
}

// FilesFilter narrows a list of files.
type FilesFilter struct {
	Snapshot *int64 // nil means the current one
}

// snapshot returns the snapshot with the id, or the current one for nil. It is nil if the table has
// no current one.
func (t opened) snapshot(id *int64) (*table.Snapshot, error) {
	if id == nil {
		return t.meta.CurrentSnapshot(), nil
	}
	if found := t.meta.SnapshotByID(*id); found != nil {
		return found, nil
	}
	return nil, domain.NotFound("snapshot", *id)
}

// fileCursor is the end of a page of files: a snapshot, a manifest of it, and the number of entries
// read.
type fileCursor struct {
	snapshot        int64
	manifest, entry int
}

func (c fileCursor) String() string { return fmt.Sprintf("%d:%d:%d", c.snapshot, c.manifest, c.entry) }

func parseFileCursor(s string) (c fileCursor, err error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return c, domain.Invalid("cursor", "The cursor is malformed; use next_cursor of the previous page as it came.")
	}
	var errs [3]error
	c.snapshot, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	c.manifest, errs[1] = strconv.Atoi(parts[1])
	c.entry, errs[2] = strconv.Atoi(parts[2])
	for _, e := range errs {
		if e != nil {
			return c, domain.Invalid("cursor", "The cursor is malformed; use next_cursor of the previous page as it came.")
		}
	}
	return c, nil
}

// DataFiles lists the data and delete files of a snapshot, in the order of its manifests. Later
// pages are of the same snapshot as the first. It reads only manifests, and skips those before the
// page. CodeInvalid for manifests with too many entries; CodeUnavailable for files that cannot be
// read in time.
func (c *Catalog) DataFiles(ctx context.Context, s domain.Scope, id domain.TableID, f FilesFilter, p domain.Page) (domain.List[DataFile], error) {
	const list = "files"
	filter := struct {
		Table    domain.TableID
		Snapshot *int64
	}{id, f.Snapshot}
	after, limit, err := p.After(domain.ListName(list, filter))
	if err != nil {
		return domain.List[DataFile]{}, err
	}
	t, err := c.open(ctx, s, id)
	if err != nil {
		return domain.List[DataFile]{}, err
	}
	at := fileCursor{}
	if after != "" {
		if at, err = parseFileCursor(after); err != nil {
			return domain.List[DataFile]{}, err
		}
		f.Snapshot = &at.snapshot
	}
	snapshot, err := t.snapshot(f.Snapshot)
	if err != nil {
		return domain.List[DataFile]{}, err
	}
	var found []DataFile
	if snapshot != nil {
		at.snapshot = snapshot.SnapshotID
		err = c.inTime(ctx, t, func(ctx context.Context, t opened) (err error) {
			found, err = t.files(ctx, *snapshot, at, limit+1, c.bounds)
			return err
		})
	}
	if err != nil {
		return domain.List[DataFile]{}, err
	}
	return domain.PageOf(domain.ListName(list, filter), found, limit, func(d DataFile) string { return d.ordinal }), nil
}

// bounds limit what one request reads of a table's files, and what it may add to a table.
type bounds struct {
	time       time.Duration
	entries    int // of manifests
	partitions int
	manifests  int // in the manifest lists of a commit
	named      int // files, in the manifests of a commit
}

var usualBounds = bounds{time: sampleTime, entries: 1_000_000, partitions: 100_000, manifests: 100_000, named: 1_000_000}

// checkEvery is the number of entries between two checks of the deadline.
const checkEvery = 1_000

// inTime runs read with the deadline bounds.time.
func (c *Catalog) inTime(ctx context.Context, t opened, read func(context.Context, opened) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.bounds.time)
	defer cancel()
	t.io.ctx = ctx
	err := invalid("table", func() error { return read(ctx, t) })
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return domain.Errorf(domain.CodeUnavailable, "The files of the table %s could not be read within %s; try again, or rewrite its manifests and compact its data files if they are many.",
			t.row.Name, c.bounds.time).Because(err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return damaged(t.row, err)
}

// entries counts the manifest entries read for one request.
type entries struct{ read, limit int }

// next counts one more entry, and fails beyond the limit.
func (e *entries) next(ctx context.Context) error {
	if e.read++; e.read > e.limit {
		return domain.Invalid("table", "The table's manifests name more than %d files, which is too many to look through here; compact its data files, or rewrite its manifests into smaller ones.", e.limit)
	}
	if e.read%checkEvery == 0 {
		return ctx.Err()
	}
	return nil
}

// files returns at most limit files after the cursor.
func (t opened) files(ctx context.Context, snapshot table.Snapshot, at fileCursor, limit int, b bounds) (found []DataFile, err error) {
	manifests, err := snapshot.Manifests(t.io)
	if err != nil {
		return nil, err
	}
	count := entries{limit: b.entries}
	for m := at.manifest; m >= 0 && m < len(manifests) && len(found) < limit; m++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 0
		for entry, err := range manifests[m].Entries(t.io, true) {
			if err = cmp.Or(err, count.next(ctx)); err != nil {
				return nil, err
			}
			if n++; m == at.manifest && n <= at.entry {
				continue
			}
			file, err := t.dataFile(entry.DataFile())
			if err != nil {
				return nil, err
			}
			file.ordinal = fileCursor{snapshot.SnapshotID, m, n}.String()
			if found = append(found, file); len(found) == limit {
				break
			}
		}
	}
	return found, nil
}

func (t opened) dataFile(d iceberg.DataFile) (DataFile, error) {
	partition, err := t.partition(d)
	return DataFile{
		Path: d.FilePath(), Content: contents[d.ContentType()], Format: strings.ToLower(string(d.FileFormat())), Partition: partition,
		SpecID: int(d.SpecID()), Records: d.Count(), Bytes: d.FileSizeBytes(),
	}, err
}

// partition returns the file's partition as a path.
func (t opened) partition(d iceberg.DataFile) (string, error) {
	spec := t.meta.PartitionSpecByID(int(d.SpecID()))
	if spec == nil {
		return "", fmt.Errorf("the file %s has the partition spec %d, which the table does not know", d.FilePath(), d.SpecID())
	}
	if spec.IsUnpartitioned() {
		return "", nil
	}
	schema := t.meta.CurrentSchema()
	return spec.PartitionToPath(table.GetPartitionRecord(d, spec.PartitionType(schema)), schema), nil
}

// Partition sums up the files of a snapshot that have one partition value.
type Partition struct {
	Partition   string // such as day=2026-01-01/kind=a; empty for a table without partitions
	SpecID      int
	Records     int64 // of data files, deleted ones included
	DataFiles   int64
	Bytes       int64 // of data files
	DeleteFiles int64
}

// Partitions lists the partitions of the current snapshot by name. It reads all manifests once, and
// caches the result for later pages. CodeInvalid for a table with too many partitions;
// CodeUnavailable for files that cannot be read in time.
func (c *Catalog) Partitions(ctx context.Context, s domain.Scope, id domain.TableID, p domain.Page) (domain.List[Partition], error) {
	t, err := c.open(ctx, s, id)
	if err != nil {
		return domain.List[Partition]{}, err
	}
	rows, known := c.partitions.get(stateOf(t.row))
	if snapshot := t.meta.CurrentSnapshot(); snapshot != nil && !known {
		err = c.inTime(ctx, t, func(ctx context.Context, t opened) (err error) {
			rows, err = t.partitions(ctx, *snapshot, c.bounds)
			return err
		})
		if err != nil {
			return domain.List[Partition]{}, err
		}
		c.partitions.put(stateOf(t.row), rows)
	}
	return pageOver("partitions", id, rows, p, Partition.key)
}

func (p Partition) key() string { return fmt.Sprintf("%s#%d", p.Partition, p.SpecID) }

func (t opened) partitions(ctx context.Context, snapshot table.Snapshot, b bounds) ([]Partition, error) {
	manifests, err := snapshot.Manifests(t.io)
	if err != nil {
		return nil, err
	}
	all := map[string]*Partition{}
	count := entries{limit: b.entries}
	for _, m := range manifests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for entry, err := range m.Entries(t.io, true) {
			if err = cmp.Or(err, count.next(ctx)); err != nil {
				return nil, err
			}
			if err := t.count(entry.DataFile(), all); err != nil {
				return nil, err
			}
			if len(all) > b.partitions {
				return nil, domain.Invalid("table", "The table has more than %d partitions, which is too many to list here; partition it by less, or count its rows by its partition columns with a statement.", b.partitions)
			}
		}
	}
	rows := make([]Partition, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, *all[name])
	}
	return rows, nil
}

func (t opened) count(d iceberg.DataFile, all map[string]*Partition) error {
	name, err := t.partition(d)
	if err != nil {
		return err
	}
	p := Partition{Partition: name, SpecID: int(d.SpecID())}
	if all[p.key()] == nil {
		all[p.key()] = &p
	}
	at := all[p.key()]
	if d.ContentType() != iceberg.EntryContentData {
		at.DeleteFiles++
		return nil
	}
	at.DataFiles++
	at.Records += d.Count()
	at.Bytes += d.FileSizeBytes()
	return nil
}
