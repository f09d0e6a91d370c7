package catalog

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// platform is a catalog that answers {} and records its requests.
func platform(t *testing.T) (url string, asked func() []string) {
	var mu sync.Mutex
	var all []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func listen(t *testing.T, o Options) *Proxy {
	o.CommitTime = time.Second
	p, err := Listen(o)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// asking sends a request as an engine does and returns the status. 0 means a closed connection.
func asking(t *testing.T, p *Proxy, handle, method, path string) int {
	r, err := http.NewRequest(method, p.URL()+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+handle)
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := own.Do(r)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if res.StatusCode == http.StatusBadRequest {
		require.Contains(t, string(body), `"error"`)
	}
	return res.StatusCode
}

// A proxy forwards with the token of one statement, for its handle, and only admitted tables.
func TestAProxyCarriesForOneStatement(t *testing.T) {
	url, asked := platform(t)
	p := listen(t, Options{UID: os.Geteuid(), Steady: true, Unsure: func(err *UnsureError) { t.Error(err) }})
	require.Equal(t, http.StatusUnauthorized, asking(t, p, "none", "GET", "/v1/config"), "no statement runs")
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: url, Token: "real"}})
	require.NotContains(t, p.URL(), s.Handle())
	status := func(method, path string) int { return asking(t, p, s.Handle(), method, path) }
	require.Equal(t, http.StatusUnauthorized, asking(t, p, "none", "GET", "/v1/config"))
	require.Equal(t, http.StatusBadRequest, status("GET", "/v1/db/namespaces/a%1Fb/tables/T"))
	require.Equal(t, "t", s.Rejected())
	s.Admit("/v1/db/namespaces/a%1fb/tables/t?snapshots=refs")
	require.Equal(t, http.StatusOK, status("GET", "/v1/db/namespaces/a%1Fb/tables/T"))
	require.Equal(t, http.StatusOK, status("GET", "/v1/db/namespaces/a%1Fb/tables"))
	require.Equal(t, http.StatusOK, status("POST", "/v1/db/transactions/commit"))
	changed, unsure := s.Changed()
	require.True(t, changed)
	require.NoError(t, unsure)
	s.Renew()
	require.Equal(t, http.StatusBadRequest, status("GET", "/v1/db/namespaces/a%1Fb/tables/T"), "a statement that runs again admits its tables again")
	s.Close()
	require.Equal(t, http.StatusUnauthorized, status("POST", "/v1/db/transactions/commit"))
	next := p.Open(&agent.Statement{ID: "stm_2", Catalog: agent.Catalog{URL: url, Token: "other"}})
	defer next.Close()
	require.Equal(t, http.StatusUnauthorized, status("POST", "/v1/db/transactions/commit"), "a handle is good for one statement")
	require.Len(t, asked(), 3)
	for _, a := range asked() {
		require.True(t, strings.HasSuffix(a, " Bearer real"), a)
	}
}

// The proxy does not answer a process of another user, whatever it sends.
func TestAProxyServesOneUser(t *testing.T) {
	url, asked := platform(t)
	p := listen(t, Options{UID: os.Geteuid() + 1, Repeat: true})
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: url, Token: "real"}})
	defer s.Close()
	require.Zero(t, asking(t, p, s.Handle(), "GET", "/v1/config"))
	require.Empty(t, asked())
}

// The config handle reads only the configuration, and only while a statement runs.
func TestTheConfigHandleReadsTheConfiguration(t *testing.T) {
	url, _ := platform(t)
	p := listen(t, Options{UID: os.Geteuid(), Repeat: true})
	require.Equal(t, http.StatusUnauthorized, asking(t, p, p.ConfigHandle(), "GET", "/v1/config?warehouse=x"))
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: url, Token: "real"}})
	require.Equal(t, http.StatusOK, asking(t, p, p.ConfigHandle(), "GET", "/v1/config?warehouse=x"))
	require.Equal(t, http.StatusUnauthorized, asking(t, p, p.ConfigHandle(), "GET", "/v1/db/namespaces"))
	require.Equal(t, http.StatusUnauthorized, asking(t, p, p.ConfigHandle(), "POST", "/v1/config?warehouse=x"))
	s.Close()
	require.Equal(t, http.StatusUnauthorized, asking(t, p, p.ConfigHandle(), "GET", "/v1/config?warehouse=x"))
}

// Errors contain no address, because people see them.
func TestErrorsHaveNoAddress(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p := listen(t, Options{UID: os.Geteuid()})
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: gone.URL, Token: "real"}})
	defer s.Close()
	for _, method := range []string{"GET", "POST"} {
		err := s.Call(t.Context(), method, "/v1/config", nil, nil)
		require.ErrorContains(t, err, "refused")
		require.NotContains(t, err.Error(), "127.0.0.1")
	}
}

// An Iceberg client of this process sends its requests with the statement's token. A refused change
// that is sent again has another key; the catalog remembers its answers by the keys.
func TestAClientOfTheProcess(t *testing.T) {
	var keys []string
	status := http.StatusForbidden
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer real", r.Header.Get("Authorization"))
		require.Equal(t, "/iceberg/v1/db/tables", r.URL.Path)
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error": {"message": "not yours"}}`)
	}))
	defer platform.Close()
	p := New(Options{CommitTime: time.Second, Repeat: true})
	defer p.Close()
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: platform.URL + "/iceberg/", Token: "real"}})
	client := &http.Client{Transport: s}
	post := func() (*http.Response, error) {
		return client.Post(platform.URL+"/iceberg/v1/db/tables", "application/json", strings.NewReader("{}"))
	}
	_, err := post()
	refused, ok := errors.AsType[*AnsweredError](err)
	require.True(t, ok, err)
	require.Equal(t, "not yours", refused.Message)
	require.Equal(t, agent.FaultForbidden, refused.Fault())
	for _, status = range []int{http.StatusNotFound, http.StatusOK, http.StatusOK} {
		res, err := post()
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	require.Len(t, slices.Compact(slices.Clone(keys)), 3, "%v", keys)
	require.Equal(t, keys[2], keys[3], "the same change has the same key")
}

// A report of metrics may be lost. A table with the name metrics is changed like any other.
func TestATableMayHaveTheNameOfAReport(t *testing.T) {
	keys := map[string]string{}
	platform := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys[r.URL.Path] = r.Header.Get("Idempotency-Key")
	}))
	defer platform.Close()
	p := New(Options{CommitTime: time.Second, Repeat: true})
	defer p.Close()
	s := p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: platform.URL, Token: "real"}})
	for path, change := range map[string]bool{
		"/v1/db/namespaces/public/tables/metrics": true, "/v1/db/namespaces/public/views/metrics": true, "/v1/db/namespaces/metrics": true,
		"/v1/db/namespaces/public/tables/metrics/metrics": false, "/v1/db/namespaces/public/tables/t/metrics": false,
	} {
		res, err := (&http.Client{Transport: s}).Post(platform.URL+path, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, change, keys[path] != "", path)
	}
}
