package maintain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
)

// group are files of one partition that are written anew together.
type group struct {
	spec  int
	rows  bool // its rows have ids that stay
	tasks []table.FileScanTask
	bytes int64
}

// tasks are the files of a table as it is now, each whole and with its deletes, which are all. iceberg-go cuts large ones, whose parts must not be written apart.
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

// deletes are the files by which rows of a file are deleted.
func deletes(t table.FileScanTask) []iceberg.DataFile {
	return slices.Concat(t.DeleteFiles, t.EqualityDeleteFiles, t.DeletionVectorFiles)
}

// state tells a file's deletes apart from those that it has at another time.
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

// partitionOf is the same text for files of one partition, and another one for all others.
func partitionOf(f iceberg.DataFile) string {
	values := f.Partition()
	var b strings.Builder
	fmt.Fprint(&b, f.SpecID())
	for _, id := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, " %d=%T:%#v", id, values[id], values[id])
	}
	return b.String()
}

// plan chooses the files that are written anew: those below the threshold, and those of which rows are deleted, put together until they have the size of a file.
// What is alone and has no deletes is well as it is.
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

// holds reports whether a file is why deletes by equality stay: they are newer, although no row of it has their keys.
func holds(t table.FileScanTask, all []deleteFile) bool {
	partition := partitionOf(t.File)
	return slices.ContainsFunc(all, func(d deleteFile) bool {
		return d.file.ContentType() == iceberg.EntryContentEqDeletes && (d.partition == "" || d.partition == partition) && t.DataSequenceNumber != nil && *t.DataSequenceNumber < d.sequence
	})
}

// size is that of new files: what the table says of its own, and no less than what is put together, or the same files would come again and again.
func (j *job) size(t *table.Table) int64 {
	return max(j.Threshold, t.Properties().GetInt64(table.WriteTargetFileSizeBytesKey, table.WriteTargetFileSizeBytesDefault))
}

// wanted reports whether a file is to be written anew. It refuses what must not be read, and what cannot be applied.
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
			return false, refuse(agent.FaultQuery, "Rows of the table were deleted by a file that is neither Parquet nor a deletion vector, %s, which is not read here. Have the engine that wrote it rewrite the table.", cut(f.FilePath(), 300))
		}
	}
	return true, nil
}

// writable reports whether the columns by which a spec makes partitions are still there.
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
