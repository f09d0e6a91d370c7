package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
)

// courier carries what DuckDB asks of the catalog there and back. DuckDB takes a change whose answer it does not get, or gets with a status of 500 or more, for
// one that failed: it sends it again, and then removes the files that it wrote, which the table may have by then. So a change goes out under a key, as often
// as it takes until the catalog says what became of it, and when it never does, DuckDB is not told: unsure ends the process.
type courier struct {
	address string // as DuckDB reaches it
	secret  string // the beginning of each path, which no other process knows
	client  http.Client
	unsure  func(*errand.UnsureError)
	time    time.Duration // for which a change is asked for until it is answered

	mu        sync.Mutex
	upstream  string          // the catalog's address
	statement string          // the id of the one that runs; empty where none does
	token     string          // of that statement, which DuckDB does not know
	admitted  map[string]bool // tables that were looked at
	strange   string          // a table that was not, and was asked for
	changed   bool            // the statement has made a change
	read      map[string]*errand.Answer
	size      int // of the bodies in read
	configs   map[string]config
}

// config is a catalog's answer of that name, which is the same for every statement.
type config struct {
	*errand.Answer
	until time.Time
}

// configTime is for how long a catalog's configuration is taken for the same, which it is until the server is another version.
const configTime = time.Minute

// maxRead bounds what is remembered of the catalog's answers.
const maxRead = 64 << 20

// listenCourier starts a courier, for as long as the process lives.
func listenCourier(patience time.Duration, unsure func(*errand.UnsureError)) (*courier, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for what DuckDB asks of the catalog: %w", err)
	}
	secret := "/" + rand.Text()
	c := &courier{address: "http://" + l.Addr().String() + secret, secret: secret, client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: preloadsAtOnce}}, time: patience, unsure: unsure}
	server := &http.Server{Handler: c, ReadHeaderTimeout: catalogTimeout}
	go func() { _ = server.Serve(l) }() // ends with the process
	return c, nil
}

// serve says for which statement, and to which catalog, requests are carried from now on.
func (c *courier) serve(s *agent.Statement) {
	upstream := strings.TrimSuffix(s.Catalog.URL, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if upstream != c.upstream {
		c.configs = map[string]config{}
	}
	c.statement, c.upstream, c.token, c.read, c.size = s.ID, upstream, s.Catalog.Token, map[string]*errand.Answer{}, 0
	c.admitted, c.strange, c.changed = map[string]bool{}, "", false
}

// leave ends the statement: nothing more is carried for it.
func (c *courier) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statement, c.token, c.read, c.size, c.admitted = "", "", map[string]*errand.Answer{}, 0, nil
}

// again has also the tables looked at anew.
func (c *courier) again() {
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitted = map[string]bool{}
}

// admit lets DuckDB load a table that was looked at. The path is that of the table, with or without a query.
func (c *courier) admit(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := tableOfPath(path); key != "" && c.admitted != nil {
		c.admitted[key] = true
	}
}

// unknown reports whether a request loads a table that was not looked at in this statement.
func (c *courier) unknown(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tableOfPath(r.URL.EscapedPath())
	if r.Method != http.MethodGet || key == "" || c.admitted[key] {
		return false
	}
	c.strange = key[strings.LastIndexByte(key, 0)+1:]
	return true
}

// strangeTable is one that DuckDB wanted to load, and that was not looked at.
func (c *courier) strangeTable() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.strange
}

// tableOfPath is the same for all ways to write the path of a table; "" where it is another one.
func tableOfPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := len(parts)
	if n < 5 || parts[n-2] != "tables" || parts[n-4] != "namespaces" {
		return ""
	}
	for i, p := range parts {
		if text, err := url.PathUnescape(p); err == nil {
			parts[i] = text
		}
	}
	return strings.ToLower(strings.Join(parts[n-5:], "\x00")) // the catalog finds names in any case
}

// forget has the catalog asked anew. Until then a statement sees each table in one state, however often it is asked for: what was looked at to decide how a
// table is read is what is read, and what a change builds on.
func (c *courier) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.size = map[string]*errand.Answer{}, 0
}

// ServeHTTP carries one request, with the token of the statement.
func (c *courier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	statement, upstream, token := c.statement, c.upstream, c.token
	c.mu.Unlock()
	path, ours := strings.CutPrefix(r.URL.RequestURI(), c.secret)
	switch {
	case !ours || statement == "":
		refuseErrand(w, http.StatusNotFound, "NotFoundException", "There is nothing here.")
		return
	case c.unknown(r):
		refuseErrand(w, http.StatusBadRequest, "BadRequestException", "The statement names this table in a way that the engine does not read. Write FROM database.schema.table AS alias.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, errand.MaxBody))
	if err != nil {
		answer(w, http.StatusBadRequest, "The request cannot be read.")
		return
	}
	asked := &errand.Errand{Method: r.Method, URL: upstream + path, Header: errand.Passed(r.Header), Body: body}
	asked.Header.Set("Authorization", "Bearer "+token)
	var a *errand.Answer
	switch r.Method {
	case http.MethodGet:
		a, err = c.get(r.Context(), asked)
	case http.MethodHead:
		a, err = asked.Once(r.Context(), &c.client)
	default:
		a, err = c.change(r.Context(), asked)
		if unsure, ok := errors.AsType[*errand.UnsureError](err); ok {
			c.unsure(unsure)
			return
		}
		c.forget()
	}
	if err != nil {
		answer(w, http.StatusBadGateway, fmt.Sprintf("The catalog cannot be reached: %v.", err))
		return
	}
	maps.Copy(w.Header(), errand.Passed(a.Header))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // DuckDB, if it is gone, needs no answer
}

// get asks once for what a statement reads again and again.
func (c *courier) get(ctx context.Context, e *errand.Errand) (*errand.Answer, error) {
	isConfig := strings.Contains(e.URL, "/v1/config?")
	c.mu.Lock()
	a, of := c.read[e.URL], c.read
	if k := c.configs[e.URL]; isConfig && time.Now().Before(k.until) {
		a = k.Answer
	}
	c.mu.Unlock()
	if a != nil {
		return a, nil
	}
	a, err := e.Once(ctx, &c.client)
	if err != nil || a.Status != http.StatusOK && a.Status != http.StatusNotFound {
		return a, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case isConfig && a.Status == http.StatusOK:
		c.configs[e.URL] = config{a, time.Now().Add(configTime)}
	case c.size+len(a.Body) <= maxRead:
		of[e.URL] = a // the one of when it was asked: it may have been forgotten since
		c.size += len(a.Body)
	}
	return a, nil
}

// refuseErrand answers as the catalog would.
func refuseErrand(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": status}})
}

// change sends a change under its key, until it is known what became of it: also when its sender has gone.
func (c *courier) change(ctx context.Context, e *errand.Errand) (*errand.Answer, error) {
	c.mu.Lock()
	statement := c.statement
	c.mu.Unlock()
	e.Header.Set("Idempotency-Key", e.Key(statement))
	a, err := e.Until(context.WithoutCancel(ctx), &c.client, c.time)
	if err != nil {
		return nil, &errand.UnsureError{Why: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = c.changed || a.Status/100 == 2
	return a, nil
}

func (c *courier) hasChanged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}
