package lake

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// Rows are sample rows of a table, encoded for JSON like results of statements. Integers and
// decimals are numbers with all their digits. NaN and infinities are strings. Times are ISO 8601,
// and binary is base64. Structs and maps with text keys are objects, lists are arrays, and other
// maps are lists of pairs.
type Rows struct {
	Columns   []Column
	Rows      [][]any
	Truncated bool // a cell, or the rows, were cut
}

const (
	maxSample  = 100              // rows
	maxCell    = 1000             // characters of a cell, about
	maxCells   = 1 << 20          // characters of all cells
	maxRead    = 64 << 20         // bytes of all values before they are cut
	maxAtOnce  = 4                // concurrent samples of a workspace
	sampleTime = 20 * time.Second // the deadline of a sample
)

// Sample returns up to limit rows of the current snapshot, 1 to 100, which may differ between
// calls. Deletes are applied. Cells are cut at 1,000 characters. Reading stops at 1 MiB of cells,
// and at 64 MiB of values before the cut. It returns CodeInvalid for files that cannot be read, and
// CodeRate for more than four concurrent samples of a workspace.
func (c *Catalog) Sample(ctx context.Context, s domain.Scope, id domain.TableID, limit int) (Rows, error) {
	if limit < 1 || limit > maxSample {
		return Rows{}, domain.Invalid("limit", "limit is %d; it must be from 1 to %d.", limit, maxSample)
	}
	done, err := c.samples.enter(s.Workspace())
	if err != nil {
		return Rows{}, err
	}
	defer done()
	t, err := c.open(ctx, s, id)
	if err != nil {
		return Rows{}, err
	}
	err = c.Store.In(ctx, s, func(tx Tx) error { return c.note(ctx, tx, s, LineageRead, t.row) })
	if err != nil {
		return Rows{}, err
	}
	rows := Rows{Columns: columns(t.meta.CurrentSchema()), Rows: [][]any{}}
	if t.meta.CurrentSnapshot() == nil {
		return rows, nil
	}
	err = c.inTime(ctx, t, func(ctx context.Context, t opened) (err error) {
		rows.Rows, rows.Truncated, err = t.sample(ctx, limit)
		return err
	})
	if err != nil {
		return Rows{}, err
	}
	return rows, nil
}

// samples counts the samples being read, by workspace.
type samples struct {
	mu sync.Mutex
	by map[domain.WorkspaceID]int
}

func (n *samples) enter(ws domain.WorkspaceID) (leave func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by[ws] >= maxAtOnce {
		return nil, domain.Errorf(domain.CodeRate, "%d samples of the workspace's tables are being read, the most at once; try again in a moment.", maxAtOnce)
	}
	if n.by == nil {
		n.by = map[domain.WorkspaceID]int{}
	}
	n.by[ws]++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.by[ws]--; n.by[ws] == 0 {
			delete(n.by, ws)
		}
	}, nil
}

// sample reads one row at a time: a row's memory use is unknown before it is read.
func (t opened) sample(ctx context.Context, limit int) (rows [][]any, truncated bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	whole := table.New(table.Identifier{t.row.Name}, t.meta, t.row.MetadataLocation, func(context.Context) (iceio.IO, error) { return t.io, nil }, nil)
	scan := whole.Scan(table.WithLimit(int64(limit)), table.WithMaxConcurrency(1), table.WithArrowBatchSize(1))
	batches, err := records(ctx, scan)
	if err != nil {
		return nil, false, err
	}
	rows = [][]any{}
	total, read := 0, 0
	for batch, err := range batches {
		if err != nil {
			return nil, false, err
		}
		for i := 0; i < int(batch.NumRows()) && len(rows) < limit && total < maxCells; i++ {
			row, size, whole, cut := cells(batch, i)
			rows, total, read, truncated = append(rows, row), total+size, read+whole, truncated || cut
		}
		batch.Release()
		if total >= maxCells || read >= maxRead {
			return rows, true, nil
		}
		if len(rows) >= limit {
			break
		}
	}
	return rows, truncated, nil
}

// cells returns a row's values, their approximate number of characters in JSON, and the bytes of
// their texts and lists before the cut.
func cells(batch arrow.RecordBatch, i int) (row []any, size, whole int, cut bool) {
	row = make([]any, batch.NumCols())
	for j := range row {
		c := cell{left: maxCell}
		row[j] = c.value(batch.Column(j), i)
		size, whole, cut = size+min(maxCell-c.left, maxCell)+1, whole+c.whole, cut || c.cut
	}
	return row, size, whole, cut
}

// cell builds one value, and cuts it at the characters that are left.
type cell struct {
	left  int
	whole int // bytes before the cut
	cut   bool
}

// text cuts a text between characters.
func (c *cell) text(s string) string {
	c.whole += len(s)
	n := 0
	for i := range s {
		if n++; n > max(c.left, 0) {
			c.left, c.cut = 0, true
			return strings.Clone(s[:i]) // the rest is not kept
		}
	}
	c.left -= n
	return strings.Clone(s)
}

func (c *cell) binary(b []byte) string {
	c.whole += len(b)
	return c.text(base64.StdEncoding.EncodeToString(b[:min(len(b), maxCell)]))
}

// more reports whether there is room for one more value.
func (c *cell) more() bool {
	if c.left <= 0 {
		c.cut = true
		return false
	}
	c.left--
	return true
}

// value returns one value for JSON.
func (c *cell) value(column arrow.Array, i int) any {
	if column.IsNull(i) {
		return nil
	}
	switch a := column.(type) {
	case array.ListLike:
		if m, isMap := a.(*array.Map); isMap {
			return c.mapValue(m, i)
		}
		from, to := a.ValueOffsets(i)
		c.whole += int(to - from)
		all := make([]any, 0, min(to-from, maxCell))
		for n := from; n < to && c.more(); n++ {
			all = append(all, c.value(a.ListValues(), int(n)))
		}
		return all
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		object := make(map[string]any, len(fields))
		for n, f := range fields {
			object[f.Name] = c.value(a.Field(n), i)
		}
		return object
	case *array.String:
		return c.text(a.Value(i))
	case *array.LargeString:
		return c.text(a.Value(i))
	case *array.Binary:
		return c.binary(a.Value(i))
	case *array.LargeBinary:
		return c.binary(a.Value(i))
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

// mapValue is an object if the keys are text, else a list of pairs, as in results of statements.
func (c *cell) mapValue(m *array.Map, i int) any {
	from, to := m.ValueOffsets(i)
	object, pairs := map[string]any{}, []any{}
	for n := from; n < to && c.more(); n++ {
		key, item := c.value(m.Keys(), int(n)), c.value(m.Items(), int(n))
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

// timestamp is ISO 8601, with Z for an instant and without Z for a local time.
func timestamp(a *array.Timestamp, i int) string {
	t := a.DataType().(*arrow.TimestampType)
	at := a.Value(i).ToTime(t.Unit)
	layout := "2006-01-02T15:04:05.999999999"
	if t.TimeZone != "" {
		layout += "Z07:00"
	}
	return at.Format(layout)
}
