package duckdb

import (
	"encoding/json"
	"fmt"
	"slices"
)

// rawTable is a table's metadata; most fields stay undecoded.
type rawTable map[string]json.RawMessage

type rawFields struct {
	ID     int                          `json:"schema-id"`
	Fields []map[string]json.RawMessage `json:"fields"`
}

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
func (s *shape) rawFields(id int) ([]map[string]json.RawMessage, error) {
	var m struct{ Schemas []rawFields }
	if err := json.Unmarshal(s.raw, &m); err != nil {
		return nil, err
	}
	for _, schema := range m.Schemas {
		if schema.ID == id {
			return schema.Fields, nil
		}
	}
	return nil, fmt.Errorf("the table's metadata has no schema %d", id)
}

// lastColumnOf returns the column that is or contains a field, from the newest schema that has it.
// It returns nil if no schema has it.
func (s *shape) lastColumnOf(id int) (*shapeField, map[string]json.RawMessage, error) {
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
	at := slices.IndexFunc(fields, func(f map[string]json.RawMessage) bool { return string(f["id"]) == fmt.Sprint(column.ID) })
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
func (s *shape) metadataOf(snapshot int64, list string, schema int, fields []map[string]json.RawMessage) ([]byte, error) {
	var m rawTable
	if err := json.Unmarshal(s.raw, &m); err != nil {
		return nil, err
	}
	var snapshots []rawTable
	var schemas []rawTable
	if err := json.Unmarshal(m["snapshots"], &snapshots); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(m["schemas"], &schemas); err != nil {
		return nil, err
	}
	for _, one := range schemas {
		if string(one["schema-id"]) == fmt.Sprint(schema) {
			if err := one.put("fields", fields); err != nil {
				return nil, err
			}
		}
	}
	snapshots = slices.DeleteFunc(snapshots, func(one rawTable) bool { return string(one["snapshot-id"]) != fmt.Sprint(snapshot) })
	for _, one := range snapshots {
		for key, value := range map[string]any{"manifest-list": list, "schema-id": schema} {
			if err := one.put(key, value); err != nil {
				return nil, err
			}
		}
	}
	for key, value := range map[string]any{
		"snapshots": snapshots, "schemas": schemas, "current-snapshot-id": snapshot, "current-schema-id": schema,
		"refs": map[string]any{"main": map[string]any{"type": "branch", "snapshot-id": snapshot}},
	} {
		if err := m.put(key, value); err != nil {
			return nil, err
		}
	}
	for _, other := range []string{"snapshot-log", "metadata-log", "statistics", "partition-statistics"} {
		delete(m, other)
	}
	return json.Marshal(m)
}

func (m rawTable) put(key string, value any) error {
	b, err := json.Marshal(value)
	m[key] = b
	return err
}
