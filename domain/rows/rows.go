// Package rows converts results of statements from Arrow IPC streams to JSON and CSV. Each type has
// the one representation that the API describes.
package rows

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Column is a column of a result.
type Column struct {
	Name string
	Type string // an Iceberg type name, such as long, decimal(38, 2) or list<string>
}

// streamEnd ends an Arrow IPC stream.
const streamEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// Columns returns the columns of an encapsulated schema message; nil for a nil message.
func Columns(schema []byte) ([]Column, error) {
	if schema == nil {
		return nil, nil
	}
	r, err := ipc.NewReader(strings.NewReader(string(schema) + streamEnd))
	if err != nil {
		return nil, fmt.Errorf("the schema of a result: %w", err)
	}
	defer r.Release()
	fields := r.Schema().Fields()
	columns := make([]Column, len(fields))
	for i, f := range fields {
		columns[i] = Column{Name: f.Name, Type: typeName(f.Type)}
	}
	return columns, nil
}

// AppendJSON appends the rows of a stream to dst as one JSON array of arrays, values in the order
// of the columns. Numbers have all their digits; NaN and infinities are strings. Dates, times and
// timestamps are in ISO 8601, with Z if they have a zone; binary is base64. Structures and maps
// with text keys are objects, other maps lists of pairs, and lists arrays.
func AppendJSON(dst, stream []byte) ([]byte, error) {
	out := output{dst: slices.Grow(dst, len(stream)+len(stream)/4)}
	err := out.json(stream)
	return out.dst, err
}

// WriteJSON writes what AppendJSON appends, in pieces.
func WriteJSON(w io.Writer, stream []byte) error {
	out := output{to: w}
	if err := out.json(stream); err != nil {
		return err
	}
	return out.flush()
}

// AppendCSV appends the rows of a stream to dst by RFC 4180, with a line of names if header is set.
// Null is an empty field, and an empty text is "". Values are those of AppendJSON without quotes.
func AppendCSV(dst, stream []byte, header bool) ([]byte, error) {
	out := output{dst: dst}
	err := out.csv(stream, header)
	return out.dst, err
}

// WriteCSV writes what AppendCSV appends, in pieces.
func WriteCSV(w io.Writer, stream []byte, header bool) error {
	out := output{to: w}
	if err := out.csv(stream, header); err != nil {
		return err
	}
	return out.flush()
}

// pieceBytes is the minimum size of a piece; it ends with a whole row.
const pieceBytes = 64 << 10

// output collects rows. With a writer it writes them in pieces.
type output struct {
	dst []byte
	to  io.Writer // nil to keep all rows in dst
}

func (o *output) rowEnds() error {
	if o.to == nil || len(o.dst) < pieceBytes {
		return nil
	}
	return o.flush()
}

func (o *output) flush() error {
	_, err := o.to.Write(o.dst)
	o.dst = o.dst[:0]
	return err
}

func (o *output) json(stream []byte) error {
	o.dst = append(o.dst, '[')
	first := true
	err := batches(stream, func(b arrow.RecordBatch) error {
		row := jsonRow(b)
		for i := range int(b.NumRows()) {
			if !first {
				o.dst = append(o.dst, ',')
			}
			first = false
			o.dst = row(o.dst, i)
			if err := o.rowEnds(); err != nil {
				return err
			}
		}
		return nil
	})
	o.dst = append(o.dst, ']')
	return err
}

// jsonRow appends one row of a batch as an array.
func jsonRow(b arrow.RecordBatch) appender {
	columns := make([]appender, b.NumCols())
	for i := range columns {
		columns[i] = jsonOf(b.Column(i))
	}
	return func(dst []byte, row int) []byte {
		dst = append(dst, '[')
		for i, appendValue := range columns {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, row)
		}
		return append(dst, ']')
	}
}

func (o *output) csv(stream []byte, header bool) error {
	if header {
		if err := o.csvHeader(stream); err != nil {
			return err
		}
	}
	var scratch []byte
	return batches(stream, func(b arrow.RecordBatch) error {
		columns := make([]csvColumn, b.NumCols())
		for i := range columns {
			columns[i] = csvOf(b.Column(i))
		}
		for row := range int(b.NumRows()) {
			for i, c := range columns {
				if i > 0 {
					o.dst = append(o.dst, ',')
				}
				o.dst, scratch = c.append(o.dst, scratch, row)
			}
			o.dst = append(o.dst, '\r', '\n')
			if err := o.rowEnds(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (o *output) csvHeader(stream []byte) error {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return err
	}
	defer r.Release()
	for i, f := range r.Schema().Fields() {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = appendCSV(o.dst, f.Name)
	}
	o.dst = append(o.dst, '\r', '\n')
	return nil
}

func batches(stream []byte, each func(arrow.RecordBatch) error) error {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return fmt.Errorf("a result: %w", err)
	}
	defer r.Release()
	for r.Next() {
		if err := each(r.RecordBatch()); err != nil {
			return err
		}
	}
	return r.Err()
}

// typeName returns the Iceberg name of a type, or the SQL name of a type that Iceberg lacks.
func typeName(t arrow.DataType) string {
	switch t := t.(type) {
	case arrow.ExtensionType:
		if t.ExtensionName() == "arrow.uuid" {
			return "uuid"
		}
		return typeName(t.StorageType())
	case *arrow.TimestampType:
		name := "timestamp"
		if t.TimeZone != "" {
			name = "timestamptz"
		}
		if t.Unit == arrow.Nanosecond {
			name += "_ns"
		}
		return name
	case arrow.DecimalType:
		return fmt.Sprintf("decimal(%d, %d)", t.GetPrecision(), t.GetScale())
	case *arrow.FixedSizeBinaryType:
		return fmt.Sprintf("fixed[%d]", t.ByteWidth)
	case *arrow.MapType:
		return fmt.Sprintf("map<%s, %s>", typeName(t.KeyType()), typeName(t.ItemType()))
	case *arrow.StructType:
		fields := make([]string, t.NumFields())
		for i, f := range t.Fields() {
			fields[i] = f.Name + ": " + typeName(f.Type)
		}
		return "struct<" + strings.Join(fields, ", ") + ">"
	case arrow.ListLikeType:
		return "list<" + typeName(t.Elem()) + ">"
	case *arrow.DictionaryType:
		return typeName(t.ValueType)
	}
	if name := typeNames[t.ID()]; name != "" {
		return name
	}
	return t.Name()
}

var typeNames = map[arrow.Type]string{
	arrow.NULL: "unknown", arrow.BOOL: "boolean", arrow.INT8: "int", arrow.INT16: "int", arrow.INT32: "int", arrow.INT64: "long", arrow.UINT8: "int",
	arrow.UINT16: "int", arrow.UINT32: "long", arrow.UINT64: "decimal(20, 0)", arrow.FLOAT16: "float", arrow.FLOAT32: "float", arrow.FLOAT64: "double",
	arrow.STRING: "string", arrow.LARGE_STRING: "string", arrow.STRING_VIEW: "string", arrow.BINARY: "binary", arrow.LARGE_BINARY: "binary",
	arrow.BINARY_VIEW: "binary", arrow.DATE32: "date", arrow.DATE64: "date", arrow.TIME32: "time", arrow.TIME64: "time",
	arrow.INTERVAL_MONTH_DAY_NANO: "interval",
}
