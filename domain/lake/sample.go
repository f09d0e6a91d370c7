package lake

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// Rows are some rows of a table, ready for JSON: integers and decimals are numbers with all their digits, NaN and infinities are strings, times are ISO
// 8601, binary is base64, structs and maps with text keys are objects, lists are arrays, and other maps are lists of pairs: as results of statements.
type Rows struct {
	Columns []Column
	Rows    [][]any
}

const (
	maxSample  = 100              // rows
	sampleTime = 20 * time.Second // in which they must be read
)

// Sample is some rows of the current snapshot, 1 to 100 at most, which are not the same each time. Deletes are applied. CodeInvalid for files that cannot be read.
func (c *Catalog) Sample(ctx context.Context, s domain.Scope, id domain.TableID, limit int) (Rows, error) {
	if limit < 1 || limit > maxSample {
		return Rows{}, domain.Invalid("limit", "limit is %d; it must be from 1 to %d.", limit, maxSample)
	}
	t, err := c.open(ctx, s, id)
	if err != nil {
		return Rows{}, err
	}
	err = c.Store.In(ctx, s, func(tx domain.Tx) error { return c.note(ctx, tx, s, domain.LineageRead, t.row) })
	if err != nil {
		return Rows{}, err
	}
	rows := Rows{Columns: columns(t.meta.CurrentSchema()), Rows: [][]any{}}
	if t.meta.CurrentSnapshot() == nil {
		return rows, nil
	}
	err = c.inTime(ctx, t, func(ctx context.Context, t opened) (err error) {
		rows.Rows, err = t.sample(ctx, limit)
		return err
	})
	if err != nil {
		return Rows{}, err
	}
	return rows, nil
}

func (t opened) sample(ctx context.Context, limit int) (rows [][]any, err error) {
	whole := table.New(table.Identifier{t.row.Name}, t.meta, t.row.MetadataLocation, func(context.Context) (iceio.IO, error) { return t.io, nil }, nil)
	scan := whole.Scan(table.WithLimit(int64(limit)), table.WithMaxConcurrency(1), table.WithArrowBatchSize(limit))
	batches, err := records(ctx, scan)
	if err != nil {
		return nil, err
	}
	rows = [][]any{}
	for batch, err := range batches {
		if err != nil {
			return nil, err
		}
		rows = appendRows(rows, batch, limit)
		batch.Release()
	}
	return rows, nil
}

func appendRows(rows [][]any, batch arrow.RecordBatch, limit int) [][]any {
	for i := 0; i < int(batch.NumRows()) && len(rows) < limit; i++ {
		row := make([]any, batch.NumCols())
		for j := range row {
			row[j] = value(batch.Column(j), i)
		}
		rows = append(rows, row)
	}
	return rows
}

// value is one value as JSON has it.
func value(column arrow.Array, i int) any {
	if column.IsNull(i) {
		return nil
	}
	switch a := column.(type) {
	case array.ListLike:
		if m, isMap := a.(*array.Map); isMap {
			return mapValue(m, i)
		}
		from, to := a.ValueOffsets(i)
		all := make([]any, 0, to-from)
		for n := from; n < to; n++ {
			all = append(all, value(a.ListValues(), int(n)))
		}
		return all
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		object := make(map[string]any, len(fields))
		for n, f := range fields {
			object[f.Name] = value(a.Field(n), i)
		}
		return object
	case *array.Timestamp:
		return timestamp(a, i)
	case *array.Decimal128, *array.Decimal256, *array.Decimal32, *array.Decimal64:
		return json.Number(a.ValueStr(i))
	case *array.Int64, *array.Int32:
		return json.Number(a.ValueStr(i))
	}
	plain := column.GetOneForMarshal(i)
	if _, err := json.Marshal(plain); err != nil { // NaN and the infinities
		return fmt.Sprint(plain)
	}
	return plain
}

// mapValue is an object where the keys are text, and a list of pairs otherwise, as results of statements have it.
func mapValue(m *array.Map, i int) any {
	from, to := m.ValueOffsets(i)
	object, pairs := map[string]any{}, []any{}
	for n := from; n < to; n++ {
		key, item := value(m.Keys(), int(n)), value(m.Items(), int(n))
		pairs = append(pairs, []any{key, item})
		if text, is := key.(string); is {
			object[text] = item
		}
	}
	if textual(m.Keys().DataType()) {
		return object
	}
	return pairs
}

func textual(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return true
	case arrow.EXTENSION:
		return t.(arrow.ExtensionType).ExtensionName() == "arrow.uuid"
	}
	return false
}

// timestamp is ISO 8601: with Z where it is a moment, without where it is what a clock on some wall shows.
func timestamp(a *array.Timestamp, i int) string {
	t := a.DataType().(*arrow.TimestampType)
	at := a.Value(i).ToTime(t.Unit)
	layout := "2006-01-02T15:04:05.999999999"
	if t.TimeZone != "" {
		layout += "Z07:00"
	}
	return at.Format(layout)
}
