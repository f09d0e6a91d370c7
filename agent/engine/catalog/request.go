package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/millpond/millpond/agent"
)

// CommitTime bounds the retries of a change. It is shorter than DuckDB's own wait.
const CommitTime = 20 * time.Second

// A write that loses the race for a table restarts on the table's new state. CommitAttempts bounds
// the attempts. commitBackoff, times the number of attempts so far, bounds the random wait before
// the next.
const (
	CommitAttempts = 100
	commitBackoff  = 20 * time.Millisecond
)

// PauseAfter waits before a write that lost its race runs again. It returns the cause if ctx ends
// meanwhile.
func PauseAfter(ctx context.Context, attempt int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(rand.Int64N(int64(commitBackoff) * int64(min(attempt, 10))))):
		return nil
	}
}

const retryDelay = 200 * time.Millisecond

// MaxBody bounds a request's body and the catalog's answer, in bytes.
const MaxBody = 256 << 20

// hops are the headers that belong to one connection.
var hops = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Accept-Encoding", "Content-Encoding"}

// Passed returns the headers without those that belong to one connection.
func Passed(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range hops {
		h.Del(name)
	}
	return h
}

// Request is one request to the catalog.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Answer is the catalog's answer to a Request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Key identifies a request of a statement. The catalog recognizes a repeated request by it.
func (r *Request) Key(statement string) string {
	h := sha256.New()
	for _, part := range []string{statement, r.Method, r.URL, string(r.Body)} {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(part), part) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Once sends the request once. Its errors do not contain the catalog's address.
func (r *Request) Once(ctx context.Context, client *http.Client) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, WithoutAddress(err)
	}
	req.Header = r.Header
	res, err := client.Do(req)
	if err != nil {
		return nil, WithoutAddress(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBody+1))
	if len(body) > MaxBody {
		return nil, fmt.Errorf("it answered more than %d bytes", MaxBody)
	}
	return &Answer{res.StatusCode, res.Header, body}, WithoutAddress(err)
}

// WithoutAddress returns a network error's reason without the catalog's address.
func WithoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		err = o.Err
	}
	return err
}

// Until retries the request until the catalog answers it, for at most limit. After a lost answer,
// two other answers leave the result unknown. A conflict may be with the change itself, which may
// still run. A refused token says nothing about an earlier attempt.
func (r *Request) Until(ctx context.Context, client *http.Client, limit time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var lost error // why the change's result is unknown
	for {
		a, err := r.Once(ctx, client)
		switch {
		case err == nil && a.Status == http.StatusTooManyRequests: // the change was not made
		case err == nil && lost != nil && (a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
			return nil, lost
		case err == nil && a.Status < http.StatusInternalServerError && (lost == nil || a.Status != http.StatusConflict):
			return a, nil
		case lost != nil: // the first reason is more precise
		case err == nil:
			lost = fmt.Errorf("it answered %d", a.Status)
		default:
			lost = err
		}
		select {
		case <-time.After(retryDelay):
			continue
		case <-ctx.Done():
		}
		if lost == nil {
			return a, nil
		}
		return nil, lost
	}
}

// UnsureError means that the result of a change is unknown.
type UnsureError struct{ Why error }

// Error implements error.
func (e *UnsureError) Error() string { return e.Why.Error() }

// Failure returns the failure of the statement that sent the change.
func (e *UnsureError) Failure() *agent.StatementFailure {
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("The catalog did not report whether it committed (%v).", e.Why), Unsure: true}
}
