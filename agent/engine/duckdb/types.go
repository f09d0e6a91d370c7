package duckdb

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// texts maps types without a widely supported, lossless Arrow type to text. They become JSON if
// text would be ambiguous.
var texts = map[duckdb.Type]string{
	duckdb.TypeUHugeInt: "VARCHAR", duckdb.TypeBigNum: "VARCHAR", duckdb.TypeBit: "VARCHAR", duckdb.TypeTimeTZ: "VARCHAR", duckdb.TypeInterval: "VARCHAR", duckdb.TypeEnum: "VARCHAR",
	duckdb.TypeGeometry: "VARCHAR", duckdb.TypeUnion: "JSON", duckdb.TypeVariant: "JSON",
}

// exact is the type to which a column is cast so that its values are sent exactly.
type exact struct {
	sql     string // the type in SQL
	changed bool   // differs from the column's type
	huge    bool   // contains a HUGEINT, whose digits are checked in each batch
	unknown bool   // unknown before the statement runs
}

func exactType(t duckdb.LogicalType) exact {
	id := duckdb.GetTypeId(t)
	switch id {
	case duckdb.TypeList:
		return exactChild(duckdb.ListTypeChildType(t), "%s[]")
	case duckdb.TypeArray:
		return exactChild(duckdb.ArrayTypeChildType(t), "%s["+fmt.Sprint(duckdb.ArrayTypeArraySize(t))+"]")
	case duckdb.TypeMap:
		key, value := exactChild(duckdb.MapTypeKeyType(t), "%s"), exactChild(duckdb.MapTypeValueType(t), "%s")
		e := key.with(value)
		e.sql = "MAP(" + key.sql + ", " + value.sql + ")"
		return e
	case duckdb.TypeStruct:
		return exactStruct(t)
	}
	if to := texts[id]; to != "" {
		return exact{sql: to, changed: true}
	}
	if name := leafName(t, id); name != "" {
		return exact{sql: name, huge: id == duckdb.TypeHugeInt}
	}
	return exact{sql: "VARCHAR", changed: true, unknown: id == duckdb.TypeInvalid || id == duckdb.TypeAny}
}

func (e exact) with(o exact) exact {
	return exact{changed: e.changed || o.changed, huge: e.huge || o.huge, unknown: e.unknown || o.unknown}
}

func exactChild(child duckdb.LogicalType, format string) exact {
	defer duckdb.DestroyLogicalType(&child)
	e := exactType(child)
	e.sql = fmt.Sprintf(format, e.sql)
	return e
}

func exactStruct(t duckdb.LogicalType) exact {
	var all exact
	var fields []string
	for i := range duckdb.StructTypeChildCount(t) {
		e := exactChild(duckdb.StructTypeChildType(t, i), "%s")
		fields = append(fields, sqltext.Quote(duckdb.StructTypeChildName(t, i))+" "+e.sql)
		all = all.with(e)
	}
	all.sql = "STRUCT(" + strings.Join(fields, ", ") + ")"
	return all
}

var leafNames = map[duckdb.Type]string{
	duckdb.TypeBoolean: "BOOLEAN", duckdb.TypeTinyInt: "TINYINT", duckdb.TypeSmallInt: "SMALLINT", duckdb.TypeInteger: "INTEGER", duckdb.TypeBigInt: "BIGINT", duckdb.TypeUTinyInt: "UTINYINT",
	duckdb.TypeUSmallInt: "USMALLINT", duckdb.TypeUInteger: "UINTEGER", duckdb.TypeUBigInt: "UBIGINT", duckdb.TypeFloat: "FLOAT", duckdb.TypeDouble: "DOUBLE", duckdb.TypeTimestamp: "TIMESTAMP",
	duckdb.TypeDate: "DATE", duckdb.TypeTime: "TIME", duckdb.TypeVarchar: "VARCHAR", duckdb.TypeBlob: "BLOB", duckdb.TypeTimestampS: "TIMESTAMP_S", duckdb.TypeTimestampMS: "TIMESTAMP_MS",
	duckdb.TypeTimestampNS: "TIMESTAMP_NS", duckdb.TypeTimestampTZ: "TIMESTAMPTZ", duckdb.TypeUUID: "UUID", duckdb.TypeSQLNull: `"NULL"`, duckdb.TypeTimeNS: "TIME_NS", duckdb.TypeHugeInt: "HUGEINT",
}

func leafName(t duckdb.LogicalType, id duckdb.Type) string {
	if id == duckdb.TypeDecimal {
		return fmt.Sprintf("DECIMAL(%d, %d)", duckdb.DecimalWidth(t), duckdb.DecimalScale(t))
	}
	return leafNames[id]
}

// exactQuery returns the query with its columns cast to types that are sent exactly. It returns the
// query itself if no cast is needed. In a changed query the engine's part is the first line.
func exactQuery(query string, names []string, types []exact) (string, bool) {
	var selected, aliases []string
	changed := false
	for i, e := range types {
		alias := fmt.Sprintf("c%d", i)
		aliases = append(aliases, alias)
		expression := alias
		if e.changed {
			changed = true
			expression = "CAST(" + alias + " AS " + e.sql + ")"
		}
		selected = append(selected, expression+" AS "+sqltext.Quote(names[i]))
	}
	if !changed {
		return query, false
	}
	return "SELECT " + strings.Join(selected, ", ") + " FROM (\n" + query + "\n) AS _(" + strings.Join(aliases, ", ") + ")", true
}

var (
	beyond38 = decimal128.FromU64(10_000_000_000_000_000_000).Mul(decimal128.FromU64(10_000_000_000_000_000_000))
	below38  = beyond38.Negate()
)

// checkColumns checks the columns of a batch that huge marks.
func checkColumns(b arrow.RecordBatch, huge []bool) error {
	for i, h := range huge {
		if !h {
			continue
		}
		if err := checkHuge(b.Column(i), b.ColumnName(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkHuge refuses integers with more digits than Arrow's decimals have.
func checkHuge(a arrow.Array, column string) error {
	switch a := a.(type) {
	case *array.Decimal128:
		for i, v := range a.Values() {
			if (v.Cmp(beyond38) >= 0 || v.Cmp(below38) <= 0) && a.IsValid(i) {
				return sqltext.Refuse(-1, "The column %q holds an integer of more than 38 digits, %s, which the result has no type for. Cast it, to VARCHAR for example.", column, v.BigInt())
			}
		}
	case *array.Struct:
		for i := range a.NumField() {
			if err := checkHuge(a.Field(i), column); err != nil {
				return err
			}
		}
	case *array.Map:
		return checkEach(column, a.Keys(), a.Items())
	case array.ListLike:
		return checkHuge(a.ListValues(), column)
	}
	return nil
}

func checkEach(column string, arrays ...arrow.Array) error {
	for _, a := range arrays {
		if err := checkHuge(a, column); err != nil {
			return err
		}
	}
	return nil
}
