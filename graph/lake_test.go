package graph

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

// append adds rows with these ids, each with a tag.
func (c lakeClient) append(ctx context.Context, ids ...int64) error {
	t, err := c.LoadTable(ctx, nil)
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil))
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		tags := b.Field(1).(*array.ListBuilder)
		tags.Append(true)
		tags.ValueBuilder().(*array.StringBuilder).Append("tag")
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	all := array.NewTableFromRecords(batch.Schema(), []arrow.RecordBatch{batch})
	defer all.Release()
	_, err = t.AppendTable(ctx, all, 1024, iceberg.Properties{})
	return err
}

const twoColumns = `{"type": "struct", "schema-id": 0, "fields": [
	{"id": 1, "name": "id", "required": true, "type": "long", "doc": "of a thing"},
	{"id": 2, "name": "tags", "required": false, "type": {"type": "list", "element-id": 3, "element-required": false, "element": "string"}}
]}`

// table creates an empty table in lake.public.
func (n *tenant) table(name string) lake.Table {
	n.w.t.Helper()
	made, err := n.w.lake.Create(n.w.t.Context(), n.editor.scope, "lake", "public", lake.NewTable{Name: name, Schema: []byte(twoColumns)}, lake.Key{})
	require.NoError(n.w.t, err)
	return made.Table
}

// adds adds rows to a table in lake.public.
func (n *tenant) adds(name string, ids ...int64) {
	n.w.t.Helper()
	require.NoError(n.w.t, lakeClient{n.w.lake, n.editor.scope, publicTable(name)}.append(n.w.t.Context(), ids...))
}

// view creates a view in lake.public.
func (n *tenant) view(name, sql string) lake.Table {
	n.w.t.Helper()
	made, err := n.w.lake.CreateView(n.w.t.Context(), n.editor.scope, "lake", "public", lake.NewView{Name: name, Schema: []byte(twoColumns), Version: fmt.Appendf(nil, `{
		"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["public"],
		"representations": [{"type": "sql", "sql": "other", "dialect": "spark"}, {"type": "sql", "sql": %q, "dialect": "duckdb"}]
	}`, sql)}, lake.Key{})
	require.NoError(n.w.t, err)
	return made.Table
}
