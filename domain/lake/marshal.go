package lake

import (
	"encoding/json"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// writtenSnapshot is a snapshot's JSON in a metadata file. It never changes.
type writtenSnapshot struct {
	id   int64
	json []byte
}

// readSnapshots returns the snapshots of a metadata file that another program wrote, as written
// there.
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

// exceptSnapshots is all metadata of format 2 or 3 except its snapshots, as iceberg-go writes it.
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

// writable reports whether the new file can copy the snapshots of the one before. Format 1 has
// other fields, and format 3 also writes that there is no current snapshot.
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

// written returns the document of metadata that a request made from another file. It copies the
// earlier snapshots without parsing, so that commits to tables with many snapshots stay cheap.
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
		if s == nil { // added and removed in one request
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

// spliced appends the snapshots to a JSON object, and returns them as parts of the new file.
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
