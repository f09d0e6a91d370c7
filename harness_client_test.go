package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// client speaks the REST API.
type client struct{ url, key string }

// statusError is an answer other than 2xx.
type statusError struct {
	status int
	body   string
}

// Error implements error.
func (e *statusError) Error() string { return fmt.Sprintf("answered %d: %s", e.status, e.body) }

// do makes one request below /api/v1 and decodes the answer.
func (c *client) do(ctx context.Context, method, path string, body, into any) error {
	res, err := c.send(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return &statusError{res.StatusCode, string(text)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func (c *client) send(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = strings.NewReader(string(b))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return web.Do(req)
}

// web keeps no connections: a server that was killed and started again must not be met on an old one.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// status is the HTTP status of an answer other than 2xx; 0 where there was none.
func status(err error) int {
	var e *statusError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

// trimmed is the body of an answer other than 2xx.
func trimmed(err error) string {
	var e *statusError
	if errors.As(err, &e) {
		return strings.TrimSpace(e.body)
	}
	return ""
}
