// Package rows shows the results of statements, which are streams of Arrow IPC, as JSON and CSV: each value in the one way that the API describes.
package rows

import (
	"bytes"
	"fmt"
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

// streamEnd ends a stream of Arrow IPC.
const streamEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// Columns reads the columns from an encapsulated schema message. A nil message has none.
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

// AppendJSON appends the rows of a stream to dst as one JSON array of arrays, values in the order of the columns: numbers with all their digits; NaN and
// infinities as strings; dates, times and timestamps in ISO 8601, with Z where they have a zone; binary in base64; structures and maps with text keys as
// objects, other maps as lists of pairs; lists as arrays.
func AppendJSON(dst, stream []byte) ([]byte, error) {
	dst = append(slices.Grow(dst, len(stream)+len(stream)/4), '[')
	first := true
	err := batches(stream, func(b arrow.RecordBatch) {
		columns := make([]appender, b.NumCols())
		for i := range columns {
			columns[i] = jsonOf(b.Column(i))
		}
		for row := range int(b.NumRows()) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, '[')
			for i, appendValue := range columns {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendValue(dst, row)
			}
			dst = append(dst, ']')
		}
	})
	return append(dst, ']'), err
}

// AppendCSV appends the rows of a stream to dst as RFC 4180 has it, with a line of names where header is set. Nothing stands for null, and "" for an empty text;
// values are those of AppendJSON without its quotes.
func AppendCSV(dst, stream []byte, header bool) ([]byte, error) {
	if header {
		r, err := ipc.NewReader(bytes.NewReader(stream))
		if err != nil {
			return dst, err
		}
		for i, f := range r.Schema().Fields() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCSV(dst, f.Name)
		}
		dst = append(dst, '\r', '\n')
		r.Release()
	}
	var scratch []byte
	err := batches(stream, func(b arrow.RecordBatch) {
		columns := make([]csvColumn, b.NumCols())
		for i := range columns {
			columns[i] = csvOf(b.Column(i))
		}
		for row := range int(b.NumRows()) {
			for i, c := range columns {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst, scratch = c.append(dst, scratch, row)
			}
			dst = append(dst, '\r', '\n')
		}
	})
	return dst, err
}

func batches(stream []byte, each func(arrow.RecordBatch)) error {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return fmt.Errorf("a result: %w", err)
	}
	defer r.Release()
	for r.Next() {
		each(r.RecordBatch())
	}
	return r.Err()
}

// typeName is the Iceberg name of a type; types that Iceberg lacks have their SQL name.
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
