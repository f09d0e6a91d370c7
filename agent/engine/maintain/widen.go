package maintain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// droppedPrefix starts the names of dropped columns while they are read. No other column name
// starts with it, because names contain no line break.
const droppedPrefix = "dropped\n"

// widened returns the table with the dropped columns that its equality deletes compare.
func (j *job) widened(t *table.Table, g group) (*table.Table, error) {
	dropped := map[int]bool{}
	for _, task := range g.tasks {
		for _, f := range task.EqualityDeleteFiles {
			for _, id := range f.EqualityFieldIDs() {
				if _, ok := t.Schema().FindFieldByID(id); !ok {
					dropped[id] = true
				}
			}
		}
	}
	if len(dropped) == 0 {
		return t, nil
	}
	fields := slices.Clone(t.Schema().Fields())
	for id := range dropped {
		f, err := lastColumn(t, id)
		if err != nil {
			return nil, err
		}
		f.Name, f.Required = fmt.Sprint(droppedPrefix, f.ID), false
		if !slices.ContainsFunc(fields, func(o iceberg.NestedField) bool { return o.ID == f.ID }) {
			fields = append(fields, f)
		}
	}
	b, err := table.MetadataBuilderFromBase(t.Metadata(), t.MetadataLocation())
	if err != nil {
		return nil, err
	}
	if err := b.AddSchema(iceberg.NewSchema(nextSchema(t), fields...)); err != nil {
		return nil, err
	}
	if err := b.SetCurrentSchemaID(-1); err != nil {
		return nil, err
	}
	meta, err := b.Build()
	if err != nil {
		return nil, err
	}
	return table.New(t.Identifier(), meta, t.MetadataLocation(), j.files.io, j.lake), nil
}

func nextSchema(t *table.Table) int {
	next := 0
	for _, s := range t.Metadata().Schemas() {
		next = max(next, s.ID+1)
	}
	return next
}

// lastColumn returns the column that is or contained a field, in its last state.
func lastColumn(t *table.Table, id int) (iceberg.NestedField, error) {
	schemas := slices.Clone(t.Metadata().Schemas())
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return b.ID - a.ID })
	for _, s := range schemas {
		if len(pathOf(s, id)) == 0 {
			continue
		}
		for _, f := range s.Fields() {
			if search([]iceberg.NestedField{f}, id) == nil {
				continue
			}
			if _, stays := t.Schema().FindFieldByID(f.ID); !stays {
				return f, nil
			}
		}
		break
	}
	return iceberg.NestedField{}, sqltext.Fail(agent.FaultQuery, "Rows of the table were deleted by equality in a field of a column that was dropped since, without the column: what the deletes compare is not read any more. Have the engine that deleted the rows rewrite the table, or roll it back to a snapshot before that.")
}

// narrowed returns a batch without the dropped columns. It releases its argument.
func narrowed(b arrow.RecordBatch) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range b.Schema().Fields() {
		if !strings.HasPrefix(f.Name, droppedPrefix) {
			fields, columns = append(fields, f), append(columns, b.Column(i))
		}
	}
	if len(columns) == int(b.NumCols()) {
		return b
	}
	defer b.Release()
	metadata := b.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &metadata), columns, b.NumRows())
}
