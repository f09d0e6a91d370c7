package lake_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// each runs work n times in total, with the given number of concurrent workers.
func each(b *testing.B, at int, work func(worker int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ResetTimer()
	for w := range at {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := work(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
}

// snapshots creates a table with n snapshots.
func snapshots(b *testing.B, r *rig, name string, n int) {
	b.Helper()
	r.create("public", name)
	for i := range n {
		r.client(name).append(b, int64(i))
	}
}

// BenchmarkLoad loads a table of a hundred snapshots.
func BenchmarkLoad(b *testing.B) {
	r := newRig(b)
	snapshots(b, r, "t", 100)
	for _, at := range []int{1, 16} {
		for _, refs := range []bool{false, true} {
			b.Run(fmt.Sprintf("clients=%d/refs=%v", at, refs), func(b *testing.B) {
				each(b, at, func(int) error {
					_, err := r.catalog.Load(b.Context(), r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{RefsOnly: refs})
					return err
				})
			})
		}
	}
}

// BenchmarkCommit changes tables of a hundred snapshots: one table per client, or one for all.
func BenchmarkCommit(b *testing.B) {
	r := newRig(b)
	for i := range 16 {
		snapshots(b, r, fmt.Sprintf("t%d", i), 100/16)
	}
	snapshots(b, r, "t", 100)
	updates := raw(b, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"k": "v"}}})
	commit := func(name string) error {
		_, err := r.catalog.Commit(b.Context(), r.scope, lake.Change{Ref: ref("public", name), Updates: updates}, lake.Key{})
		return err
	}
	b.Run("clients=1", func(b *testing.B) { each(b, 1, func(int) error { return commit("t") }) })
	b.Run("clients=16/own", func(b *testing.B) { each(b, 16, func(w int) error { return commit(fmt.Sprintf("t%d", w)) }) })
	b.Run("clients=16/one", func(b *testing.B) { each(b, 16, func(int) error { return commit("t") }) })
	require.Empty(b, r.reported)
}

// crowded registers a table with n snapshots that exist only in its metadata.
func crowded(t testing.TB, r *rig, name string, n int) lake.Loaded {
	made := r.create("public", name+"_seed")
	var m map[string]any
	require.NoError(t, json.Unmarshal(made.Metadata, &m))
	location := r.files.Prefix(r.scope.Workspace()) + "bench/" + name
	all, log := make([]any, n), make([]any, n)
	began := time.Now().Add(-time.Duration(n) * time.Second).UnixMilli()
	for i := range n {
		at := began + int64(i)*1000
		all[i] = snapshotAt(location, int64(i+1), at)
		log[i] = map[string]any{"snapshot-id": i + 1, "timestamp-ms": at}
		m["last-updated-ms"] = at
	}
	m["location"], m["table-uuid"], m["snapshots"], m["snapshot-log"] = location, uuid.NewString(), all, log
	m["last-sequence-number"], m["current-snapshot-id"] = n, n
	m["refs"] = map[string]any{"main": map[string]any{"snapshot-id": n, "type": "branch"}}
	file := location + "/metadata/00000.metadata.json"
	require.NoError(t, r.files.Write(t.Context(), file, raw(t, m)))
	l, err := r.catalog.Register(t.Context(), r.scope, "lake", "public", lake.Registration{Name: name, MetadataLocation: file}, lake.KindTable, lake.Key{})
	require.NoError(t, err)
	return l
}

// snapshotAt is a snapshot as engines write them; its sequence number is its id.
func snapshotAt(location string, id, at int64) map[string]any {
	s := map[string]any{
		"snapshot-id": id, "sequence-number": id, "timestamp-ms": at, "schema-id": 0,
		"manifest-list": fmt.Sprintf("%s/metadata/snap-%d-0-%s.avro", location, id, uuid.NewString()),
		"summary": map[string]string{
			"operation": "append", "added-data-files": "1", "added-records": "1000", "added-files-size": "65536", "changed-partition-count": "1",
			"total-data-files": fmt.Sprint(id), "total-records": fmt.Sprint(1000 * id), "total-files-size": fmt.Sprint(65536 * id),
			"total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0",
		},
	}
	if id > 1 {
		s["parent-snapshot-id"] = id - 1
	}
	return s
}

// BenchmarkAppend appends to a table of many snapshots.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int64{100, 10_000} {
		b.Run(fmt.Sprintf("snapshots=%d", n), func(b *testing.B) {
			r := newRig(b)
			l := crowded(b, r, "t", int(n))
			last := n
			each(b, 1, func(int) error {
				last++
				_, err := r.catalog.Commit(b.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(b, []any{
					map[string]any{"action": "add-snapshot", "snapshot": snapshotAt(l.Table.Location, last, time.Now().UnixMilli())},
					map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": last},
				})}, lake.Key{})
				return err
			})
			require.Empty(b, r.reported)
		})
	}
}
