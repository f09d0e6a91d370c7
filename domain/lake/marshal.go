package lake

import (
	"encoding/json"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// writtenSnapshot is a snapshot as it stands in a metadata file. It never changes.
type writtenSnapshot struct {
	id   int64
	json []byte
}

// readSnapshots are those of a metadata file that is not of this catalog's making, as they are written.
func readSnapshots(file []byte) ([]writtenSnapshot, error) {
	var whole struct {
		Snapshots []json.RawMessage `json:"snapshots"`
	}
	if err := json.Unmarshal(file, &whole); err != nil {
		return nil, err
	}
	all := make([]writtenSnapshot, len(whole.Snapshots))
	for i, text := range whole.Snapshots {
		var s struct {
			ID int64 `json:"snapshot-id"`
		}
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		all[i] = writtenSnapshot{s.ID, text}
	}
	return all, nil
}

// exceptSnapshots is all that metadata of format 2 or 3 has but its snapshots, as iceberg-go writes it.
type exceptSnapshots struct {
	FormatVersion      int                             `json:"format-version"`
	UUID               uuid.UUID                       `json:"table-uuid"`
	Location           string                          `json:"location"`
	LastSequenceNumber int64                           `json:"last-sequence-number"`
	NextRowID          *int64                          `json:"next-row-id,omitempty"`
	LastUpdated        int64                           `json:"last-updated-ms"`
	LastColumnID       int                             `json:"last-column-id"`
	Schemas            []*iceberg.Schema               `json:"schemas"`
	CurrentSchemaID    int                             `json:"current-schema-id"`
	Specs              []iceberg.PartitionSpec         `json:"partition-specs"`
	DefaultSpecID      int                             `json:"default-spec-id"`
	LastPartitionID    *int                            `json:"last-partition-id,omitempty"`
	Properties         iceberg.Properties              `json:"properties,omitempty"`
	CurrentSnapshotID  *int64                          `json:"current-snapshot-id,omitempty"`
	SnapshotLog        []table.SnapshotLogEntry        `json:"snapshot-log,omitempty"`
	MetadataLog        []table.MetadataLogEntry        `json:"metadata-log,omitempty"`
	SortOrders         []table.SortOrder               `json:"sort-orders"`
	DefaultSortOrderID int                             `json:"default-sort-order-id"`
	Refs               map[string]table.SnapshotRef    `json:"refs,omitempty"`
	Statistics         []table.StatisticsFile          `json:"statistics,omitempty"`
	PartitionStats     []table.PartitionStatisticsFile `json:"partition-statistics,omitempty"`
	EncryptionKeys     []table.EncryptionKey           `json:"encryption-keys,omitempty"`
}

// writable says that metadata can be written with the snapshots of the file before it as they are there: the first format has fields of its own, and the
// third writes that there is no snapshot.
func writable(meta table.Metadata) bool { return meta.Version() >= 2 && meta.CurrentSnapshot() != nil }

func except(meta table.Metadata) exceptSnapshots {
	e := exceptSnapshots{
		FormatVersion: meta.Version(), UUID: meta.TableUUID(), Location: meta.Location(), LastSequenceNumber: meta.LastSequenceNumber(),
		LastUpdated: meta.LastUpdatedMillis(), LastColumnID: meta.LastColumnID(), Schemas: meta.Schemas(), CurrentSchemaID: meta.CurrentSchema().ID,
		Specs: meta.PartitionSpecs(), DefaultSpecID: meta.DefaultPartitionSpec(), LastPartitionID: meta.LastPartitionSpecID(), Properties: meta.Properties(),
		CurrentSnapshotID: &meta.CurrentSnapshot().SnapshotID, SnapshotLog: slices.Collect(meta.SnapshotLogs()), MetadataLog: slices.Collect(meta.PreviousFiles()),
		SortOrders: meta.SortOrders(), DefaultSortOrderID: meta.DefaultSortOrder(), Refs: map[string]table.SnapshotRef{},
		Statistics: slices.Collect(meta.Statistics()), PartitionStats: slices.Collect(meta.PartitionStatistics()), EncryptionKeys: slices.Collect(meta.EncryptionKeys()),
	}
	for name, ref := range meta.Refs() {
		e.Refs[name] = ref
	}
	if meta.Version() >= 3 {
		next := meta.NextRowID()
		e.NextRowID = &next
	}
	return e
}

// written is the document of metadata that followed from another file by a request: the snapshots of the one before are not read and written again, so that a
// commit to a table with many costs no more than it must.
func (r request) written(meta table.Metadata, before []writtenSnapshot) (*document, error) {
	rest, err := json.Marshal(except(meta))
	if err != nil {
		return nil, err
	}
	kept := make([]writtenSnapshot, 0, len(before)+1)
	for _, s := range before {
		if !r.removes() || meta.SnapshotByID(s.id) != nil {
			kept = append(kept, s)
		}
	}
	for _, u := range r.seen {
		if u.Snapshot == nil {
			continue
		}
		s := meta.SnapshotByID(u.Snapshot.ID)
		if s == nil { // added and removed at once
			continue
		}
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		kept = append(kept, writtenSnapshot{s.SnapshotID, text})
	}
	d := &document{parsed: meta, head: len(rest) - 1}
	d.json, d.written = spliced(rest, kept)
	return d, nil
}

func (r request) removes() bool {
	return slices.ContainsFunc(r.seen, func(u seenUpdate) bool { return u.Action == table.UpdateRemoveSnapshots })
}

// spliced puts the snapshots at the end of a JSON object, and returns them as they stand there.
func spliced(object []byte, all []writtenSnapshot) (file []byte, snapshots []writtenSnapshot) {
	size := len(object) + len(`,"snapshots":[]}`)
	for _, s := range all {
		size += len(s.json) + 1
	}
	file = append(make([]byte, 0, size), object[:len(object)-1]...)
	file = append(file, `,"snapshots":[`...)
	snapshots = make([]writtenSnapshot, len(all))
	for i, s := range all {
		if i > 0 {
			file = append(file, ',')
		}
		at := len(file)
		file = append(file, s.json...)
		snapshots[i] = writtenSnapshot{s.id, file[at:len(file):len(file)]}
	}
	return append(file, "]}"...), snapshots
}
