package engine

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
	"github.com/stretchr/testify/require"
)

// TestTheCourierCarriesForOneStatement: with that statement's token, for who knows its secret, and only tables that were looked at.
func TestTheCourierCarriesForOneStatement(t *testing.T) {
	var asked []string
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "{}")
	}))
	defer catalog.Close()
	c := &courier{secret: "/secret", time: time.Second, unsure: func(err *errand.UnsureError) { t.Error(err) }}
	defer c.client.CloseIdleConnections()
	status := func(method, path string) int {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer none")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest {
			require.Contains(t, w.Body.String(), `"error"`)
		}
		return w.Code
	}
	require.Equal(t, http.StatusNotFound, status("GET", "/secret/v1/config"), "no statement runs")
	c.serve(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: catalog.URL, Token: "real"}})
	require.Equal(t, http.StatusNotFound, status("GET", "/v1/config"))
	require.Equal(t, http.StatusBadRequest, status("GET", "/secret/v1/db/namespaces/a%1Fb/tables/T"))
	require.Equal(t, "t", c.strangeTable())
	c.admit("/v1/db/namespaces/a%1fb/tables/t?snapshots=refs")
	require.Equal(t, http.StatusOK, status("GET", "/secret/v1/db/namespaces/a%1Fb/tables/T"))
	require.Equal(t, http.StatusOK, status("GET", "/secret/v1/db/namespaces/a%1Fb/tables"))
	require.Equal(t, http.StatusOK, status("POST", "/secret/v1/db/transactions/commit"))
	c.again()
	require.Equal(t, http.StatusBadRequest, status("GET", "/secret/v1/db/namespaces/a%1Fb/tables/T"), "what was looked at is looked at anew")
	c.leave()
	require.Equal(t, http.StatusNotFound, status("POST", "/secret/v1/db/transactions/commit"))
	require.Len(t, asked, 3)
	for _, a := range asked {
		require.True(t, strings.HasSuffix(a, " Bearer real"), a)
	}
}
