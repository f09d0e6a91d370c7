package main_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFiftyStartsAtOnce: of fifty requests at the same moment, on two replicas, exactly as many are accepted as the quota allows.
func TestFiftyStartsAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{replicas: 2})
	w := work{arena: p.arena, name: "one of ten", gate: "ten.gate", pause: 1e7}
	const requests = 50
	var jobs []string // one for each, since a job's own lock would keep its starts apart
	for range requests {
		jobs = append(jobs, p.job(map[string]any{"command": `until test -e "$E2E_ARENA/$E2E_GATE"; do sleep 0.1; done`, "environment": w.environment()}))
	}
	answers := make([]error, requests)
	ready := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		c := &client{url: p.servers[i%2].url, key: p.key}
		all.Go(func() {
			<-ready
			answers[i] = c.do(t.Context(), http.MethodPost, "/jobs/"+jobs[i]+"/run", nil, nil)
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
		require.Equal(t, http.StatusTooManyRequests, status(err), err)
		require.Equal(t, `{"error":"max_running_runs=10, current=10"}`, trimmed(err))
	}
	require.Equal(t, 10, accepted)
	var runs page[runRow]
	p.must(http.MethodGet, "/runs?limit=200", nil, &runs)
	require.Len(t, runs.Data, 10, "a refused request leaves nothing")

	w.release(t)
	for _, r := range runs.Data {
		p.requireTrueEnd(r.ID, "success")
	}
	p.requireTrueEnd(p.run(jobs[0]), "success")
}
