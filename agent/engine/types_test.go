package engine

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypesComeOutExactly checks the Arrow type of each DuckDB type, and that no digit is lost.
func TestTypesComeOutExactly(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ expression, arrow, value string }{
		{"true", "bool", "true"},
		{"(-128)::TINYINT", "int8", "-128"},
		{"255::UTINYINT", "uint8", "255"},
		{"18446744073709551615::UBIGINT", "uint64", "18446744073709551615"},
		{"9223372036854775807", "int64", "9223372036854775807"},
		{"99999999999999999999999999999999999999::HUGEINT", "decimal(38, 0)", "99999999999999999999999999999999999999"},
		{"(-99999999999999999999999999999999999999)::HUGEINT", "decimal(38, 0)", "-99999999999999999999999999999999999999"},
		{"340282366920938463463374607431768211455::UHUGEINT", "utf8", "340282366920938463463374607431768211455"},
		{"12345678901234567890123456789012345.678::DECIMAL(38, 3)", "decimal(38, 3)", "12345678901234567890123456789012345.678"},
		{"1.5::DECIMAL(4, 2)", "decimal(4, 2)", "1.5"},
		{"0.1::DOUBLE", "float64", "0.1"},
		{"'nan'::DOUBLE", "float64", "NaN"},
		{"'-inf'::FLOAT", "float32", "-Inf"},
		{"'é\U0001F600'", "utf8", "é\U0001F600"},
		{"'\\x00\\xFF'::BLOB", "binary", "AP8="},
		{"'0101'::BIT", "utf8", "0101"},
		{"'a'::ENUM('b', 'a')", "utf8", "a"},
		{"DATE '0001-02-03'", "date32", "0001-02-03"},
		{"TIME '23:59:59.999999'", "time64[us]", "23:59:59.999999"},
		{"'12:00:00+05:30'::TIMETZ", "utf8", "12:00:00+05:30"},
		{"TIMESTAMP '2020-01-02 03:04:05.678901'", "timestamp[us]", "2020-01-02T03:04:05.678901"},
		{"TIMESTAMPTZ '2020-01-02 03:04:05.678901+02:00'", "timestamp[us, tz=UTC]", "2020-01-02T01:04:05.678901Z"},
		{"'2020-01-02 03:04:05.123456789'::TIMESTAMP_NS", "timestamp[ns]", "2020-01-02T03:04:05.123456789"},
		{"'2020-01-02 03:04:05'::TIMESTAMP_S", "timestamp[s]", "2020-01-02T03:04:05"},
		{"INTERVAL '1 year 2 days 03:04:05.000006'", "utf8", "1 year 2 days 03:04:05.000006"},
		{"INTERVAL '3000000 hours'", "utf8", "3000000:00:00"},
		{"'123e4567-e89b-12d3-a456-426614174000'::UUID", "utf8", "123e4567-e89b-12d3-a456-426614174000"},
		{"'{\"a\": 1}'::JSON", "utf8", "{\"a\": 1}"},
		{"'123456789012345678901234567890123456789012345'::BIGNUM", "utf8", "123456789012345678901234567890123456789012345"},
		{"union_value(num := 1)", "utf8", "{\"num\":1}"},
		{"union_value(str := '1')", "utf8", "{\"str\":\"1\"}"},
		{"{'a': 1, 'b': [1.5]}::VARIANT", "utf8", "{\"a\":1,\"b\":[1.5]}"},
		{"[1, NULL, 3]", "list<l: int32, nullable>", "[1,null,3]"},
		{"[1, 2]::INTEGER[2]", "fixed_size_list<: int32, nullable>[2]", "[1,2]"},
		{"{'a': 1, 'b c': 'x'}", "struct<a: int32 nullable, b c: utf8 nullable>", `{"a":1,"b c":"x"}`},
		{"MAP {'k': 1}", "map<utf8, int32, items_nullable>", `[{"key":"k","value":1}]`},
		{"[{'u': 5::UHUGEINT, 'h': 7::HUGEINT, 'e': 'x'::ENUM('x')}]", "", `[{"e":"x","h":"7","u":"5"}]`},
		{"NULL", "", "(null)"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			schema, rows := s.ok("SELECT " + c.expression + " AS v").table(t)
			if c.arrow != "" {
				require.Equal(t, c.arrow, schema.Field(0).Type.String())
			}
			require.Equal(t, "v", schema.Field(0).Name)
			require.Equal(t, c.value, rows[0][0])
		})
	}
}

func TestIntegersBeyond38DigitsAreRefused(t *testing.T) {
	s := serve(t, nil)
	for _, q := range []string{
		"SELECT 100000000000000000000000000000000000000::HUGEINT AS h", "SELECT (-170141183460469231731687303715884105728)::HUGEINT AS h", "SELECT [100000000000000000000000000000000000000::HUGEINT] AS h",
		"SELECT {'a': MAP {1: 100000000000000000000000000000000000000::HUGEINT}} AS h", "SELECT sum(i) AS h FROM (VALUES (99999999999999999999999999999999999999::HUGEINT), (1)) v(i)",
	} {
		require.Contains(t, s.fails(q).Message, `The column "h" holds an integer of more than 38 digits`, q)
	}
}

func TestCastsKeepNamesOrderAndPlaces(t *testing.T) {
	s := serve(t, nil)
	schema, rows := s.ok("SELECT range AS a, INTERVAL (range) DAY AS a, 'x' AS \"q\"\"\" FROM range(5) ORDER BY range DESC -- the end").table(t)
	require.Equal(t, []string{"a", "a", `q"`}, []string{schema.Field(0).Name, schema.Field(1).Name, schema.Field(2).Name})
	require.Equal(t, []string{"4", "4 days", "x"}, rows[0])
	require.Equal(t, []string{"0", "00:00:00", "x"}, rows[4])
	_, rows = s.ok("SELECT INTERVAL 1 DAY LIMIT 1;").table(t)
	require.Equal(t, "1 day", rows[0][0])
}

func TestParameters(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		query string
		value any
		want  string
	}{
		{"SELECT $1", 7, "7"},
		{"SELECT typeof($1)", 7, "BIGINT"},
		{"SELECT $1", json.Number("9223372036854775808"), "9223372036854775808"},
		{"SELECT typeof($1)", json.Number("-9223372036854775809"), "HUGEINT"},
		{"SELECT $1", json.Number("-99999999999999999999999999999999999999"), "-99999999999999999999999999999999999999"},
		{"SELECT $1", json.Number("-0.10"), "-0.1"},
		{"SELECT typeof($1)", json.Number("12345678901234567890.123456789012345678"), "DECIMAL(38,18)"},
		{"SELECT $1", json.Number("12345678901234567890.123456789012345678"), "12345678901234567890.123456789012345678"},
		{"SELECT $1", json.Number("1e300"), "1e+300"},
		{"SELECT $1::DECIMAL(38, 37) * 0", json.Number("0.1234567890123456789012345678901234567890"), "0"},
		{"SELECT $1", "'; DROP TABLE x; --", "'; DROP TABLE x; --"},
		{"SELECT ?", "é\x00z", "é\x00z"},
		{"SELECT $1 IS NULL", nil, "true"},
		{"SELECT NOT ?", true, "false"},
		{"SELECT $1 + 1", 1, "2"},
		{"SELECT INTERVAL 1 DAY * $1", 2, "2 days"},
		{"SELECT count(*) FROM range(10) WHERE range < $1", 3, "3"},
		{"SELECT count(*) FROM range($1)", 4, "4"},
		{"SELECT $1::TIMESTAMPTZ", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"},
	} {
		t.Run(fmt.Sprint(c.query, " of ", c.value), func(t *testing.T) {
			require.Equal(t, c.want, s.ok(c.query, c.value).value(t))
		})
	}
	_, rows := s.ok("SELECT ?, ?, ?", 1, "b", nil).table(t)
	require.Equal(t, []string{"1", "b", "(null)"}, rows[0])
	_, rows = s.ok("SELECT $2, $1", 1, "b").table(t)
	require.Equal(t, []string{"b", "1"}, rows[0])
	require.Contains(t, s.fails("SELECT $1").Message, "1 parameter")
	require.Contains(t, s.fails("SELECT 1", 1).Message, "parameter")
	require.Contains(t, s.fails("SELECT $1", []int{1}).Message, "null, a boolean, a number or a string")
	require.Contains(t, s.fails("SELECT $1, $3", 1, 2).Message, "$2")
	require.Contains(t, s.fails("SELECT $a", 1).Message, "$1")
}
