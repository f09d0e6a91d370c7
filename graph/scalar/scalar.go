// Package scalar writes and reads the schema's scalars and enums as the domain's own types.
package scalar

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/millpond/millpond/domain"
)

// timeLayout is ISO 8601 in UTC, to the microsecond that the database keeps.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// MarshalTime writes an instant in UTC, with milliseconds or better.
func MarshalTime(t time.Time) graphql.Marshaler {
	return quoted(t.UTC().Format(timeLayout))
}

// UnmarshalTime reads an instant in ISO 8601 with a zone.
func UnmarshalTime(v any) (time.Time, error) {
	s, ok := v.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if !ok || err != nil {
		return time.Time{}, domain.Errorf(domain.CodeInvalid, "%v is not a time; write it as 2026-11-21T07:44:52.120Z.", v)
	}
	return t.UTC(), nil
}

// MarshalInt64 writes all digits as a string.
func MarshalInt64(n int64) graphql.Marshaler {
	return quoted(strconv.FormatInt(n, 10))
}

// UnmarshalInt64 reads a decimal string or an integer.
func UnmarshalInt64(v any) (int64, error) {
	if s, ok := v.(string); ok {
		v = json.Number(s)
	}
	n, ok := integer(v)
	if !ok {
		return 0, domain.Errorf(domain.CodeInvalid, "%v is not a 64-bit integer; write it as a decimal string.", v)
	}
	return n, nil
}

// MarshalInt writes an integer.
func MarshalInt(n int) graphql.Marshaler { return graphql.MarshalInt(n) }

// UnmarshalInt reads GraphQL's integer of 32 bits. Null becomes 0, if the schema allows null.
func UnmarshalInt(v any) (int, error) {
	if v == nil {
		return 0, nil
	}
	n, ok := integer(v)
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, domain.Errorf(domain.CodeInvalid, "%v is not an integer of 32 bits.", v)
	}
	return int(n), nil
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case json.Number:
		i, err := strconv.ParseInt(string(n), 10, 64)
		return i, err == nil
	}
	return 0, false
}

// MarshalBase64 writes bytes in standard base64.
func MarshalBase64(b []byte) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) {
		text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2)
		text = append(text, '"')
		text = base64.StdEncoding.AppendEncode(text, b)
		_, _ = w.Write(append(text, '"')) // a buffer does not fail
	})
}

// UnmarshalBase64 reads bytes in standard base64.
func UnmarshalBase64(v any) ([]byte, error) {
	s, ok := v.(string)
	b, err := base64.StdEncoding.DecodeString(s)
	if !ok || err != nil {
		return nil, domain.Errorf(domain.CodeInvalid, "This is not standard base64.")
	}
	return b, nil
}

// MarshalJSON writes JSON unchanged.
func MarshalJSON(v json.RawMessage) graphql.Marshaler { return raw(v) }

// UnmarshalJSON reads any JSON value. Numbers in variables keep their digits.
func UnmarshalJSON(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, domain.Errorf(domain.CodeInvalid, "This is not a JSON value.")
	}
	return b, nil
}

// MarshalRows writes rows, which are already JSON.
func MarshalRows(v json.RawMessage) graphql.Marshaler { return raw(v) }

// UnmarshalRows refuses rows: they are never an input.
func UnmarshalRows(any) (json.RawMessage, error) {
	return nil, domain.Errorf(domain.CodeInvalid, "Rows are not an input type.")
}

// notNumbers are the values of metrics that JSON cannot write as numbers.
var notNumbers = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// MarshalMetricValue writes a number with all its digits, and NaN and the infinities as strings.
func MarshalMetricValue(v float64) graphql.Marshaler {
	switch {
	case math.IsNaN(v):
		return quoted("NaN")
	case math.IsInf(v, 1):
		return quoted("Infinity")
	case math.IsInf(v, -1):
		return quoted("-Infinity")
	}
	return raw(strconv.AppendFloat(nil, v, 'g', -1, 64))
}

// UnmarshalMetricValue reads a number, or one of the strings NaN, Infinity and -Infinity.
func UnmarshalMetricValue(v any) (float64, error) {
	switch n := v.(type) {
	case float64:
		return n, nil
	case int64:
		return float64(n), nil
	case json.Number:
		if f, err := n.Float64(); err == nil {
			return f, nil
		}
	case string:
		if f, ok := notNumbers[n]; ok {
			return f, nil
		}
	}
	return 0, domain.Errorf(domain.CodeInvalid, `%v is not a metric's value; write a number of 64 bits, "NaN", "Infinity" or "-Infinity".`, v)
}

func raw(v json.RawMessage) graphql.Marshaler {
	if v == nil {
		return graphql.Null
	}
	return graphql.WriterFunc(func(w io.Writer) { _, _ = w.Write(v) }) // a buffer does not fail
}

// quoted writes a text that needs no escapes.
func quoted(s string) graphql.Marshaler {
	return graphql.WriterFunc(func(w io.Writer) { _, _ = io.WriteString(w, `"`+s+`"`) }) // a buffer
}
