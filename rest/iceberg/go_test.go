package iceberg_test

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/catalogtest"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// goClient is iceberg-go's client with an API key as its credential.
func (w *world) goClient(t *testing.T, key string) *rest.Catalog {
	c, err := rest.NewCatalog(t.Context(), "millpond", w.url, rest.WithCredential("ci:"+key), rest.WithWarehouseLocation("lake"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// TestConformance runs iceberg-go's catalog test suite.
func TestConformance(t *testing.T) {
	w := newWorld(t)
	catalogtest.RunCatalogTests(t, catalogtest.Config{
		SupportsNamespaceProperties: true,
		NewCatalog:                  func(t *testing.T) catalog.Catalog { return w.goClient(t, w.ours.key) },
	})
}

// recordsOf returns a batch of rows with an id and a name.
func recordsOf(t *testing.T, schema *arrow.Schema, json string) array.RecordReader {
	t.Helper()
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(json))
	require.NoError(t, err)
	r, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
	require.NoError(t, err)
	return r
}

// ids returns the ids of a table's rows.
func ids(ctx context.Context, t *testing.T, tbl *table.Table, options ...table.ScanOption) []int64 {
	t.Helper()
	rows, err := tbl.Scan(options...).ToArrowTable(ctx)
	require.NoError(t, err)
	defer rows.Release()
	found := []int64{}
	for _, chunk := range rows.Column(0).Data().Chunks() {
		found = append(found, chunk.(*array.Int64).Int64Values()...)
	}
	return found
}

// TestIcebergGo reads and writes a table with iceberg-go, from its creation to its deletion.
func TestIcebergGo(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c := w.goClient(t, w.ours.key)
	require.NoError(t, c.CreateNamespace(ctx, table.Identifier{"go"}, nil))
	require.NoError(t, c.CreateNamespace(ctx, table.Identifier{"go", "deep"}, nil))
	name := table.Identifier{"go", "deep", "people"}
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "name", Type: iceberg.PrimitiveTypes.String})
	tbl, err := c.CreateTable(ctx, name, schema, catalog.WithProperties(iceberg.Properties{"format-version": "2", "write.delete.mode": "merge-on-read"}))
	require.NoError(t, err)
	arrowSchema, err := table.SchemaToArrowSchema(tbl.Schema(), nil, false, false)
	require.NoError(t, err)
	tbl, err = tbl.Append(ctx, recordsOf(t, arrowSchema, `[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]`), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{1, 2, 3}, ids(ctx, t, tbl))
	before := tbl.CurrentSnapshot().SnapshotID

	tbl, err = tbl.Delete(ctx, iceberg.EqualTo(iceberg.Reference("id"), int64(2)), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{1, 3}, ids(ctx, t, tbl))
	require.Equal(t, "1", tbl.CurrentSnapshot().Summary.Properties["total-position-deletes"], "merge on read")

	tx := tbl.NewTransaction()
	require.NoError(t, tx.UpdateSchema(true, false).AddColumn([]string{"score"}, iceberg.PrimitiveTypes.Float64, "", false, nil).Commit())
	tbl, err = tx.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, tbl.Schema().NumFields())

	_, _, err = c.CommitTable(ctx, name, nil, []table.Update{table.NewSetSnapshotRefUpdate("first", before, table.TagRef, 0, 0, 0)})
	require.NoError(t, err)
	tbl, err = c.LoadTable(ctx, name)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{1, 2, 3}, ids(ctx, t, tbl, table.WithSnapshotID(before)))
	require.NotNil(t, tbl.SnapshotByName("first"))

	_, err = c.RenameTable(ctx, name, table.Identifier{"go", "persons"})
	require.NoError(t, err)
	_, err = c.LoadTable(ctx, name)
	require.ErrorIs(t, err, catalog.ErrNoSuchTable)
	_, _, err = c.CommitTable(ctx, table.Identifier{"go", "persons"}, []table.Requirement{table.AssertRefSnapshotID("main", &before)}, nil)
	require.ErrorIs(t, err, table.ErrCommitFailed)

	_, err = w.goClient(t, w.theirs.key).LoadTable(ctx, table.Identifier{"go", "persons"})
	require.ErrorIs(t, err, catalog.ErrNoSuchTable)
	require.NoError(t, c.DropTable(ctx, table.Identifier{"go", "persons"}))
	require.ErrorIs(t, c.DropTable(ctx, table.Identifier{"go", "persons"}), catalog.ErrNoSuchTable)
}
