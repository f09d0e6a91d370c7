package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestSoundBodies(t *testing.T) {
	for _, body := range []string{
		`{}`, `[]`, `null`, `"x"`, `1e2`, ` {"a": [1, {"b": "\u00e9 \ud83d\ude00 \\ud800"}]} `, `{"a":{"b":1},"b":{"b":1}}`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	} {
		require.NoError(t, sound("application/json", []byte(body)), body)
	}
	require.NoError(t, sound("application/json; charset=UTF-8", []byte("{}")))
	require.NoError(t, sound("Application/JSON", []byte("{}")))
}

func TestUnsoundBodies(t *testing.T) {
	for body, says := range map[string]string{
		`{`:                        "ends too early",
		`{"a":1,}`:                 "not JSON",
		`{'a':1}`:                  "not JSON",
		`nil`:                      "not JSON",
		`{"a":1} x`:                "goes on",
		`{"a":1}{"a":1}`:           "goes on",
		`{"a":1,"a":2}`:            `"a" is given twice`,
		`{"t":[{"k":1,"k":2}]}`:    `"t[0].k" is given twice`,
		`{"a":1,"\u0061":2}`:       "given twice",
		`{"name":"a\u0000b"}`:      `"name" holds a NUL`,
		`{"a\u0000":1}`:            "NUL",
		"{\"a\":\"\xff\"}":         "UTF-8",
		`{"a":"\ud800"}`:           "surrogate",
		`{"a":"\ud800\u0041"}`:     "surrogate",
		`{"a":"\udc00\ud800"}`:     "surrogate",
		"\xef\xbb\xbf{}":           "not JSON",
		"":                         "ends too early",
		strings.Repeat("[", 1<<20): "deeper",
	} {
		err := sound("application/json", []byte(body))
		require.Error(t, err, body)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), body)
		require.Contains(t, err.Error(), says, shorten(body))
	}
	for _, kind := range []string{"", "text/plain", "application/xml", "application/json; charset=latin1", "application/x-www-form-urlencoded", ";"} {
		err := sound(kind, []byte("{}"))
		shown, ok := err.(*Error) //nolint:errorlint // it is made here
		require.True(t, ok, kind)
		require.Equal(t, 415, shown.status)
	}
}

func FuzzSound(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00"]}`, `{"a":1,"a":2}`, `"\u`, `{"\\u":"\\\u0041"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if sound("application/json", body) == nil && !json.Valid(body) {
			t.Fatalf("%q is taken and is not JSON", body)
		}
	})
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	return v
}

func TestJobChangeTellsAbsentFromNullFromEmpty(t *testing.T) {
	absent := decode[JobChange](t, `{}`).domain()
	require.Equal(t, domain.JobChange{}, absent)

	null := decode[JobChange](t, `{"name":null,"tasks":null,"environment":null}`).domain()
	require.Equal(t, domain.JobChange{}, null)

	empty := decode[JobChange](t, `{"name":"","tasks":[],"environment":{}}`).domain()
	require.Empty(t, *empty.Name)
	require.NotNil(t, empty.Tasks)
	require.Empty(t, *empty.Tasks)
	require.NotNil(t, empty.Environment)
	require.Empty(t, *empty.Environment)

	removed := decode[JobChange](t, `{"schedule":null}`).domain()
	require.NotNil(t, removed.Schedule)
	require.Nil(t, *removed.Schedule)

	given := decode[JobChange](t, `{"schedule":{"cron":"@daily","time_zone":"Europe/Rome"}}`).domain()
	require.Equal(t, &domain.NewSchedule{Cron: "@daily", TimeZone: "Europe/Rome"}, *given.Schedule)
}

func TestVariablesKeepTheirOrder(t *testing.T) {
	v := decode[Variables](t, `{"Z":"1","A":"\u00e9<&>","M":""}`)
	require.Equal(t, Variables{{Name: "Z", Value: "1"}, {Name: "A", Value: "é<&>"}, {Name: "M", Value: ""}}, v)
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, `{"Z":"1","A":"é<&>","M":""}`, string(b))
	require.Less(t, strings.Index(string(b), "Z"), strings.Index(string(b), "A"))
	b, err = json.Marshal(Variables(nil))
	require.NoError(t, err)
	require.Equal(t, `{}`, string(b))
}
