package lake

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/expiry"
)

// chain is the metadata of a table. Its nth snapshot was made n seconds after 1970 and follows the
// one before.
func chain(t *testing.T, snapshots int, properties map[string]string, refs map[string]map[string]any) table.Metadata {
	t.Helper()
	var all []map[string]any
	for n := 1; n <= snapshots; n++ {
		s := map[string]any{
			"snapshot-id": n, "sequence-number": n, "timestamp-ms": 1000 * n, "manifest-list": fmt.Sprint("file:///m", n), "summary": map[string]string{
				"operation": "append", "total-data-files": fmt.Sprint(n), "total-delete-files": "2", "total-position-deletes": "30", "total-equality-deletes": "4",
				"total-records": "100", "total-files-size": "5000",
			},
		}
		if n > 1 {
			s["parent-snapshot-id"] = n - 1
		}
		all = append(all, s)
	}
	if refs == nil {
		refs = map[string]map[string]any{}
	}
	refs["main"] = map[string]any{"snapshot-id": snapshots, "type": "branch"}
	document, err := json.Marshal(map[string]any{
		"format-version": 2, "table-uuid": "0192f0a0-0000-7000-8000-000000000000", "location": "file:///t", "last-sequence-number": snapshots, "last-updated-ms": 1000 * snapshots,
		"last-column-id": 1, "current-schema-id": 0, "schemas": []any{map[string]any{"type": "struct", "schema-id": 0, "fields": []any{map[string]any{"id": 1, "name": "id", "required": false, "type": "long"}}}},
		"default-spec-id": 0, "partition-specs": []any{map[string]any{"spec-id": 0, "fields": []any{}}}, "last-partition-id": 999, "default-sort-order-id": 0,
		"sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}}, "properties": properties, "current-snapshot-id": snapshots, "snapshots": all, "refs": refs,
	})
	require.NoError(t, err)
	meta, err := table.ParseMetadataBytes(document)
	require.NoError(t, err)
	return meta
}

// The oldest snapshot that may expire, by the second at which the next one replaced it. Snapshots
// that a tag names, and the last ones of a branch, may not.
func TestTheOldestSnapshotThatMayGo(t *testing.T) {
	tag := func(n int) map[string]any { return map[string]any{"snapshot-id": n, "type": "tag"} }
	for _, c := range []struct {
		name       string
		snapshots  int
		properties map[string]string
		refs       map[string]map[string]any
		want       int // seconds; 0 means no snapshot
	}{
		{"one alone", 1, nil, nil, 0},
		{"all but the last", 3, nil, nil, 2},
		{"the first has a tag", 3, nil, map[string]map[string]any{"v1": tag(1)}, 3},
		{"all have tags", 3, nil, map[string]map[string]any{"v1": tag(1), "v2": tag(2)}, 0},
		{"two are kept in any case", 3, map[string]string{"history.expire.min-snapshots-to-keep": "2"}, nil, 2},
		{"all are kept in any case", 3, map[string]string{"history.expire.min-snapshots-to-keep": "10"}, nil, 0},
		{"a branch keeps its own", 4, nil, map[string]map[string]any{"old": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 2}}, 4},
		{"a branch keeps as the table says", 4, nil, map[string]map[string]any{"old": {"snapshot-id": 2, "type": "branch"}}, 2},
	} {
		at := expiry.Oldest(chain(t, c.snapshots, c.properties, c.refs))
		if c.want == 0 {
			require.Nil(t, at, c.name)
			continue
		}
		require.Equal(t, time.Unix(int64(c.want), 0).UTC(), *at, c.name)
	}
}

func TestWhatARowKnowsOfItsSnapshots(t *testing.T) {
	var row Table
	summarise(&row, chain(t, 3, nil, nil))
	require.Equal(t, []int64{3, 2, 34, 3}, []int64{*row.DataFiles, *row.DeleteFiles, *row.DeletedRows, *row.Snapshots})
	require.Equal(t, time.Unix(2, 0).UTC(), *row.ExpirableAt)
	for summary, want := range map[string]*int64{
		`{}`: nil, `{"total-position-deletes": "3"}`: new(int64(3)), `{"total-equality-deletes": "4"}`: new(int64(4)),
		`{"total-position-deletes": "3", "total-equality-deletes": "4"}`: new(int64(7)),
	} {
		var totals map[string]string
		require.NoError(t, json.Unmarshal([]byte(summary), &totals))
		require.Equal(t, want, deletedRows(totals), summary)
	}
}
