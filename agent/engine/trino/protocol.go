package trino

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
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// tokenTime is the lifetime of a token for Trino. Each request gets a new one.
const tokenTime = 10 * time.Minute

// caller sends requests to the nodes of one cluster as one user.
type caller struct {
	user   string
	key    []byte
	client http.Client // to its nodes
	store  http.Client // to the store of large results
}

// send sends a request and returns its answer; the caller closes it. Requests claim to be forwarded
// HTTPS, so Trino's links say https. They are plain HTTP on the loopback interface.
func (c *caller) send(r *http.Request) (*http.Response, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: c.user, ExpiresAt: jwt.NewNumericDate(time.Now().Add(tokenTime))}).SignedString(c.key)
	if err != nil {
		return nil, err
	}
	r.URL.Scheme = "http"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Trino-User", c.user)
	res, err := c.client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("asking Trino: %w", e.Err) // without its address, which no log needs
	}
	return res, err
}

// do sends a request and decodes its JSON answer into into, unless into is nil.
func (c *caller) do(r *http.Request, into any) error {
	res, err := c.send(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return &statusError{res.StatusCode, strings.TrimSpace(string(text))}
	}
	if into == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// statusError is an answer with a non-success status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("it answered %d: %s", e.status, e.text) }

func (c *caller) get(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	return c.do(r, into)
}

// Error is Trino's error of a failed statement.
type Error struct {
	Name    string // such as SYNTAX_ERROR
	Type    string // USER_ERROR, INTERNAL_ERROR, INSUFFICIENT_RESOURCES or EXTERNAL
	Message string
	Cause   string // types and messages of the underlying failures
	Line    int    // from 1; 0 if unknown
	Column  int
}

func (e *Error) Error() string { return e.Name + ": " + e.Message }

// LostError means that Trino ended or answered wrongly while a statement ran.
type LostError struct{ Why error }

func (e *LostError) Error() string { return "Trino was lost: " + e.Why.Error() }

// Unwrap returns the underlying error.
func (e *LostError) Unwrap() error { return e.Why }

// page is one answer of Trino's client protocol
// (https://trino.io/docs/current/develop/client-protocol.html).
type page struct {
	ID      string
	NextURI string `json:"nextUri"`
	Columns []struct {
		Name string
		Type Type `json:"typeSignature"`
	}
	Data        json.RawMessage
	UpdateCount int64 `json:"updateCount"`
	Stats       struct {
		Progress *float64 `json:"progressPercentage"`
	}
	Error *failure
}

type failure struct {
	Message     string
	ErrorName   string `json:"errorName"`
	ErrorType   string `json:"errorType"`
	FailureInfo cause  `json:"failureInfo"`
	Location    struct {
		Line   int `json:"lineNumber"`
		Column int `json:"columnNumber"`
	} `json:"errorLocation"`
}

type cause struct {
	Type, Message string
	Cause         *cause
}

func (f *failure) err() *Error {
	e := &Error{Name: f.ErrorName, Type: f.ErrorType, Message: f.Message, Line: f.Location.Line, Column: f.Location.Column}
	if place, text, ok := strings.Cut(e.Message, ": "); ok && strings.HasPrefix(place, "line ") {
		e.Message = text
	}
	for c := &f.FailureInfo; c != nil; c = c.Cause {
		e.Cause += c.Type + ": " + c.Message + "\n"
	}
	return e
}

// Column is a column of a result.
type Column struct {
	Name string
	Type Type
}

// query is a query in Trino.
type query struct {
	caller  *caller
	id      string
	next    string
	columns []Column
	updated int64
	done    float64 // from 0 to 1; -1 if unknown
}

// maxTries and tryPause apply to requests that Trino is too busy to answer, which it signals with
// one of three statuses.
const (
	maxTries = 50
	tryPause = 100 * time.Millisecond
)

// fetch sends a request of the protocol, with retries if Trino is busy, and applies its answer.
func (q *query) fetch(ctx context.Context, method, address, body string, header http.Header) (json.RawMessage, error) {
	for try := 1; ; try++ {
		r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		for k, v := range header {
			r.Header[k] = v
		}
		var p page
		err = q.caller.do(r, &p)
		if e, ok := errors.AsType[*statusError](err); ok && try < maxTries && (e.status == http.StatusBadGateway || e.status == http.StatusServiceUnavailable || e.status == http.StatusGatewayTimeout) {
			select {
			case <-ctx.Done():
			case <-time.After(tryPause):
			}
			continue
		}
		if err != nil {
			return nil, &LostError{err}
		}
		return p.Data, q.take(p)
	}
}

func (q *query) take(p page) error {
	q.id, q.next, q.updated, q.done = p.ID, p.NextURI, p.UpdateCount, -1
	if p.Stats.Progress != nil {
		q.done = min(*p.Stats.Progress/100, 1)
	}
	if q.columns == nil {
		for _, c := range p.Columns {
			q.columns = append(q.columns, Column{c.Name, c.Type})
		}
	}
	if p.Error != nil {
		q.next = ""
		return p.Error.err()
	}
	return nil
}

// cancelTime bounds the attempt to cancel an abandoned query.
const cancelTime = 2 * time.Second

// cancel ends the query if it still runs.
func (q *query) cancel() {
	if q.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
	defer cancel()
	if r, err := http.NewRequestWithContext(ctx, http.MethodDelete, q.address("/v1/query/"+url.PathEscape(q.id)), nil); err == nil {
		_ = q.caller.do(r, nil) // an unreachable query has ended, or Trino ends it as abandoned
	}
}

func (q *query) address(path string) string {
	u, err := url.Parse(q.next)
	if err != nil || u.Host == "" {
		return ""
	}
	return "http://" + u.Host + path
}

// rows returns the rows of a page, from the page itself or from spooled segments.
func (q *query) rows(ctx context.Context, data json.RawMessage, take func(rows []json.RawMessage) error) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return takeRows(ctx, data, take)
	}
	var spooled spooledPage
	if err := json.Unmarshal(data, &spooled); err != nil {
		return &LostError{err}
	}
	for i, s := range spooled.Segments {
		text, err := q.segment(ctx, spooled.Encoding, s)
		if err == nil {
			err = takeRows(ctx, text, take)
		}
		if err != nil {
			q.abandon(spooled.Segments[i:])
			return err
		}
	}
	return nil
}

// takeRows passes on the rows of an array in parts, so that a cancellation takes effect between
// them.
func takeRows(ctx context.Context, text []byte, take func([]json.RawMessage) error) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for err == nil && ctx.Err() == nil {
		var rows []json.RawMessage
		if rows, err = someRows(d); err != nil {
			break
		}
		if len(rows) == 0 {
			return nil
		}
		if err := take(rows); err != nil {
			return err
		}
	}
	if err != nil {
		return &LostError{fmt.Errorf("its rows cannot be read: %w", err)}
	}
	return ctx.Err()
}

// takeMost bounds the number of rows passed on at once.
const takeMost = 4096

// someRows returns the next rows of an array, or none at its end.
func someRows(d *json.Decoder) (rows []json.RawMessage, err error) {
	for len(rows) < takeMost && d.More() {
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		_, err = d.Token()
	}
	return rows, err
}
