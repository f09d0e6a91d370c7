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
	var bodies []*io.PipeWriter
	answers := make(chan int)
	hold := func(token string, n int) {
		for range n {
			body, end := io.Pipe()
			bodies = append(bodies, end)
			r := w.request(t.Context(), token, "POST", "/jobs", body)
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
		require.Eventually(t, func() bool { return w.services.Quotas.Requests.Current(w.ours.id) == int64(len(bodies)) }, time.Minute, time.Millisecond)
	}
	hold(w.ours.editor, 5)
	require.Equal(t, "max_requests=10, current=5", w.call(w.ours.editor, "GET", "/jobs", nil).refused(429), "one caller has half of them")
	w.call(w.ours.viewer, "GET", "/jobs", nil).object(200)
	hold(w.ours.viewer, 4)
	full := w.call(w.ours.viewer, "GET", "/jobs", nil)
	require.Equal(t, "max_requests=10, current=9", full.refused(429), "a tenth is left to admins")
	require.Equal(t, "5", full.header.Get("Retry-After"))
	w.call(w.ours.admin, "GET", "/jobs", nil).object(200)
	hold(w.ours.admin, 1)
	require.Equal(t, "max_requests=10, current=10", w.call(w.ours.admin, "GET", "/jobs", nil).refused(429))
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
