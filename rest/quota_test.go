package rest

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRequestsAtOnce: a workspace that sends too many is refused until some have ended. Others are
// not.
func TestRequestsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_requests", `{"limit":9}`).refused(400)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_requests", `{"limit":10}`).object(200)
	w.clock.advance(time.Minute) // the limit is read again
	bodies, answers := make([]*io.PipeWriter, 10), make(chan int)
	for i := range bodies {
		var body io.Reader
		body, bodies[i] = io.Pipe()
		r := w.request(t.Context(), w.ours.editor, "POST", "/jobs", body)
		go func() {
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- 0
				return
			}
			answers <- res.StatusCode
			_ = res.Body.Close()
		}()
	}
	require.Eventually(t, func() bool { return w.services.Quotas.Requests.Current(w.ours.id) == 10 }, time.Minute, time.Millisecond)
	full := w.call(w.ours.viewer, "GET", "/jobs", nil)
	require.Equal(t, "max_requests=10, current=10", full.refused(429))
	w.call(w.theirs.viewer, "GET", "/jobs", nil).object(200)
	for _, body := range bodies {
		require.NoError(t, body.CloseWithError(io.EOF))
		require.Equal(t, 400, <-answers)
	}
	quotas := w.call(w.ours.viewer, "GET", "/settings/quotas", nil).object(200)["data"].([]any)
	i := slices.IndexFunc(quotas, func(q any) bool { return q.(map[string]any)["name"] == "max_requests" })
	shown := quotas[i].(map[string]any)
	require.Equal(t, []any{10.0, 1.0}, []any{shown["limit"], shown["current"]}, "this one")
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_requests", `{"limit":null}`).object(200)
}
