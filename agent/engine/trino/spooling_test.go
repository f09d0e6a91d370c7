package trino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// All rows arrive, in parts between which a cancellation takes effect. An incomplete result is an
// error.
func TestTakeRows(t *testing.T) {
	many := "[" + strings.Repeat("[1], ", 2*takeMost) + "[2]]"
	for text, want := range map[string]int{"": 0, "null": 0, "[]": 0, " [[1, [2]]] ": 1, many: 2*takeMost + 1} {
		n := 0
		require.NoError(t, takeRows(t.Context(), []byte(text), func(rows []json.RawMessage) error {
			n += len(rows)
			return nil
		}))
		require.Equal(t, want, n)
	}
	for _, text := range []string{"[", "[[1]", "[[1],", "[[1}", many[:len(many)-1]} {
		err := takeRows(t.Context(), []byte(text), func([]json.RawMessage) error { return nil })
		require.ErrorAs(t, err, new(*LostError), text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, takeRows(ctx, []byte(many), func([]json.RawMessage) error {
		cancel()
		return nil
	}), context.Canceled)
}

// Errors of segments reveal neither the address, which opens the segment, nor the store's message,
// which names keys.
func TestSegmentsTellNoSecret(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "AKIA-key", http.StatusForbidden) }))
	q := &query{caller: &caller{}}
	_, err := q.segment(t.Context(), "json", segment{URI: store.URL + "/?signature=secret"})
	require.ErrorContains(t, err, "403 Forbidden")
	store.Close()
	for _, address := range []string{store.URL + "/?signature=secret", "http://a\x00/?signature=secret"} {
		_, also := q.segment(t.Context(), "json", segment{URI: address})
		require.Error(t, also)
		err = fmt.Errorf("%w; %w", err, also)
	}
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, err.Error(), "AKIA")
}

// Unread segments of a page are released, whether enough rows were read or the page failed.
func TestWhatIsNotReadIsReleased(t *testing.T) {
	var released atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rows":
			_, _ = io.WriteString(w, "[[1]]")
		case "/ack":
			released.Add(1)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	q := &query{caller: &caller{key: []byte("key")}}
	enough := errors.New("enough")
	for first, want := range map[string]error{"/rows": enough, "/none": nil} {
		var segments []string
		for _, path := range []string{first, "/rows", "/rows"} {
			segments = append(segments, fmt.Sprintf(`{"type": "spooled", "uri": "%s%s", "ackUri": "%s/ack"}`, server.URL, path, server.URL))
		}
		released.Store(0)
		page := `{"encoding": "json", "segments": [{"type": "inline", "data": "W10="}, ` + strings.Join(segments, ", ") + `]}`
		err := q.rows(t.Context(), []byte(page), func([]json.RawMessage) error { return enough })
		require.Error(t, err)
		require.Equal(t, want != nil, errors.Is(err, enough))
		require.GreaterOrEqual(t, released.Load(), int64(3))
	}
}

// The keys of spooling are in no file.
func TestSpoolingKeys(t *testing.T) {
	storage := Storage{Prefix: "s3://bucket/ws_1/", S3: &agent.S3Storage{Region: "r", AccessKeyID: "AKIA", SecretKey: "shh"}}
	s := storage.spooling()
	require.Equal(t, "s3://bucket/ws_1/.trino-spool/", s.properties()["fs.location"])
	require.NotContains(t, properties(s.properties()), "AKIA")
	require.NotContains(t, properties(s.properties()), "shh")
	require.Equal(t, []string{"SPOOLING_ACCESS_KEY=AKIA", "SPOOLING_SECRET_KEY=shh"}, s.environment())
	require.True(t, s.is(storage.spooling()))
	storage.S3 = &agent.S3Storage{Region: "r", AccessKeyID: "AKIA", SecretKey: "other"}
	require.False(t, s.is(storage.spooling()))
	require.Nil(t, Storage{S3: &agent.S3Storage{Region: "r"}}.spooling(), "the catalog gives keys that expire")
	require.Nil(t, Storage{Prefix: "file:///x/"}.spooling())
	require.False(t, s.is(nil))
}
