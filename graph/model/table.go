package model

import (
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/rows"
)

// LakeTable is a table or a view as the schema shows it.
type LakeTable struct{ domain.LakeTable }

// NewLakeTable shows a table or a view.
func NewLakeTable(t domain.LakeTable) LakeTable { return LakeTable{t} }

// FullName has the names of its database and its schema.
func (t LakeTable) FullName() string { return FullName(t.Database, t.Schema, t.Name) }

// CreatedBy names who made it.
func (t LakeTable) CreatedBy() string { return t.LakeTable.CreatedBy.Name }

// UpdatedBy names who changed it last.
func (t LakeTable) UpdatedBy() string { return t.LakeTable.UpdatedBy.Name }

// RestorableUntil is when a dropped one can be restored no more.
func (t LakeTable) RestorableUntil() *time.Time { return t.PurgeAfter }

// FullName joins the names of a database, a schema and a table.
func FullName(database, schema, name string) string { return database + "." + schema + "." + name }

// TableColumn is a column of a table's current schema.
type TableColumn struct{ lake.Column }

// NewTableColumn shows a column.
func NewTableColumn(c lake.Column) TableColumn { return TableColumn{c} }

// Doc is what its maker says of it.
func (c TableColumn) Doc() *string { return optional(c.Column.Doc) }

// Snapshot is one state of a table.
type Snapshot struct{ lake.Snapshot }

// NewSnapshot shows a snapshot.
func NewSnapshot(n lake.Snapshot) Snapshot { return Snapshot{n} }

// Summary is in the order of its names.
func (n Snapshot) Summary() []Property { return NewProperties(n.Snapshot.Summary) }

// DataFile is a file of a snapshot.
type DataFile struct{ lake.DataFile }

// NewDataFile shows a file.
func NewDataFile(f lake.DataFile) DataFile { return DataFile{f} }

// Partition is that which it is in.
func (f DataFile) Partition() *string { return optional(f.DataFile.Partition) }

// TablePartition is what is in one partition.
type TablePartition struct{ lake.Partition }

// NewTablePartition shows a partition.
func NewTablePartition(p lake.Partition) TablePartition { return TablePartition{p} }

// Name is its path.
func (p TablePartition) Name() *string { return optional(p.Partition.Partition) }

// TableSample is some rows of a table. Rows is a JSON array of arrays.
type TableSample struct {
	Columns []rows.Column
	Rows    json.RawMessage
}

// NewTableSample shows some rows.
func NewTableSample(r lake.Rows) (TableSample, error) {
	shown := TableSample{Columns: make([]rows.Column, len(r.Columns))}
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
