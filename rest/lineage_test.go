package rest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
)

// lineageEvent is an event of an external job.
const lineageEvent = `{"eventType":"COMPLETE","eventTime":"2026-03-01T08:30:00Z","producer":"https://example.com/etl","schemaURL":"https://openlineage.io/spec/2-0-2/OpenLineage.json",
	"run":{"runId":"01957c2e-8a4b-7c3d-9e1f-000000000001"},"job":{"namespace":"etl","name":"load"},
	"inputs":[{"namespace":"s3://raw","name":"events"}],"outputs":[{"namespace":"s3://clean","name":"events"}]}`

// TestLineage reports lineage as a client and as a task, and reads it back.
func TestLineage(t *testing.T) {
	w := newWorld(t)
	k := w.connect(w.ours)
	run := w.start(w.ours.editor, w.job(w.ours.editor, map[string]any{"name": "load", "command": "true"}))
	require.JSONEq(t, `{"read":[],"written":[]}`, w.call(w.ours.viewer, "GET", "/runs/"+run+"/lineage", nil).body)
	a := k.next()
	scope := domain.NewScope(w.ours.id, domain.Actor{Kind: domain.ActorRun, ID: string(a.ID), Name: "load"}, domain.RoleEditor)
	events, err := lineage.ParseRunEvents([]byte(lineageEvent), w.clock.Now())
	require.NoError(t, err)
	require.NoError(t, w.services.Lineages.Report(t.Context(), scope, events))
	l := w.call(w.ours.viewer, "GET", "/runs/"+run+"/lineage", nil).object(200)
	require.Empty(t, l["read"], "an external dataset is not a table")
	require.Len(t, l["edges"], 2)
	edge, _ := l["edges"].([]any)[0].(map[string]any)
	require.Equal(t, string(a.ID), edge["attempt_id"])
	require.Contains(t, []any{"s3://raw", "s3://clean"}, edge["namespace"])

	for _, body := range []string{lineageEvent, "[" + lineageEvent + "," + lineageEvent + "]"} {
		require.Equal(t, http.StatusNoContent, w.call(w.ours.editor, "POST", "/lineage", body).status)
	}
	id, _ := edge["table_id"].(string)
	g := w.call(w.ours.viewer, "GET", "/lineage?depth=2&direction=both&table="+id, nil).object(200)
	require.Len(t, g["nodes"], 4, "two datasets, the task, and the job outside")
	require.Len(t, g["edges"], 4)
	past := url.QueryEscape(time.Date(2026, 3, 1, 8, 29, 0, 0, time.UTC).Format(time.RFC3339))
	require.Empty(t, w.call(w.ours.viewer, "GET", "/lineage?table="+id+"&at="+past, nil).object(200)["edges"])
	c := w.call(w.ours.viewer, "GET", "/lineage/coverage", nil).object(200)
	require.Nil(t, c["share"])

	for query, says := range map[string]string{
		"": "table", "?table=x": "is not a table", "?table=" + id + "&depth=0": "depth", "?table=" + id + "&depth=11": "depth", "?table=" + id + "&depth=x": "depth",
		"?table=" + id + "&direction=sideways": "direction", "?table=" + id + "&at=now": "RFC 3339", "/coverage?since=x": "RFC 3339",
	} {
		require.Contains(t, w.call(w.ours.viewer, "GET", "/lineage"+query, nil).refused(400), says, query)
	}
	w.call(w.theirs.admin, "GET", "/lineage?table="+id, nil).refused(404)
	w.call(w.theirs.admin, "GET", "/runs/"+run+"/lineage", nil).refused(404)
	require.Contains(t, w.call(w.ours.editor, "POST", "/lineage", strings.Replace(lineageEvent, "COMPLETE", "DONE", 1)).refused(400), "eventType")
	require.Contains(t, w.call(w.ours.editor, "POST", "/lineage", strings.Replace(lineageEvent, `"runId"`, `"id"`, 1)).refused(400), "runId")
	require.NotContains(t, w.logged.String(), "request failed")
}
