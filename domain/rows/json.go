package rows

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/google/uuid"
)

// appender appends the value of one row to dst.
type appender func(dst []byte, row int) []byte

// jsonOf returns an appender of the column's values as JSON, with null for nulls. It selects by the
// column's type once.
func jsonOf(a arrow.Array) appender {
	value := jsonValue(a)
	if a.NullN() == 0 {
		return value
	}
	return func(dst []byte, row int) []byte {
		if a.IsNull(row) {
			return append(dst, "null"...)
		}
		return value(dst, row)
	}
}

func jsonValue(a arrow.Array) appender {
	switch a := a.(type) {
	case array.ExtensionArray:
		return jsonExtension(a)
	case *array.Boolean:
		return func(dst []byte, row int) []byte { return strconv.AppendBool(dst, a.Value(row)) }
	case *array.Int8:
		return integers(a.Int8Values())
	case *array.Int16:
		return integers(a.Int16Values())
	case *array.Int32:
		return integers(a.Int32Values())
	case *array.Int64:
		return integers(a.Int64Values())
	case *array.Uint8:
		return integers(a.Uint8Values())
	case *array.Uint16:
		return integers(a.Uint16Values())
	case *array.Uint32:
		return integers(a.Uint32Values())
	case *array.Uint64:
		return func(dst []byte, row int) []byte { return strconv.AppendUint(dst, a.Value(row), 10) }
	case *array.Float32:
		return func(dst []byte, row int) []byte { return appendFloat(dst, float64(a.Value(row)), 32) }
	case *array.Float64:
		return func(dst []byte, row int) []byte { return appendFloat(dst, a.Value(row), 64) }
	case *array.Null:
		return func(dst []byte, _ int) []byte { return append(dst, "null"...) }
	}
	if value := jsonText(a); value != nil {
		return value
	}
	if value := jsonTime(a); value != nil {
		return value
	}
	if value := jsonNested(a); value != nil {
		return value
	}
	if value := jsonDecimal(a); value != nil {
		return value
	}
	return func(dst []byte, row int) []byte { return appendString(dst, a.ValueStr(row)) }
}

// jsonDecimal writes as many fraction digits as the type has.
func jsonDecimal(a arrow.Array) appender {
	t, ok := a.DataType().(arrow.DecimalType)
	if !ok {
		return nil
	}
	scale := t.GetScale()
	switch a := a.(type) {
	case *array.Decimal32:
		return func(dst []byte, row int) []byte { return appendScaled(dst, int64(a.Value(row)), scale) }
	case *array.Decimal64:
		return func(dst []byte, row int) []byte { return appendScaled(dst, int64(a.Value(row)), scale) }
	case *array.Decimal128:
		return func(dst []byte, row int) []byte {
			v := a.Value(row)
			if small := int64(v.LowBits()); v.HighBits() == small>>63 {
				return appendScaled(dst, small, scale)
			}
			return append(dst, v.ToString(scale)...)
		}
	case *array.Decimal256:
		return func(dst []byte, row int) []byte { return append(dst, a.Value(row).ToString(scale)...) }
	}
	return nil
}

// appendScaled appends v / 10^scale.
func appendScaled(dst []byte, v int64, scale int32) []byte {
	if scale < 0 {
		return append(dst, decimal128.FromI64(v).ToString(scale)...)
	}
	size := uint64(v)
	if v < 0 {
		dst, size = append(dst, '-'), -size
	}
	var digits [20]byte
	n := strconv.AppendUint(digits[:0], size, 10)
	whole := len(n) - int(scale)
	if whole <= 0 {
		dst = append(dst, '0')
	} else {
		dst = append(dst, n[:whole]...)
	}
	if scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	for ; whole < 0; whole++ {
		dst = append(dst, '0')
	}
	return append(dst, n[whole:]...)
}

func jsonExtension(a array.ExtensionArray) appender {
	storage, isFixed := a.Storage().(*array.FixedSizeBinary)
	if a.ExtensionType().ExtensionName() != "arrow.uuid" || !isFixed {
		return jsonValue(a.Storage())
	}
	return func(dst []byte, row int) []byte {
		id, err := uuid.FromBytes(storage.Value(row))
		if err != nil {
			return append(dst, "null"...)
		}
		return appendString(dst, id.String())
	}
}

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](values []T) appender {
	return func(dst []byte, row int) []byte { return strconv.AppendInt(dst, int64(values[row]), 10) }
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) { // as in ECMAScript
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

func jsonText(a arrow.Array) appender {
	switch a := a.(type) {
	case *array.String:
		return func(dst []byte, row int) []byte { return appendString(dst, a.Value(row)) }
	case *array.LargeString:
		return func(dst []byte, row int) []byte { return appendString(dst, a.Value(row)) }
	case *array.StringView:
		return func(dst []byte, row int) []byte { return appendString(dst, a.Value(row)) }
	case *array.Binary:
		return binary(a.Value)
	case *array.LargeBinary:
		return binary(a.Value)
	case *array.BinaryView:
		return binary(a.Value)
	case *array.FixedSizeBinary:
		return binary(a.Value)
	case *array.Dictionary:
		values := jsonOf(a.Dictionary())
		return func(dst []byte, row int) []byte { return values(dst, a.GetValueIndex(row)) }
	}
	return nil
}

func binary(value func(int) []byte) appender {
	return func(dst []byte, row int) []byte {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, value(row))
		return append(dst, '"')
	}
}

const hex = "0123456789abcdef"

// appendString quotes like encoding/json without HTML escaping.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func jsonTime(a arrow.Array) appender {
	switch a := a.(type) {
	case *array.Date32:
		return func(dst []byte, row int) []byte { return quoteDate(dst, a.Value(row).ToTime()) }
	case *array.Date64:
		return func(dst []byte, row int) []byte { return quoteDate(dst, a.Value(row).ToTime()) }
	case *array.Time32:
		unit := a.DataType().(*arrow.Time32Type).Unit
		return func(dst []byte, row int) []byte { return quoteClock(dst, a.Value(row).ToTime(unit)) }
	case *array.Time64:
		unit := a.DataType().(*arrow.Time64Type).Unit
		return func(dst []byte, row int) []byte { return quoteClock(dst, a.Value(row).ToTime(unit)) }
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		zone := ""
		if t.TimeZone != "" {
			zone = "Z"
		}
		return func(dst []byte, row int) []byte { return appendTimestamp(dst, a.Value(row), t.Unit, zone) }
	case *array.MonthDayNanoInterval:
		return func(dst []byte, row int) []byte { return appendInterval(dst, a.Value(row)) }
	}
	return nil
}

func quoteDate(dst []byte, t time.Time) []byte {
	return append(appendDate(append(dst, '"'), t), '"')
}

func quoteClock(dst []byte, t time.Time) []byte {
	return append(appendClock(append(dst, '"'), t), '"')
}

// appendDate is AppendFormat with time.DateOnly, but takes a third of its time for years of four
// digits.
func appendDate(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, time.DateOnly)
	}
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	return appendTwo(append(appendTwo(append(dst, '-'), int(month)), '-'), day)
}

// appendClock appends the time of day, with the fraction of a second unless it is zero.
func appendClock(dst []byte, t time.Time) []byte {
	hour, minute, second := t.Clock()
	dst = appendTwo(append(appendTwo(append(appendTwo(dst, hour), ':'), minute), ':'), second)
	rest := t.Nanosecond()
	if rest == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int(time.Second) / 10; rest > 0; unit /= 10 {
		dst, rest = append(dst, byte('0'+rest/unit)), rest%unit
	}
	return dst
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// appendTimestamp also supports SQL's infinities.
func appendTimestamp(dst []byte, t arrow.Timestamp, unit arrow.TimeUnit, zone string) []byte {
	switch t {
	case math.MaxInt64:
		return append(dst, `"Infinity"`...)
	case -math.MaxInt64:
		return append(dst, `"-Infinity"`...)
	}
	at := t.ToTime(unit)
	dst = append(appendDate(append(dst, '"'), at), 'T')
	return append(append(appendClock(dst, at), zone...), '"')
}

// appendInterval writes an ISO 8601 duration. Each part may be negative.
func appendInterval(dst []byte, v arrow.MonthDayNanoInterval) []byte {
	dst = append(dst, '"', 'P')
	empty := len(dst)
	part := func(n int64, unit byte) {
		if n != 0 {
			dst = append(strconv.AppendInt(dst, n, 10), unit)
		}
	}
	part(int64(v.Months/12), 'Y')
	part(int64(v.Months%12), 'M')
	part(int64(v.Days), 'D')
	if n := v.Nanoseconds; n != 0 {
		dst = append(dst, 'T')
		part(n/int64(time.Hour), 'H')
		part(n%int64(time.Hour)/int64(time.Minute), 'M')
		if rest := n % int64(time.Minute); rest != 0 {
			dst = append(strconv.AppendFloat(dst, float64(rest)/1e9, 'f', -1, 64), 'S')
		}
	}
	if len(dst) == empty {
		dst = append(dst, "T0S"...)
	}
	return append(dst, '"')
}

func jsonNested(a arrow.Array) appender {
	switch a := a.(type) {
	case *array.Map:
		return jsonMap(a)
	case array.ListLike:
		values := jsonOf(a.ListValues())
		return func(dst []byte, row int) []byte {
			from, to := a.ValueOffsets(row)
			dst = append(dst, '[')
			for i := from; i < to; i++ {
				if i > from {
					dst = append(dst, ',')
				}
				dst = values(dst, int(i))
			}
			return append(dst, ']')
		}
	case *array.Struct:
		return jsonStruct(a)
	}
	return nil
}

func jsonStruct(a *array.Struct) appender {
	t := a.DataType().(*arrow.StructType)
	fields, keys := make([]appender, a.NumField()), make([][]byte, a.NumField())
	for i := range fields {
		fields[i] = jsonOf(a.Field(i))
		keys[i] = append(appendString(nil, t.Field(i).Name), ':')
	}
	return func(dst []byte, row int) []byte {
		dst = append(dst, '{')
		for i, field := range fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = field(append(dst, keys[i]...), row)
		}
		return append(dst, '}')
	}
}

// jsonMap writes an object if the keys are text, else a list of pairs, because two keys may have
// the same text.
func jsonMap(a *array.Map) appender {
	keys, values := jsonOf(a.Keys()), jsonOf(a.Items())
	open, between, end := "[", "],[", "]"
	pair := byte(',')
	if jsonText(a.Keys()) != nil && a.Keys().DataType().ID() != arrow.BINARY {
		open, between, end, pair = "{", ",", "}", ':'
	}
	return func(dst []byte, row int) []byte {
		from, to := a.ValueOffsets(row)
		dst = append(dst, open...)
		for i := from; i < to; i++ {
			if i > from {
				dst = append(dst, between...)
			} else if pair == ',' {
				dst = append(dst, '[')
			}
			dst = values(append(keys(dst, int(i)), pair), int(i))
		}
		if pair == ',' && to > from {
			dst = append(dst, ']')
		}
		return append(dst, end...)
	}
}
