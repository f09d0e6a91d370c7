package enginetest

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// lakeRig is a rig with iceberg-go as another client of its catalog.
type lakeRig struct {
	*rig
	others *rest.Catalog
	before func(*written) // called before a table's rows are compared; nil for none
}

func newLakeRig(t testing.TB) *lakeRig { return newRig(t).withOthers() }

func (r *rig) withOthers() *lakeRig {
	c, err := rest.NewCatalog(r.t.Context(), "others", r.catalog.URL, rest.WithOAuthToken(r.catalog.WriteToken), rest.WithWarehouseLocation("lake"))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
	return &lakeRig{rig: r, others: c}
}

// of returns the rig for a subtest.
func (r *lakeRig) of(t testing.TB) *lakeRig {
	inner := *r.rig
	inner.t = t
	return &lakeRig{&inner, r.others, r.before}
}

// written is a table that iceberg-go writes.
type written struct {
	*lakeRig
	name string
	*table.Table
}

// columns parses a schema of "name type". A type is an Iceberg name or its JSON. Names must not
// contain a space. A type with ! after it is required.
func columns(of ...string) *iceberg.Schema {
	var fields []string
	id := 0
	for _, c := range of {
		name, kind, _ := strings.Cut(c, " ")
		kind, required := strings.CutSuffix(kind, "!")
		if !strings.HasPrefix(kind, "{") {
			kind = `"` + kind + `"`
		}
		id++
		fields = append(fields, fmt.Sprintf(`{"id": %d, "name": %q, "required": %t, "type": %s}`, id, name, required, kind))
	}
	s, err := iceberg.NewSchemaFromJsonFields(0, "["+strings.Join(fields, ",")+"]")
	if err != nil {
		panic(fmt.Sprint(of, err))
	}
	return s
}

// partition is a partition field: a transform of the column at an index, from 1.
func partition(column int, name string, by iceberg.Transform) iceberg.PartitionField {
	return iceberg.PartitionField{SourceIDs: []int{column}, FieldID: 999 + column, Name: name, Transform: by}
}

// create creates a table of a format version.
func (r *lakeRig) create(name string, version int, schema *iceberg.Schema, by ...iceberg.PartitionField) *written {
	r.t.Helper()
	spec := iceberg.NewPartitionSpec(by...)
	made, err := r.others.CreateTable(r.t.Context(), table.Identifier{"public", name}, schema, catalog.WithPartitionSpec(&spec),
		catalog.WithProperties(iceberg.Properties{"format-version": fmt.Sprint(version), "write.delete.mode": "merge-on-read", "commit.retry.num-retries": "3"}))
	require.NoError(r.t, err)
	return &written{r, name, made}
}

// arrow returns the Arrow schema of the table, or of some of its columns.
func (w *written) arrow(names ...string) *arrow.Schema {
	w.t.Helper()
	of := w.Schema()
	if len(names) > 0 {
		var err error
		of, err = of.Select(true, names...)
		require.NoError(w.t, err)
	}
	s, err := table.SchemaToArrowSchema(of, nil, len(names) > 0, false)
	require.NoError(w.t, err)
	return s
}

func (w *written) batch(schema *arrow.Schema, rows string) arrow.RecordBatch {
	w.t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(w.t, err)
	return b
}

// append adds rows, given as JSON, in a separate commit and file.
func (w *written) append(rows string) *written {
	w.t.Helper()
	schema := w.arrow()
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{w.batch(schema, rows)})
	require.NoError(w.t, err)
	return w.commit(func(tx *table.Transaction) error { return tx.Append(w.t.Context(), in, nil) })
}

// delete removes rows by position: with position delete files, and with deletion vectors for format
// version 3.
func (w *written) delete(where iceberg.BooleanExpression) *written {
	w.t.Helper()
	return w.commit(func(tx *table.Transaction) error { return tx.Delete(w.t.Context(), where, nil) })
}

// deleteEqual deletes the rows that equal the given ones in the named columns. For partitioned
// tables, further columns follow "/".
func (w *written) deleteEqual(names, rows string) *written {
	w.t.Helper()
	keys, further, _ := strings.Cut(names, "/")
	var ids []int
	for name := range strings.SplitSeq(keys, ",") {
		f, ok := w.Schema().FindFieldByName(name)
		require.True(w.t, ok, name)
		ids = append(ids, f.ID)
	}
	all := strings.Split(keys, ",")
	if further != "" {
		all = append(all, strings.Split(further, ",")...)
	}
	var one iter.Seq2[arrow.RecordBatch, error] = func(yield func(arrow.RecordBatch, error) bool) {
		yield(w.batch(w.arrow(all...), rows), nil)
	}
	return w.commit(func(tx *table.Transaction) error { return tx.CommitEqualityDeletes(w.t.Context(), ids, one, nil) })
}

func (w *written) commit(change func(tx *table.Transaction) error) *written {
	w.t.Helper()
	tx := w.NewTransaction()
	require.NoError(w.t, change(tx))
	next, err := tx.Commit(w.t.Context())
	require.NoError(w.t, err)
	w.Table = next
	return w
}

// evolve changes the schema.
func (w *written) evolve(change func(u *table.UpdateSchema)) *written {
	w.t.Helper()
	return w.commit(func(tx *table.Transaction) error {
		u := tx.UpdateSchema(true, true)
		change(u)
		return u.Commit()
	})
}

// respec changes how the table is partitioned.
func (w *written) respec(change func(u *table.UpdateSpec)) *written {
	w.t.Helper()
	return w.commit(func(tx *table.Transaction) error {
		u := tx.UpdateSpec(true)
		change(u)
		return u.Commit()
	})
}

// reload loads changes by others.
func (w *written) reload() *written {
	w.t.Helper()
	next, err := w.others.LoadTable(w.t.Context(), table.Identifier{"public", w.name})
	require.NoError(w.t, err)
	w.Table = next
	return w
}

// is checks that the engine returns exactly these rows of the table, in any order.
func (w *written) is(rows ...string) *written {
	w.t.Helper()
	if w.before != nil {
		w.before(w)
	}
	require.ElementsMatch(w.t, rows, w.ok("FROM "+quoted(w.name)))
	return w
}

// answers checks that the engine returns exactly these rows, in any order.
func (r *lakeRig) answers(query string, rows ...string) {
	r.t.Helper()
	require.ElementsMatch(r.t, rows, r.ok(query), query)
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
