package lake

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestMemoryIsBounded: with the metadata of far more tables than fit, each read in every way there is, the cache holds no more memory than its bound.
func TestMemoryIsBounded(t *testing.T) {
	const limit, tables, each = 64 << 20, 1000, 10_000
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
		d := &document{location: fmt.Sprint(i), json: append([]byte{}, text...)}
		c.put(d)
		require.LessOrEqual(t, c.bytes, int64(limit))
		if i < tables-20 { // those that are thrown away again need not be read
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

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
