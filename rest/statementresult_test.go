package rest

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/rest/httpx"
)

func TestALargeResultComesInChunks(t *testing.T) {
	w := sqlWorld(t)
	first := w.executed(w.ours.viewer, "LARGE 4", nil)
	require.Equal(t, []any{true, 1.0}, []any{first["truncated"], first["next_chunk"]})
	require.Len(t, first["rows"], 3, "18 MiB")
	one := fmt.Sprint("/sql/statements/", first["statement_id"])
	w.becomes(fmt.Sprint(first["statement_id"]), "succeeded")
	again := w.call(w.ours.viewer, "GET", one+"/chunks/0", nil).object(200)
	require.Equal(t, []any{first["columns"], first["rows"], 1.0}, []any{again["columns"], again["rows"], again["next_chunk"]})
	last := w.call(w.ours.viewer, "GET", one+"/chunks/1", nil).object(200)
	require.Len(t, last["rows"], 1)
	require.NotContains(t, last, "next_chunk")
	csv := w.call(w.ours.viewer, "GET", one+"/chunks/0", nil, "Accept", typeCSV)
	require.Equal(t, "1", csv.header.Get("Millpond-Next-Chunk"))
	for _, n := range []string{"2", "-1", "1000000"} {
		require.Contains(t, w.call(w.ours.viewer, "GET", one+"/chunks/"+n, nil).refused(404), "has 2 chunks", n)
	}
	for _, n := range []string{"x", "1.5", "99999999999999999999"} {
		w.call(w.ours.viewer, "GET", one+"/chunks/"+n, nil).refused(400)
	}
	w.call(w.theirs.admin, "GET", one+"/chunks/0", nil).refused(404)

	w.clock.advance(statement.ResultKept + time.Minute)
	w.ours = w.renewed(w.ours)
	require.Contains(t, w.call(w.ours.viewer, "GET", one+"/chunks/0", nil).refused(404), "run the statement again")
	require.NoError(t, w.services.Statements.Sweep(t.Context()))
	require.Contains(t, w.call(w.ours.viewer, "GET", one+"/chunks/1", nil).refused(404), "run the statement again")
	require.Equal(t, "succeeded", w.call(w.ours.viewer, "GET", one, nil).object(200)["state"])
}

// TestResultsAreCountedOnce, before they are loaded. A write is always answered, because it has
// been done.
func TestResultsAreCountedOnce(t *testing.T) {
	w := sqlWorld(t)
	id := fmt.Sprint(w.executed(w.ours.viewer, "LARGE 3", nil)["statement_id"])
	w.becomes(id, "succeeded")
	chunk := "/sql/statements/" + id + "/chunks/0"
	bounded := func(bytes int64) {
		handler, err := Handler(Options{
			Services: w.services, Lake: w.lake, Auth: w.auth, Log: slog.New(slog.DiscardHandler), MaxBody: 1 << 20,
			HTTP: httpx.NewServer(httpx.Bounds{ServerBytes: bytes}),
		})
		require.NoError(t, err)
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		w.url = server.URL
	}
	bounded(20 << 20) // a chunk of 18 MiB
	for _, kind := range []string{typeArrow, typeJSON, typeCSV} {
		require.Equal(t, 200, w.call(w.ours.viewer, "GET", chunk, nil, "Accept", kind).status, kind)
	}
	bounded(1 << 20)
	w.call(w.ours.viewer, "GET", chunk, nil, "Accept", typeArrow).refused(503)
	require.Contains(t, w.execute(w.ours.viewer, "LARGE 3", nil).refused(503), "The statement has run")
	require.Equal(t, 200, w.execute(w.ours.editor, "RETURN 3", nil).status)
}

// Values of one bit are 48 times as large in JSON: chunks are cut by their JSON size and their
// rows.
func TestChunksHaveBoundedRows(t *testing.T) {
	w := sqlWorld(t)
	sizes := func(query string) (rows []any) {
		r := w.execute(w.ours.viewer, query, nil, "Accept", typeArrow)
		require.Equal(t, 200, r.status)
		require.Equal(t, []string{"true", "1"}, []string{r.header.Get("Millpond-Truncated"), r.header.Get("Millpond-Next-Chunk")})
		for _, c := range w.becomes(r.header.Get("Millpond-Statement-Id"), "succeeded")["chunks"].([]any) {
			rows = append(rows, c.(map[string]any)["rows"])
		}
		return rows
	}
	require.Equal(t, []any{float64(1 << 20), float64(1 << 19)}, sizes("FLAGS 3"))
	require.Equal(t, []any{float64(1 << 20), 0.0}, sizes("FLAGS 2"), "the first chunk names the second")
	for _, rows := range sizes("WIDE 4")[:4] {
		require.Equal(t, float64(1<<16), rows, "300 columns of 5 bytes in JSON each: 98 MB")
	}
}

func TestAChunkThatIsStillToComeIsWaitedFor(t *testing.T) {
	w := sqlWorld(t)
	first := w.executed(w.ours.viewer, "PARTS", nil)
	require.Equal(t, 1.0, first["next_chunk"])
	id := fmt.Sprint(first["statement_id"])
	w.becomes(id, "running")
	asked := make(chan reply, 1)
	go func() {
		r := w.request(t.Context(), w.ours.viewer, "GET", "/sql/statements/"+id+"/chunks/1", nil, "Accept", typeArrow)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			close(asked)
			return
		}
		_ = res.Body.Close()
		asked <- reply{t: t, status: res.StatusCode, header: res.Header}
	}()
	select {
	case <-asked:
		require.Fail(t, "the answer came before the chunk")
	case <-time.After(100 * time.Millisecond):
	}
	w.engines.finish()
	got, answered := <-asked
	require.True(t, answered)
	require.Equal(t, 200, got.status)
	require.Empty(t, got.header.Get("Millpond-Next-Chunk"))
	require.Equal(t, 4.0, w.becomes(id, "succeeded")["row_count"])
}
