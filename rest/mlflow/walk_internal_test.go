package mlflow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzWalk: what is sound JSON is walked as encoding/json decodes it.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{ "a" : 1 , "b":"x\"]}" }`, `[1,[2,[]],{"a":{"b":[{}]}},"\\",null,-1.5e3]`, "[\n1\t,\r2 ]", `{"":"","a\\":"\\\""}`, `{"a":[{"key":"k","value":1}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = []byte(strings.TrimSpace(string(raw)))
		if !json.Valid(raw) {
			t.Skip()
		}
		var want []json.RawMessage
		require.Positive(t, valueLength(raw))
		switch raw[0] {
		case '[':
			require.NoError(t, json.Unmarshal(raw, &want))
			var got []json.RawMessage
			walk(raw, func(name, value []byte) {
				require.Nil(t, name)
				got = append(got, value)
			})
			require.Len(t, got, len(want))
			for i := range got {
				require.Equal(t, string(want[i]), string(got[i]))
			}
		case '{':
			var want map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &want))
			got := map[string]json.RawMessage{}
			walk(raw, func(name, value []byte) {
				var decoded string
				require.NoError(t, json.Unmarshal([]byte(`"`+string(name)+`"`), &decoded))
				got[decoded] = value
			})
			require.Len(t, got, len(want))
			for name := range got {
				require.Equal(t, string(want[name]), string(got[name]))
			}
		}
	})
}

// BenchmarkBatch is what a batch of 1,000 metrics costs before the domain.
func BenchmarkBatch(b *testing.B) {
	one := `{"key":"training/loss","value":0.123456789012,"timestamp":1700000000000,"step":123456},`
	body := []byte(`{"run_id":"0123456789abcdef0123456789abcdef","metrics":[` + strings.Repeat(one, 999) + one[:len(one)-1] + `]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var metrics list[point]
		var id text
		require.NoError(b, parse(b.Context(), body, []field{need("run_id", &id), may("metrics", &metrics)}))
		require.Len(b, metrics.items, 1000)
		require.True(b, metrics.items[999].sound())
	}
}
