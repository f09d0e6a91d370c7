package model

import (
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/rows"
)

// LakeTable is a table or a view as the schema shows it.
type LakeTable struct{ lake.Table }

// NewLakeTable shows a table or a view.
func NewLakeTable(t lake.Table) LakeTable { return LakeTable{t} }

// FullName returns the names of the database, the schema and the table.
func (t LakeTable) FullName() string { return FullName(t.Database, t.Schema, t.Name) }

// CreatedBy returns the creator's name.
func (t LakeTable) CreatedBy() string { return t.Table.CreatedBy.Name }

// UpdatedBy returns the name of who last changed it.
func (t LakeTable) UpdatedBy() string { return t.Table.UpdatedBy.Name }

// RestorableUntil returns until when a dropped table can be restored.
func (t LakeTable) RestorableUntil() *time.Time { return t.PurgeAfter }

// FullName joins the names of a database, a schema and a table.
func FullName(database, schema, name string) string { return database + "." + schema + "." + name }

// TableColumn is a column of a table's current schema.
type TableColumn struct{ lake.Column }

// NewTableColumn shows a column.
func NewTableColumn(c lake.Column) TableColumn { return TableColumn{c} }

// Doc returns the column's comment.
func (c TableColumn) Doc() *string { return optional(c.Column.Doc) }

// Snapshot is one state of a table.
type Snapshot struct{ lake.Snapshot }

// NewSnapshot shows a snapshot.
func NewSnapshot(n lake.Snapshot) Snapshot { return Snapshot{n} }

// Summary returns the properties in the order of their names.
func (n Snapshot) Summary() []Property { return NewProperties(n.Snapshot.Summary) }

// DataFile is a file of a snapshot.
type DataFile struct{ lake.DataFile }

// NewDataFile shows a file.
func NewDataFile(f lake.DataFile) DataFile { return DataFile{f} }

// Partition returns the file's partition.
func (f DataFile) Partition() *string { return optional(f.DataFile.Partition) }

// TablePartition has the totals of one partition.
type TablePartition struct{ lake.Partition }

// NewTablePartition shows a partition.
func NewTablePartition(p lake.Partition) TablePartition { return TablePartition{p} }

// Name returns the partition's path.
func (p TablePartition) Name() *string { return optional(p.Partition.Partition) }

// TableSample is some rows of a table. Rows is a JSON array of arrays.
type TableSample struct {
	Columns   []rows.Column
	Rows      json.RawMessage
	Truncated bool
}

// NewTableSample shows some rows.
func NewTableSample(r lake.Rows) (TableSample, error) {
	shown := TableSample{Columns: make([]rows.Column, len(r.Columns)), Truncated: r.Truncated}
	for i, c := range r.Columns {
		shown.Columns[i] = rows.Column{Name: c.Name, Type: c.Type}
	}
	if r.Rows == nil {
		r.Rows = [][]any{}
	}
	var err error
	shown.Rows, err = json.Marshal(r.Rows)
	return shown, err
}
