package iceberg

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyWhatMayCountFromZeroIsDecoded: other requests are not decoded, and every spelling of a
// zero id is found.
func TestOnlyWhatMayCountFromZeroIsDecoded(t *testing.T) {
	for _, raw := range []string{
		`{"id":0}`, `{"id" : 0 , "a":1}`, `{"fields":[{"type":{"type":"list","element-id":0,"element":"int"}}]}`, `{"key-id":0}`, `{"value-id":
		0}`, `[{"source-id":0}]`, `{"identifier-field-ids":[0]}`, `{"identifier-field-ids": [1, 0]}`, `{"source-ids":[2,0 ,3]}`, `{"\u0069d":0}`,
	} {
		require.True(t, mayCountFromZero(json.RawMessage(raw)), raw)
	}
	for _, raw := range []string{
		`{"id":1,"schema-id":0,"spec-id":0,"order-id":0}`, `{"id":10}`, `{"id":0.5}`, `{"identifier-field-ids":[10,20]}`, `{"initial-default":0,"id":7}`, `{"identifier-field-ids":[],"x":[0]}`, ``, `null`,
	} {
		require.False(t, mayCountFromZero(json.RawMessage(raw)), raw)
		fields, err := shape{Schema: json.RawMessage(raw)}.countedFromOne()
		require.NoError(t, err)
		require.Equal(t, raw, string(fields.Schema))
	}
}
