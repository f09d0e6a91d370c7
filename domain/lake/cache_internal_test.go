package lake

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestMemoryIsBounded: the cache stays within its bound with far more metadata than fits, read in
// every way.
func TestMemoryIsBounded(t *testing.T) {
	const limit, tables, each = 16 << 20, 250, 2_500
	snapshots := make([]map[string]any, each)
	for i := range snapshots {
		snapshots[i] = map[string]any{
			"snapshot-id": i + 1, "sequence-number": i + 1, "timestamp-ms": 1_700_000_000_000 + i, "schema-id": 0,
			"manifest-list": "file:///lake/ws/db/t/metadata/snap-" + uuid.NewString() + ".avro",
			"summary":       map[string]string{"operation": "append", "total-records": fmt.Sprint(i), "total-data-files": fmt.Sprint(i), "added-records": "1"},
		}
	}
	text, err := json.Marshal(map[string]any{
		"format-version": 2, "table-uuid": uuid.NewString(), "location": "file:///lake/ws/db/t", "last-sequence-number": each, "last-updated-ms": 1_800_000_000_000,
		"last-column-id": 1, "current-schema-id": 0, "schemas": []any{map[string]any{"type": "struct", "schema-id": 0, "fields": []any{}}},
		"partition-specs": []any{map[string]any{"spec-id": 0, "fields": []any{}}}, "default-spec-id": 0, "last-partition-id": 999,
		"sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}}, "default-sort-order-id": 0, "current-snapshot-id": each, "snapshots": snapshots,
		"refs": map[string]any{"main": map[string]any{"snapshot-id": each, "type": "branch"}},
	})
	require.NoError(t, err)
	c := newCache(limit)
	before := heap()
	for i := range tables {
		d := &document{state: state{location: fmt.Sprint(i)}, json: append([]byte{}, text...)}
		c.put(d)
		require.LessOrEqual(t, c.bytes, int64(limit))
		if i < tables-20 { // evicted ones need not be read
			continue
		}
		meta, err := d.metadata()
		require.NoError(t, err)
		require.Len(t, meta.Snapshots(), each)
		_, err = d.refsOnly()
		require.NoError(t, err)
		_, err = d.snapshots()
		require.NoError(t, err)
	}
	held := int64(heap()) - int64(before)
	t.Logf("%d tables of %d KiB: %d MiB held, %d of them", tables, len(text)>>10, held>>20, c.recent.Len())
	require.NotZero(t, c.recent.Len())
	require.LessOrEqual(t, held, int64(limit))
	runtime.KeepAlive(c)
}

// heap is the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSupersededMetadataGoes: the cache keeps the current document and the one before it, for
// clients that have just received its tag.
func TestSupersededMetadataGoes(t *testing.T) {
	c := newCache(1 << 20)
	for i := range 5 {
		old := state{}
		if i > 0 {
			old.location = fmt.Sprint(i - 1)
		}
		c.supersede(&document{state: state{location: fmt.Sprint(i)}, json: []byte("{}")}, old)
	}
	for i := range 5 {
		require.Equal(t, i >= 3, c.get(state{location: fmt.Sprint(i)}) != nil, i)
	}
	require.Equal(t, 2*c.get(state{location: "4"}).weight(), c.bytes)
	require.Equal(t, 2, c.recent.Len())
}

// TestRefsOnlyOfWhatWasMadeHere equals that of a file that was read, and parses nothing.
func TestRefsOnlyOfWhatWasMadeHere(t *testing.T) {
	text := []byte(`{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"file:///lake/ws/db/t","last-sequence-number":3,
		"last-updated-ms":1800000000000,"last-column-id":1,"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[]}],
		"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0,
		"properties":{"a":",\"snapshots\":[]}"},"current-snapshot-id":3,"snapshots":[
		{"snapshot-id":1,"sequence-number":1,"timestamp-ms":1700000000001,"manifest-list":"file:///lake/ws/db/t/1","summary":{"operation":"append"},"schema-id":0},
		{"snapshot-id":2,"sequence-number":2,"timestamp-ms":1700000000002,"manifest-list":"file:///lake/ws/db/t/2","summary":{"operation":"append"},"schema-id":0},
		{"snapshot-id":3,"sequence-number":3,"timestamp-ms":1700000000003,"manifest-list":"file:///lake/ws/db/t/3","summary":{"operation":"append"},"schema-id":0}],
		"refs":{"main":{"snapshot-id":3,"type":"branch"},"old":{"snapshot-id":1,"type":"tag"}}}`)
	read := &document{json: text}
	meta, err := read.metadata()
	require.NoError(t, err)
	before, err := read.snapshots()
	require.NoError(t, err)
	made, err := request{}.written(meta, before)
	require.NoError(t, err)
	require.NotZero(t, made.head)
	whole := string(made.json)
	want, err := onlyRefs(made.json)
	require.NoError(t, err)
	got, err := made.refsOnly()
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
	require.Contains(t, string(got), "file:///lake/ws/db/t/1")
	require.NotContains(t, string(got), "file:///lake/ws/db/t/2")
	require.Equal(t, whole, string(made.json))
	made.json = []byte("what is not parsed need not be JSON" + string(made.json[35:]))
	made = &document{json: made.json, written: made.written, parsed: meta, head: made.head}
	_, err = made.refsOnly()
	require.NoError(t, err)
}
