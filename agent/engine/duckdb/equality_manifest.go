package duckdb

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/millpond/millpond/agent/engine/avrofile"
)

// avroFile is a decoded manifest list or manifest.
type avroFile struct {
	*avrofile.File
	kinds map[string]partitionKind
}

// partitionKind is the type of one partition field's values.
type partitionKind struct {
	id      int64 // of the field
	decimal bool
}

func readAvro(content []byte) (*avroFile, error) {
	f, err := avrofile.Read(content)
	if err != nil {
		return nil, err
	}
	return &avroFile{f, partitionKinds(f.Schema)}, nil
}

// inner returns the record in a record's field, or its type, without the union with null.
func inner(record any, name string) map[string]any {
	r, _ := record.(map[string]any)
	fields, _ := r["fields"].([]any)
	for _, f := range fields {
		field, _ := f.(map[string]any)
		if field["name"] != name {
			continue
		}
		of := []any{field["type"]}
		if union, ok := field["type"].([]any); ok {
			of = union
		}
		for _, t := range of {
			if m, ok := t.(map[string]any); ok {
				return m
			}
		}
	}
	return nil
}

func partitionKinds(schema any) map[string]partitionKind {
	kinds := map[string]partitionKind{}
	partition := inner(inner(schema, "data_file"), "partition")
	fields, _ := partition["fields"].([]any)
	for _, f := range fields {
		field, _ := f.(map[string]any)
		name, _ := field["name"].(string)
		id, _ := field["field-id"].(float64)
		kinds[name] = partitionKind{int64(id), inner(partition, name)["logicalType"] == "decimal"}
	}
	return kinds
}

// write writes records of the file's schema to another file and returns its size.
func (f *avroFile) write(path, content string, records []map[string]any) (size int64, err error) {
	b, err := f.Encode(content, records)
	if err != nil {
		return 0, err
	}
	return int64(len(b)), os.WriteFile(path, b, 0o600)
}

// manifest is a snapshot's manifest, as the manifest list describes it.
type manifest struct {
	listed                  map[string]any
	path                    string
	content, spec, sequence int64
	file                    *avroFile // if its entries are deletes
}

// Values of a manifest's content and of its files' content.
const (
	holdsDeletes = 1 // manifests

	deletesByEquality = 2 // files

	entryDeleted = 2
)

func manifestsOf(list *avroFile) (all []*manifest) {
	for _, r := range list.Records {
		path, _ := r["manifest_path"].(string)
		all = append(all, &manifest{listed: r, path: path, content: whole(r["content"]), spec: whole(r["partition_spec_id"]), sequence: whole(r["sequence_number"])})
	}
	return all
}

// contentFile is a data file or delete file in a snapshot.
type contentFile struct {
	path, format string
	content      int64
	sequence     int64
	spec         int64
	rows         int64
	partition    string // its values as text; equal partitions have equal texts
	keys         []int  // column ids that its equality deletes compare
	unsure       int    // a requested column that may hold NULL; 0 if there is none
}

// contentFile reads an entry. It returns nil if the file is no longer part of the snapshot. columns
// are the ids of the columns to check for NULL.
func (m *manifest) contentFile(f *avroFile, entry map[string]any, columns []int) *contentFile {
	if whole(entry["status"]) == entryDeleted {
		return nil
	}
	of, _ := entry["data_file"].(map[string]any)
	partition, _ := of["partition"].(map[string]any)
	c := &contentFile{content: whole(of["content"]), sequence: m.sequence, spec: m.spec, rows: whole(of["record_count"]), partition: f.partition(partition)}
	c.path, _ = of["file_path"].(string)
	c.format, _ = of["file_format"].(string)
	if own := entry["sequence_number"]; own != nil {
		c.sequence = whole(own)
	}
	ids, _ := of["equality_ids"].([]any)
	for _, id := range ids {
		c.keys = append(c.keys, int(whole(id)))
	}
	slices.Sort(c.keys)
	c.keys = slices.Compact(c.keys)
	counts, _ := of["null_value_counts"].([]any)
	for _, column := range columns {
		if !slices.ContainsFunc(counts, func(n any) bool {
			count, _ := n.(map[string]any)
			return whole(count["key"]) == int64(column) && count["value"] != nil && whole(count["value"]) == 0
		}) {
			c.unsure = column
		}
	}
	return c
}

func (f *avroFile) partition(values map[string]any) string {
	var all []string
	for name, v := range values {
		kind := f.kinds[name]
		all = append(all, strconv.FormatInt(kind.id, 10)+"="+kind.text(v))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// text returns the same text for equal values, even if the column's type changed between them.
func (k partitionKind) text(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case []byte:
		if k.decimal {
			return unscaled(v).String()
		}
		return "x" + hex.EncodeToString(v)
	case float32:
		return fmt.Sprint(float64(v))
	}
	return fmt.Sprint(v)
}

// whole returns an integer from an Avro file, or 0 if the value is not an integer.
func whole(v any) int64 {
	switch v := v.(type) {
	case int32:
		return int64(v)
	case int64:
		return v
	case int:
		return int64(v)
	}
	return 0
}

// unscaled returns the unscaled value of a decimal: two's complement, big-endian.
func unscaled(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}
