package iceberg

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/millpond/millpond/domain"
)

// shape has the parts of a new table that refer to field ids.
type shape struct {
	Schema, PartitionSpec, SortOrder json.RawMessage
}

// idKeys are the keys of field ids in a schema, a partition spec and a sort order.
var idKeys = []string{"id", "element-id", "key-id", "value-id", "identifier-field-ids", "source-id", "source-ids"}

// zeroID matches an id of 0 under one of these keys, or in a list of ids.
var zeroID = regexp.MustCompile(`"(?:id|element-id|key-id|value-id|source-id)"\s*:\s*0\s*[,}]|"(?:identifier-field-ids|source-ids)"\s*:\s*\[(?:[^\]]*[\s,])?0\s*[,\]]`)

// mayCountFromZero reports whether the JSON must be decoded to find an id of 0. A key may be
// written with escapes.
func mayCountFromZero(raw json.RawMessage) bool {
	return zeroID.Match(raw) || bytes.Contains(raw, []byte(`\u00`))
}

// countedFromOne returns the same shape with ids from 1, as the service requires. Ids in a request
// only distinguish fields, because the catalog assigns new ones. Spark counts from 0.
func (s shape) countedFromOne() (shape, error) {
	parts := []*json.RawMessage{&s.Schema, &s.PartitionSpec, &s.SortOrder}
	if !slices.ContainsFunc(parts, func(part *json.RawMessage) bool { return mayCountFromZero(*part) }) {
		return s, nil
	}
	decoded := make([]any, len(parts))
	zero := false
	for i, part := range parts {
		if !given(*part) {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(*part))
		d.UseNumber()
		if err := d.Decode(&decoded[i]); err != nil {
			return s, readable(err)
		}
		eachID(decoded[i], func(id json.Number) json.Number {
			zero = zero || id == "0"
			return id
		})
	}
	if !zero {
		return s, nil
	}
	for i, part := range parts {
		if decoded[i] == nil {
			continue
		}
		var failed error
		eachID(decoded[i], func(id json.Number) json.Number {
			n, err := id.Int64()
			if err != nil || n < 0 {
				failed = domain.Invalid("schema", "The field id %s is invalid; use whole numbers from 0.", id.String())
			}
			next, _ := json.Marshal(n + 1)
			return json.Number(next)
		})
		if failed != nil {
			return s, failed
		}
		var err error
		if *part, err = json.Marshal(decoded[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// eachID replaces each field id. It skips the defaults of fields, which hold data.
func eachID(v any, next func(json.Number) json.Number) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			eachID(e, next)
		}
	case map[string]any:
		for name, value := range v {
			switch id, isNumber := value.(json.Number); {
			case name == "initial-default" || name == "write-default":
			case !slices.Contains(idKeys, name):
				eachID(value, next)
			case isNumber:
				v[name] = next(id)
			default:
				eachOf(value, next)
			}
		}
	}
}

// eachOf is eachID for a list of ids.
func eachOf(value any, next func(json.Number) json.Number) {
	list, _ := value.([]any)
	for i, e := range list {
		if id, ok := e.(json.Number); ok {
			list[i] = next(id)
		}
	}
}
