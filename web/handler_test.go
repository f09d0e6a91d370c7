package web

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const page = `<!doctype html><meta property="csp-nonce" nonce="__CSP_NONCE__"><script nonce="__CSP_NONCE__" src="/assets/a-1.js"></script>`

func built() fstest.MapFS {
	return fstest.MapFS{
		".gitkeep":          {},
		"index.html":        {Data: []byte(page)},
		"favicon.svg":       {Data: []byte("<svg/>")},
		"assets/a-1.js":     {Data: []byte("plain")},
		"assets/a-1.js.br":  {Data: []byte("brotli")},
		"assets/a-1.js.gz":  {Data: []byte("gzipped")},
		"assets/b-2.css":    {Data: []byte("small")},
		"assets/c-3.woff2":  {Data: []byte("font")},
		"assets/d-4.js":     {Data: []byte("plain")},
		"assets/d-4.js.gz":  {Data: []byte("gzipped")},
		"assets/e-5.xyz":    {Data: []byte("?")},
		"assets/.DS_Store":  {Data: []byte("x")},
		"assets/f-6.js.map": {Data: []byte("{}")},
	}
}

func get(t *testing.T, dist fs.FS, method, target string, headers ...string) *http.Response {
	t.Helper()
	h, err := Handler(dist)
	require.NoError(t, err)
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(b)
}

func TestAssetsAreServedInTheBestCodingTheClientTakes(t *testing.T) {
	for _, c := range []struct{ path, accept, coding, body string }{
		{"a-1.js", "", "", "plain"},
		{"a-1.js", "gzip", "gzip", "gzipped"},
		{"a-1.js", "gzip, deflate, br, zstd", "br", "brotli"},
		{"a-1.js", "br;q=0, gzip", "gzip", "gzipped"},
		{"a-1.js", "br;q=0.5, gzip;q=0.8", "gzip", "gzipped"},
		{"a-1.js", "br; q=0.9, gzip;q=0.8", "br", "brotli"},
		{"a-1.js", "BR", "br", "brotli"},
		{"a-1.js", "*", "br", "brotli"},
		{"a-1.js", "*;q=0", "", "plain"},
		{"a-1.js", "br;q=0.5, identity;q=0.9", "", "plain"},
		{"a-1.js", "br;q=x, gzip;q=7", "", "plain"},
		{"a-1.js", "brotli, x-gzip", "", "plain"},
		{"d-4.js", "br, gzip;q=0.1", "gzip", "gzipped"},
		{"b-2.css", "br, gzip", "", "small"},
	} {
		t.Run(c.path+" "+c.accept, func(t *testing.T) {
			res := get(t, built(), "GET", "/assets/"+c.path, "Accept-Encoding", c.accept)
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, c.coding, res.Header.Get("Content-Encoding"))
			require.Equal(t, c.body, body(t, res))
			require.Equal(t, fmt.Sprint(len(c.body)), res.Header.Get("Content-Length"))
			require.Equal(t, cacheForever, res.Header.Get("Cache-Control"))
		})
	}
}

func TestAssetsHaveTheirTypeAndVary(t *testing.T) {
	for name, want := range map[string]string{
		"/assets/a-1.js":    "text/javascript; charset=utf-8",
		"/assets/b-2.css":   "text/css; charset=utf-8",
		"/assets/c-3.woff2": "font/woff2",
		"/assets/e-5.xyz":   "application/octet-stream",
		"/favicon.svg":      "image/svg+xml",
	} {
		res := get(t, built(), "GET", name)
		require.Equal(t, want, res.Header.Get("Content-Type"), name)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
	}
	require.Equal(t, "Accept-Encoding", get(t, built(), "GET", "/assets/a-1.js").Header.Get("Vary"))
	require.Equal(t, cacheBriefly, get(t, built(), "GET", "/favicon.svg").Header.Get("Cache-Control"))
}

func TestAnAssetThatIsThereAlreadyIsNotSentAgain(t *testing.T) {
	first := get(t, built(), "GET", "/assets/a-1.js", "Accept-Encoding", "br")
	etag := first.Header.Get("ETag")
	require.Regexp(t, `^"[0-9a-f]{24}-br"$`, etag)
	again := get(t, built(), "GET", "/assets/a-1.js", "Accept-Encoding", "br", "If-None-Match", etag)
	require.Equal(t, http.StatusNotModified, again.StatusCode)
	require.Empty(t, body(t, again))
	other := get(t, built(), "GET", "/assets/a-1.js", "Accept-Encoding", "gzip", "If-None-Match", etag)
	require.Equal(t, http.StatusOK, other.StatusCode, "another coding is another representation")
}

func TestHEADHasTheHeadersAndNoBody(t *testing.T) {
	for _, target := range []string{"/", "/runs/run_1", "/assets/a-1.js", "/favicon.svg"} {
		res := get(t, built(), "HEAD", target)
		require.Equal(t, http.StatusOK, res.StatusCode, target)
		require.NotEmpty(t, res.Header.Get("Content-Type"), target)
		require.NotEmpty(t, res.Header.Get("Content-Length"), target)
		require.Empty(t, body(t, res), target)
	}
}

func TestEveryPageIsTheIndexWithANonceOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, target := range []string{"/", "/runs/run_1?task=a", "/jobs/new", "/index.html", "/internals"} {
		res := get(t, built(), "GET", target, "Accept", "text/html,application/xhtml+xml")
		require.Equal(t, http.StatusOK, res.StatusCode, target)
		require.Equal(t, "no-cache", res.Header.Get("Cache-Control"))
		require.Equal(t, "DENY", res.Header.Get("X-Frame-Options"))
		html := body(t, res)
		nonces := regexp.MustCompile(`nonce="([^"]+)"`).FindAllStringSubmatch(html, -1)
		require.Len(t, nonces, 2)
		nonce := nonces[0][1]
		require.Equal(t, nonce, nonces[1][1])
		csp := res.Header.Get("Content-Security-Policy")
		require.Contains(t, csp, "script-src 'self' 'nonce-"+nonce+"'")
		require.Contains(t, csp, "connect-src 'self' ws://example.com wss://example.com")
		require.NotContains(t, csp, "unsafe-eval")
		require.False(t, seen[nonce], "a nonce was used twice")
		seen[nonce] = true
	}
}

// TestWhatIsNotThereIs404: the console says so to a browser, and the status to everybody.
func TestWhatIsNotThereIs404(t *testing.T) {
	for _, target := range []string{"/.git/config", "/.env", "/.well-known/x", "/debug/pprof/", "/debug", "/internal/x", "/wp-login.php", "/a/b.c", "/runs/x.zip"} {
		res := get(t, built(), "GET", target, "Accept", "text/html")
		require.Equal(t, http.StatusNotFound, res.StatusCode, target)
		require.Contains(t, body(t, res), "<!doctype html>", target)
		require.NotEmpty(t, res.Header.Get("Content-Security-Policy"), target)
		require.Equal(t, http.StatusNotFound, get(t, built(), "GET", target, "Accept", "*/*").StatusCode, target)
		require.Equal(t, http.StatusNotFound, get(t, built(), "GET", target).StatusCode, target)
	}
	res := get(t, built(), "GET", "/favicon.ico")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "image/svg+xml", res.Header.Get("Content-Type"))
}

// TestTheOpenerPolicyIsSentWhereBrowsersHeedIt: elsewhere they complain of it in the console of
// every page.
func TestTheOpenerPolicyIsSentWhereBrowsersHeedIt(t *testing.T) {
	for target, want := range map[string]string{
		"http://192.0.2.1:8080/": "", "http://millpond.example/": "", "http://[2001:db8::1]:8080/": "",
		"http://localhost:8080/": "same-origin", "http://127.0.0.1:8080/": "same-origin", "http://[::1]/": "same-origin", "https://millpond.example/": "same-origin",
	} {
		require.Equal(t, want, get(t, built(), "GET", target).Header.Get("Cross-Origin-Opener-Policy"), target)
	}
}

func TestAHostCannotWriteIntoThePolicy(t *testing.T) {
	h, err := Handler(built())
	require.NoError(t, err)
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "x; script-src *"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.NotContains(t, w.Header().Get("Content-Security-Policy"), "script-src *")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "connect-src 'self';")
}

func TestAMissingAssetIsNeverThePage(t *testing.T) {
	for _, target := range []string{"/assets/gone-9.js", "/assets/", "/assets/.DS_Store", "/.gitkeep", "/assets/a-1.js.br", "/robots.txt"} {
		accept := "*/*"
		if strings.HasPrefix(target, "/assets/") {
			accept = "text/html"
		}
		res := get(t, built(), "GET", target, "Accept", accept)
		require.Equal(t, http.StatusNotFound, res.StatusCode, target)
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"), target)
	}
}

func TestPathsCannotLeaveTheBuild(t *testing.T) {
	for _, target := range []string{"/../handler.go", "/assets/../../embed.go", "/%2e%2e/handler.go", "//etc/passwd"} {
		res := get(t, built(), "GET", target, "Accept", "text/html")
		require.NotContains(t, body(t, res), "package web", target)
	}
}

func TestOnlyReading(t *testing.T) {
	res := get(t, built(), "POST", "/")
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
	require.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
}

func TestWithoutABuildAPageSaysWhatToDo(t *testing.T) {
	res := get(t, fstest.MapFS{".gitkeep": {}}, "GET", "/", "Accept", "text/html")
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	require.Contains(t, body(t, res), "make web")
	require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Empty(t, body(t, get(t, fstest.MapFS{}, "HEAD", "/", "Accept", "text/html")))
}

func TestABrokenBuildIsRefused(t *testing.T) {
	_, err := Handler(fstest.MapFS{"assets/a-1.js.br": {Data: []byte("x")}})
	require.ErrorContains(t, err, "build it again")
}

// TestTheEmbeddedBuild reads the build in this binary, when there is one.
func TestTheEmbeddedBuild(t *testing.T) {
	dist, err := fs.Sub(Dist, "dist")
	require.NoError(t, err)
	_, err = fs.Stat(dist, "index.html")
	if err != nil {
		t.Skip("the console is not built: run make web")
	}
	require.Equal(t, http.StatusOK, get(t, dist, "GET", "/", "Accept", "text/html").StatusCode)
	assets, err := fs.ReadDir(dist, "assets")
	require.NoError(t, err)
	for _, a := range assets {
		if ext := path.Ext(a.Name()); ext == ".br" || ext == ".gz" {
			continue
		}
		res := get(t, dist, "GET", "/assets/"+a.Name(), "Accept-Encoding", "br")
		require.Equal(t, http.StatusOK, res.StatusCode, a.Name())
		require.Equal(t, cacheForever, res.Header.Get("Cache-Control"), a.Name())
		require.NotEqual(t, "application/octet-stream", res.Header.Get("Content-Type"), a.Name())
	}
}
