package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lineageServer is a receiver of OpenLineage that is away at first.
type lineageServer struct {
	*httptest.Server
	mu     sync.Mutex
	refuse int // so many requests more
	asked  int
	events []toldEvent
}

type toldEvent struct {
	EventType string `json:"eventType"`
	Run       struct {
		RunID  string `json:"runId"`
		Facets struct {
			Parent struct {
				Run struct {
					RunID string `json:"runId"`
				} `json:"run"`
			} `json:"parent"`
		} `json:"facets"`
	} `json:"run"`
	Job struct {
		Name string `json:"name"`
	} `json:"job"`
}

func newLineageServer(t *testing.T, refuse int) *lineageServer {
	l := &lineageServer{refuse: refuse}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked++
		if l.refuse > 0 {
			l.refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var e toldEvent
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &e) != nil || r.URL.Path != "/api/v1/lineage" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		l.events = append(l.events, e)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *lineageServer) told() []toldEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]toldEvent(nil), l.events...)
}

func (l *lineageServer) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// TestRunsAreTold: the receiver of OpenLineage gets the start and the end of each run and of its task, in their order, although it was away at first, and
// the server was killed before it had told anything.
func TestRunsAreTold(t *testing.T) {
	t.Parallel()
	l := newLineageServer(t, 1<<30)
	p := newPlatform(t, options{args: []string{"--openlineage-url", l.URL, "--openlineage-token", "secret"}})
	var job struct{ ID string }
	require.NoError(t, p.do(t.Context(), http.MethodPost, "/jobs", map[string]any{"name": "told", "tasks": []any{map[string]any{"key": "one", "command": "true"}}}, &job))
	var run struct {
		RunID  string `json:"run_id"`
		Status string
	}
	require.NoError(t, p.do(t.Context(), http.MethodPost, "/jobs/"+job.ID+"/run", nil, &run))
	await(t, "the run is over", func() bool {
		return p.do(t.Context(), http.MethodGet, "/runs/"+run.RunID, nil, &run) == nil && run.Status == "success"
	})
	await(t, "the receiver was asked", func() bool { return l.questions() > 0 })
	p.servers[0].restart()
	l.mu.Lock()
	l.refuse = 2
	l.mu.Unlock()
	await(t, "all was told", func() bool { return len(l.told()) >= 4 })

	of := map[string][]string{}
	parents, ids := map[string]string{}, map[string]string{}
	for _, e := range l.told() {
		of[e.Job.Name] = append(of[e.Job.Name], e.EventType)
		parents[e.Job.Name], ids[e.Job.Name] = e.Run.Facets.Parent.Run.RunID, e.Run.RunID
	}
	require.Equal(t, map[string][]string{"told": {"START", "COMPLETE"}, "told.one": {"START", "COMPLETE"}}, of)
	require.Equal(t, ids["told"], parents["told.one"])
}
