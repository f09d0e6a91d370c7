package lake

import (
	"time"

	"github.com/apache/iceberg-go/table"
)

// expirable is when the oldest of the snapshots was made that nothing keeps but its age: neither a tag, nor that it is one of the last so many of a branch. It is
// nil where there is none.
func expirable(meta table.Metadata) *time.Time {
	kept := keptSnapshots(meta)
	var oldest *time.Time
	for _, s := range meta.Snapshots() {
		if at := time.UnixMilli(s.TimestampMs).UTC(); !kept[s.SnapshotID] && (oldest == nil || at.Before(*oldest)) {
			oldest = &at
		}
	}
	return oldest
}

// keptSnapshots are those that stay however old they are.
func keptSnapshots(meta table.Metadata) map[int64]bool {
	parents := map[int64]*int64{}
	for _, s := range meta.Snapshots() {
		parents[s.SnapshotID] = s.ParentSnapshotID
	}
	kept := map[int64]bool{}
	keep := func(id int64, count int) {
		for at := &id; at != nil && count > 0; at, count = parents[*at], count-1 {
			kept[*at] = true
		}
	}
	atLeast := meta.Properties().GetInt(table.MinSnapshotsToKeepKey, table.MinSnapshotsToKeepDefault)
	if current := meta.CurrentSnapshot(); current != nil {
		keep(current.SnapshotID, max(atLeast, 1))
	}
	for _, ref := range meta.Refs() {
		switch {
		case ref.SnapshotRefType == table.TagRef:
			keep(ref.SnapshotID, 1)
		case ref.MinSnapshotsToKeep != nil:
			keep(ref.SnapshotID, *ref.MinSnapshotsToKeep)
		default:
			keep(ref.SnapshotID, max(atLeast, 1))
		}
	}
	return kept
}
