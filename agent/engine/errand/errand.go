// Package errand carries single requests to the platform's catalog. A change goes out under a key, as often as it takes until the catalog says what became of it.
package errand

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
)

// Patience is for how long a change is asked for until it is answered: less than DuckDB waits.
const Patience = 20 * time.Second

const rest = 200 * time.Millisecond

// MaxBody bounds a request, and what the catalog may answer, in bytes.
const MaxBody = 256 << 20

// hops are the headers that are of one connection alone.
var hops = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Accept-Encoding", "Content-Encoding"}

// Passed are the headers without those of one connection alone.
func Passed(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range hops {
		h.Del(name)
	}
	return h
}

// Errand is one request to the catalog.
type Errand struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Answer is what the catalog says to an Errand.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Key is the same for the same request of the same statement, so that also one that is sent again by who made it is known again.
func (e *Errand) Key(statement string) string {
	h := sha256.New()
	for _, part := range []string{statement, e.Method, e.URL, string(e.Body)} {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(part), part) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Once sends the request.
func (e *Errand) Once(ctx context.Context, client *http.Client) (*Answer, error) {
	r, err := http.NewRequestWithContext(ctx, e.Method, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, err
	}
	r.Header = e.Header
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if len(body) > MaxBody {
		return nil, fmt.Errorf("it answered more than %d bytes", MaxBody)
	}
	return &Answer{res.StatusCode, res.Header, body}, err
}

// Until sends a change until the catalog says what became of it. A conflict after an answer that was lost may be one with the change itself, which still goes on; and that
// the token is not good any more says nothing of a change that was made while it was.
func (e *Errand) Until(ctx context.Context, client *http.Client, patience time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var lost error // why the answer to the change is not known
	for {
		a, err := e.Once(ctx, client)
		switch {
		case err == nil && a.Status == http.StatusTooManyRequests: // it was not made
		case err == nil && lost != nil && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
			return nil, lost
		case err == nil && a.Status < http.StatusInternalServerError && (lost == nil || a.Status != http.StatusConflict):
			return a, nil
		case lost != nil: // the first reason tells more
		case err == nil:
			lost = fmt.Errorf("it answered %d", a.Status)
		default:
			lost = err
		}
		select {
		case <-time.After(rest):
			continue
		case <-ctx.Done():
		}
		if lost == nil {
			return a, nil
		}
		return nil, lost
	}
}

// UnsureError says that it is not known whether a change was made.
type UnsureError struct{ Why error }

func (e *UnsureError) Error() string { return e.Why.Error() }

// Failure is that of the statement that made the change.
func (e *UnsureError) Failure() *agent.StatementFailure {
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("The catalog was asked to commit, and did not say whether it did (%v).", e.Why), Unsure: true}
}
