package web

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	cacheForever = "public, max-age=31536000, immutable" // names of assets hold a hash of what they are
	cacheBriefly = "public, max-age=300"
	noncePlace   = "__CSP_NONCE__" // Vite writes it into every script, style and link
)

// The system's table may lack these, or have them otherwise.
var contentTypes = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".ico":   "image/x-icon",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".png":   "image/png",
	".svg":   "image/svg+xml",
	".txt":   "text/plain; charset=utf-8",
	".wasm":  "application/wasm",
	".woff2": "font/woff2",
}

type file struct {
	bodies      map[string][]byte // by content coding; "" is the file as it is
	contentType string
	etag        string // without the closing quote
}

type console struct {
	files map[string]*file
	index []byte // nil when the console was not built
}

// Handler serves the console from the root of dist, a build of web/: hashed assets for good, in the
// best coding the client takes; index.html with a fresh nonce for every page of the console; 404
// for a missing asset, never the index, which a module loader or a cache would take for the asset.
// Everything is read once, here. Mount it behind the routes of the API.
func Handler(dist fs.FS) (http.Handler, error) {
	c := &console{files: map[string]*file{}}
	err := fs.WalkDir(dist, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		body, err := fs.ReadFile(dist, p)
		if err != nil {
			return err
		}
		c.add(p, body)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the console's files: %w", err)
	}
	for name, f := range c.files {
		if f.bodies[""] == nil {
			return nil, fmt.Errorf("the console's file %s is there only compressed; build it again", name)
		}
	}
	if svg := c.files["favicon.svg"]; svg != nil && c.files["favicon.ico"] == nil {
		c.files["favicon.ico"] = svg // what browsers ask for that have not read the page
	}
	if f := c.files["index.html"]; f != nil {
		c.index = f.bodies[""]
		delete(c.files, "index.html")
	}
	return c, nil
}

func (c *console) add(name string, body []byte) {
	coding := ""
	if s, ok := strings.CutSuffix(name, ".br"); ok {
		name, coding = s, "br"
	} else if s, ok := strings.CutSuffix(name, ".gz"); ok {
		name, coding = s, "gzip"
	}
	f := c.files[name]
	if f == nil {
		f = &file{bodies: map[string][]byte{}, contentType: contentTypes[path.Ext(name)]}
		if f.contentType == "" {
			f.contentType = "application/octet-stream"
		}
		c.files[name] = f
	}
	f.bodies[coding] = body
	if coding == "" {
		sum := sha256.Sum256(body)
		f.etag = `"` + hex.EncodeToString(sum[:12])
	}
}

// ServeHTTP implements http.Handler.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "The console is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	switch f := c.files[name]; {
	case f != nil:
		f.serve(w, r, strings.HasPrefix(name, "assets/"))
	case strings.HasPrefix(name+"/", "assets/") || !wantsPage(r, name):
		h.Set("Cache-Control", "no-store")
		http.NotFound(w, r)
	case c.index == nil:
		serveNotBuilt(w, r)
	case noPage(name):
		c.servePage(w, r, http.StatusNotFound)
	default:
		c.servePage(w, r, http.StatusOK)
	}
}

// wantsPage says whether the request is for a page of the console, be it the one that says that
// there is none. A name with an extension is a file's unless a browser asks for a page.
func wantsPage(r *http.Request, name string) bool {
	accept := r.Header.Get("Accept")
	html := strings.Contains(accept, "text/html")
	if noPage(name) {
		return html
	}
	return html || accept == "" || strings.Contains(accept, "*/*")
}

// noPage recognises names that no page of the console has: files, what other servers keep private,
// and our own paths beside it. Whoever looks for these learns from the status that they are not
// here.
func noPage(name string) bool {
	if name == "index.html" {
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	return path.Ext(name) != "" || strings.HasPrefix(first, ".") || first == "internal" || first == "debug"
}

func (f *file) serve(w http.ResponseWriter, r *http.Request, hashed bool) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", cacheBriefly)
	if hashed {
		h.Set("Cache-Control", cacheForever)
	}
	coding := ""
	if len(f.bodies) > 1 {
		h.Set("Vary", "Accept-Encoding")
		coding = bestCoding(r.Header.Get("Accept-Encoding"), f.bodies)
	}
	body := f.bodies[coding]
	if coding == "" {
		h.Set("ETag", f.etag+`"`)
	} else {
		h.Set("ETag", f.etag+"-"+coding+`"`)
		h.Set("Content-Encoding", coding)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// bestCoding picks a coding of bodies by the client's quality values; brotli before gzip where it
// is indifferent.
func bestCoding(accept string, bodies map[string][]byte) string {
	best, bestQ := "", 0.0
	for _, coding := range []string{"br", "gzip"} {
		if q := quality(accept, coding); bodies[coding] != nil && q > bestQ {
			best, bestQ = coding, q
		}
	}
	if bestQ < quality(accept, "identity") {
		return ""
	}
	return best
}

// quality is the weight of a coding in an Accept-Encoding header, from 0 (refused) to 1. What is
// not named has the weight of *; identity alone is taken without being named, at last.
func quality(accept, coding string) float64 {
	q, star := -1.0, -1.0
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case coding:
			q = weight(params)
		case "*":
			star = weight(params)
		}
	}
	switch {
	case q >= 0:
		return q
	case star >= 0 && coding != "identity":
		return star
	}
	return 0
}

func weight(params string) float64 {
	v, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(v, 64)
	if err != nil || q < 0 || q > 1 {
		return 0
	}
	return q
}

func (c *console) servePage(w http.ResponseWriter, r *http.Request, status int) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(b[:])
	h := w.Header()
	pageHeaders(h, r)
	h.Set("Content-Security-Policy", policy(nonce, r.Host))
	body := bytes.ReplaceAll(c.index, []byte(noncePlace), []byte(nonce))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the client has gone; there is nobody to tell
	}
}

func pageHeaders(h http.Header, r *http.Request) {
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", contentTypes[".html"])
	h.Set("X-Frame-Options", "DENY")
	if trustworthy(r) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}

// trustworthy says whether a browser takes the page's origin for trustworthy: over TLS, which a
// trusted proxy may have ended (it is then in the URL's scheme), or from this very machine. On any
// other page it complains of headers that it passes over.
func trustworthy(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return r.TLS != nil || r.URL.Scheme == "https" || host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

const notBuilt = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Millpond</title></head>
<body><main><h1>Console not built</h1>
<p>This binary was built without its console: run <code>make web</code>, then build it again. The API works all the same.</p>
</main></body></html>
`

func serveNotBuilt(w http.ResponseWriter, r *http.Request) {
	pageHeaders(w.Header(), r)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	w.WriteHeader(http.StatusNotFound)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(notBuilt)) // the client has gone; there is nobody to tell
	}
}

// policy is the Content-Security-Policy of a page. connect-src names the host for browsers that do
// not count WebSockets as 'self'; style attributes are allowed because React Flow and Mantine place
// things by them.
func policy(nonce, host string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'nonce-" + nonce + "'",
		"style-src-elem 'self' 'nonce-" + nonce + "'",
		"style-src-attr 'unsafe-inline'",
		"font-src 'self'",
		"img-src 'self' data: blob:",
		"connect-src " + connectSources(host),
		"worker-src 'self'",
		"manifest-src 'self'",
		"base-uri 'none'",
		"form-action 'self'",
		"frame-ancestors 'none'",
	}, "; ")
}

// connectSources leaves out a Host that could smuggle something into the policy.
func connectSources(host string) string {
	if host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]") != "" {
		return "'self'"
	}
	return "'self' ws://" + host + " wss://" + host
}
