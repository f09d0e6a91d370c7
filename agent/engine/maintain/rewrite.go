package maintain

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Divisors of a statement's memory for one encoded row group and for one batch of rows. iceberg-go
// holds the row group being read, the row group being written, and some batches.
const (
	rowGroupShare = 16
	batchShare    = 256
	mostRowGroup  = 128 << 20
	leastBatch    = 16
	mostBatch     = 16 << 10
	expansion     = 6 // approximate ratio of rows in memory to rows in a file
	batchesAhead  = 2
)

// rewrite writes a group's remaining rows to new files of its partition.
func (j *job) rewrite(t *table.Table, g group) (rewritten, error) {
	to, err := j.writer(t, g)
	if err != nil {
		return rewritten{}, err
	}
	fields := t.Schema()
	options := []table.WriteRecordOption{table.WithClusteredWrite(), table.WithRecordBatchBufferSize(batchesAhead), table.WithTargetFileSize(j.size(t) * 5 / 4)}
	if g.rows {
		fields = iceberg.SchemaWithRowLineage(fields)
		options = append(options, table.WithPreserveRowLineage(fields))
	}
	schema, err := table.SchemaToArrowSchemaWithOptions(fields, table.ArrowSchemaOptions{IncludeFieldIDs: true, TableProperties: t.Properties()})
	if err != nil {
		return rewritten{}, err
	}
	done := rewritten{group: g}
	for f, err := range table.WriteRecords(j.ctx, to, schema, j.rows(t, g), options...) {
		if err != nil {
			return rewritten{}, err
		}
		done.added = append(done.added, f)
	}
	return done, j.ctx.Err()
}

// writer returns the table with settings for the write: the group's partition spec, Parquet, and
// row groups that fit into memory.
func (j *job) writer(t *table.Table, g group) (*table.Table, error) {
	b, err := table.MetadataBuilderFromBase(t.Metadata(), t.MetadataLocation())
	if err != nil {
		return nil, err
	}
	if err := b.SetDefaultSpecID(g.spec); err != nil {
		return nil, err
	}
	most := min(j.memory/rowGroupShare, t.Properties().GetInt64(table.ParquetRowGroupSizeBytesKey, mostRowGroup))
	if err := b.SetProperties(iceberg.Properties{table.ParquetRowGroupSizeBytesKey: fmt.Sprint(most), table.WriteFormatDefaultKey: "parquet"}); err != nil {
		return nil, err
	}
	meta, err := b.Build()
	if err != nil {
		return nil, err
	}
	return table.New(t.Identifier(), meta, t.MetadataLocation(), j.files.io, j.lake), nil
}

// batch returns the number of rows to read at once.
func (j *job) batch(g group) int {
	var rows int64
	for _, t := range g.tasks {
		rows += t.File.Count()
	}
	width := max(1, g.bytes*expansion/max(1, rows))
	return int(max(leastBatch, min(mostBatch, j.memory/batchShare/width)))
}

// rows yields a group's remaining rows, file by file.
func (j *job) rows(t *table.Table, g group) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		options := []table.ScanOption{table.WithMaxConcurrency(1), table.WithArrowBatchSize(j.batch(g))}
		if g.rows {
			options = append(options, table.WithRowLineage())
		}
		wide, err := j.widened(t, g)
		if err != nil {
			yield(nil, err)
			return
		}
		erased := eraser{job: j, table: wide}
		for _, some := range alike(g.tasks) {
			more, err := j.read(some, &erased, options, yield)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// alike splits files into runs with the same equality deletes. Each run is read at once.
func alike(tasks []table.FileScanTask) (runs [][]table.FileScanTask) {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(a, b table.FileScanTask) int { return strings.Compare(keysOf(a), keysOf(b)) })
	for i, t := range tasks {
		if i == 0 || keysOf(t) != keysOf(tasks[i-1]) {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], t)
	}
	return runs
}

func keysOf(t table.FileScanTask) string {
	var all []string
	for _, d := range t.EqualityDeleteFiles {
		all = append(all, d.FilePath())
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// read yields the rows of files. It returns false if the consumer wants no more.
func (j *job) read(tasks []table.FileScanTask, erased *eraser, options []table.ScanOption, yield func(arrow.RecordBatch, error) bool) (bool, error) {
	filter, err := erased.filter(tasks[0].EqualityDeleteFiles)
	if err != nil {
		return false, err
	}
	plain := slices.Clone(tasks)
	bytes := int64(0)
	for i := range plain {
		plain[i].EqualityDeleteFiles = nil
		bytes += plain[i].File.FileSizeBytes()
	}
	_, batches, err := erased.table.Scan(options...).ReadTasks(j.ctx, plain)
	if err != nil {
		return false, err
	}
	for b, err := range batches {
		if err != nil {
			return false, err
		}
		if b, err = filter(b); err != nil {
			return false, err
		}
		if !yield(filled(narrowed(b)), nil) {
			return false, nil
		}
	}
	j.done.Add(bytes)
	j.scanned += bytes
	return true, nil
}

// filled returns a batch in which every string column has a byte buffer, even if all its strings
// are empty. Without one, arrow-go treats the strings as missing and writes statistics by which
// readers skip them.
func filled(b arrow.RecordBatch) arrow.RecordBatch {
	columns := slices.Clone(b.Columns())
	changed := false
	for i, c := range columns {
		if data := withBytes(c.Data()); data != c.Data() {
			columns[i], changed = array.MakeFromData(data), true
		}
	}
	if !changed {
		return b
	}
	defer b.Release()
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows())
}

// withBytes returns an array's data with a byte buffer for its strings and those of its children.
func withBytes(of arrow.ArrayData) arrow.ArrayData {
	buffers, children, changed := slices.Clone(of.Buffers()), slices.Clone(of.Children()), false
	if arrow.IsBaseBinary(of.DataType().ID()) && (buffers[2] == nil || buffers[2].Bytes() == nil) {
		buffers[2], changed = memory.NewBufferBytes([]byte{}), true
	}
	for i, c := range children {
		children[i] = withBytes(c)
		changed = changed || children[i] != c
	}
	if !changed {
		return of
	}
	return array.NewData(of.DataType(), of.Len(), buffers, children, of.NullN(), of.Offset())
}
