package maintain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// group is a set of files of one partition that are rewritten together.
type group struct {
	spec  int
	rows  bool // its rows have permanent ids
	tasks []table.FileScanTask
	bytes int64
}

// tasks returns the table's current data files with their deletes, and all delete files. Each file
// is one task: iceberg-go splits large files, but their parts must be rewritten together.
func (j *job) tasks(t *table.Table) ([]table.FileScanTask, []deleteFile, error) {
	planned, err := t.Scan().PlanFiles(j.ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := j.deletesOf(t)
	if err != nil {
		return nil, nil, err
	}
	var last string
	whole := planned[:0]
	seen := map[string]bool{}
	for _, task := range planned {
		path := task.File.FilePath()
		if path == last || seen[path] {
			continue
		}
		task.Start, task.Length = 0, task.File.FileSizeBytes()
		whole = append(whole, task)
		last, seen[path] = path, true
	}
	attach(whole, all)
	return whole, all, nil
}

// deletes returns the delete files that apply to a data file.
func deletes(t table.FileScanTask) []iceberg.DataFile {
	return slices.Concat(t.DeleteFiles, t.EqualityDeleteFiles, t.DeletionVectorFiles)
}

// state identifies the set of deletes of a file at one time.
func state(t table.FileScanTask) string {
	var all []string
	for _, d := range deletes(t) {
		at := ""
		if offset := d.ContentOffset(); offset != nil {
			at = fmt.Sprint(*offset)
		}
		all = append(all, fmt.Sprintf("%q %s", d.FilePath(), at))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// partitionOf returns a text that identifies a file's partition.
func partitionOf(f iceberg.DataFile) string {
	values := f.Partition()
	var b strings.Builder
	fmt.Fprint(&b, f.SpecID())
	for _, id := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, " %d=%T:%#v", id, values[id], values[id])
	}
	return b.String()
}

// plan chooses the files to rewrite: files below the threshold, and files with deleted rows. It
// groups them up to the size of a new file. A single file without deletes is left alone.
func (j *job) plan(t *table.Table) (groups []group, err error) {
	tasks, all, err := j.tasks(t)
	if err != nil {
		return nil, err
	}
	open := map[string]*group{}
	var order []*group
	size := j.size(t)
	for _, task := range tasks {
		wanted, err := j.wanted(t, task)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		key := fmt.Sprint(partitionOf(task.File), task.FirstRowID != nil)
		bytes := task.File.FileSizeBytes()
		g := open[key]
		if g == nil || g.bytes+bytes > size {
			g = &group{spec: int(task.File.SpecID()), rows: task.FirstRowID != nil}
			open[key], order = g, append(order, g)
		}
		g.tasks = append(g.tasks, task)
		g.bytes += bytes
	}
	for _, g := range order {
		if len(g.tasks) > 1 || len(deletes(g.tasks[0])) > 0 || holds(g.tasks[0], all) {
			groups = append(groups, *g)
		}
	}
	return groups, nil
}

// holds reports whether a file keeps equality deletes alive. They are newer than the file, although
// no row of it has their keys.
func holds(t table.FileScanTask, all []deleteFile) bool {
	partition := partitionOf(t.File)
	return slices.ContainsFunc(all, func(d deleteFile) bool {
		return d.file.ContentType() == iceberg.EntryContentEqDeletes && (d.partition == "" || d.partition == partition) && t.DataSequenceNumber != nil && *t.DataSequenceNumber < d.sequence
	})
}

// size returns the target size of new files: the table's own setting, and at least the threshold.
// Otherwise each run would rewrite the same files.
func (j *job) size(t *table.Table) int64 {
	return max(j.Threshold, t.Properties().GetInt64(table.WriteTargetFileSizeBytesKey, table.WriteTargetFileSizeBytesDefault))
}

// wanted reports whether a file needs a rewrite. It refuses files outside the storage and deletes
// that cannot be applied.
func (j *job) wanted(t *table.Table, task table.FileScanTask) (bool, error) {
	gone := deletes(task)
	for _, f := range append(gone, task.File) {
		if _, err := j.files.name(f.FilePath()); err != nil {
			return false, err
		}
	}
	if task.File.FileFormat() != iceberg.ParquetFile || len(gone) == 0 && task.File.FileSizeBytes() >= j.Threshold || !writable(t, int(task.File.SpecID())) {
		return false, nil
	}
	for _, f := range gone {
		if f.FileFormat() != iceberg.ParquetFile && !table.IsDeletionVector(f) {
			return false, sqltext.Fail(agent.FaultQuery, "Rows of the table were deleted by a file that is neither Parquet nor a deletion vector, %s, which is not read here. Have the engine that wrote it rewrite the table.", sqltext.Cut(f.FilePath(), 300))
		}
	}
	return true, nil
}

// writable reports whether the table still has the source columns of a partition spec.
func writable(t *table.Table, spec int) bool {
	s := t.Metadata().PartitionSpecByID(spec)
	if s == nil {
		return false
	}
	for _, f := range s.Fields() {
		for _, id := range f.SourceIDs {
			if _, ok := t.Schema().FindFieldByID(id); !ok {
				return false
			}
		}
	}
	return true
}
