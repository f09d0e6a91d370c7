package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millpond/millpond/agent/engine/sqltext"
	"github.com/millpond/millpond/agent/engine/trino"
)

// trinoSchema returns the Arrow schema of a Trino result.
func trinoSchema(columns []trino.Column) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		t, err := trinoType(c.Type)
		if err != nil {
			return nil, sqltext.Refuse(-1, "The column %q of the result %v. Cast it, to JSON for example.", c.Name, err)
		}
		fields[i] = arrow.Field{Name: c.Name, Type: t, Nullable: true}
	}
	return arrow.NewSchema(fields, nil), nil
}

var trinoTypes = map[string]arrow.DataType{
	"boolean": arrow.FixedWidthTypes.Boolean, "tinyint": arrow.PrimitiveTypes.Int8, "smallint": arrow.PrimitiveTypes.Int16, "integer": arrow.PrimitiveTypes.Int32,
	"bigint": arrow.PrimitiveTypes.Int64, "real": arrow.PrimitiveTypes.Float32, "double": arrow.PrimitiveTypes.Float64, "date": arrow.FixedWidthTypes.Date32,
	"varbinary": arrow.BinaryTypes.Binary, "unknown": arrow.Null,
}

// trinoType returns the Arrow type that holds all values of a Trino type, or text if there is none.
func trinoType(t trino.Type) (arrow.DataType, error) {
	if simple := trinoTypes[t.Name]; simple != nil {
		return simple, nil
	}
	switch t.Name {
	case "decimal":
		return &arrow.Decimal128Type{Precision: int32(t.Arguments[0].Number), Scale: int32(t.Arguments[1].Number)}, nil
	case "time":
		if t.Precision(3) <= 6 {
			return arrow.FixedWidthTypes.Time64us, nil
		}
	case "timestamp":
		if t.Precision(3) <= 6 {
			return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
		}
	case "timestamp with time zone":
		if t.Precision(3) <= 6 {
			return arrow.FixedWidthTypes.Timestamp_us.(*arrow.TimestampType), nil
		}
	case "array":
		of, err := trinoType(*t.Arguments[0].Type)
		if err != nil {
			return nil, err
		}
		return arrow.ListOf(of), nil
	case "map":
		return trinoMap(t)
	case "row":
		return trinoRow(t)
	}
	return arrow.BinaryTypes.String, nil
}

// trinoMap refuses maps with non-scalar keys: Trino's protocol writes such keys as text that cannot
// be parsed.
func trinoMap(t trino.Type) (arrow.DataType, error) {
	switch name := t.Arguments[0].Type.Name; name {
	case "array", "map", "row", "varbinary":
		return nil, fmt.Errorf("is a map whose keys are of the type %s", name)
	}
	key, err := trinoType(*t.Arguments[0].Type)
	if err != nil {
		return nil, err
	}
	value, err := trinoType(*t.Arguments[1].Type)
	if err != nil {
		return nil, err
	}
	return arrow.MapOf(key, value), nil
}

func trinoRow(t trino.Type) (arrow.DataType, error) {
	fields := make([]arrow.Field, len(t.Arguments))
	for i, a := range t.Arguments {
		of, err := trinoType(*a.Type)
		if err != nil {
			return nil, err
		}
		if fields[i] = (arrow.Field{Name: a.Field, Type: of, Nullable: true}); a.Field == "" {
			fields[i].Name = fmt.Sprint("field", i)
		}
	}
	return arrow.StructOf(fields...), nil
}

// trinoBatch converts rows, each a JSON array, to a batch.
func trinoBatch(schema *arrow.Schema, columns []trino.Column, rows []json.RawMessage) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Reserve(len(rows))
	var values []json.RawMessage
	for _, row := range rows {
		values = values[:0]
		if err := json.Unmarshal(row, &values); err != nil {
			return nil, err
		}
		if len(values) != len(columns) {
			return nil, fmt.Errorf("a row of Trino's has %d values for %d columns", len(values), len(columns))
		}
		for i, v := range values {
			if err := appendTrino(b.Field(i), columns[i].Type, v); err != nil {
				return nil, sqltext.Refuse(-1, "The column %q has a value that the result cannot hold (%v). Cast it, to VARCHAR for example.", columns[i].Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// appendTrino appends one value.
func appendTrino(to array.Builder, t trino.Type, v json.RawMessage) error {
	v = bytes.TrimSpace(v)
	if bytes.Equal(v, []byte("null")) {
		to.AppendNull()
		return nil
	}
	switch b := to.(type) {
	case *array.ListBuilder:
		return appendTrinoList(b, t, v)
	case *array.MapBuilder:
		return appendTrinoMap(b, t, v)
	case *array.StructBuilder:
		return appendTrinoRow(b, t, v)
	case *array.StringBuilder:
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			return err
		}
		b.Append(text)
		return nil
	}
	text := string(v)
	if v[0] == '"' {
		if err := json.Unmarshal(v, &text); err != nil {
			return err
		}
	}
	return appendTrinoText(to, text)
}

// appendTrinoText appends a scalar from its text in Trino's protocol, which is also the form of map
// keys.
func appendTrinoText(to array.Builder, text string) error {
	var err error
	switch b := to.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.StringBuilder:
		b.Append(text)
	case *array.Date32Builder:
		var at time.Time
		if at, err = parseTrinoTime(text + " 00:00:00"); err == nil {
			b.Append(arrow.Date32FromTime(at))
		}
	case *array.Time64Builder:
		var at time.Time
		if at, err = parseTrinoTime("1970-01-01 " + text); err == nil {
			b.Append(arrow.Time64(at.UnixMicro()))
		}
	case *array.TimestampBuilder:
		var at time.Time
		if at, err = parseTrinoTime(text); err == nil {
			b.Append(arrow.Timestamp(at.UnixMicro()))
		}
	default:
		err = to.AppendValueFromString(text)
	}
	return err
}

// parseTrinoTime parses a timestamp such as 2001-08-22 03:04:05.321 Europe/Berlin. Years may have a
// sign and more than four digits.
func parseTrinoTime(text string) (time.Time, error) {
	parts := strings.SplitN(text, " ", 3)
	date := strings.TrimLeft(parts[0], "+-")
	year, rest, ok := strings.Cut(date, "-")
	n, err := strconv.Atoi(year)
	if err != nil || !ok || len(parts) < 2 {
		return time.Time{}, fmt.Errorf("%q is no time", text)
	}
	if strings.HasPrefix(parts[0], "-") {
		n = -n
	}
	zone := time.UTC
	if len(parts) == 3 {
		if zone, err = trinoZone(parts[2]); err != nil {
			return time.Time{}, err
		}
	}
	// The year is set afterwards: package time supports only four digits. A leap year stands in for
	// it.
	at, err := time.ParseInLocation("2006-01-02 15:04:05.999999999", "2000-"+rest+" "+parts[1], time.UTC)
	if err != nil {
		return time.Time{}, err
	}
	return time.Date(n, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), zone), nil
}

// trinoZone returns a zone by its name or UTC offset.
func trinoZone(name string) (*time.Location, error) {
	if at, err := time.Parse("-07:00", name); err == nil {
		return at.Location(), nil
	}
	return time.LoadLocation(name)
}

func appendTrinoList(b *array.ListBuilder, t trino.Type, v json.RawMessage) error {
	var values []json.RawMessage
	if err := json.Unmarshal(v, &values); err != nil {
		return err
	}
	b.Append(true)
	for _, e := range values {
		if err := appendTrino(b.ValueBuilder(), *t.Arguments[0].Type, e); err != nil {
			return err
		}
	}
	return nil
}

// appendTrinoMap keeps the protocol's order of entries.
func appendTrinoMap(b *array.MapBuilder, t trino.Type, v json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(v))
	if _, err := d.Token(); err != nil {
		return err
	}
	b.Append(true)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := appendTrinoText(b.KeyBuilder(), fmt.Sprint(key)); err != nil {
			return err
		}
		if err := appendTrino(b.ItemBuilder(), *t.Arguments[1].Type, value); err != nil {
			return err
		}
	}
	return nil
}

func appendTrinoRow(b *array.StructBuilder, t trino.Type, v json.RawMessage) error {
	var values []json.RawMessage
	if err := json.Unmarshal(v, &values); err != nil {
		return err
	}
	if len(values) != len(t.Arguments) {
		return fmt.Errorf("%d of %d fields", len(values), len(t.Arguments))
	}
	b.Append(true)
	for i, e := range values {
		if err := appendTrino(b.FieldBuilder(i), *t.Arguments[i].Type, e); err != nil {
			return err
		}
	}
	return nil
}
