package lake

import (
	"context"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// uniformFile is a file with its format in upper case, as iceberg-go 0.7 needs it. DuckDB writes
// lower case, which the specification allows.
type uniformFile struct {
	iceberg.DataFile
	format iceberg.FileFormat
}

// FileFormat implements iceberg.DataFile.
func (f uniformFile) FileFormat() iceberg.FileFormat { return f.format }

func uniform(d iceberg.DataFile) iceberg.DataFile {
	format, err := iceberg.FileFormatFromString(string(d.FileFormat()))
	if err != nil || format == d.FileFormat() {
		return d
	}
	return uniformFile{d, format}
}

func uniformAll(files []iceberg.DataFile) []iceberg.DataFile {
	all := make([]iceberg.DataFile, len(files))
	for i, d := range files {
		all[i] = uniform(d)
	}
	return all
}

// uniformTask returns the task with uniform files. It separates deletion vectors from position
// deletes by their format.
func uniformTask(t table.FileScanTask) table.FileScanTask {
	t.File, t.EqualityDeleteFiles, t.DeletionVectorFiles = uniform(t.File), uniformAll(t.EqualityDeleteFiles), uniformAll(t.DeletionVectorFiles)
	positions := uniformAll(t.DeleteFiles)
	t.DeleteFiles = nil
	for _, d := range positions {
		if table.IsDeletionVector(d) {
			t.DeletionVectorFiles = append(t.DeletionVectorFiles, d)
		} else {
			t.DeleteFiles = append(t.DeleteFiles, d)
		}
	}
	return t
}

// records reads the scan, whichever engine wrote the table's files.
func records(ctx context.Context, scan *table.Scan) (iter.Seq2[arrow.RecordBatch, error], error) {
	tasks, err := scan.PlanFiles(ctx)
	if err != nil {
		return nil, err
	}
	for i, t := range tasks {
		tasks[i] = uniformTask(t)
	}
	_, batches, err := scan.ReadTasks(ctx, tasks)
	return batches, err
}
