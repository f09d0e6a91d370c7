package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// lakeClient commits iceberg-go's writes through the catalog, as an engine does.
type lakeClient struct {
	catalog *lake.Catalog
	scope   domain.Scope
	ref     lake.Ref
}

func publicTable(name string) lake.Ref {
	return lake.Ref{Database: "lake", Schema: "public", Name: name}
}

// LoadTable implements table.CatalogIO.
func (c lakeClient) LoadTable(ctx context.Context, _ table.Identifier) (*table.Table, error) {
	l, err := c.catalog.Load(ctx, c.scope, c.ref, lake.KindTable, lake.LoadOptions{})
	if err != nil {
		return nil, err
	}
	meta, err := table.ParseMetadataBytes(l.Metadata)
	if err != nil {
		return nil, err
	}
	return table.New(table.Identifier{c.ref.Name}, meta, l.MetadataLocation, func(context.Context) (iceio.IO, error) { return iceio.LocalFS{}, nil }, c), nil
}

// CommitTable implements table.CatalogIO.
func (c lakeClient) CommitTable(ctx context.Context, _ table.Identifier, reqs []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	requirements, err := json.Marshal(reqs)
	if err != nil {
		return nil, "", err
	}
	changes, err := json.Marshal(updates)
	if err != nil {
		return nil, "", err
	}
	l, err := c.catalog.Commit(ctx, c.scope, lake.Change{Ref: c.ref, Requirements: requirements, Updates: changes}, lake.Key{})
	if err != nil {
		return nil, "", err
	}
	meta, err := table.ParseMetadataBytes(l.Metadata)
	return meta, l.MetadataLocation, err
}

// append adds rows with these ids, each with a price and the tag "tag".
func (c lakeClient) append(ctx context.Context, ids ...int64) error {
	t, err := c.LoadTable(ctx, nil)
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 38, Scale: 2}, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "day", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil))
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		if err := b.Field(1).AppendValueFromString(wide); err != nil {
			return err
		}
		tags := b.Field(2).(*array.ListBuilder)
		tags.Append(true)
		tags.ValueBuilder().(*array.StringBuilder).Append("tag")
		b.Field(3).(*array.StringBuilder).Append([]string{"monday", "tuesday"}[id%2])
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	all := array.NewTableFromRecords(batch.Schema(), []arrow.RecordBatch{batch})
	defer all.Release()
	_, err = t.AppendTable(ctx, all, 1024, iceberg.Properties{})
	return err
}

// wide is a number with 38 digits.
const wide = "123456789012345678901234567890123456.78"

const thingColumns = `{"type": "struct", "schema-id": 0, "fields": [
	{"id": 1, "name": "id", "required": true, "type": "long", "doc": "of a thing"},
	{"id": 2, "name": "price", "required": false, "type": "decimal(38, 2)"},
	{"id": 3, "name": "tags", "required": false, "type": {"type": "list", "element-id": 5, "element-required": false, "element": "string"}},
	{"id": 4, "name": "day", "required": false, "type": "string"}
]}`

// table creates an empty table in lake.public, optionally partitioned by day.
func (w *world) table(t tenant, name string, partitioned bool) lake.Table {
	w.t.Helper()
	return w.tableIn(t, "lake", name, partitioned)
}

func (w *world) tableIn(t tenant, database, name string, partitioned bool) lake.Table {
	w.t.Helper()
	n := lake.NewTable{Name: name, Schema: []byte(thingColumns)}
	if partitioned {
		n.PartitionSpec = []byte(`{"spec-id": 0, "fields": [{"source-id": 4, "field-id": 1000, "name": "day", "transform": "identity"}]}`)
	}
	made, err := w.lake.Create(w.t.Context(), t.scope, database, "public", n, lake.Key{})
	require.NoError(w.t, err)
	return made.Table
}

// adds adds rows to a table in lake.public.
func (w *world) adds(t tenant, name string, ids ...int64) {
	w.t.Helper()
	require.NoError(w.t, lakeClient{w.lake, t.scope, publicTable(name)}.append(w.t.Context(), ids...))
}

// view creates a view in the schema public.
func (w *world) view(t tenant, database, name string) lake.Table {
	w.t.Helper()
	made, err := w.lake.CreateView(w.t.Context(), t.scope, database, "public", lake.NewView{Name: name, Schema: []byte(thingColumns), Version: fmt.Appendf(nil, `{
		"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["public"],
		"representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "duckdb"}]
	}`)}, lake.Key{})
	require.NoError(w.t, err)
	return made.Table
}
