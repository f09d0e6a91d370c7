package rows_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/rows"
)

// column is a column of one value and a null, with the expected output.
type column struct {
	name   string
	t      arrow.DataType
	put    func(array.Builder)
	json   string
	csv    string // if it differs from the JSON
	called string
}

func text(s string) func(array.Builder) {
	return func(b array.Builder) { _ = b.AppendValueFromString(s) }
}

var columns = []column{
	{"boolean", arrow.FixedWidthTypes.Boolean, text("true"), `true`, "", "boolean"},
	{"tiny", arrow.PrimitiveTypes.Int8, text("-128"), `-128`, "", "int"},
	{"int", arrow.PrimitiveTypes.Int32, text("2147483647"), `2147483647`, "", "int"},
	{"long", arrow.PrimitiveTypes.Int64, text("9223372036854775807"), `9223372036854775807`, "", "long"},
	{"ulong", arrow.PrimitiveTypes.Uint64, text("18446744073709551615"), `18446744073709551615`, "", "decimal(20, 0)"},
	{"float", arrow.PrimitiveTypes.Float32, func(b array.Builder) { b.(*array.Float32Builder).Append(0.1) }, `0.1`, "", "float"},
	{"double", arrow.PrimitiveTypes.Float64, func(b array.Builder) { b.(*array.Float64Builder).Append(1e300) }, `1e+300`, "", "double"},
	{"nan", arrow.PrimitiveTypes.Float64, func(b array.Builder) { b.(*array.Float64Builder).Append(math.NaN()) }, `"NaN"`, "NaN", "double"},
	{"below", arrow.PrimitiveTypes.Float64, func(b array.Builder) { b.(*array.Float64Builder).Append(math.Inf(-1)) }, `"-Infinity"`, "-Infinity", "double"},
	{
		"decimal", &arrow.Decimal128Type{Precision: 38, Scale: 2}, text("123456789012345678901234567890123456.78"),
		`123456789012345678901234567890123456.78`, "", "decimal(38, 2)",
	},
	{"trailing", &arrow.Decimal128Type{Precision: 9, Scale: 2}, text("-1.1"), `-1.10`, "", "decimal(9, 2)"},
	{"fraction", &arrow.Decimal128Type{Precision: 9, Scale: 3}, text("-0.05"), `-0.050`, "", "decimal(9, 3)"},
	{"string", arrow.BinaryTypes.String, text("a \"b\"\n\x01\\é,<"), `"a \"b\"\n\u0001\\é,<"`, "\"a \"\"b\"\"\n\x01\\é,<\"", "string"},
	{"empty", arrow.BinaryTypes.String, text(""), `""`, `""`, "string"},
	{"binary", arrow.BinaryTypes.Binary, func(b array.Builder) { b.(*array.BinaryBuilder).Append([]byte{0, 255}) }, `"AP8="`, "AP8=", "binary"},
	{"date", arrow.FixedWidthTypes.Date32, text("2026-02-28"), `"2026-02-28"`, "2026-02-28", "date"},
	{"time", arrow.FixedWidthTypes.Time64us, text("23:59:59.000001"), `"23:59:59.000001"`, "23:59:59.000001", "time"},
	{"timestamp", &arrow.TimestampType{Unit: arrow.Microsecond}, text("2026-02-28T01:02:03.5"), `"2026-02-28T01:02:03.5"`, "2026-02-28T01:02:03.5", "timestamp"},
	{"zoned", arrow.FixedWidthTypes.Timestamp_us, text("2026-02-28T01:02:03Z"), `"2026-02-28T01:02:03Z"`, "2026-02-28T01:02:03Z", "timestamptz"},
	{"nanos", &arrow.TimestampType{Unit: arrow.Nanosecond}, text("2026-02-28T01:02:03.000000001"), `"2026-02-28T01:02:03.000000001"`, "2026-02-28T01:02:03.000000001", "timestamp_ns"},
	{
		"forever", &arrow.TimestampType{Unit: arrow.Microsecond}, func(b array.Builder) { b.(*array.TimestampBuilder).Append(math.MaxInt64) },
		`"Infinity"`, "Infinity", "timestamp",
	},
	{"interval", arrow.FixedWidthTypes.MonthDayNanoInterval, func(b array.Builder) {
		b.(*array.MonthDayNanoIntervalBuilder).Append(arrow.MonthDayNanoInterval{Months: 14, Days: -3, Nanoseconds: 5_400_500_000_000})
	}, `"P1Y2M-3DT1H30M0.5S"`, "P1Y2M-3DT1H30M0.5S", "interval"},
	{"uuid", extensions.NewUUIDType(), func(b array.Builder) {
		b.(*extensions.UUIDBuilder).Append(uuid.MustParse("0190a3c0-1111-7222-8333-444455556666"))
	}, `"0190a3c0-1111-7222-8333-444455556666"`, "0190a3c0-1111-7222-8333-444455556666", "uuid"},
	{"list", arrow.ListOf(arrow.PrimitiveTypes.Int64), func(b array.Builder) {
		l := b.(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Int64Builder).Append(1)
		l.ValueBuilder().AppendNull()
	}, `[1,null]`, `"[1,null]"`, "list<long>"},
	{"struct", arrow.StructOf(arrow.Field{Name: `a"`, Type: arrow.PrimitiveTypes.Int64, Nullable: true}), func(b array.Builder) {
		s := b.(*array.StructBuilder)
		s.Append(true)
		s.FieldBuilder(0).(*array.Int64Builder).Append(7)
	}, `{"a\"":7}`, `"{""a\"""":7}"`, `struct<a": long>`},
	{"map", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), func(b array.Builder) {
		m := b.(*array.MapBuilder)
		m.Append(true)
		m.KeyBuilder().(*array.StringBuilder).AppendValues([]string{"x", "y"}, nil)
		m.ItemBuilder().(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
	}, `{"x":1,"y":2}`, `"{""x"":1,""y"":2}"`, "map<string, long>"},
	{"pairs", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), func(b array.Builder) {
		m := b.(*array.MapBuilder)
		m.Append(true)
		m.KeyBuilder().(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
		m.ItemBuilder().(*array.StringBuilder).AppendValues([]string{"x", "y"}, nil)
	}, `[[1,"x"],[2,"y"]]`, `"[[1,""x""],[2,""y""]]"`, "map<long, string>"},
	{"nothing", arrow.Null, func(b array.Builder) { b.AppendNull() }, `null`, "", "unknown"},
}

// TestEveryType checks each type's representation as the API describes it, and null.
func TestEveryType(t *testing.T) {
	for _, c := range columns {
		t.Run(c.name, func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: c.name, Type: c.t, Nullable: true}}, nil)
			b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			c.put(b.Field(0))
			b.Field(0).AppendNull()
			stream := write(t, schema, b.NewRecordBatch())

			got, err := rows.AppendJSON(nil, stream)
			require.NoError(t, err)
			require.Equal(t, `[[`+c.json+`],[null]]`, string(got))
			require.True(t, json.Valid(got))

			csv := c.csv
			if csv == "" && c.json != "null" {
				csv = c.json
			}
			got, err = rows.AppendCSV(nil, stream, true)
			require.NoError(t, err)
			require.Equal(t, c.name+"\r\n"+csv+"\r\n\r\n", string(got))

			message := schemaMessage(t, schema)
			columns, err := rows.Columns(message)
			require.NoError(t, err)
			require.Equal(t, []rows.Column{{Name: c.name, Type: c.called}}, columns)
		})
	}
}

// TestSize checks that Size is never less than the JSON, and exact for types without a longest
// form.
func TestSize(t *testing.T) {
	for _, c := range columns {
		schema := arrow.NewSchema([]arrow.Field{{Name: c.name, Type: c.t, Nullable: true}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		c.put(b.Field(0))
		b.Field(0).AppendNull()
		size, long := int(rows.Size(b.NewRecordBatch())), len(`[],[],`)+len(c.json)+len("null")
		require.GreaterOrEqual(t, size, long, c.name)
		require.LessOrEqual(t, size, long+2*36, c.name)
		switch c.called {
		case "string", "binary", "list<long>", "decimal(38, 2)":
			require.Equal(t, long, size, c.name)
		}
	}
	numbers := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for _, n := range []int64{0, 9, 10, 99, 100, 1023, 1024, 999_999_999_999_999_999, 1_000_000_000_000_000_000, math.MaxInt64, -1, -10, math.MinInt64} {
		b := array.NewRecordBuilder(memory.DefaultAllocator, numbers)
		b.Field(0).(*array.Int64Builder).Append(n)
		require.EqualValues(t, len(fmt.Sprintf("[%d],", n)), rows.Size(b.NewRecordBatch()), n)
	}
}

// TestSeveralBatches checks that they form one array, and that a result without rows is an empty
// one.
func TestSeveralBatches(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "m", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	var all []arrow.RecordBatch
	for i := range int64(3) {
		b.Field(0).(*array.Int64Builder).Append(i)
		b.Field(1).(*array.Int64Builder).Append(-i)
		all = append(all, b.NewRecordBatch())
	}
	got, err := rows.AppendJSON([]byte("x"), write(t, schema, all...))
	require.NoError(t, err)
	require.Equal(t, `x[[0,0],[1,-1],[2,-2]]`, string(got))
	got, err = rows.AppendJSON(nil, write(t, schema))
	require.NoError(t, err)
	require.Equal(t, `[]`, string(got))
	_, err = rows.AppendJSON(nil, []byte("not arrow"))
	require.Error(t, err)
	none, err := rows.Columns(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func write(t *testing.T, schema *arrow.Schema, batches ...arrow.RecordBatch) []byte {
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	for _, batch := range batches {
		require.NoError(t, w.Write(batch))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// schemaMessage returns a stream without its end.
func schemaMessage(t *testing.T, schema *arrow.Schema) []byte {
	b := write(t, schema)
	return b[:len(b)-8]
}
