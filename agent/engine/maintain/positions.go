package maintain

import (
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// positionRows is the batch size for reading position delete files, in rows.
const positionRows = 64 << 10

// targetsOf returns the data files that a position delete file refers to, or nil if they cannot be
// determined. It reads the file itself: some writers record another partition than that of the
// rows, and DuckDB uses only the file names.
func (j *job) targetsOf(f iceberg.DataFile) (map[string]bool, error) {
	if f.ContentType() != iceberg.EntryContentPosDeletes {
		return nil, nil
	}
	if of := f.ReferencedDataFile(); of != nil && *of != "" {
		return map[string]bool{*of: true}, nil
	}
	if f.FileFormat() != iceberg.ParquetFile {
		return nil, nil
	}
	if known := j.targets[f.FilePath()]; known != nil {
		return known, nil
	}
	found, err := j.readTargets(f.FilePath())
	if err != nil {
		return nil, err
	}
	if j.targets == nil {
		j.targets = map[string]map[string]bool{}
	}
	j.targets[f.FilePath()] = found
	return found, nil
}

func (j *job) readTargets(uri string) (found map[string]bool, err error) {
	opened, err := j.files.Open(uri)
	if err != nil {
		return nil, err
	}
	in, err := file.NewParquetReader(opened)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	defer func() { err = errors.Join(err, in.Close()) }() // also closes the opened file
	of, err := pqarrow.NewFileReader(in, pqarrow.ArrowReadProperties{BatchSize: positionRows}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	rows, err := of.GetRecordReader(j.ctx, []int{in.MetaData().Schema.ColumnIndexByName("file_path")}, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	found = map[string]bool{}
	for rows.Next() {
		paths, last := rows.RecordBatch().Column(0), ""
		for i := range paths.Len() {
			if path := paths.ValueStr(i); path != last {
				found[path], last = true, path
			}
		}
	}
	return found, rows.Err()
}

// attach gives each data file exactly the position delete files that refer to it.
func attach(tasks []table.FileScanTask, all []deleteFile) {
	by := map[string][]deleteFile{}
	known := map[string]bool{} // position delete files with known targets
	for _, d := range all {
		known[d.file.FilePath()] = d.targets != nil
		for path := range d.targets {
			if !table.IsDeletionVector(d.file) {
				by[path] = append(by[path], d)
			}
		}
	}
	for i, t := range tasks {
		tasks[i].DeleteFiles = slices.DeleteFunc(slices.Clone(t.DeleteFiles), func(f iceberg.DataFile) bool { return known[f.FilePath()] })
		if len(t.DeletionVectorFiles) > 0 {
			continue
		}
		for _, d := range by[t.File.FilePath()] {
			if t.DataSequenceNumber == nil || d.sequence >= *t.DataSequenceNumber {
				tasks[i].DeleteFiles = append(tasks[i].DeleteFiles, d.file)
			}
		}
	}
}
