package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// courier carries what DuckDB asks of the catalog there and back. DuckDB takes a change whose answer it does not get, or gets with a status of 500 or more, for
// one that failed: it sends it again, and then removes the files that it wrote, which the table may have by then. So a change goes out under a key, as often
// as it takes until the catalog says what became of it, and when it never does, DuckDB is not told: unsure ends the process.
type courier struct {
	address string // as DuckDB reaches it
	client  http.Client
	unsure  func(why string)
	time    time.Duration // for which a change is asked for until it is answered

	mu        sync.Mutex
	upstream  string // the catalog's address
	statement string // the id of the one that runs
}

// courierTime is less than DuckDB waits for an answer.
const (
	courierTime = 20 * time.Second
	courierRest = 200 * time.Millisecond
)

// maxAsked bounds what DuckDB may send in one request.
const maxAsked = 256 << 20

// listenCourier starts a courier, for as long as the process lives.
func listenCourier(patience time.Duration, unsure func(why string)) (*courier, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for what DuckDB asks of the catalog: %w", err)
	}
	c := &courier{address: "http://" + l.Addr().String(), client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}, time: patience, unsure: unsure}
	server := &http.Server{Handler: c, ReadHeaderTimeout: catalogTimeout}
	go func() { _ = server.Serve(l) }() // ends with the process
	return c, nil
}

// serve says for which statement, and to which catalog, requests are carried from now on.
func (c *courier) serve(statement, upstream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statement, c.upstream = statement, strings.TrimSuffix(upstream, "/")
}

// ServeHTTP carries one request. It adds no rights: the token is DuckDB's.
func (c *courier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	statement, upstream := c.statement, c.upstream
	c.mu.Unlock()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsked))
	if err != nil {
		answer(w, http.StatusBadRequest, "The request cannot be read.")
		return
	}
	asked := &errand{method: r.Method, url: upstream + r.URL.RequestURI(), header: passed(r.Header), body: body}
	var a *answerTo
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		a, err = asked.once(r.Context(), &c.client)
	} else {
		asked.header.Set("Idempotency-Key", asked.key(statement))
		a, err = c.until(context.WithoutCancel(r.Context()), asked)
		if err != nil {
			c.unsure(err.Error())
			return
		}
	}
	if err != nil {
		answer(w, http.StatusBadGateway, fmt.Sprintf("The catalog cannot be reached: %v.", err))
		return
	}
	maps.Copy(w.Header(), passed(a.header))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // DuckDB, if it is gone, needs no answer
}

// hops are the headers that are of one connection alone.
var hops = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Accept-Encoding", "Content-Encoding"}

func passed(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range hops {
		h.Del(name)
	}
	return h
}

// errand is one request to the catalog.
type errand struct {
	method, url string
	header      http.Header
	body        []byte
}

type answerTo struct {
	status int
	header http.Header
	body   []byte
}

// key is the same for the same request of the same statement, so that also one that DuckDB sends again is known again.
func (e *errand) key(statement string) string {
	h := sha256.New()
	for _, part := range []string{statement, e.method, e.url, string(e.body)} {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(part), part) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (e *errand) once(ctx context.Context, client *http.Client) (*answerTo, error) {
	r, err := http.NewRequestWithContext(ctx, e.method, e.url, bytes.NewReader(e.body))
	if err != nil {
		return nil, err
	}
	r.Header = e.header
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return &answerTo{res.StatusCode, res.Header, body}, err
}

// until asks until the catalog says what became of a change. A conflict after an answer that was lost may be one with the change itself, which still goes on.
func (c *courier) until(ctx context.Context, e *errand) (*answerTo, error) {
	ctx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	var lost error // why the answer to the change is not known
	for {
		a, err := e.once(ctx, &c.client)
		switch {
		case err == nil && a.status == http.StatusTooManyRequests: // it was not made
		case err == nil && a.status < http.StatusInternalServerError && (lost == nil || a.status != http.StatusConflict):
			return a, nil
		case lost != nil: // the first reason tells more
		case err == nil:
			lost = fmt.Errorf("it answered %d", a.status)
		default:
			lost = err
		}
		select {
		case <-time.After(courierRest):
			continue
		case <-ctx.Done():
		}
		if lost == nil {
			return a, nil
		}
		return nil, lost
	}
}
