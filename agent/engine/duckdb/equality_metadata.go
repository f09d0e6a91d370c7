package duckdb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// partitioned reports whether a spec's deletes apply only within their partition.
func (s *shape) partitioned(spec int64) bool {
	for _, known := range s.Specs {
		if int64(known.ID) == spec {
			return slices.ContainsFunc(known.Fields, func(p shapePartition) bool { return p.Transform != "void" })
		}
	}
	return true
}

// rawFields returns the fields of a schema as the metadata has them.
func (s *shape) rawFields(id int) (fields []map[string]any, err error) {
	m, err := s.decoded()
	if err != nil {
		return nil, err
	}
	schemas, _ := m["schemas"].([]any)
	for _, one := range schemas {
		schema, _ := one.(map[string]any)
		if !is(schema["schema-id"], id) {
			continue
		}
		all, _ := schema["fields"].([]any)
		for _, f := range all {
			field, _ := f.(map[string]any)
			fields = append(fields, field)
		}
		return fields, nil
	}
	return nil, fmt.Errorf("the table's metadata has no schema %d", id)
}

// lastColumnOf returns the column that is or contains a field, from the newest schema that has it.
// It returns nil if no schema has it.
func (s *shape) lastColumnOf(id int) (*shapeField, map[string]any, error) {
	newest := -1
	var column shapeField
	for _, schema := range s.Schemas {
		if l, ok := leavesOf(schema.Fields)[id]; ok && schema.ID > newest {
			newest, column = schema.ID, l.column
		}
	}
	if newest < 0 {
		return nil, nil, nil
	}
	fields, err := s.rawFields(newest)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(fields, func(f map[string]any) bool { return is(f["id"], column.ID) })
	if at < 0 {
		return nil, nil, fmt.Errorf("the table's metadata has no field %d", column.ID)
	}
	return &column, fields[at], nil
}

// paths returns the names below the field for each of its leaves outside lists and maps.
func (f shapeField) paths() map[int][]string {
	all := map[int][]string{}
	addFieldPaths(all, f, nil)
	return all
}

func addFieldPaths(all map[int][]string, f shapeField, above []string) {
	var kind string
	if json.Unmarshal(f.Type, &kind) == nil {
		all[f.ID] = above
		return
	}
	var of struct{ Fields []shapeField }
	if json.Unmarshal(f.Type, &of) != nil {
		return
	}
	for _, within := range of.Fields {
		addFieldPaths(all, within, append(slices.Clone(above), within.Name))
	}
}

// metadataOf returns the table's metadata reduced to one snapshot. The snapshot has this manifest
// list and these fields as its schema.
func (s *shape) metadataOf(snapshot int64, list string, schema int, fields []map[string]any) ([]byte, error) {
	m, err := s.decoded()
	if err != nil {
		return nil, err
	}
	schemas, _ := m["schemas"].([]any)
	for _, one := range schemas {
		if one, _ := one.(map[string]any); is(one["schema-id"], schema) {
			one["fields"] = fields
		}
	}
	snapshots, _ := m["snapshots"].([]any)
	m["snapshots"] = slices.DeleteFunc(snapshots, func(one any) bool {
		of, _ := one.(map[string]any)
		if !is(of["snapshot-id"], snapshot) {
			return true
		}
		of["manifest-list"], of["schema-id"] = list, schema
		return false
	})
	m["current-snapshot-id"], m["current-schema-id"] = snapshot, schema
	m["refs"] = map[string]any{"main": map[string]any{"type": "branch", "snapshot-id": snapshot}}
	for _, other := range []string{"snapshot-log", "metadata-log", "statistics", "partition-statistics"} {
		delete(m, other)
	}
	return json.Marshal(m)
}

// decoded returns the complete metadata. Numbers keep all their digits.
func (s *shape) decoded() (m map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(s.raw))
	d.UseNumber()
	return m, d.Decode(&m)
}

// is reports whether a number of the metadata is an id.
func is[T int | int64](number any, id T) bool { return number == json.Number(fmt.Sprint(id)) }
