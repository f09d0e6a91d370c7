package lake_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// TestColumns have the names of Iceberg's types.
func TestColumns(t *testing.T) {
	r := newRig(t)
	const schema = `{"type":"struct","schema-id":0,"fields":[
		{"id":1,"name":"a","required":true,"type":"long","doc":"the first"},{"id":2,"name":"b","required":false,"type":"decimal(38, 2)"},
		{"id":3,"name":"c","required":false,"type":{"type":"list","element-id":6,"element":"timestamptz","element-required":true}},
		{"id":4,"name":"d","required":false,"type":{"type":"map","key-id":7,"key":"string","value-id":8,"value":"fixed[4]","value-required":false}},
		{"id":5,"name":"e","required":false,"type":{"type":"struct","fields":[{"id":9,"name":"x","required":false,"type":"uuid"},{"id":10,"name":"y","required":false,"type":"date"}]}}]}`
	l, err := r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(schema)}, lake.Key{})
	require.NoError(t, err)
	columns, err := r.catalog.Columns(t.Context(), r.scope, l.Table.ID)
	require.NoError(t, err)
	types := make([]string, len(columns))
	for i, c := range columns {
		types[i] = c.Name + " " + c.Type
	}
	require.Equal(t, []string{
		"a long", "b decimal(38, 2)", "c list<timestamptz>", "d map<string, fixed[4]>", "e struct<x: uuid, y: date>",
	}, types)
	require.True(t, columns[0].Required)
	require.Equal(t, "the first", columns[0].Doc)
}

// partitioned creates a table with partitions, appends to it three times and deletes once.
func (r *rig) partitioned() (lake.Loaded, client) {
	r.t.Helper()
	l, err := r.catalog.Create(r.t.Context(), r.scope, "lake", "public", lake.NewTable{
		Name: "p", Schema: json.RawMessage(twoColumns), Properties: map[string]string{"write.delete.mode": "merge-on-read"},
		PartitionSpec: json.RawMessage(`{"spec-id":0,"fields":[{"name":"what","transform":"identity","source-id":2,"field-id":1000}]}`),
	}, lake.Key{})
	require.NoError(r.t, err)
	c := r.client("p")
	for i := range 3 {
		rows := rowsOf(r.t, int64(10*i), int64(10*i+1))
		_, err := c.table(r.t).AppendTable(r.t.Context(), rows, 1024, iceberg.Properties{})
		rows.Release()
		require.NoError(r.t, err)
	}
	_, err = c.table(r.t).Delete(r.t.Context(), iceberg.EqualTo(iceberg.Reference("id"), int64(11)), iceberg.Properties{})
	require.NoError(r.t, err)
	return l, c
}

// TestInspection shows snapshots, history, files and partitions without reading data files.
func TestInspection(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l, _ := r.partitioned()
	id := l.Table.ID
	row, err := r.catalog.TableByID(ctx, r.scope, id)
	require.NoError(t, err)
	require.Equal(t, int64(5), *row.RowCount, "what was deleted does not count")
	for _, name := range r.onDisk() { // the inspection does not open them
		if strings.HasSuffix(name, ".parquet") {
			require.NoError(t, os.Remove(filepath.Join(r.dir, string(r.scope.Workspace()), name)))
		}
	}
	snapshots, err := r.catalog.Snapshots(ctx, r.scope, id, domain.Page{Limit: 3})
	require.NoError(t, err)
	require.Len(t, snapshots.Items, 3)
	require.True(t, snapshots.Items[0].Current)
	require.Equal(t, []string{"main"}, snapshots.Items[0].Refs)
	require.Equal(t, row.Snapshot.ID, snapshots.Items[0].ID)
	rest, err := r.catalog.Snapshots(ctx, r.scope, id, domain.Page{Limit: 3, Cursor: snapshots.Next})
	require.NoError(t, err)
	require.Len(t, rest.Items, 1)
	require.Equal(t, "append", rest.Items[0].Operation)
	require.Nil(t, rest.Items[0].ParentID)
	history, err := r.catalog.History(ctx, r.scope, id, domain.Page{})
	require.NoError(t, err)
	require.Len(t, history.Items, 4)
	require.True(t, history.Items[0].Ancestor)

	var all []lake.DataFile
	for page := (domain.Page{Limit: 1}); ; {
		list, err := r.catalog.DataFiles(ctx, r.scope, id, lake.FilesFilter{}, page)
		require.NoError(t, err)
		all = append(all, list.Items...)
		if page.Cursor = list.Next; list.Next == "" {
			break
		}
	}
	require.Len(t, all, 4)
	kinds := map[string]int{}
	for _, f := range all {
		kinds[f.Content]++
		require.Equal(t, "what=row", f.Partition)
		require.Equal(t, "parquet", f.Format)
	}
	require.Equal(t, map[string]int{"data": 3, "position_deletes": 1}, kinds)
	first, err := r.catalog.DataFiles(ctx, r.scope, id, lake.FilesFilter{Snapshot: &rest.Items[0].ID}, domain.Page{})
	require.NoError(t, err)
	require.Len(t, first.Items, 1)
	_, err = r.catalog.DataFiles(ctx, r.scope, id, lake.FilesFilter{Snapshot: new(int64)}, domain.Page{})
	code(t, domain.CodeNotFound, err)
	partitions, err := r.catalog.Partitions(ctx, r.scope, id, domain.Page{})
	require.NoError(t, err)
	require.Len(t, partitions.Items, 1)
	require.Equal(t, int64(6), partitions.Items[0].Records)
	require.Equal(t, int64(3), partitions.Items[0].DataFiles)
	require.Equal(t, int64(1), partitions.Items[0].DeleteFiles)
	_, err = r.catalog.Sample(ctx, r.scope, id, 10)
	code(t, domain.CodeNotFound, err)
}

// TestSample applies deletes, and returns at most the rows asked for.
func TestSample(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l, c := r.partitioned()
	rows, err := r.catalog.Sample(ctx, r.scope, l.Table.ID, 100)
	require.NoError(t, err)
	require.Len(t, rows.Rows, 5)
	require.Len(t, c.ids(t), 5)
	for _, row := range rows.Rows {
		require.NotEqual(t, json.Number("11"), row[0])
		require.Equal(t, "row", row[1])
	}
	rows, err = r.catalog.Sample(ctx, r.scope, l.Table.ID, 2)
	require.NoError(t, err)
	require.Len(t, rows.Rows, 2)
	for _, limit := range []int{0, -1, 101} {
		_, err = r.catalog.Sample(ctx, r.scope, l.Table.ID, limit)
		code(t, domain.CodeInvalid, err)
	}
	empty := r.create("public", "empty")
	rows, err = r.catalog.Sample(ctx, r.scope, empty.Table.ID, 10)
	require.NoError(t, err)
	require.Equal(t, [][]any{}, rows.Rows)
}

// TestASampleIsCut: a small file may expand to hundreds of megabytes. Answer and memory stay small.
func TestASampleIsCut(t *testing.T) {
	r := newRig(t)
	const schema = `{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"s","required":false,"type":"string"},{"id":2,"name":"b","required":false,"type":"binary"},
		{"id":3,"name":"list","required":false,"type":{"type":"list","element-id":4,"element":"int","element-required":false}}]}`
	l, err := r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(schema)}, lake.Key{})
	require.NoError(t, err)
	c := r.client("t")
	meta := c.table(t)
	as, err := table.SchemaToArrowSchema(meta.Schema(), nil, false, false)
	require.NoError(t, err)
	long := strings.Repeat("\u00e9", 1<<20)
	one := fmt.Sprintf(`{"s":%q,"b":%q,"list":[%s1]}`, long, strings.Repeat("AAAA", 1<<18), strings.Repeat("1,", 1<<16))
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader("["+strings.Repeat(one+",", 39)+one+"]"))
	require.NoError(t, err)
	rows := array.NewTableFromRecords(as, []arrow.RecordBatch{rec})
	_, err = meta.AppendTable(t.Context(), rows, 1024, iceberg.Properties{})
	require.NoError(t, err)
	rows.Release()
	rec.Release()

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sample, err := r.catalog.Sample(t.Context(), r.scope, l.Table.ID, 40)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc), int64(before.HeapAlloc)+16<<20)
	require.True(t, sample.Truncated)
	body, err := json.Marshal(sample.Rows)
	require.NoError(t, err)
	require.Less(t, len(body), 1<<20)
	require.InDelta(t, 23, len(sample.Rows), 1, "64 MiB were read")
	require.Len(t, []rune(sample.Rows[0][0].(string)), 1000)
	require.LessOrEqual(t, len(sample.Rows[0][1].(string)), 1000)
	require.LessOrEqual(t, len(sample.Rows[0][2].([]any)), 1000)
}

// TestFourSamplesAtOnce is the limit of a workspace; other workspaces have their own.
func TestFourSamplesAtOnce(t *testing.T) {
	r := newRig(t)
	l := r.create("public", "t")
	r.client("t").append(t, 1)
	read := func() error {
		_, err := r.catalog.Sample(t.Context(), r.scope, l.Table.ID, 1)
		return err
	}
	leave := make([]func(), 4)
	for i := range leave {
		require.NoError(t, read(), "with %d others", i)
		var err error
		leave[i], err = r.catalog.EnterSample(r.scope.Workspace())
		require.NoError(t, err)
	}
	code(t, domain.CodeRate, read())
	other, err := r.catalog.EnterSample("ws_other")
	require.NoError(t, err)
	other()
	leave[0]()
	require.NoError(t, read())
	require.NoError(t, read(), "one that was read is counted no more")
}

// TestCorruptFiles are reported, and harm nothing else.
func TestCorruptFiles(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l := r.create("public", "t")
	r.client("t").append(t, 1, 2, 3, 4, 5)
	var data, manifests []string
	for _, name := range r.onDisk() {
		switch path := filepath.Join(r.dir, string(r.scope.Workspace()), name); filepath.Ext(name) {
		case ".parquet":
			data = append(data, path)
		case ".avro":
			manifests = append(manifests, path)
		}
	}
	require.Len(t, data, 1)
	whole, err := os.ReadFile(data[0])
	require.NoError(t, err)
	for i := 0; i < len(whole); i += 3 { // every third byte is damaged once
		broken := append([]byte{}, whole...)
		broken[i] ^= 0xff
		require.NoError(t, os.WriteFile(data[0], broken, 0o600))
		_, err := r.catalog.Sample(ctx, r.scope, l.Table.ID, 10)
		require.True(t, err == nil || domain.IsCode(err, domain.CodeInvalid), "byte %d: %v", i, err)
	}
	for _, broken := range [][]byte{{}, []byte("PAR1"), whole[:len(whole)/2]} {
		require.NoError(t, os.WriteFile(data[0], broken, 0o600))
		_, err := r.catalog.Sample(ctx, r.scope, l.Table.ID, 10)
		code(t, domain.CodeInvalid, err)
	}
	for _, path := range manifests {
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for i := 0; i < len(whole); i += 7 {
			broken := append([]byte{}, whole...)
			broken[i] ^= 0xff
			require.NoError(t, os.WriteFile(path, broken, 0o600))
			_, err := r.catalog.DataFiles(ctx, r.scope, l.Table.ID, lake.FilesFilter{}, domain.Page{})
			require.True(t, err == nil || domain.IsCode(err, domain.CodeInvalid) || domain.IsCode(err, domain.CodeNotFound), "byte %d of %s: %v", i, path, err)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
	require.NoError(t, os.WriteFile(data[0], whole, 0o600))
	_, err = r.catalog.Sample(ctx, r.scope, l.Table.ID, 10)
	require.NoError(t, err)
}

// TestSampleTypes: each type has its JSON form, with all of its digits.
func TestSampleTypes(t *testing.T) {
	r := newRig(t)
	const schema = `{"type":"struct","schema-id":0,"fields":[
		{"id":1,"name":"l","required":false,"type":"long"},{"id":2,"name":"d","required":false,"type":"decimal(38, 2)"},{"id":3,"name":"f","required":false,"type":"double"},
		{"id":4,"name":"ts","required":false,"type":"timestamp"},{"id":5,"name":"tz","required":false,"type":"timestamptz"},{"id":6,"name":"day","required":false,"type":"date"},
		{"id":7,"name":"bin","required":false,"type":"binary"},{"id":8,"name":"list","required":false,"type":{"type":"list","element-id":9,"element":"int","element-required":false}},
		{"id":10,"name":"map","required":false,"type":{"type":"map","key-id":11,"key":"string","value-id":12,"value":"boolean","value-required":false}},
		{"id":13,"name":"s","required":false,"type":{"type":"struct","fields":[{"id":14,"name":"x","required":false,"type":"string"}]}},
		{"id":15,"name":"numbers","required":false,"type":{"type":"map","key-id":16,"key":"int","value-id":17,"value":"string","value-required":false}}]}`
	l, err := r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(schema)}, lake.Key{})
	require.NoError(t, err)
	c := r.client("t")
	meta := c.table(t)
	as, err := table.SchemaToArrowSchema(meta.Schema(), nil, false, false)
	require.NoError(t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader(`[
		{"l":9223372036854775807,"d":"123456789012345678901234567890123456.78","f":1.5,"ts":"2026-01-02T03:04:05.678901","tz":"2026-01-02T03:04:05Z","day":"2026-01-02","bin":"AQI=","list":[1,null],"map":[{"key":"k","value":true}],"numbers":[{"key":7,"value":"x"}],"s":{"x":"y"}},
		{"l":null,"d":null,"f":null,"ts":null,"tz":null,"day":null,"bin":null,"list":null,"map":null,"numbers":null,"s":null}]`))
	require.NoError(t, err)
	defer rec.Release()
	rows := array.NewTableFromRecords(as, []arrow.RecordBatch{rec})
	defer rows.Release()
	_, err = meta.AppendTable(t.Context(), rows, 1024, iceberg.Properties{})
	require.NoError(t, err)
	sample, err := r.catalog.Sample(t.Context(), r.scope, l.Table.ID, 10)
	require.NoError(t, err)
	got, err := json.Marshal(sample.Rows)
	require.NoError(t, err)
	require.Equal(t, `[[9223372036854775807,123456789012345678901234567890123456.78,1.5,"2026-01-02T03:04:05.678901","2026-01-02T03:04:05Z","2026-01-02","AQI=",[1,null],`+
		`{"k":true},{"x":"y"},[[7,"x"]]],[null,null,null,null,null,null,null,null,null,null,null]]`, string(got))
}
