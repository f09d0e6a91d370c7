package rest

import (
	"bytes"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain/job"
)

// Variables are names and values, in order, as a JSON object.
type Variables []job.Variable

// MarshalJSON writes the object in the variables' order.
func (v Variables) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, variable := range v {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(variable.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(variable.Value)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object of strings and keeps its order. The schema has already checked that
// it is one.
func (v *Variables) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return err
	}
	*v = Variables{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value string
		if err := d.Decode(&value); err != nil {
			return err
		}
		key, _ := name.(string) // the decoder accepts only strings as names
		*v = append(*v, job.Variable{Name: key, Value: value})
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (Variables) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString},
		Examples: []any{map[string]any{"REGION": "eu"}},
	}
}
