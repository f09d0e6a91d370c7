package rows

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Size returns the size of a batch's rows in JSON, in bytes, with a comma after each row. It counts
// values of a fixed width as their longest form, to avoid formatting them. So the result may be too
// high, but never too low.
func Size(b arrow.RecordBatch) int64 {
	n := b.NumRows() * (b.NumCols() + 2)
	for _, c := range b.Columns() {
		n += sizeOf(c)
	}
	return n
}

func sizeOf(a arrow.Array) int64 {
	if n, ok := integersSize(a); ok {
		return n + int64(a.NullN()*len("null"))
	}
	if most := longest[a.DataType().ID()]; most > 0 {
		return int64(a.Len() * most)
	}
	value := jsonOf(a)
	var n int64
	var scratch []byte
	for row := range a.Len() {
		scratch = value(scratch[:0], row)
		n += int64(len(scratch))
	}
	return n
}

// longest is the length of each type's longest value.
var longest = map[arrow.Type]int{
	arrow.NULL: len("null"), arrow.BOOL: len("false"), arrow.FLOAT32: len("-0.0000012345678901234567"), arrow.FLOAT64: len("-0.0000012345678901234567"),
	arrow.DATE32: len(`"-5877641-06-23"`), arrow.TIME32: len(`"23:59:59.999999999"`), arrow.TIME64: len(`"23:59:59.999999999"`),
	arrow.TIMESTAMP: len(`"-290308-12-21T19:59:05.123456789Z"`),
}

func integersSize(a arrow.Array) (int64, bool) {
	switch a := a.(type) {
	case *array.Int8:
		return digits(a.Int8Values()), true
	case *array.Int16:
		return digits(a.Int16Values()), true
	case *array.Int32:
		return digits(a.Int32Values()), true
	case *array.Int64:
		return digits(a.Int64Values()), true
	case *array.Uint8:
		return digits(a.Uint8Values()), true
	case *array.Uint16:
		return digits(a.Uint16Values()), true
	case *array.Uint32:
		return digits(a.Uint32Values()), true
	}
	return 0, false
}

// digits counts the digits and signs of all values.
func digits[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](values []T) (n int64) {
	for _, v := range values {
		size := uint64(v)
		if v < 0 {
			size = -size
			n++
		}
		tens := bits.Len64(size|1) * 1233 >> 12 // log10(2) is 1233/4096
		if size >= powers[tens] {
			tens++
		}
		n += int64(max(tens, 1))
	}
	return n
}

// powers of ten.
var powers = [20]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}
