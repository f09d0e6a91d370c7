package lake_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// TestFilesAreAsIcebergGoWritesThem: metadata with copied snapshots equals what iceberg-go writes.
func TestFilesAreAsIcebergGoWritesThem(t *testing.T) {
	for _, version := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			r := newRig(t)
			made, err := r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{
				Name: "t", Schema: json.RawMessage(twoColumns), Properties: map[string]string{"format-version": fmt.Sprint(version)},
			}, lake.Key{})
			require.NoError(t, err)
			snapshot := func(id int64) map[string]any {
				s := snapshotAt(made.Table.Location, id, time.Now().UnixMilli())
				if version == 3 {
					s["first-row-id"], s["added-rows"] = (id-1)*1000, 1000
				}
				return map[string]any{"action": "add-snapshot", "snapshot": s}
			}
			branch := func(name string, id int64) map[string]any {
				return map[string]any{"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": id}
			}
			commit := func(updates ...any) lake.Loaded {
				l, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, updates)}, lake.Key{})
				require.NoError(t, err)
				on, err := r.files.Read(t.Context(), l.MetadataLocation)
				require.NoError(t, err)
				require.Equal(t, string(l.Metadata), string(on))
				meta, err := table.ParseMetadataBytes(on)
				require.NoError(t, err)
				again, err := json.Marshal(meta)
				require.NoError(t, err)
				require.JSONEq(t, string(again), string(on))
				return l
			}
			commit(map[string]any{"action": "set-properties", "updates": map[string]string{"a": "<b>"}})
			for id := range int64(3) {
				commit(snapshot(id+1), branch("main", id+1))
			}
			commit(snapshot(4), snapshot(5), branch("main", 5), branch("other", 4))
			commit(map[string]any{"action": "set-statistics", "snapshot-id": 5, "statistics": map[string]any{
				"snapshot-id": 5, "statistics-path": made.Table.Location + "/metadata/s.puffin", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []any{},
			}})
			l := commit(map[string]any{"action": "remove-snapshots", "snapshot-ids": []int64{1, 3}}, snapshot(6), branch("main", 6))
			require.Equal(t, []int64{2, 4, 5, 6}, ids(t, l.Metadata))
			fresh, err := r.another(r.files).Load(t.Context(), r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{RefsOnly: true})
			require.NoError(t, err)
			require.Equal(t, []int64{4, 6}, ids(t, fresh.Metadata))
		})
	}
}

// ids returns the ids of the snapshots in the metadata.
func ids(t *testing.T, metadata []byte) (all []int64) {
	var m struct {
		Snapshots []struct {
			ID int64 `json:"snapshot-id"`
		} `json:"snapshots"`
	}
	require.NoError(t, json.Unmarshal(metadata, &m))
	for _, s := range m.Snapshots {
		all = append(all, s.ID)
	}
	return all
}
