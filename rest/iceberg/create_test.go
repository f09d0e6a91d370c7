package iceberg_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/rest/iceberg"
)

// untouched is a body that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestCreatingIsForWriters: the body of a caller without the right is not read; for others it is
// bounded.
func TestCreatingIsForWriters(t *testing.T) {
	w := newWorld(t)
	face, err := iceberg.Handler(iceberg.Options{Catalog: w.catalog, Auth: w.auth, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	create := func(token string, body io.Reader) (int, string) {
		r := httptest.NewRequest(http.MethodPost, iceberg.Prefix+w.ns(w.ours, "/public/tables"), body)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		face.ServeHTTP(answer, r)
		return answer.Code, answer.Body.String()
	}
	status, body := create(w.ours.viewer, untouched{t})
	require.Equal(t, 403, status, body)
	status, body = create(w.ours.editor, strings.NewReader(`{"name":"`+strings.Repeat("x", 4<<20)+`"}`))
	require.Equal(t, 413, status, body)
	require.Contains(t, body, "4194304")
}
