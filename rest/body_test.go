package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/job"
)

// TestACodingIsRefused: the coding would not be decoded, so the body would be misread.
func TestACodingIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, coding := range []string{"gzip", "br", "identity, gzip", "GZIP"} {
		res := w.call(w.ours.editor, "POST", "/jobs", `{"name":"x","command":"true"}`, "Content-Encoding", coding)
		require.Contains(t, res.refused(http.StatusUnsupportedMediaType), "Content-Encoding")
		require.Equal(t, "identity", res.header.Get("Accept-Encoding"))
	}
	require.Equal(t, 201, w.call(w.ours.editor, "POST", "/jobs", `{"name":"x","command":"true"}`, "Content-Encoding", "identity").status)
}

// TestNumbersThatDoNotFit are reported with their field, and not at full length.
func TestNumbersThatDoNotFit(t *testing.T) {
	w := newWorld(t)
	for _, number := range []string{"1" + strings.Repeat("0", 1000), "1e999", "1e0", "99999999999999999999", "1.5", `"1"`, "true"} {
		says := w.call(w.ours.editor, "POST", "/jobs", `{"name":"x","command":"true","max_retries":`+number+`}`).refused(http.StatusBadRequest)
		require.Contains(t, says, `"max_retries"`, number)
		require.Regexp(t, `^[A-Z].*\.$`, says)
		require.Less(t, len(says), 200)
	}
	says := w.call(w.ours.editor, "POST", "/jobs", `{"name":"x","tasks":[{"key":"a","command":"true","max_retries":1e0}]}`).refused(http.StatusBadRequest)
	require.Contains(t, says, "max_retries")
}

// TestAnOperationWithoutABodyRefusesOne, because its sender expects an effect.
func TestAnOperationWithoutABodyRefusesOne(t *testing.T) {
	w := newWorld(t)
	job := w.job(w.ours.editor, map[string]any{"name": "x", "command": "true"})
	run := w.start(w.ours.editor, job)
	chunked := func(s string) any { return io.MultiReader(strings.NewReader(s)) } // of a length that is not known beforehand
	for _, c := range []struct{ method, path string }{
		{"POST", "/runs/" + run + "/repair"},
		{"POST", "/runs/" + run + "/cancel"},
		{"DELETE", "/jobs/" + job},
		{"GET", "/jobs"},
		{"GET", "/runs/" + run + "/logs"},
		{"POST", "/auth/logout"},
	} {
		for _, body := range []any{`{"parameters":{"OK":"1"}}`, `{bad json`, `[]`, `{}{}`, `null`, chunked(`{"a":1}`), strings.Repeat(" ", 1<<20)} {
			require.Contains(t, w.call(w.ours.editor, c.method, c.path, body).refused(http.StatusBadRequest), "takes no body", c.path)
		}
	}
	require.Equal(t, "pending", w.call(w.ours.editor, "GET", "/runs/"+run, chunked("")).object(200)["status"], "nothing was done")
	require.Equal(t, 200, w.call(w.ours.editor, "POST", "/runs/"+run+"/cancel", chunked("")).status)
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	return v
}

func TestJobChangeTellsAbsentFromNullFromEmpty(t *testing.T) {
	absent := decode[JobChange](t, `{}`).domain()
	require.Equal(t, job.Change{}, absent)

	null := decode[JobChange](t, `{"name":null,"tasks":null,"environment":null}`).domain()
	require.Equal(t, job.Change{}, null)

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
	cron, zone := "@daily", "Europe/Rome"
	require.Equal(t, &job.ScheduleChange{Cron: &cron, TimeZone: &zone}, *given.Schedule)
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
