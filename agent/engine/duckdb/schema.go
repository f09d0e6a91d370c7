package duckdb

import (
	"fmt"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// icebergSchema returns the schema of a query's result in Iceberg's JSON form.
func icebergSchema(statement duckdb.PreparedStatement) map[string]any {
	ids := &fieldIDs{}
	fields := []any{}
	for i := range duckdb.PreparedStatementColumnCount(statement) {
		t := duckdb.PreparedStatementColumnLogicalType(statement, i)
		fields = append(fields, ids.field(duckdb.PreparedStatementColumnName(statement, i), t))
		duckdb.DestroyLogicalType(&t)
	}
	return map[string]any{"type": "struct", "schema-id": 0, "fields": fields}
}

type fieldIDs struct{ last int }

func (f *fieldIDs) next() int {
	f.last++
	return f.last
}

func (f *fieldIDs) field(name string, t duckdb.LogicalType) map[string]any {
	return map[string]any{"id": f.next(), "name": name, "required": false, "type": f.typeOf(t)}
}

var icebergTypes = map[duckdb.Type]string{
	duckdb.TypeBoolean: "boolean", duckdb.TypeTinyInt: "int", duckdb.TypeSmallInt: "int", duckdb.TypeInteger: "int", duckdb.TypeUTinyInt: "int", duckdb.TypeUSmallInt: "int",
	duckdb.TypeBigInt: "long", duckdb.TypeUInteger: "long", duckdb.TypeUBigInt: "decimal(20, 0)", duckdb.TypeHugeInt: "decimal(38, 0)", duckdb.TypeFloat: "float", duckdb.TypeDouble: "double",
	duckdb.TypeDate: "date", duckdb.TypeTime: "time", duckdb.TypeTimestamp: "timestamp", duckdb.TypeTimestampS: "timestamp", duckdb.TypeTimestampMS: "timestamp",
	duckdb.TypeTimestampNS: "timestamp_ns", duckdb.TypeTimestampTZ: "timestamptz", duckdb.TypeBlob: "binary", duckdb.TypeUUID: "uuid",
}

// typeOf returns the Iceberg name of a type. A type without one is a string, as in results.
func (f *fieldIDs) typeOf(t duckdb.LogicalType) any {
	child := func(t duckdb.LogicalType) any {
		defer duckdb.DestroyLogicalType(&t)
		return f.typeOf(t)
	}
	switch id := duckdb.GetTypeId(t); id {
	case duckdb.TypeDecimal:
		return fmt.Sprintf("decimal(%d, %d)", duckdb.DecimalWidth(t), duckdb.DecimalScale(t))
	case duckdb.TypeList:
		return map[string]any{"type": "list", "element-id": f.next(), "element-required": false, "element": child(duckdb.ListTypeChildType(t))}
	case duckdb.TypeArray:
		return map[string]any{"type": "list", "element-id": f.next(), "element-required": false, "element": child(duckdb.ArrayTypeChildType(t))}
	case duckdb.TypeMap:
		return map[string]any{"type": "map", "key-id": f.next(), "value-id": f.next(), "value-required": false, "key": child(duckdb.MapTypeKeyType(t)), "value": child(duckdb.MapTypeValueType(t))}
	case duckdb.TypeStruct:
		fields := []any{}
		for i := range duckdb.StructTypeChildCount(t) {
			c := duckdb.StructTypeChildType(t, i)
			fields = append(fields, f.field(duckdb.StructTypeChildName(t, i), c))
			duckdb.DestroyLogicalType(&c)
		}
		return map[string]any{"type": "struct", "fields": fields}
	default:
		if name, ok := icebergTypes[id]; ok {
			return name
		}
		return "string"
	}
}
