package maintain

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// eraser filters out the rows that were deleted by equality. iceberg-go compares the raw bytes in
// files. Rows of a column that changed its type, or was added later, would come back. So eraser
// reads both sides with the table's current columns. It compares as DuckDB does: NULL equals NULL,
// NaN equals NaN, 0 equals -0.
type eraser struct {
	job   *job
	table *table.Table
	read  map[string]*keys // by file path
	held  int64            // number of keys in memory
}

// keys are the keys of one equality delete file.
type keys struct {
	columns [][]string // each is the names from the column to the field
	values  map[string]bool
}

// keyBytes is the approximate memory of a key without its values, in bytes.
const keyBytes = 96

// filter returns a function that removes deleted rows from a batch. The function releases its
// argument.
func (e *eraser) filter(by []iceberg.DataFile) (func(arrow.RecordBatch) (arrow.RecordBatch, error), error) {
	var all []*keys
	for _, f := range by {
		k, err := e.keys(f)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return func(b arrow.RecordBatch) (arrow.RecordBatch, error) {
		if len(all) == 0 {
			return b, nil
		}
		defer b.Release()
		return e.without(b, all)
	}, nil
}

func (e *eraser) without(b arrow.RecordBatch, all []*keys) (arrow.RecordBatch, error) {
	stays := make([]bool, b.NumRows())
	for i := range stays {
		stays[i] = true
	}
	for _, k := range all {
		columns, err := k.of(b)
		if err != nil {
			return nil, err
		}
		var key []byte
		for i := range stays {
			if key = encode(key[:0], columns, i); k.values[string(key)] {
				stays[i] = false
			}
		}
	}
	if !slices.Contains(stays, false) {
		b.Retain()
		return b, nil
	}
	mask := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer mask.Release()
	mask.AppendValues(stays, nil)
	of := mask.NewBooleanArray()
	defer of.Release()
	left, err := compute.Filter(e.job.ctx, compute.NewDatumWithoutOwning(b), compute.NewDatumWithoutOwning(of), *compute.DefaultFilterOptions())
	if err != nil {
		return nil, err
	}
	return left.(*compute.RecordDatum).Value, nil
}

// keys reads an equality delete file with the table's columns.
func (e *eraser) keys(f iceberg.DataFile) (*keys, error) {
	if k := e.read[f.FilePath()]; k != nil {
		return k, nil
	}
	if e.held += f.Count(); e.held*keyBytes > e.job.memory/3 {
		return nil, sqltext.Fail(agent.FaultResources, "Rows of the table were deleted by equality with %d keys or more, which do not fit into the memory of a statement. Use a larger warehouse.", e.held)
	}
	k := &keys{values: map[string]bool{}}
	var names []string
	for _, id := range f.EqualityFieldIDs() {
		name, ok := e.table.Schema().FindColumnName(id)
		if !ok {
			return nil, fmt.Errorf("the field %d of a key is not in the table's schemas", id)
		}
		k.columns = append(k.columns, pathOf(e.table.Schema(), id))
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, sqltext.Fail(agent.FaultQuery, "The equality delete file %s has no key columns. Roll the table back to a snapshot without it.", sqltext.Cut(f.FilePath(), 300))
	}
	scan := e.table.Scan(table.WithMaxConcurrency(1), table.WithSelectedFields(names...))
	_, batches, err := scan.ReadTasks(e.job.ctx, []table.FileScanTask{{File: f, Length: f.FileSizeBytes()}})
	if err != nil {
		return nil, err
	}
	for b, err := range batches {
		if err != nil {
			return nil, err
		}
		err = k.add(b)
		b.Release()
		if err != nil {
			return nil, err
		}
	}
	if e.read == nil {
		e.read = map[string]*keys{}
	}
	e.read[f.FilePath()] = k
	return k, nil
}

// pathOf returns the names that lead to a field.
func pathOf(s *iceberg.Schema, id int) []string {
	return search(s.Fields(), id)
}

func search(fields []iceberg.NestedField, id int) []string {
	for _, f := range fields {
		if f.ID == id {
			return []string{f.Name}
		}
		if inner, ok := f.Type.(*iceberg.StructType); ok {
			if path := search(inner.Fields(), id); path != nil {
				return append([]string{f.Name}, path...)
			}
		}
	}
	return nil
}

func (k *keys) add(b arrow.RecordBatch) error {
	columns, err := k.of(b)
	if err != nil {
		return err
	}
	for i := range int(b.NumRows()) {
		k.values[string(encode(nil, columns, i))] = true
	}
	return nil
}

// column is a key column with its enclosing structs.
type column struct {
	of      arrow.Array
	parents []arrow.Array
}

// of returns the key's columns in a batch.
func (k *keys) of(b arrow.RecordBatch) (all []column, err error) {
	for _, path := range k.columns {
		at := -1
		if len(path) > 0 {
			at = slices.IndexFunc(b.Schema().Fields(), func(f arrow.Field) bool { return f.Name == path[0] })
		}
		if at < 0 {
			return nil, fmt.Errorf("the column %v of a key is not in what was read", path)
		}
		c := column{of: b.Column(at)}
		for _, name := range path[1:] {
			s, ok := c.of.(*array.Struct)
			if !ok {
				return nil, fmt.Errorf("the column %v of a key lies in no struct", path)
			}
			i, ok := s.DataType().(*arrow.StructType).FieldIdx(name)
			if !ok {
				return nil, fmt.Errorf("the column %v of a key is not in what was read", path)
			}
			c.parents = append(c.parents, c.of)
			c.of = s.Field(i)
		}
		all = append(all, c)
	}
	return all, nil
}

// encode appends the values of a row. Equal rows have equal bytes.
func encode(to []byte, columns []column, row int) []byte {
	for _, c := range columns {
		null := c.of.IsNull(row)
		for _, p := range c.parents {
			null = null || p.IsNull(row)
		}
		if null {
			to = append(to, 0)
			continue
		}
		to = value(append(to, 1), c.of, row)
	}
	return to
}

func value(to []byte, of arrow.Array, row int) []byte {
	switch a := of.(type) {
	case array.ExtensionArray:
		return value(to, a.Storage(), row)
	case *array.Boolean:
		if a.Value(row) {
			return append(to, 1)
		}
		return append(to, 0)
	case *array.Int32:
		return whole(to, int64(a.Value(row)))
	case *array.Int64:
		return whole(to, a.Value(row))
	case *array.Date32:
		return whole(to, int64(a.Value(row)))
	case *array.Time64:
		return whole(to, int64(a.Value(row)))
	case *array.Timestamp:
		return whole(to, int64(a.Value(row)))
	case *array.Float32:
		return number(to, float64(a.Value(row)))
	case *array.Float64:
		return number(to, a.Value(row))
	}
	text := of.ValueStr(row)
	return append(whole(to, int64(len(text))), text...)
}

func whole(to []byte, n int64) []byte { return binary.BigEndian.AppendUint64(to, uint64(n)) }

// number encodes all NaN values alike, and -0 as 0.
func number(to []byte, n float64) []byte {
	switch {
	case math.IsNaN(n):
		n = math.NaN()
	case n == 0:
		n = 0
	}
	return binary.BigEndian.AppendUint64(to, math.Float64bits(n))
}
