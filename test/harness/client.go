package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Client speaks the REST API. Without a key it sends no credential.
type Client struct{ URL, Key string }

// Login is the body of the administrator's login.
var Login = map[string]any{"email": "ada@example.com", "password": "correct horse battery"}

// StatusError is an answer with a status other than 2xx.
type StatusError struct {
	Status int
	body   string
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("answered %d: %s", e.Status, e.body) }

// Do sends one request below /api/v1 and decodes the answer.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	res, err := c.Send(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return &StatusError{res.StatusCode, string(text)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// Send sends one request below /api/v1. The caller closes the answer's body.
func (c *Client) Send(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = strings.NewReader(string(b))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return HTTP.Do(req)
}

// HTTP keeps no connections alive: after a kill and restart, a client must not reuse an old one.
var HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Status returns the HTTP status of an answer other than 2xx; 0 without an answer.
func Status(err error) int {
	var e *StatusError
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Body returns the body of an answer other than 2xx.
func Body(err error) string {
	var e *StatusError
	if errors.As(err, &e) {
		return strings.TrimSpace(e.body)
	}
	return ""
}
