package e2e_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestFiftyStartsAtOnce: of fifty simultaneous requests on two replicas, exactly as many succeed as
// the quota allows.
func TestFiftyStartsAtOnce(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Replicas: 2})
	w := harness.Work{Arena: p.Arena, Name: "one of ten", Gate: "ten.gate", Pause: 1e7}
	const requests = 50
	var jobs []string // one per request, since a job's lock serializes its starts
	for range requests {
		jobs = append(jobs, p.CreateJob(map[string]any{"command": `until test -e "$E2E_ARENA/$E2E_GATE"; do sleep 0.1; done`, "environment": w.Environment()}))
	}
	answers := make([]error, requests)
	ready := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		c := &harness.Client{URL: p.Servers[i%2].URL, Key: p.Key}
		all.Go(func() {
			<-ready
			answers[i] = c.Do(t.Context(), http.MethodPost, "/jobs/"+jobs[i]+"/run", nil, nil)
		})
	}
	close(ready)
	all.Wait()
	accepted := 0
	for _, err := range answers {
		if err == nil {
			accepted++
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, harness.Status(err), err)
		require.Equal(t, `{"error":"max_running_runs=10, current=10"}`, harness.Body(err))
	}
	require.Equal(t, 10, accepted)
	var runs harness.Page[harness.RunRow]
	p.Must(http.MethodGet, "/runs?limit=200", nil, &runs)
	require.Len(t, runs.Data, 10, "a refused request leaves nothing")

	w.Release(t)
	for _, r := range runs.Data {
		p.RequireTrueEnd(r.ID, "success")
	}
	p.RequireTrueEnd(p.StartRun(jobs[0]), "success")
}
