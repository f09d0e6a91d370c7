package rows

import (
	"encoding/json"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// csvColumn appends the values of a column as CSV.
type csvColumn struct {
	array arrow.Array
	value appender
}

func csvOf(a arrow.Array) csvColumn { return csvColumn{a, jsonOf(a)} }

// append appends one value. It reuses scratch.
func (c csvColumn) append(dst, scratch []byte, row int) ([]byte, []byte) {
	if c.array.IsNull(row) || c.array.DataType().ID() == arrow.NULL { // the NULL type has no validity bits
		return dst, scratch
	}
	scratch = c.value(scratch[:0], row)
	if scratch[0] != '"' {
		return appendCSV(dst, string(scratch)), scratch
	}
	var text string
	if json.Unmarshal(scratch, &text) != nil { // our own output
		text = string(scratch)
	}
	if text == "" {
		return append(dst, '"', '"'), scratch
	}
	return appendCSV(dst, text), scratch
}

func appendCSV(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ",\"\r\n") && strings.TrimSpace(s) == s {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}
