package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// BenchmarkMiddleware measures a request's cost before and after its operation. None of it queries
// the database.
func BenchmarkMiddleware(b *testing.B) {
	st, err := store.Open(b.Context(), storetest.Database(b, store.Migrate), store.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	keys, err := auth.NewKeys(b.Context(), st.System(), domain.SystemClock{})
	require.NoError(b, err)
	handler, err := Handler(Options{Auth: auth.NewService(st.System(), store.For[domain.Tx](st), keys, nil, domain.SystemClock{}), Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	for name, c := range map[string]struct{ method, path, body string }{
		"no body": {http.MethodGet, "/api/v1/nothing", ""},
		"a body":  {http.MethodPost, "/api/v1/auth/login", `{"email":1,"password":"correct horse battery"}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), c.method, c.path, strings.NewReader(c.body))
				r.Header.Set("Content-Type", "application/json")
				handler.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
