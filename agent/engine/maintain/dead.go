package maintain

import (
	"errors"
	"math"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// deleteFile is a live delete file of a snapshot.
type deleteFile struct {
	file      iceberg.DataFile
	sequence  int64
	targets   map[string]bool // data files of its positions; nil if unknown or none
	partition string          // that it applies to; empty for all
}

// deletesOf returns a table's live delete files.
func (j *job) deletesOf(t *table.Table) (all []deleteFile, err error) {
	var failed error
	err = j.entries(t, iceberg.ManifestContentDeletes, func(e iceberg.ManifestEntry) {
		f := e.DataFile()
		d := deleteFile{file: f, sequence: e.SequenceNum(), partition: partitionOf(f)}
		if d.targets, err = j.targetsOf(f); err != nil && failed == nil {
			failed = err
		}
		if s := t.Metadata().PartitionSpecByID(int(f.SpecID())); f.ContentType() == iceberg.EntryContentEqDeletes && s != nil && s.IsUnpartitioned() {
			d.partition = ""
		}
		all = append(all, d)
	})
	return all, errors.Join(err, failed)
}

// entries calls each for the live entries of a table's manifests with this content.
func (j *job) entries(t *table.Table, of iceberg.ManifestContent, each func(iceberg.ManifestEntry)) error {
	s := t.CurrentSnapshot()
	if s == nil {
		return nil
	}
	manifests, err := s.Manifests(j.files)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		if m.ManifestContent() != of {
			continue
		}
		for e, err := range m.Entries(j.files, true) {
			if err == nil {
				err = j.ctx.Err()
			}
			if err != nil {
				return err
			}
			each(e)
		}
	}
	return nil
}

// least is the lowest sequence number of files by partition.
type least map[string]int64

func (l least) add(partition string, sequence int64) {
	for _, of := range []string{partition, ""} {
		if n, ok := l[of]; !ok || sequence < n {
			l[of] = sequence
		}
	}
}

func (l least) of(partition string) int64 {
	if n, ok := l[partition]; ok {
		return n
	}
	return math.MaxInt64
}

// dead returns the delete files that apply to no data file except the rewritten ones. Equality
// deletes apply to files with a lower sequence number, position deletes also to an equal one. dead
// adds the remaining files to stays.
func (j *job) dead(t *table.Table, rewritten map[string]bool, stays *totals) (dead []iceberg.DataFile, err error) {
	all, err := j.deletesOf(t)
	if err != nil {
		return nil, err
	}
	sequences := map[string]int64{} // of live data files that position deletes refer to
	for _, d := range all {
		for path := range d.targets {
			sequences[path] = math.MaxInt64
		}
	}
	oldest := least{}
	err = j.entries(t, iceberg.ManifestContentData, func(e iceberg.ManifestEntry) {
		f := e.DataFile()
		if rewritten[f.FilePath()] {
			return
		}
		stays.add(f)
		if _, ok := sequences[f.FilePath()]; ok {
			sequences[f.FilePath()] = e.SequenceNum()
		}
		oldest.add(partitionOf(f), max(0, e.SequenceNum()))
	})
	seen := map[string]bool{}
	for _, d := range all {
		if !d.dead(sequences, oldest) {
			stays.add(d.file)
			continue
		}
		if key := d.key(); !seen[key] {
			seen[key] = true
			dead = append(dead, d.file)
		}
	}
	return dead, err
}

// dead reports whether a delete file applies to no live data file.
func (d deleteFile) dead(sequences map[string]int64, oldest least) bool {
	if d.sequence < 0 { // unknown
		return false
	}
	if d.file.ContentType() == iceberg.EntryContentEqDeletes {
		return oldest.of(d.partition) >= d.sequence
	}
	if d.targets == nil {
		return oldest.of(d.partition) > d.sequence
	}
	for path := range d.targets {
		if sequences[path] <= d.sequence {
			return false
		}
	}
	return true
}

// key distinguishes deletion vectors in the same file.
func (d deleteFile) key() string {
	if of := d.file.ReferencedDataFile(); of != nil {
		return d.file.FilePath() + "\n" + *of
	}
	return d.file.FilePath()
}

// totals are recounted for each snapshot. iceberg-go adds to the previous totals, and DuckDB counts
// replaced delete files.
type totals struct{ files, records, bytes, deletes, positions, equal int64 }

func (n *totals) add(f iceberg.DataFile) {
	n.bytes += f.FileSizeBytes()
	switch f.ContentType() {
	case iceberg.EntryContentData:
		n.files++
		n.records += f.Count()
	case iceberg.EntryContentPosDeletes:
		n.deletes++
		n.positions += f.Count()
	case iceberg.EntryContentEqDeletes:
		n.deletes++
		n.equal += f.Count()
	}
}

// summary returns the totals as snapshot summary properties.
func (n *totals) summary() map[string]int64 {
	return map[string]int64{
		"total-data-files": n.files, "total-records": n.records, "total-files-size": n.bytes, "total-delete-files": n.deletes, "total-position-deletes": n.positions, "total-equality-deletes": n.equal,
	}
}
