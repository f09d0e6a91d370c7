package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/millpond/millpond/agent"
)

// Statement is a running statement whose requests a proxy forwards.
type Statement struct {
	proxy    *Proxy
	handle   string
	id       string
	upstream string // address of the catalog
	token    string

	rebasing sync.Mutex // held during a rebase
	files    Files      // nil unless the statement's commits may be rebased
	rebases  int        // so far

	mu       sync.Mutex
	admitted map[string]bool // tables that the engine may load
	rejected string          // a requested table that was not admitted
	changed  bool
	refusals int   // of changes
	unsure   error // why the result of a change is unknown
	read     map[string]*Answer
	size     int // bytes in read
}

// maxRead bounds the cached answers of one statement, in bytes.
const maxRead = 64 << 20

// Handle is the engine's substitute for the statement's token.
func (s *Statement) Handle() string { return s.handle }

// Close ends the statement and invalidates its handle.
func (s *Statement) Close() {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	delete(s.proxy.running, s.handle)
}

// Renew clears the cached answers and admitted tables, so that the statement can run again.
func (s *Statement) Renew() {
	s.Appends(nil)
	s.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted = map[string]bool{}
}

// Admit allows the engine to load the table with this path. The path may have a query.
func (s *Statement) Admit(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := tableOf(path); key != "" {
		s.admitted[key] = true
	}
}

// Appends allows rebases of the statement's commits. The statement must read no table that it
// writes. Manifests are read and written through files. Appends(nil) ends this and waits for a
// commit that uses files.
func (s *Statement) Appends(files Files) {
	s.rebasing.Lock()
	defer s.rebasing.Unlock()
	s.files = files
}

// Rejected returns a requested table that was not admitted, or "".
func (s *Statement) Rejected() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejected
}

// Changed reports whether the statement has made a change. unsure is not nil if that is unknown.
func (s *Statement) Changed() (changed bool, unsure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed, s.unsure
}

// rejects reports whether a request loads a table that was not admitted.
func (s *Statement) rejects(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := tableOf(r.URL.EscapedPath())
	if r.Method != http.MethodGet || key == "" || s.admitted[key] {
		return false
	}
	s.rejected = key[strings.LastIndexByte(key, 0)+1:]
	return true
}

// tableOf returns the same key for all spellings of a table's path, or "" for other paths.
func tableOf(path string) string {
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
	return strings.ToLower(strings.Join(parts[n-5:], "\x00")) // the catalog ignores case
}

// forget drops the cached answers. Until then a statement sees one state of each table. The engine
// examines, reads and changes that same state.
func (s *Statement) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.size = map[string]*Answer{}, 0
}

// Call sends a request of the engine itself and decodes the answer into out, unless out is nil. in
// is the body, or nil. A non-success status returns an AnsweredError.
func (s *Statement) Call(ctx context.Context, method, path string, in, out any) error {
	r := &Request{Method: method, URL: s.upstream + path, Header: http.Header{}}
	if method == http.MethodGet {
		s.Admit(path)
	}
	if in != nil {
		var err error
		if r.Body, err = json.Marshal(in); err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := s.forward(ctx, r)
	switch {
	case err != nil:
		return fmt.Errorf("asking the catalog: %w", err)
	case a.Status/100 != 2:
		return a.refused()
	case out == nil:
		return nil
	}
	return json.Unmarshal(a.Body, out)
}

// RoundTrip implements http.RoundTripper, for an Iceberg client in this process. An answer that is
// neither a success nor a 404 is an AnsweredError.
func (s *Statement) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := &Request{Method: r.Method, URL: r.URL.String(), Header: Passed(r.Header)}
	if r.Body != nil {
		var err error
		asked.Body, err = io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	a, err := s.forward(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	if a.Status >= http.StatusBadRequest && a.Status != http.StatusNotFound {
		return nil, a.refused()
	}
	return &http.Response{
		Status: http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: Passed(a.Header), Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}, nil
}

// forward sends a request with the statement's token.
func (s *Statement) forward(ctx context.Context, r *Request) (*Answer, error) {
	p := s.proxy
	r.Header.Set("Authorization", s.authorized().Get("Authorization"))
	switch {
	case r.Method == http.MethodPost && isReport(r.URL): // may be lost
		return r.Once(ctx, &p.client)
	case r.Method == http.MethodGet && p.Steady:
		return s.get(ctx, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return s.ask(ctx, r)
	}
	return s.change(ctx, r)
}

// isReport reports whether the address is that of a table's metrics: namespaces/NS/tables/T/metrics.
// A table may have that name too.
func isReport(address string) bool {
	parts := strings.Split(address, "/")
	n := len(parts)
	return n >= 5 && parts[n-1] == "metrics" && parts[n-3] == "tables" && parts[n-5] == "namespaces"
}

func (s *Statement) ask(ctx context.Context, r *Request) (*Answer, error) {
	if s.proxy.Repeat {
		return r.Until(ctx, &s.proxy.client, s.proxy.CommitTime)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return r.Once(ctx, &s.proxy.client)
}

// get caches answers that a statement reads several times.
func (s *Statement) get(ctx context.Context, r *Request) (*Answer, error) {
	isConfig := strings.HasPrefix(r.URL, s.upstream+configPath+"?")
	s.mu.Lock()
	a, of := s.read[r.URL], s.read
	s.mu.Unlock()
	if isConfig && a == nil {
		a = s.proxy.configured(r.URL)
	}
	if a != nil {
		return a, nil
	}
	a, err := s.ask(ctx, r)
	if err != nil || a.Status != http.StatusOK && a.Status != http.StatusNotFound {
		return a, err
	}
	if isConfig && a.Status == http.StatusOK {
		s.proxy.keepConfig(r.URL, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+len(a.Body) <= maxRead {
		of[r.URL] = a // the map at the time of the request; it may have been dropped since
		s.size += len(a.Body)
	}
	return a, nil
}

func (s *Statement) authorized() http.Header {
	return http.Header{"Authorization": {"Bearer " + s.token}}
}

// change sends a change, even if its sender has disconnected. It rebases a change that lost its
// race, if allowed. All of it ends before the sender's own timeout.
func (s *Statement) change(ctx context.Context, r *Request) (*Answer, error) {
	defer s.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.proxy.CommitTime)
	defer cancel()
	a, err := s.send(ctx, r)
	if err != nil || !lostRace(a) {
		return a, err
	}
	again, err := s.rebase(ctx, r)
	if errors.Is(err, errNoAppend) {
		return a, nil
	}
	return again, err
}

// send sends a change under its idempotency key until its result is known. After a refusal, the
// same change has a new key, because the refusal may have been temporary.
func (s *Statement) send(ctx context.Context, r *Request) (*Answer, error) {
	s.mu.Lock()
	key := r.Key(fmt.Sprint(s.id, "/", s.refusals))
	s.mu.Unlock()
	r.Header.Set("Idempotency-Key", key)
	a, err := r.Until(ctx, &s.proxy.client, s.proxy.CommitTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.unsure = err
		return nil, &UnsureError{Why: err}
	}
	if a.Status/100 == 2 {
		s.changed = true
	} else {
		s.refusals++
	}
	return a, nil
}

// AnsweredError is an answer of the catalog with a non-success status.
type AnsweredError struct {
	Status  int
	Message string
}

// Error implements error.
func (e *AnsweredError) Error() string { return e.Message }

// Fault maps the answer's status to a fault.
func (e *AnsweredError) Fault() agent.StatementFault {
	switch {
	case e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized:
		return agent.FaultForbidden
	case e.Status >= http.StatusInternalServerError:
		return agent.FaultEngine
	}
	return agent.FaultQuery
}

// IsMissing reports whether err is the catalog's 404.
func IsMissing(err error) bool {
	e, ok := errors.AsType[*AnsweredError](err)
	return ok && e.Status == http.StatusNotFound
}

// refused returns the error of an answer with a non-success status.
func (a *Answer) refused() error {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &e) != nil || e.Error.Message == "" {
		e.Error.Message = fmt.Sprintf("the catalog answered %d", a.Status)
	}
	return &AnsweredError{a.Status, e.Error.Message}
}
