package httpx

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestSoundBodies(t *testing.T) {
	for _, body := range []string{
		`{}`, `[]`, `null`, `"x"`, `1e2`, ` {"a": [1, {"b": "\u00e9 \ud83d\ude00 \\ud800"}]} `, `{"a":{"b":1},"b":{"b":1}}`,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		require.NoError(t, Sound([]byte(body), nil), body)
	}
}

func TestUnsoundBodies(t *testing.T) {
	for body, says := range map[string]string{
		`{`:                     "ends too early",
		`{"a":1,}`:              "not JSON",
		`{'a':1}`:               "not JSON",
		`nil`:                   "not JSON",
		`{"a":1} x`:             "goes on",
		`{"a":1}{"a":1}`:        "goes on",
		`{"a":1,"a":2}`:         `"a" is given twice`,
		`{"t":[{"k":1,"k":2}]}`: `"t[0].k" is given twice`,
		`{"a":1,"\u0061":2}`:    "given twice",
		`{"name":"a\u0000b"}`:   `"name" holds a NUL`,
		`{"a\u0000":1}`:         "NUL",
		"{\"a\":\"\xff\"}":      "UTF-8",
		`{"a":"\ud800"}`:        "surrogate",
		`{"a":"\ud800\u0041"}`:  "surrogate",
		`{"a":"\udc00\ud800"}`:  "surrogate",
		"\xef\xbb\xbf{}":        "not JSON",
		`{"t":[{"n":1e999}]}`:   `"t[0].n" is too large`,
		`{"n":1` + strings.Repeat("0", 1000) + `}`: `"n" is too large`,
		"":                         "ends too early",
		strings.Repeat("[", 1<<20): "deeper",
	} {
		err := Sound([]byte(body), nil)
		require.Error(t, err, body)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), body)
		require.Contains(t, err.Error(), says, Shorten(body))
	}
}

func TestContentTypes(t *testing.T) {
	require.NoError(t, IsJSON(typed("application/json; charset=UTF-8")))
	require.NoError(t, IsJSON(typed("Application/JSON")))
	require.NoError(t, IsJSON(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}}))
	for _, kind := range []string{"", "text/plain", "application/xml", "application/json; charset=latin1", "application/x-www-form-urlencoded", ";"} {
		err := IsJSON(typed(kind))
		shown, ok := err.(*Refusal) //nolint:errorlint // it is created here
		require.True(t, ok, kind)
		require.Equal(t, 415, shown.Status)
	}
}

func typed(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

func FuzzSound(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00"]}`, `{"a":1,"a":2}`, `"\u`, `{"\\u":"\\\u0041"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if Sound(body, nil) == nil && !json.Valid(body) {
			t.Fatalf("%q is accepted and is not JSON", body)
		}
	})
}
