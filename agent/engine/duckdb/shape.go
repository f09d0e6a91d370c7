package duckdb

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
)

// shape is the part of a table's metadata that decides whether DuckDB reads the table exactly.
type shape struct {
	Version int `json:"format-version"`
	Schemas []struct {
		ID     int          `json:"schema-id"`
		Fields []shapeField `json:"fields"`
	} `json:"schemas"`
	Schema int `json:"current-schema-id"`
	Specs  []struct {
		ID     int              `json:"spec-id"`
		Fields []shapePartition `json:"fields"`
	} `json:"partition-specs"`
	Spec      int                  `json:"default-spec-id"`
	Snapshot  *int64               `json:"current-snapshot-id"`
	Snapshots []shapeSnapshot      `json:"snapshots"`
	Refs      map[string]shapeLink `json:"refs"`

	raw []byte // the complete metadata
}

type shapeField struct {
	ID       int             `json:"id"`
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Type     json.RawMessage `json:"type"`
}

type shapePartition struct {
	Source    int    `json:"source-id"`
	Transform string `json:"transform"`
}

type shapeSnapshot struct {
	ID        int64             `json:"snapshot-id"`
	Time      int64             `json:"timestamp-ms"`
	Schema    *int              `json:"schema-id"`
	Summary   map[string]string `json:"summary"`
	Manifests string            `json:"manifest-list"`
}

type shapeLink struct {
	Snapshot int64  `json:"snapshot-id"`
	Type     string `json:"type"`
}

// shape loads a table's metadata through the same requests as DuckDB, so that both see the same. It
// returns nil if the table does not exist.
func (c *catalogClient) shape(t agent.StatementTable) (*shape, error) {
	path, err := c.tablePath(t)
	if err != nil {
		return nil, err
	}
	var body struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	err = c.call(http.MethodGet, path, nil, &body)
	if catalog.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &shape{raw: body.Metadata}
	return s, json.Unmarshal(body.Metadata, s)
}

// fields returns the fields of the current schema.
func (s *shape) fields() []shapeField { return s.fieldsOf(s.Schema) }

func (s *shape) fieldsOf(id int) []shapeField {
	for _, schema := range s.Schemas {
		if schema.ID == id {
			return schema.Fields
		}
	}
	return nil
}

// leaf is a field without fields of its own.
type leaf struct {
	column shapeField // the top-level column that it is or belongs to
	kind   string
	nested bool
}

func leavesOf(fields []shapeField) map[int]leaf {
	all := map[int]leaf{}
	for _, f := range fields {
		addLeaves(all, f, f.ID, f.Type, false)
	}
	return all
}

func addLeaves(all map[int]leaf, column shapeField, id int, of json.RawMessage, nested bool) {
	var kind string
	if json.Unmarshal(of, &kind) == nil {
		all[id] = leaf{column, kind, nested}
		return
	}
	var inner struct {
		Fields     []shapeField
		ElementID  int `json:"element-id"`
		Element    json.RawMessage
		KeyID      int `json:"key-id"`
		ValueID    int `json:"value-id"`
		Key, Value json.RawMessage
	}
	if json.Unmarshal(of, &inner) != nil {
		return
	}
	for _, f := range inner.Fields {
		addLeaves(all, column, f.ID, f.Type, true)
	}
	for id, of := range map[int]json.RawMessage{inner.ElementID: inner.Element, inner.KeyID: inner.Key, inner.ValueID: inner.Value} {
		if len(of) > 0 {
			addLeaves(all, column, id, of, true)
		}
	}
}

// promoted returns the leaves that had another type before.
func (s *shape) promoted(now map[int]leaf) map[int]bool {
	found := map[int]bool{}
	for _, schema := range s.Schemas {
		for id, before := range leavesOf(schema.Fields) {
			if l, ok := now[id]; ok && l.kind != before.kind {
				found[id] = true
			}
		}
	}
	return found
}

var decimalOf64 = regexp.MustCompile(`^decimal\(([0-9]|1[0-8]),`)

// skipping is how DuckDB's partition pruning treats the values of a type.
type skipping byte

const (
	skipsRight    skipping = iota
	skipsPositive          // correct if no partition has a negative value
	skipsWrong             // wrong, or not known to be correct
)

func skippingBy(transform, kind string) skipping {
	name, _, _ := strings.Cut(transform, "[")
	kind = decimalOf64.ReplaceAllString(kind, "decimal64(")
	kind, _, _ = strings.Cut(kind, "(")
	right := map[string][]string{
		"identity": {"boolean", "int", "long", "string", "date", "uuid", "decimal64"},
		"bucket":   {"int", "long", "string", "date", "time", "timestamp", "timestamptz", "binary"},
		"truncate": {"string", "binary"},
		"year":     {"date"}, "month": {"date"}, "day": {"date"},
	}
	positive := map[string][]string{
		"truncate": {"int", "long"},
		"year":     {"timestamp", "timestamptz"}, "month": {"timestamp", "timestamptz"}, "day": {"timestamp", "timestamptz"}, "hour": {"timestamp", "timestamptz"},
	}
	switch {
	case name == "void" || slices.Contains(right[name], kind):
		return skipsRight
	case slices.Contains(positive[name], kind):
		return skipsPositive
	}
	return skipsWrong
}

// hazard is a column by which DuckDB would skip rows of the result, or equality deletes that it
// would not apply exactly.
type hazard struct {
	column string
	// numbers: only if the column holds NaN. For deletes: DuckDB applies them exactly, but not
	// fast.
	numbers  bool
	equality *equality
}

// hazards returns the columns whose filters DuckDB must not use to skip files and row groups.
// negative reports whether partitions with negative values exist.
func (s *shape) hazards(negative func() (bool, error)) (found []hazard, err error) {
	kinds := leavesOf(s.fields())
	promoted := s.promoted(kinds)
	wrong := map[string]bool{} // true if only NaN causes it
	for id, l := range kinds {
		switch name := l.column.Name; {
		case promoted[id]:
			wrong[name] = false
		case l.kind == "float" || l.kind == "double":
			if _, known := wrong[name]; !known {
				wrong[name] = true
			}
		}
	}
	for _, spec := range s.Specs {
		for _, p := range spec.Fields {
			l, ok := kinds[p.Source]
			if !ok {
				continue
			}
			by := skippingBy(p.Transform, l.kind)
			if by == skipsPositive {
				if below, err := negative(); err != nil {
					return nil, err
				} else if below {
					by = skipsWrong
				}
			}
			if by == skipsWrong {
				wrong[l.column.Name] = false
			}
		}
	}
	for _, f := range s.fields() {
		if numbers, ok := wrong[f.Name]; ok {
			found = append(found, hazard{column: f.Name, numbers: numbers})
		}
	}
	return found, nil
}
