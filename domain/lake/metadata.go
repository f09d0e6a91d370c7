package lake

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/expiry"
)

// onlyRefs removes from a metadata document the snapshots that neither a branch nor a tag names.
// Everything else stays as it is.
func onlyRefs(document []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, err
	}
	var refs map[string]struct {
		SnapshotID int64 `json:"snapshot-id"`
	}
	var snapshots []json.RawMessage
	if fields["refs"] != nil {
		if err := json.Unmarshal(fields["refs"], &refs); err != nil {
			return nil, err
		}
	}
	if fields["snapshots"] == nil {
		return document, nil
	}
	if err := json.Unmarshal(fields["snapshots"], &snapshots); err != nil {
		return nil, err
	}
	named := map[int64]bool{}
	for _, ref := range refs {
		named[ref.SnapshotID] = true
	}
	kept := []json.RawMessage{}
	for _, raw := range snapshots {
		var s struct {
			ID int64 `json:"snapshot-id"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		if named[s.ID] {
			kept = append(kept, raw)
		}
	}
	var err error
	if fields["snapshots"], err = json.Marshal(kept); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// document returns the metadata file, from the cache or the storage.
func (c *Catalog) document(ctx context.Context, of state) (*document, error) {
	if d := c.cache.get(of); d != nil {
		return d, nil
	}
	d, err := c.readDocument(ctx, of)
	if err == nil {
		c.cache.put(d)
	}
	return d, err
}

func (c *Catalog) readDocument(ctx context.Context, of state) (*document, error) {
	location := of.location
	data, err := c.Files.Read(ctx, location)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil, failed(NoSuchFile, "The metadata file %s is not there.", location).because(err)
	}
	if err != nil {
		return nil, err
	}
	if data, err = unpacked(data); err != nil {
		return nil, domain.Invalid("metadata-location", "The metadata file %s cannot be unpacked: %s.", location, err).Because(err)
	}
	return &document{state: of, json: data}, nil
}

// unpacked decompresses a metadata file that another writer compressed with gzip.
func unpacked(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err == nil && len(plain) > maxMetadata {
		err = errors.New("it is too large")
	}
	return plain, err
}

// summarise sets the row's columns that come from the metadata.
func summarise(row *Table, meta table.Metadata) {
	row.UUID = meta.TableUUID().String()
	row.FormatVersion = meta.Version()
	row.Snapshot, row.RowCount, row.DataBytes, row.DataFiles = nil, new(int64), new(int64), new(int64)
	row.DeleteFiles, row.DeletedRows, row.Snapshots, row.ExpirableAt = new(int64), new(int64), new(int64(len(meta.Snapshots()))), expiry.Oldest(meta)
	current := meta.CurrentSnapshot()
	if current == nil {
		return
	}
	row.Snapshot = &TableSnapshot{ID: current.SnapshotID, At: time.UnixMilli(current.TimestampMs).UTC()}
	totals := map[string]string{}
	if current.Summary != nil {
		row.Snapshot.Operation = string(current.Summary.Operation)
		totals = current.Summary.Properties
	}
	row.RowCount = rowCount(totals)
	row.DataBytes = total(totals, "total-files-size")
	row.DataFiles = total(totals, "total-data-files")
	row.DeleteFiles, row.DeletedRows = total(totals, "total-delete-files"), deletedRows(totals)
}

// deletedRows is the number of position and equality deletes in a snapshot's summary; nil if the
// summary has neither.
func deletedRows(totals map[string]string) *int64 {
	positions, values := total(totals, "total-position-deletes"), total(totals, "total-equality-deletes")
	if positions == nil {
		return values
	}
	if values != nil {
		*positions += *values
	}
	return positions
}

// rowCount is the number of rows according to a snapshot's summary. It is nil if equality deletes
// hide some rows, or the summary has no count.
func rowCount(totals map[string]string) *int64 {
	records := total(totals, "total-records")
	if records == nil {
		return nil
	}
	if equality := total(totals, "total-equality-deletes"); equality != nil && *equality != 0 {
		return nil
	}
	if deleted := total(totals, "total-position-deletes"); deleted != nil {
		*records -= *deleted
	}
	if *records < 0 {
		return nil
	}
	return records
}

func total(totals map[string]string, name string) *int64 {
	n, err := strconv.ParseInt(totals[name], 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// metadataDirectory is the directory of a table's metadata files.
func (f fence) metadataDirectory(location string, properties map[string]string) (string, error) {
	if chosen, has := properties["write.metadata.path"]; has {
		return f.directory("write.metadata.path", chosen)
	}
	return location + "/metadata", nil
}

// metadataFile is the unique name of a version's metadata file.
func metadataFile(directory string, version int, unique string) string {
	return directory + "/" + fmt.Sprintf("%05d-%s.metadata.json", version, unique)
}

// fileVersion is the version in the name of a metadata file, or 0.
func fileVersion(location string) int {
	digits, _, _ := strings.Cut(strings.TrimPrefix(path.Base(location), "v"), "-")
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}

// checkAll fences every path in foreign metadata.
func (f fence) checkAll(meta table.Metadata) error {
	if err := f.checkProperties(meta.Properties()); err != nil {
		return err
	}
	for _, s := range meta.Snapshots() {
		if err := f.checkSnapshot(s); err != nil {
			return err
		}
	}
	for s := range meta.Statistics() {
		if _, err := f.canonical("statistics-path", s.StatisticsPath); err != nil {
			return err
		}
	}
	for s := range meta.PartitionStatistics() {
		if _, err := f.canonical("statistics-path", s.StatisticsPath); err != nil {
			return err
		}
	}
	return nil
}

func (f fence) checkSnapshot(s table.Snapshot) error {
	for _, manifest := range append([]string{s.ManifestList}, s.ManifestLocations...) {
		if manifest == "" {
			continue
		}
		if _, err := f.canonical("manifest-list", manifest); err != nil {
			return err
		}
	}
	return nil
}
