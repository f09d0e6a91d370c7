package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// lineageServer is an OpenLineage receiver that fails at first.
type lineageServer struct {
	*httptest.Server
	mu     sync.Mutex
	refuse int // number of further requests to refuse
	asked  int
	events []receivedEvent
}

type receivedEvent struct {
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
		var e receivedEvent
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

func (l *lineageServer) received() []receivedEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]receivedEvent(nil), l.events...)
}

func (l *lineageServer) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// TestRunsAreTold: the OpenLineage receiver gets the start and the end of each run and task in
// order, although the receiver failed at first and the server was killed before it sent any event.
func TestRunsAreTold(t *testing.T) {
	t.Parallel()
	l := newLineageServer(t, 1<<30)
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--openlineage-url", l.URL, "--openlineage-token", "secret"}})
	var job struct{ ID string }
	require.NoError(t, p.Do(t.Context(), http.MethodPost, "/jobs", map[string]any{"name": "told", "tasks": []any{map[string]any{"key": "one", "command": "true"}}}, &job))
	var run struct {
		RunID  string `json:"run_id"`
		Status string
	}
	require.NoError(t, p.Do(t.Context(), http.MethodPost, "/jobs/"+job.ID+"/run", nil, &run))
	harness.Await(t, "the run is over", func() bool {
		return p.Do(t.Context(), http.MethodGet, "/runs/"+run.RunID, nil, &run) == nil && run.Status == "success"
	})
	harness.Await(t, "the receiver was asked", func() bool { return l.questions() > 0 })
	p.Servers[0].Restart()
	l.mu.Lock()
	l.refuse = 2
	l.mu.Unlock()
	harness.Await(t, "all events have arrived", func() bool { return len(l.received()) >= 4 })

	of := map[string][]string{}
	parents, ids := map[string]string{}, map[string]string{}
	for _, e := range l.received() {
		of[e.Job.Name] = append(of[e.Job.Name], e.EventType)
		parents[e.Job.Name], ids[e.Job.Name] = e.Run.Facets.Parent.Run.RunID, e.Run.RunID
	}
	require.Equal(t, map[string][]string{"told": {"START", "COMPLETE"}, "told.one": {"START", "COMPLETE"}}, of)
	require.Equal(t, ids["told"], parents["told.one"])
}
