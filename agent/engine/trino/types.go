package trino

import "encoding/json"

// Type is a type of Trino, as its client protocol writes it.
type Type struct {
	Name      string `json:"rawType"` // such as decimal or row
	Arguments []TypeArgument
}

// TypeArgument is a number, such as a precision, or a type. The type of a field also has a name.
type TypeArgument struct {
	Number int64
	Field  string
	Type   *Type
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *TypeArgument) UnmarshalJSON(b []byte) error {
	var raw struct {
		Kind  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	switch raw.Kind {
	case "LONG":
		return json.Unmarshal(raw.Value, &a.Number)
	case "TYPE":
		return json.Unmarshal(raw.Value, &a.Type)
	case "NAMED_TYPE":
		var named struct {
			FieldName *struct{ Name string } `json:"fieldName"`
			Type      *Type                  `json:"typeSignature"`
		}
		if err := json.Unmarshal(raw.Value, &named); err != nil {
			return err
		}
		a.Type = named.Type
		if named.FieldName != nil {
			a.Field = named.FieldName.Name
		}
	}
	return nil
}

// Precision returns the type's first number, or otherwise if it has none.
func (t Type) Precision(otherwise int64) int64 {
	if len(t.Arguments) == 0 || t.Arguments[0].Type != nil {
		return otherwise
	}
	return t.Arguments[0].Number
}
