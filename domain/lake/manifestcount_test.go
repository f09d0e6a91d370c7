package lake_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// TestTheParentsManifestsDoNotCount toward the bound of a commit, even if they are not cached.
func TestTheParentsManifestsDoNotCount(t *testing.T) {
	const many = 60
	r := newRig(t)
	r.catalog.LimitManifests(100, 100)
	made := r.create("public", "t")
	commit := func(id int64, manifests int, parent *int64) error {
		var list bytes.Buffer
		all := make([]iceberg.ManifestFile, manifests)
		for i := range all {
			all[i] = iceberg.NewManifestFile(2, fmt.Sprintf("%s/metadata/m%d.avro", made.Table.Location, i), 1, 0, id).SequenceNum(id, id).Build()
		}
		require.NoError(t, iceberg.WriteManifestList(2, &list, id, parent, &id, 0, all))
		snapshot := snapshotAt(made.Table.Location, id, time.Now().UnixMilli())
		snapshot["manifest-list"] = fmt.Sprintf("%s/metadata/snap-%d.avro", made.Table.Location, id)
		if parent != nil {
			snapshot["parent-snapshot-id"] = *parent
		}
		require.NoError(t, r.files.Write(t.Context(), snapshot["manifest-list"].(string), list.Bytes()))
		_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{
			map[string]any{"action": "add-snapshot", "snapshot": snapshot}, map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
		})}, lake.Key{})
		return err
	}
	require.NoError(t, commit(1, many, nil))
	files := &counting{Files: r.files}
	r.catalog = r.another(files)
	r.catalog.LimitManifests(100, 100)
	require.NoError(t, commit(2, many+1, new(int64(1))))
	require.Len(t, files.opened, 3, "the two lists, and the manifest that is new")
}
