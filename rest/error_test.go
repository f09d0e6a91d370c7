package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// Every code of the domain has a status, and the document describes it.
func TestEveryCodeHasAStatus(t *testing.T) {
	require.Len(t, statuses, len(domain.Codes))
	for _, code := range domain.Codes {
		status := statuses[code]
		require.GreaterOrEqual(t, status, 400, code)
		require.Less(t, status, 600, code)
		require.NotEmpty(t, failures[status], code)
	}
}

func TestTranslateHidesTheCauseAndLogsIt(t *testing.T) {
	var log bytes.Buffer
	a := &api{log: slog.New(slog.NewJSONHandler(&log, nil))}
	ctx := requested(t, "req_1")
	shown := a.translate(ctx, fmt.Errorf("reading: %w", errors.New("password=hunter2")))
	require.Equal(t, 500, shown.status)
	require.NotContains(t, shown.Message, "hunter2")
	require.Contains(t, log.String(), "hunter2")
	require.Contains(t, log.String(), `"request_id":"req_1"`)

	log.Reset()
	shown = a.translate(ctx, domain.Errorf(domain.CodeConflict, "The job is gone.").Because(errors.New("secret")))
	require.Equal(t, 409, shown.status)
	require.Equal(t, "The job is gone.", shown.Message)
	require.Empty(t, log.String())
}

func TestTranslateNamesTheField(t *testing.T) {
	a := &api{log: slog.New(slog.DiscardHandler)}
	require.Equal(t, `tasks[2].key: "a b" is not a key.`, a.translate(t.Context(), domain.Invalid("tasks[2].key", `"a b" is not a key.`)).Message)
	require.Equal(t, "limit is 0.", a.translate(t.Context(), domain.Invalid("limit", "limit is 0.")).Message)
}

func TestTranslateHeaders(t *testing.T) {
	a := &api{log: slog.New(slog.DiscardHandler)}
	require.Equal(t, `Bearer realm="millpond"`, a.translate(t.Context(), domain.Errorf(domain.CodeUnauthenticated, "No.")).headers.Get("WWW-Authenticate"))
	require.Equal(t, "5", a.translate(t.Context(), domain.Errorf(domain.CodeRate, "Slow.")).headers.Get("Retry-After"))
	require.Equal(t, "60", a.translate(t.Context(), &domain.Error{Code: domain.CodeRate, Wait: 60}).headers.Get("Retry-After"))
	require.Empty(t, a.translate(t.Context(), domain.Errorf(domain.CodeQuota, "max_running_runs=10, current=10")).headers)
}

func TestARequestThatWasEndedIsNoError(t *testing.T) {
	var log bytes.Buffer
	a := &api{log: slog.New(slog.NewJSONHandler(&log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 503, a.translate(ctx, fmt.Errorf("query: %w", context.Canceled)).status)
	require.Empty(t, log.String())
}

// requested is the context of a request with the id.
func requested(t *testing.T, id string) (ctx context.Context) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set(httpx.RequestIDHeader, id)
	httpx.Face{Server: httpx.NewServer(httpx.Bounds{})}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), r)
	return ctx
}
